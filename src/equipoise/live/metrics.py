"""What the dispatcher counts, as text that Prometheus reads.

Text format 0.0.4, written by hand: a histogram costs one `bisect` a request that way, and a scrape
of 100 servers takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from .core import Known
from .fleet import BUCKETS, Fleet
from .health import State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# what a proxy's figures are called, and what they are
FIGURES = {
    "clients": ("gauge", "connections of clients"),
    "queued": ("gauge", "requests waiting because every server is full"),
    "under_way": ("gauge", "requests not answered yet, those waiting included"),
    "shaking": ("gauge", "connections in a TLS handshake"),
    "not_shaken": ("counter", "TLS handshakes that failed"),
    "accepted": ("counter", "connections of clients accepted"),
    "requests": ("counter", "requests accepted"),
    "refused": ("counter", "requests refused"),
    "opened": ("counter", "connections opened to servers"),
    "open": ("gauge", "connections open to servers"),
    "tunnels": ("gauge", "requests that have become tunnels: WebSocket and its like"),
    "idle": ("gauge", "those of them without a request"),
}
Labels = Mapping[str, str]


class Page:
    """The text, family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self, name: str, kind: str, about: str, values: Iterable[tuple[Labels, float | int]]
    ) -> None:
        """Add a metric with its values; the name without "equipoise_"."""
        self._head(name, kind, about)
        for labels, value in values:
            self._lines.append(f"equipoise_{name}{_labels(labels)} {_number(value)}")

    def histogram(
        self, name: str, about: str, values: Iterable[tuple[Labels, list[int], float]]
    ) -> None:
        """Add a histogram in seconds: labels, counts by bucket, and the sum."""
        self._head(name, "histogram", about)
        ends = [*(_number(end) for end in BUCKETS), "+Inf"]
        for labels, buckets, total in values:
            for end, count in zip(ends, accumulate(buckets), strict=True):
                text = _labels({**labels, "le": end})
                self._lines.append(f"equipoise_{name}_bucket{text} {count}")
            self._lines.append(f"equipoise_{name}_sum{_labels(labels)} {_number(total)}")
            self._lines.append(f"equipoise_{name}_count{_labels(labels)} {sum(buckets)}")

    def text(self) -> str:
        """Return all of it."""
        return "\n".join(self._lines) + "\n"

    def _head(self, name: str, kind: str, about: str) -> None:
        self._lines.append(f"# HELP equipoise_{name} {about}")
        self._lines.append(f"# TYPE equipoise_{name} {kind}")


def render(fleet: Fleet, figures: Any = None, log: Any = None, tls: Any = None) -> str:
    """Return the metrics of a fleet, of its proxy, access log and certificate, if there are any.

    `figures` is a NamedTuple of numbers by the names of `FIGURES`; `log` an `AccessLog`, `tls` a
    `Tls`.
    """
    page = Page()
    _of_servers(page, fleet)
    _of_policy(page, fleet)
    _of_agents(page, fleet)
    page.histogram(
        "request_duration_seconds",
        "time of a request, from its head to the last byte out",
        [({}, fleet.lasted, fleet.lasted_seconds)],
    )
    page.family("retries_total", "counter", "further servers tried", [({}, fleet.retries)])
    page.family(
        "errors_total",
        "counter",
        "requests that went wrong by the servers' or the dispatcher's fault, by how; "
        "status: answered with one from 500 on",
        [({"why": why}, count) for why, count in fleet.errors.items()],
    )
    page.family("up_seconds", "gauge", "since the dispatcher was made", [({}, fleet.up_seconds)])
    page.family(
        "unserved_total",
        "counter",
        "requests that no server took, by why",
        [({"outcome": outcome}, count) for outcome, count in fleet.refused.items()],
    )
    for name, (kind, about) in FIGURES.items():
        if hasattr(figures, name):
            full = f"proxy_{name}" + ("_total" if kind == "counter" else "")
            page.family(full, kind, about, [({}, getattr(figures, name))])
    if tls is not None:
        about = "when the certificate expires, s since 1970"
        page.family("certificate_end_seconds", "gauge", about, [({}, tls.ends)])
    if log is not None:
        page.family("log_lines_total", "counter", "lines of the access log", [({}, log.written)])
        about = "records that were not written: too many, or the disk is full"
        page.family("log_dropped_total", "counter", about, [({}, log.dropped)])
    return page.text()


