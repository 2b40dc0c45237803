"""The proxy beside others, one load and one core for all: `make bench-live`.

HAProxy, nginx, Envoy (those that are installed), an aiohttp proxy (aiohttp_proxy.py) and ours
stand in turn between `wrk` and four servers, all keep-alive, with 64 connections. The proxy has the
first core; the load and the servers, which are one nginx, have the second. A round runs every
proxy once for three seconds, so that whatever else the machine does slows all of them; a figure is
the median of five rounds. CPU time is that of the proxy's process and its children, user and
system, and says more than requests per second when the machine is busy.

    100 B       the same request again and again
    varied      100-byte responses, each request with another path and another field: nothing of a
                head can be remembered from the last time
    10 KB       responses of ten thousand bytes

Needed: wrk and nginx (Debian, Ubuntu: apt-get install wrk nginx haproxy), two cores, and the extra
`live`. Nothing listens beyond 127.0.0.1. A goal is reached or missed; the exit code is 0.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

CONNECTIONS = 64
WORKS = ("100 B", "varied", "10 KB")
# Ours is to serve at least so many times the requests per second of these.
GOALS = {"haproxy": 0.4, "envoy": 0.85, "aiohttp": 3.0}

NGINX_SERVERS = """
worker_processes 1; daemon off; pid {folder}/servers.pid; error_log {folder}/servers.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600; {paths}
server {{ {listen}
location / {{ return 200 "{body}"; }}
location /big {{ root {folder}; }} }} }}
"""
NGINX_PROXY = """
worker_processes 1; daemon off; pid {folder}/proxy.pid; error_log {folder}/proxy.log;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; {paths}
upstream servers {{ random two least_conn; keepalive 256; keepalive_requests 1000000000;
{servers} }}
server {{ listen 127.0.0.1:{port};
location / {{ proxy_pass http://servers; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header X-Request-Id $request_id; }} }} }}
"""
HAPROXY = """
global
  maxconn 4096
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend clients
  bind 127.0.0.1:{port}
  default_backend servers
backend servers
  balance random(2)
  option forwardfor
{servers}
"""
ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.\
http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          codec_type: HTTP1
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: servers}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: servers
    type: STATIC
    lb_policy: LEAST_REQUEST
    load_assignment:
      cluster_name: servers
      endpoints:
      - lb_endpoints:
{servers}
"""
VARIED = """
local n = 0
request = function()
  n = n + 1
  return wrk.format("GET", "/item/" .. n, {["X-Trace"] = n * 7919})
end
"""


@dataclass(frozen=True)
class Setting:
    """Where everything is."""

    folder: Path
    servers: list[int]  # ports
    proxy_core: str | None  # None: one core only, nothing is pinned
    load_core: str | None


@dataclass(frozen=True)
class Measured:
    """One run of one proxy under one load."""

    requests: float  # per second
    cpu: float  # microseconds per request


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def pinned(core: str | None, command: list[str]) -> list[str]:
    return command if core is None else ["taskset", "-c", core, *command]


@contextmanager
def process(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until it listens, and end it afterwards."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        try:
            for _ in range(600):
                if started.poll() is not None:
                    raise RuntimeError(f"{' '.join(command)} ended with {started.returncode}")
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                    break
                time.sleep(0.05)
            yield started
        finally:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()


def temporary_paths(folder: Path, name: str) -> str:
    """nginx wants to write in places that are not ours."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return " ".join(f"{kind}_temp_path {folder}/{name}-{kind};" for kind in kinds)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def nginx(setting: Setting, port: int) -> list[str]:
    text = NGINX_PROXY.format(
        folder=setting.folder,
        paths=temporary_paths(setting.folder, "proxy"),
        port=port,
        servers=" ".join(f"server 127.0.0.1:{other};" for other in setting.servers),
    )
    return ["nginx", "-c", write(setting.folder, "proxy.conf", text), "-p", str(setting.folder)]


def haproxy(setting: Setting, port: int) -> list[str]:
    lines = [f"  server s{other} 127.0.0.1:{other}" for other in setting.servers]
    text = HAPROXY.format(port=port, servers="\n".join(lines))
    return ["haproxy", "-f", write(setting.folder, "haproxy.cfg", text)]


def envoy(setting: Setting, port: int) -> list[str]:
    at = "{{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}"
    line = f"        - endpoint: {at}"
    text = ENVOY.format(port=port, servers="\n".join(line.format(p) for p in setting.servers))
    path = write(setting.folder, "envoy.yaml", text)
    return ["envoy", "-c", path, "--concurrency", "1", "-l", "off", "--use-dynamic-base-id"]


def aiohttp(setting: Setting, port: int) -> list[str]:
    return [sys.executable, "-m", "bench.aiohttp_proxy", str(port), *map(str, setting.servers)]


def ours(setting: Setting, port: int) -> list[str]:
    servers = "".join(f'[[servers]]\naddress = "127.0.0.1:{other}"\n' for other in setting.servers)
    text = f'listen = "127.0.0.1:{port}"\n[[policies]]\nname = "jsq-d"\n{servers}'
    path = write(setting.folder, "serve.toml", text)
    return [sys.executable, "-m", "equipoise", "serve", path]


PROXIES: dict[str, Callable[[Setting, int], list[str]]] = {
    "haproxy": haproxy,
    "nginx": nginx,
    "envoy": envoy,
    "aiohttp": aiohttp,
    "ours": ours,
}


def installed(name: str) -> bool:
    if name == "aiohttp":
        try:
            import aiohttp  # noqa: F401
        except ImportError:
            return False
        return True
    return name == "ours" or shutil.which(name) is not None


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children."""
    total = 0
    for each in [pid, *children(pid)]:
        with suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def load(setting: Setting, port: int, pid: int, work: str, seconds: float) -> Measured:
    """Load a proxy by wrk."""
    target = f"http://127.0.0.1:{port}{'/big' if work == '10 KB' else '/'}"
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds:g}s", target]
    if work == "varied":
        command[1:1] = ["-s", write(setting.folder, "varied.lua", VARIED)]
    before = cpu_seconds(pid)
    found = subprocess.run(
        pinned(setting.load_core, command), capture_output=True, text=True, check=True
    ).stdout
    used = cpu_seconds(pid) - before
    if bad := re.search(r"Non-2xx.*|Socket errors.*", found):
        raise RuntimeError(f"{target}: {bad[0]}")
    count = int(re.search(r"(\d+) requests in", found)[1])  # type: ignore[index]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", found)[1])  # type: ignore[index]
    return Measured(rate, 1e6 * used / count)


def compare(rounds: int, seconds: float) -> dict[tuple[str, str], list[Measured]]:
    """Run every proxy under every load, in turns."""
    names = [name for name in PROXIES if installed(name)]
    results: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-live-")))
        folder.chmod(0o755)  # nginx's workers may be another user's
        cores = sorted(os.sched_getaffinity(0))
        pin = len(cores) > 1 and shutil.which("taskset") is not None
        first, second = (str(cores[0]), str(cores[1])) if pin else (None, None)
        setting = Setting(folder, [free_port() for _ in range(4)], first, second)
        (folder / "big").write_bytes(os.urandom(10_000))
        text = NGINX_SERVERS.format(
            folder=folder,
            paths=temporary_paths(folder, "servers"),
            listen=" ".join(f"listen 127.0.0.1:{port};" for port in setting.servers),
            body="0123456789" * 10,
        )
        command = ["nginx", "-c", write(folder, "servers.conf", text), "-p", str(folder)]
        stack.enter_context(process(pinned(second, command), setting.servers[0]))
        running = {}
        for name in names:
            port = free_port()
            command = pinned(first, PROXIES[name](setting, port))
            running[name] = port, stack.enter_context(process(command, port)).pid
            load(setting, *running[name], "100 B", 1)  # warm
        for _ in range(rounds):
            for work in WORKS:
                for name, (port, pid) in running.items():
                    results[name, work].append(load(setting, port, pid, work, seconds))
    return results


def report(results: dict[tuple[str, str], list[Measured]]) -> str:
    """Return the table, and what became of the goals."""
    names = list(dict.fromkeys(name for name, _ in results))
    lines = [f"{'':10}" + "".join(f"{work:>26}" for work in WORKS)]
    lines.append(f"{'':10}" + "".join(f"{'requests/s':>14}{'CPU us':>12}" for _ in WORKS))
    middle = {
        key: Measured(median(m.requests for m in runs), median(m.cpu for m in runs))
        for key, runs in results.items()
    }
    for name in names:
        cells = (middle[name, work] for work in WORKS)
        lines.append(f"{name:10}" + "".join(f"{c.requests:14,.0f}{c.cpu:12.1f}" for c in cells))
    lines.append("")
    for other, goal in GOALS.items():
        if other not in names:
            lines.append(f"{other} is not installed")
            continue
        for work in WORKS:
            mine, theirs = middle["ours", work], middle[other, work]
            ratio, cpu = mine.requests / theirs.requests, theirs.cpu / mine.cpu
            verdict = "reached" if ratio >= goal else "missed"
            lines.append(
                f"ours / {other}, {work}: {ratio:.2f} of the requests/s, {cpu:.2f} by CPU time; "
                f"goal {goal:g}: {verdict}"
            )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args(arguments)
    if missing := [tool for tool in ("wrk", "nginx") if shutil.which(tool) is None]:
        sys.exit(f"needed: {' and '.join(missing)} (Debian, Ubuntu: apt-get install wrk nginx)")
    print(report(compare(given.rounds, given.seconds)))


if __name__ == "__main__":
    main()
