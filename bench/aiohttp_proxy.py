"""A reverse proxy as one writes it with aiohttp, server and client: what ours is compared with.

`python -m bench.aiohttp_proxy PORT SERVER_PORT...`
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web

HOP_BY_HOP = {"connection", "keep-alive", "te", "transfer-encoding", "upgrade", "host"}


async def main(port: int, servers: list[int]) -> None:
    connector = TCPConnector(limit=0, keepalive_timeout=60)
    session = ClientSession(connector=connector, cookie_jar=DummyCookieJar(), auto_decompress=False)
    under_way = dict.fromkeys(servers, 0)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        server = min(under_way, key=under_way.__getitem__)
        fields = {n: v for n, v in request.headers.items() if n.lower() not in HOP_BY_HOP}
        fields["X-Forwarded-For"] = request.remote or ""
        body = request.content if request.can_read_body else None
        under_way[server] += 1
        try:
            async with session.request(
                request.method,
                f"http://127.0.0.1:{server}{request.raw_path}",
                headers=fields,
                data=body,
                allow_redirects=False,
            ) as answer:
                kept = {n: v for n, v in answer.headers.items() if n.lower() not in HOP_BY_HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
                return response
        finally:
            under_way[server] -= 1

    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    first, *others = map(int, sys.argv[1:])
    uvloop.run(main(first, others))
