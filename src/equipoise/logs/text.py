"""Formats of plain text, one request a line, each with one compiled pattern."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from .base import (
    BLANK,
    NO_REQUEST,
    NO_SERVER,
    NOT_A_LINE,
    NOTHING,
    RUN_TOGETHER,
    Field,
    Format,
    kept,
    named,
    numbers,
    timed,
    unknown,
    whole,
)
from .lines import bare, block_of
from .tasks import Batch
from .times import Clock, read_clf, read_iso

QUOTED = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
HEAD = (  # of the combined format: client, identity, user, [time], "request", status, bytes
    rb"\S+ \S+ [^\[\n]*\[([^\]\n]+)\] (" + QUOTED + rb") (\d{3}) (\d+|-)"
)
AGENTS = rb' ".*"'  # referer and user agent: up to the last quote, whatever stands between
LIST = rb"(?:%b(?:, | : ))*%b"
# The same, quickly: a request that is one, no quote in quotes, no way back. Sets of one character
# are ten times as fast as others, so that they do not even end at a line's end: text_reader sees
# whether one ran on.
QUICK_QUOTED = rb'"[^"]*+"'
QUICK_HEAD = (
    rb"[^ ]++ [^ ]++ [^\[]*+\[([^\]]++)\] "
    rb'"[^"]*+(?:(?<= HTTP/\d\.\d)|(?<= HTTP/\d))" (\d{3}) (\d++|-)'
)
QUICK_AGENTS = b" " + QUICK_QUOTED + b" " + QUICK_QUOTED
SURE = b"a request"
TOGETHER = re.compile(rb".\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] ")

Columns = list[tuple[bytes, ...]]


def text_reader(
    pattern: bytes,
    rows: Callable[[np.ndarray, Columns], Batch],
    why_not: Callable[[bytes], str] = lambda line: NOT_A_LINE,
    time: int = 0,
    quick: bytes | None = None,
    sure: int | None = None,
) -> Callable[[Sequence[bytes]], Batch]:
    """Return the reader of lines that match `pattern` as a whole.

    `rows` makes a batch of their places and of the pattern's groups by column; `why_not` names
    what a line is that does not match; `time` is the group that is never empty. `quick` has the
    same groups, and matches most of the lines that `pattern` does, and no others; it leaves out the
    group `sure`, which then reads SURE.
    """
    match = re.compile(pattern).fullmatch
    width = re.compile(pattern).groups
    # all lines of a chunk at once, each giving a tuple: far fewer calls than a match for each;
    # a line that does not match gives a tuple that is empty but for its last place
    every, slowly = (
        re.compile(b"^(?:" + form + b")$|^.*$", re.MULTILINE).findall
        for form in (quick or pattern, pattern)
    )

    def read(lines: Sequence[bytes]) -> Batch:
        rejected: list[tuple[int, str]] = []
        with no_collection():
            rows_found = every(block_of(lines)) if len(lines) else []
            again = len(rows_found) != len(lines)
            if again:  # a match ran over a line's end
                rows_found = slowly(block_of(lines))
            if width == 1:
                rows_found = [(one,) for one in rows_found]
            columns: Columns = list(zip(*rows_found, strict=True)) if rows_found else [()] * width
            if sure is not None and rows_found and not again:
                columns.insert(sure, (SURE,) * len(rows_found))
        places = np.arange(len(rows_found))
        if b"" in columns[time]:
            good: list[tuple[int, tuple[bytes, ...]]] = []
            for i, row in enumerate(zip(*columns, strict=True)):
                if not row[time]:
                    found = match(bare(lines[i]))
                    if found is None:
                        rejected.append((i, _reason(lines[i], why_not)))
                        continue
                    row = tuple(group or b"" for group in found.groups())
                good.append((i, row))
            places = np.array([i for i, _ in good], np.int64)
            columns = list(zip(*(row for _, row in good), strict=True)) if good else [()] * width
        batch = rows(places, columns)
        batch.rejected.extend(rejected)
        return timed(batch)

    return read


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the collector from looking at thousands of tuples of bytes, which form no cycles.

    It would take a tenth to a fifth of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _reason(line: bytes, why_not: Callable[[bytes], str]) -> str:
    if not line.strip():
        return BLANK
    return RUN_TOGETHER if TOGETHER.search(line) else why_not(line)


def is_request(requests: Sequence[bytes]) -> np.ndarray:
    """Return bool[k]: whether each quoted text is METHOD TARGET HTTP/VERSION.

    SURE stands for one that is: the quick pattern has seen to it.
    """
    if requests.count(SURE) == len(requests):
        return np.ones(len(requests), bool)
    return np.array([text is SURE or b" HTTP/" in text[-10:] for text in requests], bool)


# --- combined, with and without times ------------------------------------------------------------


def _combined(end: bool, factor: float) -> Callable[[np.ndarray, Columns], Batch]:
    """Rows of the combined format; its time is that of the end or of the arrival."""
    clock = Clock(read_clf)

    def rows(places: np.ndarray, columns: Columns) -> Batch:
        stamp, request, status, size, *tail = columns
        duration = numbers(tail[0], factor) if tail else unknown(places.size)
        service = numbers(tail[1], factor) if len(tail) > 1 else unknown(places.size)
        arrival = clock.whole(stamp)
        if end and tail:
            arrival = arrival - np.nan_to_num(duration)
        batch = Batch(
            places, arrival, duration, service, None,
            whole(status, 0, np.int16), whole(size, -1, np.int64),
        )  # fmt: skip
        return kept(batch, is_request(request), NO_REQUEST)

    return rows


COMBINED_FIELDS = (
    Field("%h, $remote_addr", "client address; read over"),
    Field("%l %u, $remote_user", "identity and user; read over"),
    Field("%t, $time_local", "when the request came (Apache) or ended (nginx), to 1 s", "arrival"),
    Field("%r, $request", "request line; read over, but it must be one"),
    Field("%>s, $status", "status of the response", "status"),
    Field("%b, $body_bytes_sent", "bytes of the body", "size"),
    Field("%{Referer}i %{User-Agent}i", "referer and user agent; read over"),
)
COMBINED = Format(
    "combined",
    "Apache and nginx combined or common log: when requests came, not how long they took",
    text_reader(
        HEAD + b"(?: .*)?", _combined(end=False, factor=1.0), sure=1, quick=QUICK_HEAD + b"(?: .*)?"
    ),
    (*COMBINED_FIELDS, Field("anything behind it", "read over")),
    "https://httpd.apache.org/docs/2.4/mod/mod_log_config.html",
    durations=False,
)
APACHE_MICROSECONDS = Format(
    "apache-us",
    "Apache combined followed by %D, microseconds",
    text_reader(
        HEAD + AGENTS + rb" (\d+)",
        _combined(end=False, factor=1e-6),
        sure=1,
        quick=QUICK_HEAD + QUICK_AGENTS + rb" (\d+)",
    ),
    (*COMBINED_FIELDS, Field("%D", "time to serve the request, us", "duration")),
    "https://httpd.apache.org/docs/2.4/mod/mod_log_config.html",
)
APACHE_SECONDS = Format(
    "apache-s",
    "Apache combined followed by %T, whole seconds; looks like apache-us, so it must be named",
    text_reader(
        HEAD + AGENTS + rb" (\d+)",
        _combined(end=False, factor=1.0),
        sure=1,
        quick=QUICK_HEAD + QUICK_AGENTS + rb" (\d+)",
    ),
    (*COMBINED_FIELDS, Field("%T", "time to serve the request, s", "duration")),
    "https://httpd.apache.org/docs/2.4/mod/mod_log_config.html",
)


# --- nginx with upstream times -------------------------------------------------------------------


def last_try(lists: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
    """Of upstream lists such as "0.100, 0.004", return the last that has a value: place, text."""
    if b" " not in b"".join(lists):
        return [0] * len(lists), list(lists)
    places, values = [], []
    for text in lists:
        parts = re.split(rb", | : ", text)
        at = next((i for i in range(len(parts) - 1, -1, -1) if parts[i] not in NOTHING), -1)
        places.append(at)
        values.append(parts[at] if at >= 0 else b"-")
    return places, values


def pick(lists: Sequence[bytes], places: Sequence[int]) -> list[bytes]:
    """Return the part of each list at a place; b"" where there is none."""
    if b" " not in b"".join(lists):
        return [b"" if text in NOTHING else text for text in lists]
    chosen = []
    for text, at in zip(lists, places, strict=True):
        parts = re.split(rb", | : ", text) if b" " in text else [text]
        part = parts[min(at, len(parts) - 1)]
        chosen.append(b"" if part in NOTHING else part)
    return chosen


def _upstream() -> Callable[[np.ndarray, Columns], Batch]:
    """Rows of nginx logs that name the upstream; the time is that of the end."""
    clock = Clock(read_clf)

    def rows(places: np.ndarray, columns: Columns) -> Batch:
        stamp, _, status, size, request_time, address, response_time = columns
        at, service = last_try(response_time)
        duration = numbers(request_time)
        server = pick(address, at)
        batch = Batch(
            places, clock.whole(stamp) - np.nan_to_num(duration), duration, numbers(service),
            server, whole(status, 0, np.int16), whole(size, -1, np.int64),
        )  # fmt: skip
        return named(batch)

    return rows


UPSTREAM_FIELDS = (
    Field("$request_time", "from the first byte of the client to the log, s", "duration"),
    Field("$upstream_addr", "servers tried, separated by commas; the last that answered", "server"),
    Field("$upstream_response_time", "time at each of them, s; the last", "service"),
)
NGINX_FIELDS = tuple(
    Field(f.name, "end of the request, to 1 s; arrival = end - $request_time", "arrival")
    if f.used == "arrival"
    else f
    for f in COMBINED_FIELDS
)
INGRESS = Format(
    "nginx-ingress",
    "nginx ingress controller, `upstreaminfo`",
    text_reader(
        HEAD + AGENTS + rb" \d+ ([\d.]+) \[[^\]\n]*\] \[[^\]\n]*\] ("
        + LIST % (rb"\S+", rb"\S+") + b") " + LIST % (rb"[\d-]+", rb"[\d-]+") + b" ("
        + LIST % (rb"[\d.-]+", rb"[\d.-]+") + b") " + LIST % (rb"[\d-]+", rb"[\d-]+")
        + rb"(?: \S+)?",
        _upstream(),
        sure=1,
        quick=QUICK_HEAD + QUICK_AGENTS
        + rb" \d++ ([\d.]++) \[[^\]]*+\] \[[^\]]*+\] ([^ ,]++) [\d-]++ ([\d.-]++) [\d-]++"
        + rb"(?: [^ \n]++)?",
    ),
    (
        *NGINX_FIELDS,
        Field("$request_length", "bytes received; read over"),
        Field("$proxy_upstream_name, $proxy_alternative_upstream_name", "read over"),
        *UPSTREAM_FIELDS,
        Field("$upstream_response_length, $upstream_status, $req_id", "read over"),
    ),
    "https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/log-format/",
)  # fmt: skip
NGINX = Format(
    "nginx-timed",
    "nginx combined followed by $request_time, or by $request_time and $upstream_response_time",
    text_reader(
        HEAD + AGENTS + rb" (\d+\.\d+)(?: ([\d.]+|-))?",
        _combined(end=True, factor=1.0),
        sure=1,
        quick=QUICK_HEAD + QUICK_AGENTS + rb" (\d+\.\d+)(?: ([\d.]+|-))?",
    ),
    (*NGINX_FIELDS, UPSTREAM_FIELDS[0], UPSTREAM_FIELDS[2]),
    "https://nginx.org/en/docs/http/ngx_http_log_module.html",
)


def _named(places: np.ndarray, columns: Columns) -> Batch:
    """Rows of nginx combined followed by rt=, uaddr= and urt= in any order."""
    stamp, _, status, size, tail = columns
    values = [dict(NAMED.findall(text)) for text in tail]

    def column(*names: bytes) -> list[bytes]:
        found = (next((v[n] for n in names if n in v), b"-") for v in values)
        return [text.strip(b'"') for text in found]

    duration = numbers([_number(x) for x in column(b"rt", b"request_time")])
    at, service = last_try(column(b"urt", b"upstream_response_time"))
    addresses = column(b"uaddr", b"upstream", b"upstream_addr")
    server = pick(addresses, at) if any(a not in NOTHING for a in addresses) else None
    return Batch(
        places, NAMED_CLOCK.whole(stamp) - np.nan_to_num(duration), duration,
        numbers([_number(x) for x in service]), server,
        whole(status, 0, np.int16), whole(size, -1, np.int64),
    )  # fmt: skip


def _number(text: bytes) -> bytes:
    """Return a text that is a number, or the sign of none."""
    return text if text.replace(b".", b"", 1).isdigit() else b"-"


NAMED = re.compile(rb'(\w+)=("[^"]*"|[^\s,]*(?:, [^\s,=]+(?=[\s,]|$))*)')
NAMED_CLOCK = Clock(read_clf)
NGINX_NAMED = Format(
    "nginx-named",
    "nginx combined followed by names and values: rt=$request_time urt=$upstream_response_time ...",
    text_reader(HEAD + AGENTS + rb"((?: .*)?\b(?:rt|request_time)=.*)", _named),
    (*NGINX_FIELDS, *UPSTREAM_FIELDS),
    "https://nginx.org/en/docs/http/ngx_http_upstream_module.html#variables",
)


# --- HAProxy -------------------------------------------------------------------------------------

HAPROXY_LINE = (
    rb"[^\[\n]*\[(?:\d+\]: [^\[\n]*\[)?(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d)\.(\d{3})\] \S+ \S+?/(\S+) "
    rb"(-?\d+)/(-?\d+)/(-?\d+)/(-?\d+)/\+?(-?\d+) (-?\d+) \+?(\d+) \S+ \S+ \S{4} "
    rb"\d+/\d+/\d+/\d+/\+?\d+ \d+/\d+.*"
)


HAPROXY_QUICK = (
    rb"[^\[]*+\[(?:\d+\]: [^\[]*+\[)?(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d)\.(\d{3})\] [^ ]++ "
    rb"[^/]++/([^ ]++) (-?\d++)/(-?\d++)/(-?\d++)/(-?\d++)/\+?(-?\d++) (-?\d++) \+?(\d++) "
    rb"[^ ]++ [^ ]++ \S{4} \d++/\d++/\d++/\d++/\+?\d++ \d++/\d++.*"
)


def _haproxy() -> Callable[[np.ndarray, Columns], Batch]:
    clock = Clock(read_clf)

    def rows(places: np.ndarray, columns: Columns) -> Batch:
        stamp, millis, server, request, _, connect, answer, total, status, size = columns
        waited, connected, answered = (numbers(c, 1e-3) for c in (request, connect, answer))
        idle = np.maximum(waited, 0.0)
        arrival = clock.whole(stamp) + numbers(millis, 1e-3) + idle
        service = np.where((connected < 0) | (answered < 0), np.nan, connected + answered)
        batch = Batch(
            places, arrival, np.maximum(numbers(total, 1e-3) - idle, 0.0), service, list(server),
            np.maximum(whole(status, 0, np.int16), 0), whole(size, -1, np.int64),
        )  # fmt: skip
        if b"<NOSRV>" not in server:
            return batch
        return kept(batch, np.array([s != b"<NOSRV>" for s in server], bool), NO_SERVER)

    return rows


def _not_haproxy(line: bytes) -> str:
    if re.search(rb"\] \S+: (?:SSL|Connection|Timeout|Received)", line):
        return "a connection that failed before a request"
    if re.search(rb"\] \S+ \S+/\S+ -?\d+/-?\d+/\+?\d+ ", line):
        return "a TCP log line, which knows no requests"
    if re.search(rb"haproxy(?:\[\d+\])?: ", line):
        return "a message of the process"
    return NOT_A_LINE


HAPROXY = Format(
    "haproxy",
    "HAProxy `option httplog`, with or without a syslog prefix and captured headers",
    text_reader(HAPROXY_LINE, _haproxy(), _not_haproxy, quick=HAPROXY_QUICK),
    (
        Field("%ci:%cp", "client address and port; read over"),
        Field(
            "%tr, %t",
            "when the request began, or the connection was accepted, to 1 ms, local time; "
            "arrival = that + TR (Tq)",
            "arrival",
        ),
        Field("%ft %b", "frontend and backend; read over"),
        Field("%s", "server; <NOSRV> where none was chosen", "server"),
        Field("%TR (Tq)", "waiting for the whole request, ms; -1: it never came whole"),
        Field("%Tw", "waiting in queues, ms; -1: it never left them"),
        Field("%Tc", "connecting to the server, ms; -1: it never connected", "service"),
        Field("%Tr", "from there to its response's headers, ms; -1: never; Tc + Tr", "service"),
        Field("%Ta (Tt)", "in all, ms; duration = Ta - TR", "duration"),
        Field("%ST", "status", "status"),
        Field("%B", "bytes sent to the client", "size"),
        Field("%CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %r", "read over"),
    ),
    "https://docs.haproxy.org/2.8/configuration.html#8.2.3",
)


# --- Envoy ---------------------------------------------------------------------------------------

ENVOY_LINE = (
    rb'\[(\d{4}-\d\d-\d\dT[\d:.]+Z)\] ' + QUOTED + rb' (\d+) \S+ (?:\S+ \S+ "[^"\n]*" )?'
    rb'\d+ (\d+) (\d+) (\d+|-) ' + QUOTED + b" " + QUOTED + b" " + QUOTED + b" " + QUOTED
    + rb' "([^"\n]*)"(?: .*)?'
)  # fmt: skip


ENVOY_QUICK = (
    rb'\[(\d{4}-\d\d-\d\dT[\d:.]++Z)\] ' + QUICK_QUOTED
    + rb' (\d++) [^ ]++ (?:[^ ]++ [^ ]++ "[^"]*+" )?\d++ (\d++) (\d++) (\d++|-) '
    + (QUICK_QUOTED + b" ") * 4 + rb'"([^"]*+)"(?: .*)?'
)  # fmt: skip


def _envoy() -> Callable[[np.ndarray, Columns], Batch]:
    clock = Clock(read_iso)

    def rows(places: np.ndarray, columns: Columns) -> Batch:
        stamp, status, size, duration, service, host = columns
        server: list[bytes] = list(host)
        if b"-" in host or b"tcp://" in b"".join(host):
            server = [b"" if name in NOTHING else name.removeprefix(b"tcp://") for name in host]
        batch = Batch(
            places, clock.fractional(stamp), numbers(duration, 1e-3), numbers(service, 1e-3),
            server, whole(status, 0, np.int16), whole(size, -1, np.int64),
        )  # fmt: skip
        return named(batch)

    return rows


ENVOY_FIELDS = (
    Field("%START_TIME%", "when the request came, to 1 ms", "arrival"),
    Field("%RESPONSE_CODE%", "status", "status"),
    Field("%BYTES_SENT%", "bytes of the body", "size"),
    Field("%DURATION%", "from the arrival to the last byte out, ms", "duration"),
    Field(
        "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
        "at the server, ms; - where it did not answer",
        "service",
    ),
    Field("%UPSTREAM_HOST%", "server; - where none took part", "server"),
    Field("method, path, protocol, flags, addresses, agent, request id", "read over"),
)
ENVOY_TEXT = Format(
    "envoy-text",
    "Envoy's default text format",
    text_reader(ENVOY_LINE, _envoy(), quick=ENVOY_QUICK),
    ENVOY_FIELDS,
    "https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage",
)


# --- Traefik -------------------------------------------------------------------------------------


def _traefik() -> Callable[[np.ndarray, Columns], Batch]:
    clock = Clock(read_clf)

    def rows(places: np.ndarray, columns: Columns) -> Batch:
        stamp, _, status, size, url, millis = columns
        server = [b"" if name in NOTHING else name for name in url] if b"-" in url else list(url)
        batch = Batch(
            places, clock.whole(stamp), numbers(millis, 1e-3), unknown(places.size), server,
            whole(status, 0, np.int16), whole(size, -1, np.int64),
        )  # fmt: skip
        return named(batch)

    return rows


TRAEFIK_TEXT = Format(
    "traefik-text",
    "Traefik's common log format",
    text_reader(
        HEAD + AGENTS + rb' \d+ "[^"\n]*" "([^"\n]*)" (\d+)ms',
        _traefik(),
        sure=1,
        quick=QUICK_HEAD + QUICK_AGENTS + rb' \d++ "[^"]*+" "([^"]*+)" (\d++)ms',
    ),
    (
        *COMBINED_FIELDS,
        Field("RequestCount, RouterName", "read over"),
        Field("ServiceURL", "server; - where none took part", "server"),
        Field("Duration", "in all, ms", "duration"),
    ),
    "https://doc.traefik.io/traefik/observability/access-logs/",
)

TEXTS = (
    HAPROXY, INGRESS, TRAEFIK_TEXT, ENVOY_TEXT, NGINX_NAMED, NGINX, APACHE_MICROSECONDS, COMBINED,
    APACHE_SECONDS,
)  # fmt: skip
