"""An application whose server tells: two lines, the import and the last.

    uvicorn examples.live.agent_app:app --port 8000

A GET is a task of a tenth of a second; `curl -i http://127.0.0.1:8000/` shows the load report among
the headers. More than 20 at once are refused. Put it before `equipoise serve` with `[agents]`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from equipoise.live.agent import AgentMiddleware

HEADERS = [(b"content-type", b"text/plain"), (b"content-length", b"5")]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer after a tenth of a second."""
    if scope["type"] == "http":
        await asyncio.sleep(0.1)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"done\n"})


app = AgentMiddleware(application, limit=20, uncounted=["/health"])
