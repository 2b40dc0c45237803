"""How fast logs are read, and in how much memory: `python -m bench logs`.

Against a plain loop: over the lines of the file, with one compiled pattern of the format for each,
written as one would by hand, or with `json.loads`. It makes nothing of what it finds; the reader
makes numbers, times and a table of it. Then a log of EQUIPOISE_BENCH_GB gigabytes (1 if unset) is
written to a temporary folder, read in a process of its own, and deleted: what matters is the most
memory it ever had, less the table of tasks.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LINES = 300_000
REPETITIONS = 5
GOAL, MOST_MB, ROW = 0.4, 200, 40  # times the plain loop; MB beyond the table; bytes a row
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0"
FIRST = 1_709_640_000

Task = tuple[float, int, int, int]  # arrival (s), took (ms), server, number


def tasks(k: int) -> Iterator[Task]:
    """Yield tasks: 100 a second, 50 ms each, to 16 servers."""
    rng, now = random.Random(1), float(FIRST)
    for i in range(k):
        now += rng.expovariate(100.0)
        yield now, round(rng.expovariate(1 / 50)), rng.randrange(16), i


def _clf(now: float) -> str:
    return time.strftime("%d/%b/%Y:%H:%M:%S", time.gmtime(now))


def _iso(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def _common(now: float, i: int) -> str:
    client = f"10.0.{i % 256}.{i % 199}"
    return f'{client} - - [{_clf(now)} +0000] "GET /items/{i}?page=2 HTTP/1.1" 200 {500 + i % 9999}'


def _haproxy(now: float, took: int, server: int, i: int) -> str:
    return (
        f"Mar  5 12:00:00 lb haproxy[123]: 10.0.{i % 256}.{i % 199}:33317 [{_clf(now)}."
        f"{int(now * 1000) % 1000:03d}] web back/s{server} 0/0/1/{took}/{took + 2} 200 "
        f'{500 + i % 9999} - - ---- 1/1/1/1/0 0/0 "GET /items/{i}?page=2 HTTP/1.1"'
    )


def _nginx(now: float, took: int, server: int, i: int) -> str:
    return f'{_common(now, i)} "https://example.org/" "{AGENT}" {took / 1e3:.3f} {took / 1e3:.3f}'


def _ingress(now: float, took: int, server: int, i: int) -> str:
    return (
        f'{_common(now, i)} "-" "{AGENT}" 512 {took / 1e3:.3f} [web-80] [] 10.1.0.{server}:80 512 '
        f"{took / 1e3:.3f} 200 {i:032x}"
    )


def _envoy(now: float, took: int, server: int, i: int) -> str:
    return (
        f'[{_iso(now)}] "GET /items/{i} HTTP/1.1" 200 - 0 {500 + i % 9999} {took + 1} {took} '
        f'"10.0.0.{i % 256}" "{AGENT}" "{i:036d}" "example.org" "10.1.0.{server}:80"'
    )


def _traefik(now: float, took: int, server: int, i: int) -> str:
    return json.dumps(
        {
            "ClientHost": f"10.0.0.{i % 256}",
            "DownstreamContentSize": 500 + i % 9999,
            "DownstreamStatus": 200,
            "Duration": took * 1_000_000,
            "OriginDuration": took * 1_000_000,
            "RequestMethod": "GET",
            "RequestPath": f"/items/{i}",
            "RouterName": "web@docker",
            "ServiceAddr": f"10.1.0.{server}:80",
            "ServiceURL": {"Scheme": "http", "Host": f"10.1.0.{server}:80"},
            "StartUTC": _iso(now),
            "request_User-Agent": AGENT,
        }
    )


def _caddy(now: float, took: int, server: int, i: int) -> str:
    return json.dumps(
        {
            "level": "info",
            "ts": now,
            "msg": "handled request",
            "request": {
                "remote_ip": f"10.0.0.{i % 256}",
                "method": "GET",
                "uri": f"/items/{i}",
                "headers": {"User-Agent": [AGENT]},
            },
            "duration": took / 1e3,
            "size": 500 + i % 9999,
            "status": 200,
        }
    )


QUOTED = rb'"([^"]*)"'
COMMON = rb"(\S+) (\S+) (\S+) \[([^\]]+)\] " + QUOTED + rb" (\d{3}) (\d+|-)"
TWO = b" " + QUOTED + b" " + QUOTED
# format -> how a line is written, and the pattern of the plain loop; None: json.loads
FORMATS: dict[str, tuple[Callable[[float, int, int, int], str], bytes | None]] = {
    "haproxy": (
        _haproxy,
        rb"\S+ +\d+ \S+ \S+ haproxy\[\d+\]: (\S+) \[([^\]]+)\] (\S+) (\S+)/(\S+) "
        rb"(-?\d+)/(-?\d+)/(-?\d+)/(-?\d+)/\+?(\d+) (\d{3}) (\d+) (\S+) (\S+) (\S{4}) (\S+) (\S+) "
        + QUOTED,
    ),
    "nginx-timed": (_nginx, COMMON + TWO + rb" ([\d.]+) ([\d.]+|-)"),
    "nginx-ingress": (
        _ingress,
        COMMON + TWO + rb" (\d+) ([\d.]+) \[([^\]]*)\] \[([^\]]*)\] (\S+) (\S+) (\S+) (\S+) (\S+)",
    ),
    "envoy": (
        _envoy,
        rb"\[([^\]]+)\] " + QUOTED + rb" (\d+) (\S+) (\d+) (\d+) (\d+) (\S+)" + (b" " + QUOTED) * 5,
    ),
    "traefik": (_traefik, None),
    "caddy": (_caddy, None),
}


def write(path: Path, form: str, lines: int) -> None:
    """Write so many lines of a format."""
    line = FORMATS[form][0]
    with path.open("w") as file:
        file.writelines(line(*task) + "\n" for task in tasks(lines))


def plain_loop(path: Path, pattern: bytes | None) -> int:
    """Go over the lines as simply as can be; return how many there are."""
    found = 0
    with path.open("rb") as file:
        if pattern is None:
            for line in file:
                found += json.loads(line) is not None
            return found
        match = re.compile(pattern).match
        for line in file:
            found += match(line) is not None
    return found


def compare_formats(lines: int = LINES) -> dict[str, float]:
    """Print and return how fast each format is read against its plain loop."""
    from equipoise.logs import read_log

    print(f"{'format':<16}{'plain loop':>14}{'reader':>14}{'times as fast':>15}   goal {GOAL}")
    print(f"{'':16}{'lines/s':>14}{'lines/s':>14}")
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        for form, (_, pattern) in FORMATS.items():
            path = Path(folder, f"{form}.log")
            write(path, form, lines)
            plain, own = [], []
            for _ in range(REPETITIONS):
                began = time.process_time()
                found = plain_loop(path, pattern)
                halfway = time.process_time()
                log = read_log(path)
                own.append(time.process_time() - halfway)
                plain.append(halfway - began)
            assert (log.format.name, log.account.used, found) == (form, lines, lines)
            ratios[form] = min(plain) / min(own)
            said = "reached" if ratios[form] >= GOAL else "MISSED"
            print(
                f"{form:<16}{lines / min(plain):>14,.0f}{lines / min(own):>14,.0f}"
                f"{ratios[form]:>15.2f}   {said}",
                flush=True,
            )
            path.unlink()
    return ratios


# Within a child of the child: the most memory of a process begins with that of its parent.
READING = """
import json, os, resource, sys, time
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
from equipoise.logs import read_log
began = time.perf_counter()
log = read_log(sys.argv[1], rates_only=sys.argv[2] == "rates")
took = time.perf_counter() - began
unit = 1 if sys.platform == "darwin" else 1024
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(json.dumps({"lines": log.account.used, "most": most, "seconds": took}))
"""


def measure_memory(gigabytes: float) -> dict[str, float]:
    """Print and return the memory in MB, beyond the table, that a large log is read in."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.log")
        write_large(path, gigabytes)
        size = path.stat().st_size
        for kind in ("table", "rates"):
            done = subprocess.run(
                [sys.executable, "-c", READING, str(path), kind],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            said = json.loads(done.stdout)
            table = ROW * said["lines"] if kind == "table" else 0
            found[kind] = (said["most"] - table) / 1e6
            rows = f" beyond {ROW} bytes a line" if table else ""
            print(
                f"{kind:<7}{size / 1e9:5.2f} GB, {said['lines']:,} lines in "
                f"{said['seconds']:.0f} s "
                f"({size / 1e6 / said['seconds']:.0f} MB/s): at most {said['most'] / 1e6:,.0f} MB, "
                f"{found[kind]:,.0f} MB{rows}; goal {MOST_MB} MB: "
                f"{'reached' if found[kind] <= MOST_MB else 'MISSED'}",
                flush=True,
            )
    return found


def write_large(path: Path, gigabytes: float) -> None:
    """Write a log of nginx, whose arrivals are not in order; second by second, to be quick."""
    rng, wanted, written, second = random.Random(2), gigabytes * 1e9, 0, FIRST
    tails = []
    for i in range(20_000):
        took = rng.expovariate(20.0)
        tails.append(
            f' +0000] "GET /items/{i}?page=2 HTTP/1.1" 200 {500 + i} "https://example.org/" '
            f'"{AGENT}" {took:.3f} {took:.3f}\n'
        )
    with path.open("w") as file:
        while written < wanted:
            head = f"10.0.{second % 256}.7 - - [{_clf(second)}"
            text = "".join(head + tail for tail in rng.choices(tails, k=2000))
            written += len(text)
            file.write(text)
            second += 1


def main() -> None:
    """Print both tables."""
    compare_formats()
    print()
    measure_memory(float(os.environ.get("EQUIPOISE_BENCH_GB", "1")))


if __name__ == "__main__":
    main()
