"""A headless Chromium for tests, spoken to in its DevTools protocol over a pair of pipes.

No driver and no library: a message is a JSON object and a zero byte, on descriptors 3 and 4.
"""

import asyncio
import base64
import fcntl
import json
import os
import shutil
import sys
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryDirectory

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    *("--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check"),
    *("--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--no-sandbox", "--font-render-hinting=none", "about:blank"),
)
# puts our pipes where Chromium looks for them, then becomes it
BECOME = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """The protocol: commands, answers, and events by session."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.count = 0
        self.waiting = {}
        self.tabs = {}
        self.reading = asyncio.create_task(self._read())

    async def ask(self, method, session=None, **given):
        """Send a command; return its result."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": given}
        if session:
            message["sessionId"] = session
        answer = self.waiting[self.count] = asyncio.get_running_loop().create_future()
        self.writer.write(json.dumps(message).encode() + b"\0")
        return await asyncio.wait_for(answer, 20)

    async def _read(self):
        with suppress(asyncio.IncompleteReadError):
            while True:
                message = json.loads((await self.reader.readuntil(b"\0"))[:-1])
                if (waiting := self.waiting.pop(message.get("id"), None)) is not None:
                    if waiting.done():
                        continue
                    if "error" in message:
                        waiting.set_exception(RuntimeError(message["error"]["message"]))
                    else:
                        waiting.set_result(message["result"])
                elif (tab := self.tabs.get(message.get("sessionId"))) is not None:
                    tab.events.append((message["method"], message["params"]))

    async def tab(self, url, width=1280, height=900, dark=False, phone=False):
        """Open a page of that size; everything that it says and asks for is kept."""
        made = await self.ask("Target.createTarget", url="about:blank", newWindow=True)
        target = made["targetId"]  # in a window of its own, else those behind others are hidden
        attached = await self.ask("Target.attachToTarget", targetId=target, flatten=True)
        tab = self.tabs[attached["sessionId"]] = Tab(self, attached["sessionId"], target)
        for domain in ("Runtime", "Network", "Log", "Page"):
            await tab.ask(f"{domain}.enable")
        await tab.size(width, height, phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await tab.ask("Emulation.setEmulatedMedia", features=[scheme])
        await tab.ask("Page.navigate", url=url)
        await tab.becomes("location.href !== 'about:blank' && document.readyState === 'complete'")
        return tab


class Tab:
    """A page in the browser."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target
        self.events = []

    async def ask(self, method, **given):
        """Send a command to the page."""
        return await self.browser.ask(method, self.session, **given)

    async def size(self, width, height, phone=False):
        """Change what can be seen of it."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    async def value(self, script):
        """Return what an expression is; promises are awaited."""
        found = await self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    async def text(self, selector):
        """Return the text of the first element that fits; "" where there is none."""
        return await self.value(f"document.querySelector({selector!r})?.innerText ?? ''")

    async def becomes(self, script, seconds=8.0):
        """Wait until an expression is true."""
        end = asyncio.get_running_loop().time() + seconds
        while not await self.value(script):
            if asyncio.get_running_loop().time() > end:
                seen = await self.value("document.body.innerText")
                raise AssertionError(f"has not come true: {script}; the page says: {seen}")
            await asyncio.sleep(0.05)

    async def picture(self, path, whole=True):
        """Write what is seen as PNG, the whole page by default."""
        shot = await self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def said(self):
        """What is in its console, and what the browser complains of."""
        found = []
        for method, given in self.events:
            if method == "Runtime.consoleAPICalled":
                found.append(f"{given['type']}: {[a.get('value') for a in given['args']]}")
            elif method == "Runtime.exceptionThrown":
                details = given["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif method == "Log.entryAdded":
                found.append(f"{given['entry']['level']}: {given['entry']['text']}")
        return found

    def asked(self):
        """The addresses of everything that it asked for."""
        return [
            given["request"]["url"]
            for method, given in self.events
            if method == "Network.requestWillBeSent"
        ]

    async def close(self):
        """Close it."""
        await self.browser.ask("Target.closeTarget", targetId=self.target)


@asynccontextmanager
async def browser():
    """A Chromium with a profile of its own, gone at the end."""
    loop = asyncio.get_running_loop()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]  # not 3 or 4
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", BECOME, *map(str, high), CHROMIUM),
            *(f"--user-data-dir={profile}", *FLAGS),
            pass_fds=high,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        reader = asyncio.StreamReader(limit=1 << 26)
        come, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb")
        )
        go, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(ours_out, "wb"))
        ours = Browser(reader, go)
        try:
            yield ours
        finally:
            with suppress(TimeoutError, RuntimeError, OSError):
                await ours.ask("Browser.close")
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()
            ours.reading.cancel()
            go.close()
            come.close()
            await asyncio.sleep(0)
