"""Lines between dispatchers and agents: what is said comes back, and nothing else gets in."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.live.wire import (
    KINDS,
    MOST_LINE,
    MOST_OVER,
    PROTOCOL,
    Announce,
    Ask,
    Beat,
    Hello,
    Message,
    Over,
    Welcome,
    WireError,
    line,
    of_agent,
    of_dispatcher,
    task,
)

whole = st.integers(0, 2**53 - 1)
name = st.from_regex(r"[0-9A-Za-z._-]{1,64}", fullmatch=True)
seconds = st.floats(-1e12, 1e12)
words = st.text(max_size=50)
params = st.dictionaries(words, st.none() | st.booleans() | whole | seconds | words, max_size=5)
period = st.none() | st.floats(1e-9, 1e8)
OF_AGENTS = [
    st.builds(Welcome, words, name, st.none() | whole, seconds),
    st.builds(Message, whole, whole, whole, st.sampled_from(KINDS), whole),
    st.builds(Beat, whole),
]
OF_DISPATCHERS = [
    st.builds(Hello, words, name, words, params, whole, period, seconds),
    st.builds(Announce, whole, whole),
    st.builds(Over, st.lists(whole, max_size=MOST_OVER).map(tuple)),
    st.builds(Ask),
    st.just(Beat()),
]
KEYS = ("hello", "m", "received", "sequence", "kind", "number", "beat", "announce", "over", "ask")
KEYS += ("version", "generation", "dispatcher", "policy", "params", "announcement", "period")
KEYS += ("time", "limit")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([1, "1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), values, max_size=9)


@given(st.one_of(OF_AGENTS))
def test_what_an_agent_says_is_what_a_dispatcher_reads(said):
    text = line(said)

    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    assert of_agent(text) == said


@given(st.one_of(OF_DISPATCHERS))
def test_what_a_dispatcher_says_is_what_an_agent_reads(said):
    assert of_dispatcher(line(said)) == said


def test_a_message_is_the_object_on_the_page():
    assert json.loads(line(Message(8, 1234, 17, "leave"))) == {
        "m": 8,
        "received": 1234,
        "sequence": 17,
        "kind": "leave",
    }
    assert json.loads(line(Message(0, 1, 2, "answer", 3)))["number"] == 3


def tried(read, text):
    """What is read, or None where it is refused in a line."""
    try:
        return read(text)
    except WireError as error:
        said = str(error)
    assert said.isprintable()
    assert 0 < len(said) < 400
    return None


@settings(max_examples=300)
@given(st.binary(max_size=200) | objects.map(lambda found: json.dumps(found).encode()))
def test_garbage_is_refused_or_read_and_nothing_else_happens(text):
    for read in (of_agent, of_dispatcher):
        found = tried(read, text)
        if found is not None and not isinstance(found, Hello):  # others are all of the line
            assert read(line(found)) == found


@given(st.sampled_from(OF_AGENTS + OF_DISPATCHERS).flatmap(lambda one: one), st.data())
def test_a_line_that_is_cut_or_spoilt_is_refused_or_read_and_nothing_else_happens(said, data):
    text = bytearray(line(said))
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(text)))

    for read in (of_agent, of_dispatcher):
        tried(read, bytes(text))
        tried(read, bytes(text[:cut]))


HELLO = {"hello": 1, "version": "0.1.0", "dispatcher": "d.1", "policy": "jiq", "params": {}}
HELLO |= {"announcement": 0, "period": None, "time": 0.0}
WELCOME = {"hello": 1, "version": "0.1.0", "generation": "a.1", "limit": None, "time": 0.0}
MESSAGE = {"m": 1, "received": 0, "sequence": 1, "kind": "leave"}


@pytest.mark.parametrize(
    ("read", "whole", "change", "says"),
    [
        (of_dispatcher, HELLO, {"hello": 2}, "speaks protocol 2 and this one speaks 1"),
        (of_dispatcher, HELLO, {"hello": True}, "speaks protocol True"),
        (of_dispatcher, HELLO, {"version": 1}, "version"),
        (of_dispatcher, HELLO, {"dispatcher": "a b"}, "dispatcher"),
        (of_dispatcher, HELLO, {"dispatcher": "a" * 65}, "dispatcher"),
        (of_dispatcher, HELLO, {"policy": None}, "policy"),
        (of_dispatcher, HELLO, {"params": [1]}, "params"),
        (of_dispatcher, HELLO, {"announcement": -1}, "announcement"),
        (of_dispatcher, HELLO, {"announcement": 1.5}, "announcement"),
        (of_dispatcher, HELLO, {"period": 0}, "period"),
        (of_dispatcher, HELLO, {"period": float("nan")}, "period"),
        (of_dispatcher, HELLO, {"time": float("inf")}, "time"),
        (of_dispatcher, HELLO, {"time": 10**400}, "time"),
        (of_dispatcher, {"announce": 1, "number": 1}, {"number": True}, "number"),
        (of_dispatcher, {"over": []}, {"over": 7}, "over"),
        (of_dispatcher, {"over": []}, {"over": [1, -1]}, "over"),
        (of_dispatcher, {"over": []}, {"over": [1] * (MOST_OVER + 1)}, "over"),
        (of_dispatcher, {}, {}, "none of announce, over, ask, beat, hello"),
        (of_agent, WELCOME, {"hello": "9"}, "run the same version on both sides"),
        (of_agent, WELCOME, {"generation": ""}, "generation"),
        (of_agent, WELCOME, {"limit": -1}, "limit"),
        (of_agent, WELCOME, {"time": None}, "time"),
        (of_agent, MESSAGE, {"kind": "finish"}, "kind"),
        (of_agent, MESSAGE, {"m": 2**53}, "below 2\\^53"),
        (of_agent, MESSAGE, {"received": "1"}, "received"),
        (of_agent, MESSAGE, {"sequence": None}, "sequence"),
        (of_agent, {}, {}, "none of m, beat, hello"),
    ],
)
def test_each_mistake_is_said(read, whole, change, says):
    if whole:
        read(json.dumps(whole).encode())  # without it the line is good
    with pytest.raises(WireError, match=says) as caught:
        read(json.dumps({**whole, **change}).encode())

    assert str(caught.value).isprintable()


def test_a_line_without_end_is_refused():
    with pytest.raises(WireError, match="more than"):
        of_agent(b" " * MOST_LINE + b"{}")
    with pytest.raises(WireError, match="not a JSON object"):
        of_dispatcher(b"[" * MOST_LINE)


def test_the_protocol_is_told_apart_by_its_number():
    assert json.loads(line(Welcome("9.9", "g", None, 0.0)))["hello"] == PROTOCOL


@given(name, st.integers(0, 10**15 - 1))
def test_a_task_says_whose_it_is_and_its_number(dispatcher, number):
    assert task(f"{dispatcher} {number}".encode()) == (dispatcher, number)


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"a", b"a ", b" 1", b"a -1", b"a 1 2", b"a  1", b"a 1.5", b"a b 1", b"a\t1"),
        *(b"\xe9 1", b"a " + b"1" * 16, b"a" * 65 + b" 1", b"a \xd9\xa3", b"a \xb2"),
    ],
)
def test_a_task_that_makes_no_sense_is_nobodys(value):
    assert task(value) is None


@given(st.binary(max_size=90))
def test_no_value_of_the_header_does_anything_else(value):
    found = task(value)

    assert found is None or b"%b %d" % (found[0].encode(), found[1]) in (
        value,
        value.partition(b" ")[0] + b" %d" % found[1],
    )
