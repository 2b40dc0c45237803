"""A fleet for tests of the proxy: `Dispatch` over a real core, with account of every slot."""

from collections import Counter

from equipoise.live.core import Core


class Fleet:
    """Servers by name, chosen by the core; every slot is followed from its choice to its end."""

    def __init__(self, servers, policy="jsq", *, limit=None, seed=1):
        self.addresses = dict(servers)
        self.core = Core(policy, list(self.addresses), seed=seed, limit=limit)
        self.taken = {}  # slot -> what has happened to it
        self.ends = Counter()  # (server, outcome)
        self.why = []  # of not_sent
        self.chosen = Counter()
        self.peak = Counter()
        self.now = Counter()
        self.records = []
        self.logged = 0
        self.calls = []
        self.wrong = []  # releases of what was not taken

    def choose(self, exclude=None):
        slot = self.core.choose()
        refused = []
        while slot is not None and slot.server.name == exclude and len(refused) < 8:
            refused.append(slot)
            slot = self.core.choose()
        if slot is not None and slot.server.name == exclude:
            refused.append(slot)
            slot = None
        for other in refused:
            self.core.not_sent(other)
        if slot is not None:
            name = slot.server.name
            self.taken[slot] = "chosen"
            self.chosen[name] += 1
            self.now[name] += 1
            self.peak[name] = max(self.peak[name], self.now[name])
        return slot

    def address(self, slot):
        return self.addresses[slot.server.name]

    def started(self, slot):
        if self.taken.get(slot) != "chosen":
            self.wrong.append(("started", slot))
        self.taken[slot] = "started"
        return b""

    def finished(self, slot, outcome, seconds):
        if self.taken.pop(slot, None) != "started" or seconds < 0:
            self.wrong.append((outcome, slot))
        self.ends[slot.server.name, outcome] += 1
        self.core.finished(slot)
        self._freed(slot)

    def not_sent(self, slot, why):
        if self.taken.pop(slot, None) is None:
            self.wrong.append(("not_sent", slot))
        self.ends[slot.server.name, "not_sent"] += 1
        self.why.append(why)
        self.core.not_sent(slot)
        self._freed(slot)

    def on_freed(self, call):
        self.calls.append(call)

    def log(self, record):
        self.logged += 1
        self.records.append(record)

    def _freed(self, slot):
        self.now[slot.server.name] -= 1
        for call in self.calls:
            call()

    def settled(self):
        """Whether every slot came back, once."""
        return (
            not self.wrong
            and not self.taken
            and self.core.spurious == 0
            and not any(self.core.lengths().values())
            and sum(self.chosen.values()) == sum(self.ends.values())
        )

    def account(self):
        """The ends of all slots, whichever server."""
        total = Counter()
        for (_, outcome), count in self.ends.items():
            total[outcome] += count
        return dict(total)
