"""What makes reading fast changes nothing: numbers, times and patterns against the plain way."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.logs import text as t
from equipoise.logs.base import _decimals, numbers, whole
from equipoise.logs.lines import Chunk
from equipoise.logs.read import FORMATS
from equipoise.logs.tasks import Batch
from equipoise.logs.text import text_reader
from equipoise.logs.times import Clock, read_iso

decimal = st.decimals(0, 10**12, places=3, allow_nan=False).map(lambda x: f"{x:f}".encode())
printed = st.floats(-1e20, 1e20, allow_nan=False).map(lambda x: repr(x).encode())
texts = st.lists(st.one_of(st.integers(-9, 10**18).map(lambda i: b"%d" % i), decimal, printed))


@given(texts)
def test_numbers_are_those_of_float(some):
    assert _decimals(some).tolist() == [float(text) for text in some]
    assert numbers(some * 40, 0.001).tolist() == [float(text) * 0.001 for text in some * 40]


@pytest.mark.parametrize("text", [b"1.2.3", b"1-2", b"0x1f", b"1,5", b".", b"--", b"12a"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="could not convert"):
        _decimals([b"1.5", text])


def test_a_dash_or_nothing_is_no_value():
    assert np.isnan(_decimals([b"-", b"", b"7"])).tolist() == [True, True, False]
    assert whole([b"-", b"", b"7"], -1, np.int64).tolist() == [-1, -1, 7]


def test_times_of_one_width_are_those_read_one_by_one():
    alike = [b"2024-03-05T12:00:%02d.%03dZ" % (i % 60, i % 1000) for i in range(500)]
    mixed = [*alike, b"2024-03-05T12:00:07Z", b"2024-03-05T13:00:07.25+01:00"]

    one_by_one = Clock(read_iso).fractional(mixed)

    assert Clock(read_iso).fractional(alike) == pytest.approx(one_by_one[:500], abs=1e-6)
    assert one_by_one[-2:] - one_by_one[0] == pytest.approx([7.0, 7.25])


COMMON = '10.0.0.1 - joe [05/Mar/2024:13:00:07 +0100] "GET /a HTTP/1.1" 200 512'
TAILS = {
    "combined": ' "-" "curl/8"',
    "apache-us": ' "-" "curl/8" 2500',
    "nginx-timed": ' "-" "curl/8" 2.500 2.250',
    "nginx-ingress": ' "-" "curl/8" 89 2.500 [web] [] 10.1.0.7:80 59 2.250 200 529a00',
    "traefik-text": ' "-" "curl/8" 42 "web@docker" "http://10.1.0.7:80" 250ms',
}
HAPROXY = (
    "10.0.0.1:33317 [05/Mar/2024:12:00:07.655] front back/s1 100/0/30/69/1009 200 2750 - - ---- "
    '1/1/1/1/0 0/0 "GET /index.html HTTP/1.1"'
)
ENVOY = (
    '[2024-03-05T12:00:07.655Z] "GET /a HTTP/1.1" 200 - 0 512 226 100 "10.0.0.1" "curl/8" "id" '
    '"example.org" "10.0.2.1:80"'
)
GOOD = {name: COMMON + tail for name, tail in TAILS.items()} | {
    "haproxy": HAPROXY,
    "envoy-text": ENVOY,
}
PATTERNS = {
    "combined": (t.HEAD + b"(?: .*)?", t.QUICK_HEAD + b"(?: .*)?"),
    "haproxy": (t.HAPROXY_LINE, t.HAPROXY_QUICK),
    "envoy-text": (t.ENVOY_LINE, t.ENVOY_QUICK),
}
# what people and attackers put into requests and agents, and what breaks lines
SPOILT = (
    ("curl/8", 'a "quoted" agent'),
    ("curl/8", 'a \\" 9.9 9.9'),
    ("/a", '/\\" 200 5 HTTP/1.1'),
    ("GET /a HTTP/1.1", "\\x16\\x03\\x01"),
    ("GET /a HTTP/1.1", "-"),
    ('"', ""),
    ("[", "("),
    ("]", ""),
    ("200", "2oo"),
    ("HTTP/1.1", "HTTP/2"),
)


@pytest.mark.parametrize("name", GOOD)
@given(st.lists(st.integers(-3, len(SPOILT) - 1), min_size=1, max_size=12))
def test_lines_read_together_are_those_read_one_by_one(name, choices):
    """A good line, in which something may be spoilt, as often as not."""
    form, good = FORMATS[name], GOOD[name]
    lines = [good.replace(*SPOILT[i], 1).encode() if i >= 0 else good.encode() for i in choices]

    together = form.read(Chunk(b"\n".join(lines)))
    alone = [form.read([line]) for line in lines]

    assert sorted(together.place) == [i for i, one in enumerate(alone) if one.place.size]
    for column in ("arrival", "duration", "service", "status", "size"):
        found = [x for one in alone for x in getattr(one, column)]
        assert np.array_equal(getattr(together, column), found, equal_nan=True), column
    assert sorted(together.rejected) == [
        (i, reason) for i, one in enumerate(alone) for _, reason in one.rejected
    ]


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("spoilt", SPOILT, ids=lambda s: s[1] or f"no {s[0]}")
def test_the_quick_pattern_takes_no_line_that_the_pattern_proper_does_not(name, spoilt):
    proper, quick = (re.compile(p) for p in PATTERNS[name])
    line = GOOD.get(name, COMMON).replace(*spoilt, 1).encode()
    found = quick.fullmatch(line)

    assert quick.fullmatch(GOOD[name].encode())
    if found is not None:
        full = list(proper.fullmatch(line).groups())
        if len(found.groups()) < len(full):
            assert b" HTTP/" in full.pop(1)[-10:]
        assert list(found.groups()) == full


def test_a_match_that_runs_over_a_lines_end_is_done_again():
    """The first line lacks a quote, so that a set without line ends takes it from the second."""
    batches = []

    def rows(places, columns):
        batches.append(columns)
        k = places.size
        nan, zero = np.full(k, 0.0), np.zeros(k, int)
        return Batch(places, nan, nan, nan, None, zero, zero)

    form = text_reader(rb'a "([^"\n]*)" (\d)', rows, quick=rb'a "([^"]*)" (\d)')
    batch = form(Chunk(b'a "x\nb" 1\na "y" 2'))

    assert batches == [[(b"y",), (b"2",)]]
    assert [i for i, _ in batch.rejected] == [0, 1]
