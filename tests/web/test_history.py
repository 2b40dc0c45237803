"""What the dashboard keeps: bounded, and what was counted."""

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from equipoise.live import reading
from equipoise.live.dispatch import Exchange
from equipoise.live.fleet import Backend, Event, Fleet
from equipoise.live.health import Rules
from equipoise.live.metrics import render
from equipoise.live.proxy import Proxy
from equipoise.live.reading import Reading
from equipoise.web.history import Events, History, Minute


class Service:
    """As much of a service as is read: a fleet and a proxy that does not listen."""

    def __init__(self, servers=3, policy="threshold(level=1)", seed=1):
        backends = [Backend(f"s{i}", "127.0.0.1", i + 1) for i in range(servers)]
        self.fleet = Fleet(policy, backends, Rules(check="none"), seed=seed)
        self.proxy = Proxy(self.fleet)


def exchange(status=200, server="s0", outcome="ok", total=0.5):
    return Exchange(0.0, "", "", "", status, 0, 0, server, outcome, 0, 0, 0, 0, total, "", "")


def work(fleet, tasks, ends):
    """Send tasks, end some of them, and log a few that went wrong."""
    slots = [fleet.choose() for _ in range(tasks)]
    for slot in slots:
        fleet.started(slot)
    for slot in slots[:ends]:
        fleet.finished(slot, "ok", 0.02)
        fleet.log(exchange(server=slot.server.name, total=0.03))
    fleet.finished(slots[ends], "timeout", 1.0)
    fleet.log(exchange(504, outcome="timeout"))
    fleet.log(exchange(503, None, "unavailable"))
    fleet.log(exchange(500))
    fleet.log(exchange(400, None, "refused"))


