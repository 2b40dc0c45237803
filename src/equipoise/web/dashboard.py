"""The page at / of the admin listener and its data at /history, for one dispatcher or several.

    /                        the page: one file, nothing from elsewhere
    /history?since=&start=   samples from that number on, and how all is now; JSON
            &find=           the rows of servers whose names have that in them

The data's size is bounded: above `MOST` servers groups of neighbours take the place of servers, and
the table has those that do not serve or have most to do. However many look, it is put together once
a sample.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..live.admin import Answer, Asked, Site, as_json
from ..live.fleet import BUCKETS
from ..live.health import State
from ..live.reading import COUNTED, COUNTS, SERVERS, SLOW, STATES, WHOLE
from ..live.serve import Service
from ..report.figures import esc
from ..report.page import paper_css
from .figures import FIGURES, told
from .history import EVERY, MINUTE, Events, History, Minute
from .view import UNHEARD, Joined, One, View, Whole
from .words import Trouble, health

if TYPE_CHECKING:
    from ..live.workers import Workers

MOST = 100  # servers that are told one by one; bars, where there are more
ROWS = 40  # of the table, where there are more
MOST_FOUND = 200  # characters of `find` that are looked at
LOOKS = 3.0  # s for which whoever has asked is taken to look on


def dashboard(service: Service | Workers) -> Site:
    """Return the pages of a service, and what samples it; as `Service` and `Workers` take it."""
    if isinstance(service, Service):
        data = Dashboard(One(service))
        return Site({"/": page, "/history": Asked(data.answer)}, data.tick)
    asking = Asking(Joined(service))
    return Site({"/": page, "/history": Asked(asking.answer)}, asking.tick)


class Dashboard:
    """What the page shows of a view."""

    def __init__(self, view: View, clock: Callable[[], float] = time.monotonic) -> None:
        self.view, self._clock = view, clock
        self.history, self.minute, self.events = History(), Minute(), Events()
        self._begin()
        self._due = clock()
        self._anew = view.anew
        self._made: dict[str, dict[str, Any]] = {}  # by `find`; of the sample that is the last

    def tick(self) -> None:
        """Take a sample, if one is due."""
        if self.due():
            self.sample()

    def due(self) -> bool:
        """Whether a sample is due; it is then taken to be taken."""
        now = self._clock()
        if now < self._due:
            return False
        self._due = max(self._due + EVERY, now + EVERY / 2)  # in step, without catching up
        return True

    def sample(self) -> None:
        """Take a sample."""
        view = self.view
        found = view.read()
        if found.values and self.history.add(found):
            self._begin()  # whoever looks must see all columns of the past
        self.events.add(view.events)
        if view.anew != self._anew:
            self._anew, self.minute = view.anew, Minute()
        if self.minute.due(found.at):
            self.minute.add(found.at, *view.counts())
        self.forget()

    def forget(self) -> None:
        """Put together anew what is asked for next."""
        self._made.clear()

    def answer(self, query: Mapping[str, str]) -> Answer:
        """Return /history."""
        known = query.get("start") == self.start
        since = query.get("since", "")[:18]  # a number that a machine word holds
        number = int(since) if known and since.isascii() and since.isdigit() else 0
        find = query.get("find", "")[:MOST_FOUND]
        if find not in self._made:
            if len(self._made) >= 16:  # each costs memory, and they are gone with the next sample
                self._made.clear()
            self._made[find] = self.now(find)
        samples = self.history.since(number)
        left = max(0.0, self._due - self._clock())
        found = {**self._made[find], "samples": samples, "next": round(left, 3)}
        return as_json(found, compact=True)._replace(fields=FENCE)

    def now(self, find: str = "") -> dict[str, Any]:
        """Return how all is at this moment; text, numbers, lists and dicts."""
        view = self.view
        whole, agents, servers = view.whole(), view.agents(), view.states()
        names = list(servers)
        states = [state for state, _ in servers.values()]
        return {
            "start": self.start,
            "time": round(time.time(), 3),
            "up": round(view.up_seconds, 3),
            "policy": whole.policy,
            "threshold": whole.threshold,
            "tokens": whole.tokens,
            "tells": whole.tells,
            "bounds": BUCKETS,
            "workers": {
                "count": whole.workers,
                "silent": whole.silent,
                # without agents each holds its own tasks at a server to its own threshold
                "apart": 1 if agents else whole.workers,
            },
            "health": self._health(whole, servers, agents)._asdict(),
            "agents": {key: value for key, value in agents.items() if key != "of"},
            "servers": self._servers(names, states, find, agents.get("of", {})),
            "events": [event._asdict() for event in self.events.told],
        }

    # -- inside ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Let pages fetch all of the past: at each start, and where its columns change."""
        self.start = f"{time.time_ns():x}"

    def _health(
        self, whole: Whole, servers: Mapping[str, tuple[str, str]], agents: Mapping[str, Any]
    ) -> Any:
        trouble = sorted(
            (Trouble(name, *how) for name, how in servers.items() if how[0] != State.UP),
            key=lambda one: STATES.index(one.state),
        )
        return health(
            len(servers),
            sum(state in (State.UP, SLOW) for state, _ in servers.values()),
            trouble,
            draining=whole.draining,
            under_way=whole.under_way,
            queued=whole.queued,
            requests=self.history.change("proxy_requests_total", MINUTE),
            errors=self.history.change("errors_total", MINUTE),
            unheard=[
                Trouble(name, one["state"], one["why"])
                for name, one in agents.get("of", {}).items()
                if one["state"] in UNHEARD and servers[name][0] in (State.UP, SLOW)
            ],
            deaf=bool(agents.get("deaf")),
            workers=whole.workers,
            silent=whole.silent,
        )

    def _servers(
        self, names: Sequence[str], states: Sequence[str], find: str, agents: Mapping[str, Any]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {
            "count": len(names),
            "states": dict(Counter(states)),
            "groups": None,
        }
        shown = names
        if find:
            shown = [name for name in names if find.lower() in name.lower()]
        found["found"] = len(shown)
        if len(names) > MOST:
            slots = dict(zip(names, map(self.view.slots, names), strict=True))
            rank = dict(zip(names, map(STATES.index, states), strict=True))
            found["groups"] = groups(names, states, list(slots.values()))
            shown = sorted(shown, key=lambda name: (rank[name], -slots[name]))[:ROWS]
        found["rows"] = self._rows(shown, agents)
        return found

    def _rows(self, names: Sequence[str], agents: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows, counted = self.view.rows(names)
        at = self.view.up_seconds
        for row, now in zip(rows, counted, strict=True):
            change = self.minute.change(at, row["name"], now)
            if change is not None:
                seconds, more = change
                grown = dict(zip(COUNTED, more.tolist(), strict=True))
                row["rate"] = round(grown["started"] / seconds, 3)
                row["failures"] = int(grown["failures"])
                if grown["ok"]:
                    row["mean"] = round(grown["seconds"] / grown["ok"], 6)
            if row["name"] in agents:
                row["agent"] = agents[row["name"]]
        return rows


class Asking:
    """What the page shows of workers, who are asked for it.

    Of servers one by one they are asked only while somebody looks, and every ten seconds for what
    they have counted.
    """

    def __init__(self, view: Joined, clock: Callable[[], float] = time.monotonic) -> None:
        self.view, self._clock = view, clock
        self.data = Dashboard(view, clock)
        self._sampling: asyncio.Task[None] | None = None
        self._looked = -LOOKS  # when somebody last did
        self._known = False  # whether servers were asked for since the last sample

    def tick(self) -> None:
        """Begin to take a sample, if one is due and none is being taken."""
        if self.data.due() and (self._sampling is None or self._sampling.done()):
            self._sampling = asyncio.get_running_loop().create_task(self.sample())

    async def sample(self) -> None:
        """Ask, and take a sample."""
        looked = self._clock() - self._looked < LOOKS
        counts = self.data.minute.due(self.view.up_seconds)
        await self.view.ask(SERVERS if looked else COUNTS if counts else WHOLE)
        self._known = looked
        self.data.sample()

    async def answer(self, query: Mapping[str, str]) -> Answer:
        """Return /history."""
        self._looked = self._clock()
        if not self._known:
            await self.view.ask(SERVERS)
            self._known = True
            self.data.forget()
        return self.data.answer(query)


def groups(
    names: Sequence[str], states: Sequence[str], slots: Sequence[int]
) -> list[dict[str, Any]]:
    """Return groups of neighbours, at most `MOST`, as even as can be."""
    edges = np.linspace(0, len(names), MOST + 1).round().astype(int).tolist()
    found = []
    for start, end in pairwise(edges):
        inside = slots[start:end]
        found.append(
            {
                "first": names[start],
                "last": names[end - 1],
                "count": end - start,
                "slots": sum(inside),
                "least": min(inside),
                "most": max(inside),
                "states": dict(Counter(states[start:end])),
            }
        )
    return found


# -- the page -----------------------------------------------------------------------------------

# Everything is in the page, and nothing else may run in it, be loaded by it or frame it.
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
FENCE = (
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)


@cache
def page() -> Answer:
    """Return the page; the same for every dispatcher."""
    files = resources.files("equipoise.web")

    def file(name: str) -> str:
        return files.joinpath(name).read_text(encoding="utf-8")

    style = paper_css() + file("dashboard.css")
    script = file("dashboard.js")
    text = file("dashboard.html")
    for figure in FIGURES:
        text = text.replace(f'data-figure="{figure.key}"', _titled(figure.key))
    parts = {"style": f"\n{style}", "script": f"\n{script}", "meanings": _meanings()}
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    policy = POLICY.format(script=_hash(parts["script"]), style=_hash(parts["style"]))
    fields = (("Content-Security-Policy", policy), *FENCE)
    return Answer("text/html; charset=utf-8", text, fields=fields)


def _titled(key: str) -> str:
    return f'data-figure="{key}" title="{esc(told(key))}"'


def _meanings() -> str:
    return "".join(
        f"<dt>{esc(figure.name)}</dt><dd>{esc(figure.meaning)}<br><code>{esc(figure.formula)}</code></dd>"
        for figure in FIGURES
    )


def _hash(text: str) -> str:
    """Return how a policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
