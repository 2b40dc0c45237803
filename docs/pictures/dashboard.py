"""The dashboard in front of sixteen servers, for five minutes: the pictures of docs/dashboard.md.

    python docs/pictures/dashboard.py [SECONDS]

needs Chromium and the extra `live`. The traffic more than doubles, so that the threshold follows;
one server is away for a while, another is away at the end. Writes dashboard.webp and
dashboard-phone.webp beside it.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "tests")]

from live.wire import Backend, Talk  # noqa: E402
from web.browser import browser  # noqa: E402

from equipoise.live.config import Config  # noqa: E402
from equipoise.live.proxy import require_live  # noqa: E402
from equipoise.live.serve import Service  # noqa: E402
from equipoise.web.dashboard import dashboard  # noqa: E402

SERVERS = 16
MEAN = 0.25  # s at a server, which works on all its tasks at once
LOADS = (3.0, 7.0)  # tasks per server, at first and at the end


async def traffic(port: int, seconds: float, luck: random.Random) -> None:
    """Send requests as a Poisson stream whose rate rises in the middle third."""
    idle: list[Talk] = []
    tasks = set()

    async def request() -> None:
        talk = idle.pop() if idle else Talk(*await asyncio.open_connection("127.0.0.1", port))
        try:
            await talk.get()
            idle.append(talk)
        except (asyncio.IncompleteReadError, OSError):
            await talk.end()

    start = now = time.monotonic()
    while True:
        part = min(max(3 * (now - start) / seconds - 1, 0), 1)
        rate = SERVERS / MEAN * (LOADS[0] + (LOADS[1] - LOADS[0]) * part)
        now += luck.expovariate(rate)
        await asyncio.sleep(max(0.0, now - time.monotonic()))
        task = asyncio.create_task(request())
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def away(server: Backend, start: float, end: float | None) -> None:
    """Have a server stop and start again at these times, s from now."""
    await asyncio.sleep(start)
    await server.stop()
    if end is not None:
        await asyncio.sleep(end - start)
        await server.start()


async def main(seconds: float) -> None:
    luck = random.Random(1)

    async def work(seen: object, link: object) -> None:
        await asyncio.sleep(luck.expovariate(1 / MEAN))
        await link.answer(b"done")  # type: ignore[attr-defined]

    servers = [Backend(work) for _ in range(SERVERS)]
    for server in servers:
        server.records = False
        await server.start()
    service = Service(
        Config.from_dict(
            {
                "listen": "127.0.0.1:0",
                "seed": 1,
                "servers": [
                    {"name": f"web{i + 1}", "address": f"127.0.0.1:{server.port}", "limit": 40}
                    for i, server in enumerate(servers)
                ],
                "policies": [{"name": "learning-threshold"}],
                "health": {"interval": 0.5, "slow_start": 30.0},
                "admin": {"listen": "127.0.0.1:0"},
            }
        ),
        pages=dashboard,
    )
    await service.start()
    others = [
        asyncio.create_task(traffic(service.address[1], seconds, luck)),
        asyncio.create_task(away(servers[4], 0.6 * seconds, seconds - 18)),
        asyncio.create_task(away(servers[10], seconds - 9, None)),
    ]
    url = f"http://127.0.0.1:{service.admin_address[1]}/"
    async with browser() as chromium:
        wide = await chromium.tab(url, 1120, 800)
        phone = await chromium.tab(url, 360, 720, dark=True, phone=True)
        await asyncio.sleep(seconds)
        for name, tab, height in (("dashboard", wide, 1330), ("dashboard-phone", phone, 1560)):
            width = await tab.value("innerWidth")
            shot = await tab.ask(
                "Page.captureScreenshot",
                format="webp",
                quality=82,
                captureBeyondViewport=True,
                clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
            )
            (HERE / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))
            print(f"{name}.webp, {len(shot['data']) * 3 // 4:,} bytes; console: {tab.said()}")
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await service.stop(1.0)
    for server in itertools.compress(servers, [i != 10 for i in range(SERVERS)]):
        await server.stop()


if __name__ == "__main__":
    require_live().run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 300.0))