def in_metrics(service):
    """{(name, labels): value} of what Prometheus would read."""
    text = render(service.fleet, service.proxy.figures())
    return {
        (sample.name.removeprefix("equipoise_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counted(at, requests, buckets=(0, 0)):
    return Reading(at, {"requests": requests}, list(buckets))


# -- what is read -------------------------------------------------------------------------------


def test_every_number_that_is_read_is_in_the_metrics_under_its_name():
    service = Service()
    work(service.fleet, 8, 4)
    found = reading.read(service)
    metrics = in_metrics(service)
    up = {
        dict(labels)["server"]
        for (name, labels), value in metrics.items()
        if name == "server_state" and ("state", "up") in labels and value == 1
    }
    slots = [metrics["server_slots", frozenset({("server", name)})] for name in up]
    derived = {"servers_up": len(up), "least_slots": min(slots), "most_slots": max(slots)}
    sums = {}
    for (name, _), value in metrics.items():
        sums[name] = sums.get(name, 0) + value

    for name, value in found.values.items():
        expected = derived[name] if name in derived else sums[name]
        assert value == pytest.approx(expected), name
    accumulated = np.cumsum(found.buckets)
    for end, value in zip(
        [str(end).removesuffix(".0") for end in (0.025, 0.05, 0.5, "+Inf")],
        accumulated[[4, 5, 8, 16]],
        strict=True,
    ):
        assert metrics["request_duration_seconds_bucket", frozenset({("le", end)})] == value
    assert found.values["errors_total"] == 3, "timeout, unavailable, status 500; a bad one is not"
    assert found.values["server_started_total"] == 8
    assert found.values["server_slots"] == 3


def test_what_a_server_did_is_still_counted_when_it_has_left():
    service = Service()
    work(service.fleet, 9, 8)
    for penalty in list(service.fleet.backends["s0"].penalties):
        service.fleet._forgive(service.fleet.backends["s0"], penalty)
    before = reading.read(service).values
    empty = next(name for name in service.fleet.backends if not service.fleet.slots(name))
    assert service.fleet.backends[empty].started > 0
    service.fleet.remove(empty)
    after = reading.read(service).values

    assert empty not in service.fleet.backends
    for name in before:
        if name.endswith(("_total", "_sum", "_count")):
            assert after[name] == before[name], name


def test_readings_of_several_dispatchers_add_up():
    ones = [Service(seed=i) for i in range(3)]
    for i, service in enumerate(ones):
        work(service.fleet, 5 + i, 2 + i)
    parts = [reading.read(service) for service in ones]
    whole = reading.total(parts)

    assert whole.values["server_started_total"] == 5 + 6 + 7
    assert whole.values["server_duration_seconds_count"] == 2 + 3 + 4
    assert whole.values["threshold"] == 1
    assert whole.values["servers_up"] == 3
    assert sum(whole.buckets) == sum(service.fleet.lasted[i] for service in ones for i in range(17))
    assert whole.values.keys() == parts[0].values.keys()


# -- the ring -----------------------------------------------------------------------------------


def test_the_ring_has_the_last_samples_by_their_numbers():
    ring = History(kept=5)
    for i in range(13):
        ring.add(counted(i + 0.25, i * i, (i, 2 * i)))

    assert ring.since(11) == {
        "first": 11,
        "at": [11.25, 12.25],
        "values": {"requests": [121, 144]},
        "buckets": [[11, 12], [22, 24]],
    }
    assert ring.since(0)["first"] == 8
    assert ring.since(0)["at"] == [8.25, 9.25, 10.25, 11.25, 12.25]
    assert ring.since(13) == {
        "first": 13,
        "at": [],
        "values": {"requests": []},
        "buckets": [[], []],
    }
    assert ring.since(99) == ring.since(13), "nobody has samples that are yet to come"
    assert History().since(0) == {"first": 0, "at": [], "values": {}, "buckets": []}


def test_an_hour_takes_no_more_memory_than_ten_minutes():
    ring, minute = History(), Minute()
    names = [f"s{i}" for i in range(10_000)]
    for second in range(3600):
        ring.add(counted(float(second), second, range(17)))
        if minute.due(float(second)):
            minute.add(float(second), names, np.zeros((10_000, 4)))
        if second == 700:
            early = ring.bytes, minute.bytes

    assert (ring.bytes, minute.bytes) == early
    assert ring.bytes < 200_000
    assert minute.bytes == 7 * 10_000 * 4 * 8, "a minute, every ten seconds"
    assert len({id(kept.row) for kept in minute._kept}) == 1, "names are kept once"
    assert len(ring.since(0)["at"]) == 601


def test_growth_is_that_of_the_time_that_was_asked_for():
    ring = History(kept=100)
    assert ring.change("requests", 60) == 0
    for second in range(250):
        ring.add(counted(second + 0.01 * (second % 3), 7 * second))

    assert ring.change("requests", 60) == 7 * 60
    assert ring.change("requests", 10) == 7 * 10
    assert ring.change("requests", 500) == 7 * 99, "as far as it goes back"


# -- servers ------------------------------------------------------------------------------------


def test_a_server_is_watched_for_a_minute_or_since_it_is_there():
    minute = Minute()
    for second in range(0, 130, 10):
        names = ["a", "b"] if second >= 100 else ["a"]
        minute.add(float(second), names, np.array([[second, 0.0, 0.0, 0.0]] * len(names)))

    seconds, more = minute.change(125.0, "a", np.array([125.0, 3.0, 1.5, 0.0]))
    assert seconds == 65.0
    assert more.tolist() == [65.0, 3.0, 1.5, 0.0]
    assert minute.change(125.0, "b", np.array([105.0, 0, 0, 0]))[0] == 25.0
    assert minute.change(125.0, "c", np.array([1.0, 0, 0, 0])) is None


def test_a_server_that_was_taken_in_anew_begins_anew():
    minute = Minute()
    minute.add(0.0, ["a"], np.array([[100.0, 90.0, 9.0, 0.0]]))
    minute.add(10.0, ["a"], np.array([[2.0, 1.0, 0.1, 0.0]]))

    seconds, more = minute.change(15.0, "a", np.array([7.0, 5.0, 0.5, 0.0]))
    assert seconds == 5.0
    assert more.tolist() == pytest.approx([5.0, 4.0, 0.4, 0.0])


# -- events -------------------------------------------------------------------------------------


def test_a_threshold_that_goes_to_and_fro_is_one_event():
    events = Events(most=5)
    happened = [Event(0.0, "a is up"), Event(1.0, "a is down: gone")]
    for second in range(2, 500):
        happened.append(Event(float(second), f"threshold {second % 2} -> {1 - second % 2}"))
        events.add(happened[-200:])  # as far as a fleet remembers
    happened.append(Event(500.0, "a is up"))
    events.add(happened[-200:])
    events.add(happened[-200:])

    assert [event.text for event in events.told] == [
        "a is up",
        "a is down: gone",
        "threshold 0 -> 0",
        "a is up",
    ]
    assert events.told[2][0] == 499.0
    assert events.told[2][2:4] == (498, 2.0)


def test_no_more_events_are_kept_than_that():
    events = Events(most=5)
    for i in range(50):
        events.add([Event(float(i), f"s{i} is up")])

    assert [event.text for event in events.told] == [f"s{i} is up" for i in range(45, 50)]


def test_a_threshold_that_comes_and_goes_with_its_policy_is_there_when_it_was():
    service, history = Service(policy="jsq"), History(10)

    new = []
    for policy in ("jsq", "threshold(level=3)", "threshold(level=3)", "random"):
        service.fleet.govern(policy)
        new.append(history.add(reading.read(service)))

    assert new == [True, True, False, False]  # the first has all of its columns
    assert history.since(0)["values"]["threshold"] == [None, 3, 3, None]
