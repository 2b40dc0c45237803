"""Formats of one JSON object a line, bare or behind what a container put in front of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .base import BLANK, NO_SERVER, RUN_TOGETHER, Field, Format, timed
from .lines import block_of
from .tasks import Batch
from .text import ENVOY_FIELDS, ENVOY_TEXT, TOGETHER
from .times import Clock, read_iso

NOT_AN_ACCESS_RECORD = "not an access record"
NAN = float("nan")
# time of arrival (seconds, or ISO text), duration s, service s, server, status, size
Row = tuple[Any, float, float, str | None, int, int]


def json_reader(
    row_of: Callable[[dict[str, Any]], Row | str], names_servers: bool = True
) -> Callable[[Sequence[bytes]], Batch]:
    """Return the reader of lines that are JSON objects.

    `row_of` makes a row of one, or says why not.
    """
    clock = Clock(read_iso)

    def read(lines: Sequence[bytes]) -> Batch:
        places, rows, rejected = [], [], []
        for i, line in enumerate(lines):
            at = line.find(b"{")
            try:
                found = json.loads(line[at:] if at > 0 else line) if at >= 0 else None
            except ValueError:
                found = None
            if not isinstance(found, dict):
                rejected.append((i, _why_not(line)))
                continue
            try:
                row = row_of(found)
            except (KeyError, TypeError, ValueError, AttributeError):
                row = NOT_AN_ACCESS_RECORD
            if isinstance(row, str):
                rejected.append((i, row))
                continue
            places.append(i)
            rows.append(row)
        k = len(rows)
        stamps, duration, service, server, status, size = (
            zip(*rows, strict=True) if rows else [()] * 6
        )
        if rows and isinstance(stamps[0], str):
            arrival = clock.fractional([str(stamp).encode() for stamp in stamps])
        else:
            arrival = np.array([s if isinstance(s, int | float) else NAN for s in stamps], float)
        batch = Batch(
            np.array(places, np.int64),
            arrival,
            np.array(duration, float),
            np.array(service, float),
            [(name or "").encode() for name in server] if names_servers else None,
            np.array(status, np.int16).reshape(k),
            np.array(size, np.int64).reshape(k),
            rejected,
        )
        return timed(batch)

    return read


def _why_not(line: bytes) -> str:
    if not line.strip():
        return BLANK
    return RUN_TOGETHER if TOGETHER.search(line) else NOT_AN_ACCESS_RECORD


def _seconds(value: Any, factor: float) -> float:
    """Return a number, or a text that is one, in seconds; nan where there is none."""
    if value is None or value == "-" or value == "":
        return NAN
    return float(value) * factor


def _envoy(record: dict[str, Any]) -> Row | str:
    """An Envoy JSON record: the names of Envoy Gateway and of Istio are the operators' own."""
    server = record.get("upstream_host", "")
    if server is None or server == "-":
        return NO_SERVER
    return (
        record["start_time"],
        _seconds(record.get("duration"), 1e-3),
        _seconds(
            record.get("x-envoy-upstream-service-time", record.get("upstream_service_time")), 1e-3
        ),
        server,
        int(record.get("response_code") or 0),
        int(record.get("bytes_sent", -1)),
    )


def _envoy_reader() -> Callable[[Sequence[bytes]], Batch]:
    """Text and JSON records in one file, as several gateways behind one collector write."""
    as_json = json_reader(_envoy)

    def read(lines: Sequence[bytes]) -> Batch:
        block = block_of(lines)
        # an object may stand behind what a container put in front of it: those come to it later
        if block.startswith(b"{") and block.count(b"\n{") + 1 == len(lines):
            return as_json(lines)
        text = ENVOY_TEXT.read(lines)
        left = [i for i, why in text.rejected if why != RUN_TOGETHER and b"{" in lines[i]]
        if not left:
            return text
        found = as_json([lines[i] for i in left])
        back = np.array(left, np.int64)
        reasons = dict(text.rejected)
        for i in left:
            del reasons[i]
        reasons |= {left[i]: reason for i, reason in found.rejected}
        return Batch(
            np.concatenate([text.place, back[found.place]]),
            np.concatenate([text.arrival, found.arrival]),
            np.concatenate([text.duration, found.duration]),
            np.concatenate([text.service, found.service]),
            (text.server or []) + (found.server or []),
            np.concatenate([text.status, found.status]),
            np.concatenate([text.size, found.size]),
            list(reasons.items()),
        )

    return read