def _of_servers(page: Page, fleet: Fleet) -> None:
    known, health, now = fleet.core.known(), fleet.health.of, fleet.now
    by = {name: ({"server": name}, backend) for name, backend in fleet.backends.items()}
    page.family(
        "server_state",
        "gauge",
        "1 for the state that a server is in",
        [
            ({"server": name, "state": str(state)}, int(fleet.state(name) is state))
            for name in by
            for state in State
        ],
    )
    page.family(
        "server_state_seconds",
        "gauge",
        "for how long it has been in its state",
        [(label, now - health[name].since) for name, (label, _) in by.items()],
    )
    page.family(
        "server_slow_start",
        "gauge",
        "1 while it has come up and is sent less than its part",
        [(label, int(fleet.starts_slowly(name))) for name, (label, _) in by.items()],
    )
    page.family(
        "server_limit",
        "gauge",
        "most requests that it is sent at once, as configured",
        [(label, b.limit) for label, b in by.values() if b.limit is not None],
    )
    if fleet.core.tells:
        _of_news(page, known, now)
    page.family(
        "server_length",
        "gauge",
        "tasks there, as the policy counts them: failed ones for a while too",
        [(label, known[name].tasks if name in known else 0) for name, (label, _) in by.items()],
    )
    page.family(
        "server_slots",
        "gauge",
        "requests at a server or on their way to it",
        [(label, fleet.slots(name)) for name, (label, _) in by.items()],
    )
    for name, about in (
        ("chosen", "times that the policy chose it"),
        ("started", "requests written to a connection"),
        ("not_sent", "requests chosen for it that never reached it"),
        ("failures", "requests that failed there, by its own fault"),
    ):
        values = [(label, getattr(backend, name)) for label, backend in by.values()]
        page.family(f"server_{name}_total", "counter", about, values)
    page.family(
        "server_outcomes_total",
        "counter",
        "how requests ended there",
        [
            ({**label, "outcome": outcome}, count)
            for label, backend in by.values()
            for outcome, count in backend.outcomes.items()
        ],
    )
    page.family(
        "server_responses_total",
        "counter",
        "responses by hundreds of their status",
        [
            ({**label, "status": f"{i}xx" if i else "none"}, count)
            for label, backend in by.values()
            for i, count in enumerate(backend.statuses)
        ],
    )
    page.histogram(
        "server_duration_seconds",
        "time of a request at a server, to the last byte",
        [(label, backend.buckets, backend.seconds) for label, backend in by.values()],
    )


def _of_news(page: Page, known: Mapping[str, Known], now: float) -> None:
    """What servers told."""
    page.family(
        "server_most",
        "gauge",
        "most tasks that it can have, by what it told last and what it was sent since",
        [({"server": name}, one.most) for name, one in known.items() if one.most is not None],
    )
    page.family(
        "server_told_seconds",
        "gauge",
        "since it told that",
        [
            ({"server": name}, now - one.since)
            for name, one in known.items()
            if one.most is not None
        ],
    )


def _of_policy(page: Page, fleet: Fleet) -> None:
    core = fleet.core
    status = {"policy": core.spec.label}
    page.family("policy_info", "gauge", "1, with the policy's name", [(status, 1)])
    threshold = fleet.threshold
    if threshold is not None:
        page.family("threshold", "gauge", "the threshold in force", [({}, threshold)])
        page.family(
            "threshold_changes_total", "counter", "times that it was learnt anew",
            [({}, core.changes)],
        )  # fmt: skip
    page.family(
        "tokens",
        "gauge",
        "servers that the dispatcher has a token of, by colour",
        [({"colour": colour}, count) for colour, count in core.tokens().items()],
    )
    page.family(
        "messages_total",
        "counter",
        "messages between servers and dispatcher, by kind",
        [({"kind": kind}, count) for kind, count in core.messages().items()],
    )
    for name, about, value in (
        ("displaced", "tasks that went elsewhere because the chosen server was full or excluded",
         core.displaced),
        ("spurious_releases", "releases of slots that were none, or released before",
         core.spurious),
        ("ejections_spared", "ejections that would have left too few servers up",
         fleet.health.spared),
    ):  # fmt: skip
        page.family(f"{name}_total", "counter", about, [({}, value)])


def _of_agents(page: Page, fleet: Fleet) -> None:
    hearing = fleet.hearing
    if hearing is None:
        return
    counts = hearing.counts()
    about = "agents with an open stream"
    page.family("agent_streams", "gauge", about, [({}, counts["open"])])
    about = "servers not heard for too long, so that nothing they said counts"
    page.family("unheard_servers", "gauge", about, [({}, counts["unheard"])])
    about = "1 if no server that is up is heard: tasks go to servers at random"
    page.family("deaf", "gauge", about, [({}, int(counts["deaf"]))])
    page.family(
        "server_unheard",
        "gauge",
        "1 for a server not heard for too long",
        [({"server": name}, int(ear.unheard)) for name, ear in hearing.ears.items()],
    )
    for name, about in (
        ("gaps", "times that messages were missing"),
        ("restarts", "times that an agent began to count anew"),
    ):
        page.family(f"agent_{name}_total", "counter", about, [({}, counts[name])])
    page.family(
        "agent_dropped_total",
        "counter",
        "lines of agents that were not heard, by why",
        [({"why": why}, count) for why, count in counts["dropped"].items()],
    )


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float | int) -> str:
    return repr(value).removesuffix(".0")