ENVOY = Format(
    "envoy",
    "Envoy: its default text format, JSON, or both in one file",
    _envoy_reader(),
    (
        *ENVOY_FIELDS,
        Field(
            "start_time, response_code, bytes_sent",
            "as their operators, in JSON",
            "arrival, status, size",
        ),
        Field("duration, x-envoy-upstream-service-time", "ms, in JSON", "duration, service"),
        Field("upstream_host", "in JSON; null where no server took part", "server"),
    ),
    ENVOY_TEXT.source,
)


def _traefik(record: dict[str, Any]) -> Row | str:
    if "RouterName" not in record and "DownstreamStatus" not in record:
        return NOT_AN_ACCESS_RECORD
    url = record.get("ServiceURL")
    server = record.get("ServiceAddr") or (url.get("Host") if isinstance(url, dict) else url)
    if not server:
        return NO_SERVER
    return (
        record.get("StartUTC") or record["StartLocal"],
        _seconds(record.get("Duration"), 1e-9),
        _seconds(record.get("OriginDuration"), 1e-9),
        server,
        int(record.get("DownstreamStatus") or 0),
        int(record.get("DownstreamContentSize", -1)),
    )


TRAEFIK = Format(
    "traefik",
    "Traefik JSON",
    json_reader(_traefik),
    (
        Field("StartUTC", "when the request came, to 1 ns", "arrival"),
        Field("Duration", "in all, ns", "duration"),
        Field("OriginDuration", "at the server, ns", "service"),
        Field("ServiceAddr, ServiceURL", "server; missing where none took part", "server"),
        Field("DownstreamStatus", "status", "status"),
        Field("DownstreamContentSize", "bytes of the body", "size"),
        Field("Overhead, OriginStatus, RetryAttempts, Client*, Request*, headers", "read over"),
    ),
    "https://doc.traefik.io/traefik/observability/access-logs/",
)


def _caddy(record: dict[str, Any]) -> Row | str:
    if "duration" not in record or "request" not in record or "status" not in record:
        return NOT_AN_ACCESS_RECORD
    duration = _caddy_duration(record["duration"])
    ended = record["ts"]
    if isinstance(ended, str):
        ended = Clock(read_iso).fractional([ended.encode()])[0]
    return (
        float(ended) - duration,
        duration,
        NAN,
        None,
        int(record["status"]),
        int(record.get("size", -1)),
    )


def _caddy_duration(value: Any) -> float:
    """Seconds, or where `duration_format` is set a text such as 1.5ms."""
    if not isinstance(value, str):
        return float(value)
    units = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
    for unit in ("ns", "us", "µs", "ms", "s"):
        number = value.removesuffix(unit)
        if number != value and number.replace(".", "", 1).isdigit():
            return float(number) * units[unit]
    return float(value)


CADDY = Format(
    "caddy",
    "Caddy JSON; its access log does not name the server",
    json_reader(_caddy, names_servers=False),
    (
        Field("ts", "when the request ended, s since 1970; arrival = ts - duration", "arrival"),
        Field("duration", "in all, s", "duration"),
        Field("status", "status; 0 where nothing was written", "status"),
        Field("size", "bytes of the body", "size"),
        Field("request, resp_headers, bytes_read, user_id", "read over"),
    ),
    "https://caddyserver.com/docs/caddyfile/directives/log",
)

JSONS = (ENVOY, TRAEFIK, CADDY)
