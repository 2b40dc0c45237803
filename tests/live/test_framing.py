"""Heads and chunks without sockets: what is accepted, what is refused, as other readers say."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live.readers import strict_head

from equipoise.live.framing import (
    CHUNKED,
    UNTIL_CLOSE,
    Chunks,
    Refusal,
    RequestReader,
    incomplete,
    read_response,
)
from equipoise.live.limits import Limits

LIMITS = Limits(body=1000)


def request(*fields, first="GET / HTTP/1.1", host=True):
    lines = [first, *(["Host: x"] if host else []), *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def read(head, limits=LIMITS):
    return RequestReader(limits).read(head)


def status(head, limits=LIMITS):
    with pytest.raises(Refusal) as caught:
        read(head, limits)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value.status


ACCEPTED = {
    "no body": (request(), 0),
    "a body by length": (request("Content-Length: 12"), 12),
    "an empty body": (request("Content-Length: 0"), 0),
    "leading zeros": (request("content-length: 007"), 7),
    "blanks around a value": (request("Content-Length: \t 5 \t"), 5),
    "no blank": (request("Content-Length:5"), 5),
    "chunks": (request("Transfer-Encoding: chunked"), CHUNKED),
    "chunks in capitals": (request("TRANSFER-ENCODING: CHUNKED"), CHUNKED),
    "an empty value": (request("X:"), 0),
    "high bytes in a value": (request("X: \xe9\xff"), 0),
    "tab in a value": (request("X: a\tb"), 0),
    "asterisk": (request(first="OPTIONS * HTTP/1.1"), 0),
    "an old one without Host": (request(first="GET / HTTP/1.0", host=False), 0),
    "an address of IPv6": (request("Host: [::1]:80", host=False), 0),
    "an odd path": (request(first="GET //a/../b?c={d}|\"e'[f] HTTP/1.1"), 0),
    "an offer to upgrade": (request("Connection: Upgrade", "Upgrade: websocket"), 0),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_good_head_is_accepted_with_its_length(kind):
    head, length = ACCEPTED[kind]

    found = read(head)

    assert found.length == length
    assert found.method == head.split(b" ")[0]
    assert found.target == head.split(b" ")[1]


REFUSED = {
    "two lengths that differ": (request("Content-Length: 1", "Content-Length: 2"), 400),
    "two lengths that agree": (request("Content-Length: 1", "Content-Length: 1"), 400),
    "a list of lengths": (request("Content-Length: 1, 1"), 400),
    "length and chunks": (request("Content-Length: 1", "Transfer-Encoding: chunked"), 400),
    "chunks and length": (request("Transfer-Encoding: chunked", "Content-Length: 1"), 400),
    "a signed length": (request("Content-Length: +1"), 400),
    "a negative length": (request("Content-Length: -1"), 400),
    "a length in hexadecimal": (request("Content-Length: 0x10"), 400),
    "an empty length": (request("Content-Length:"), 400),
    "an endless length": (request("Content-Length: " + "9" * 40), 400),
    "a length with _": (request("Content_Length: 5"), 400),
    "a coding with _": (request("Transfer_Encoding: chunked"), 400),
    "two codings": (request("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 400),
    "a list of codings": (request("Transfer-Encoding: gzip, chunked"), 501),
    "chunked not last": (request("Transfer-Encoding: chunked, gzip"), 400),
    "chunked twice": (request("Transfer-Encoding: chunked, chunked"), 501),
    "another coding": (request("Transfer-Encoding: identity"), 400),
    "an odd coding": (request("Transfer-Encoding: xchunked"), 400),
    "a quoted coding": (request('Transfer-Encoding: "chunked"'), 400),
    "a coding with vertical tab": (request("Transfer-Encoding: \x0bchunked"), 400),
    "a coding in 1.0": (request("Transfer-Encoding: chunked", first="POST / HTTP/1.0"), 400),
    "a coding with a blank before the colon": (request("Transfer-Encoding : chunked"), 400),
    "a blank before the colon": (request("X : a"), 400),
    "a folded line": (request("X: a", " b"), 400),
    "a fold before any field": (b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "no colon": (request("Xa"), 400),
    "no name": (request(": a"), 400),
    "a bare LF": (b"GET / HTTP/1.1\r\nHost: x\nX: a\r\n\r\n", 400),
    "a bare LF after the request line": (b"GET / HTTP/1.1\nHost: x\r\n\r\n", 400),
    "a bare LF before a coding": (request("X: a\nTransfer-Encoding: chunked"), 400),
    "a bare CR": (request("X: a\rb"), 400),
    "NUL": (request("X: a\0b"), 400),
    "a control character": (request("X: a\x01b"), 400),
    "DEL": (request("X: a\x7fb"), 400),
    "NUL in a name": (request("X\0: a"), 400),
    "a high byte in a name": (request("X\xe9: a"), 400),
    "no Host": (request(host=False), 400),
    "two Hosts": (request("Host: y"), 400),
    "an empty Host": (request("Host:", host=False), 400),
    "a Host with a path": (request("Host: x/y", host=False), 400),
    "a list of Hosts": (request("Host: x, y", host=False), 400),
    "a Host with an at": (request("Host: x@y", host=False), 400),
    "absolute form": (request(first="GET http://other/ HTTP/1.1"), 400),
    "authority form": (request(first="GET other:80 HTTP/1.1"), 400),
    "a path without slash": (request(first="GET index.html HTTP/1.1"), 400),
    "a fragment": (request(first="GET /a#b HTTP/1.1"), 400),
    "asterisk for another method": (request(first="GET * HTTP/1.1"), 400),
    "CONNECT": (request(first="CONNECT other:443 HTTP/1.1"), 405),
    "TRACE": (request(first="TRACE / HTTP/1.1"), 405),
    "an unknown method": (request(first="BREW / HTTP/1.1"), 501),
    "a small method": (request(first="get / HTTP/1.1"), 501),
    "no method": (request(first=" / HTTP/1.1"), 400),
    "no version": (request(first="GET /"), 400),
    "two blanks": (request(first="GET  / HTTP/1.1"), 400),
    "a blank in the target": (request(first="GET /a b HTTP/1.1"), 400),
    "a tab for a blank": (request(first="GET\t/ HTTP/1.1"), 400),
    "a high byte in the target": (request(first="GET /\xe9 HTTP/1.1"), 400),
    "a blank at the end": (request(first="GET / HTTP/1.1 "), 400),
    "version 2": (b"PRI * HTTP/2.0\r\n\r\n", 505),
    "version 0.9": (request(first="GET / HTTP/0.9"), 505),
    "version 1.2": (request(first="GET / HTTP/1.2"), 505),
    "version 1.10": (request(first="GET / HTTP/1.10"), 400),
    "a small version": (request(first="GET / http/1.1"), 400),
    "another protocol": (request(first="GET / SPDY/1.1"), 400),
    "an unknown expectation": (request("Expect: the unexpected"), 417),
    "a body too long": (request("Content-Length: 1001"), 413),
    "a long target": (request(first=f"GET /{'a' * 9000} HTTP/1.1"), 414),
    "a long head": (request("X: " + "a" * 40_000), 431),
    "many fields": (request(*["X: a"] * 9000), 431),
    "a cut of the length": (request("Content-Length: 5", "Connection: content-length"), 400),
    "a cut of the coding": (request("Connection: close, Transfer-Encoding"), 400),
    "a cut of the Host": (request("Connection: HOST"), 400),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_doubtful_head_is_refused(kind):
    head, expected = REFUSED[kind]

    assert status(head) == expected


def test_the_first_reader_needs_no_second_to_refuse(monkeypatch):
    """llhttp refuses much of this too; neither relies on the other, but for unknown methods."""
    monkeypatch.setattr(RequestReader, "_read_again", lambda self, request: None)

    for kind, (head, expected) in REFUSED.items():
        if "method" not in kind:
            assert status(head) == expected, kind


def test_the_second_reader_has_a_say(monkeypatch):
    """Where it sees no end, or an end too early, the request is refused."""
    monkeypatch.setattr(RequestReader, "on_message_complete", lambda self: None)

    assert status(request()) == 400
    assert read(request("Content-Length: 5")).length == 5


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_wrong_early_is_said_early(kind):
    """A head that will be refused for its bytes or size need not be waited for."""
    head, expected = REFUSED[kind]
    seen, refusal = 0, None
    for size in range(1, len(head) - 3, 97):
        refusal = refusal or incomplete(head[:size], seen, LIMITS)
        seen = size

    assert refusal is None or refusal.status == expected


@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_good_head_is_never_refused_before_it_is_complete(kind):
    head, _ = ACCEPTED[kind]

    for size in range(len(head)):
        assert incomplete(head[:size], max(0, size - 1), LIMITS) is None


def test_close_wins_wherever_it_stands():
    for fields, keep in {
        (): True,
        ("Connection: keep-alive",): True,
        ("Connection: Close",): False,
        ("Connection: close", "Connection: keep-alive"): False,
        ("Connection: keep-alive, close",): False,
    }.items():
        assert read(request(*fields)).keep_alive is keep
    old = "GET / HTTP/1.0"
    assert read(request(first=old)).keep_alive is False
    assert read(request("Connection: Keep-Alive", first=old)).keep_alive is True
    both = request("Connection: close", "Connection: keep-alive", first=old)
    assert read(both).keep_alive is False


def test_one_reader_reads_many_heads():
    reader = RequestReader(LIMITS)
    for head in (
        request(),
        request("Content-Length: 5", first="POST /1 HTTP/1.1"),
        request("Connection: upgrade", "Upgrade: h2c"),
        request("Transfer-Encoding: chunked", first="POST /2 HTTP/1.1"),
        request(),
        request("Connection: close"),
    ):
        assert reader.read(head).head == head


names = st.sampled_from(
    ["Content-Length", "content-length", "Transfer-Encoding", "Host", "Connection", "Expect", "X",
     "X-Forwarded-For", "Content_Length", "Transfer-Encoding ", "", "TE"]
)  # fmt: skip
values = st.sampled_from(
    ["5", "0", "05", "5, 5", "chunked", "Chunked", "gzip", "x", "keep-alive", "close", "host",
     "100-continue", "a\nb", "a\r\n b", "\0", " 5", "5\t", "", "chunked\r\nX: y", "\x0b5", "\x85"]
)  # fmt: skip
firsts = st.sampled_from(
    ["GET / HTTP/1.1", "POST /a HTTP/1.1", "GET  / HTTP/1.1", "GET / HTTP/1.0", "GET /\r HTTP/1.1",
     "PUT /%00 HTTP/1.1", "G / HTTP/1.1", "\r\nGET / HTTP/1.1", "DELETE /x HTTP/1.1\r"]
)  # fmt: skip


@settings(max_examples=400)
@given(first=firsts, fields=st.lists(st.tuples(names, values), max_size=5), host=st.booleans())
def test_what_is_accepted_a_strict_reader_reads_alike(first, fields, host):
    head = request(*(f"{name}: {value}" for name, value in fields), first=first, host=host)
    end = head.find(b"\r\n\r\n") + 4
    head = head[:end]

    try:
        found = read(head)
    except Refusal:
        return
    if not found.minor:
        return
    method, target, known = strict_head(head[:-4])
    given_fields = dict(known)
    assert (found.method, found.target) == (method, target)
    if found.length == CHUNKED:
        assert given_fields[b"transfer-encoding"] == b"chunked"
        assert b"content-length" not in given_fields
    else:
        assert b"transfer-encoding" not in given_fields
        assert found.length == int(given_fields.get(b"content-length", b"0"))
    forwarded = found.forward(b"Via: 1.1 test\r\n\r\n")
    again = strict_head(forwarded[:-4])
    assert again[:2] == (method, target)
    assert not {b"connection", b"te", b"keep-alive"} & {name for name, _ in again[2]}
    framing = {b"content-length", b"transfer-encoding", b"host"}
    assert [f for f in again[2] if f[0] in framing] == [f for f in known if f[0] in framing]


# -- chunks -----------------------------------------------------------------------------------


def chunk(data, line=None):
    return (line if line is not None else b"%x" % len(data)) + b"\r\n" + data + b"\r\n"


def feed(pieces, **how):
    """Feed pieces; return what was passed on and what is left after the end (None: not ended)."""
    chunks = Chunks(LIMITS, status=400, **how)
    passed = b""
    for i, piece in enumerate(pieces):
        part, rest = chunks.feed(piece)
        passed += part
        if rest is not None:
            return passed, rest + b"".join(pieces[i + 1 :])
    return passed, None


@settings(max_examples=200)
@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    trailers=st.lists(st.sampled_from([b"X: y\r\n", b"Sum: 1\r\n"]), max_size=2),
    lines=st.sampled_from([b"", b";a=b", b';a="b; \\" c"', b";a;b"]),
    after=st.sampled_from([b"", b"GET / HTTP/1.1\r\n", b"0\r\n\r\n"]),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_chunks_end_where_they_end_however_they_come(bodies, trailers, lines, after, cuts):
    sent = b"".join(chunk(body, b"%x" % len(body) + lines) for body in bodies)
    sent += b"0" + lines + b"\r\n" + b"".join(trailers) + b"\r\n"
    both = sent + after
    marks = sorted({0, len(both), *(cut % (len(both) + 1) for cut in cuts)})
    pieces = [both[a:b] for a, b in pairwise(marks)]

    assert feed(pieces) == (sent, after)
    assert feed(pieces, decode=True) == (b"".join(bodies), after)
    assert feed([bytes([byte]) for byte in both]) == (sent, after)
    assert feed([sent[:-1]])[1] is None


BAD_CHUNKS = {
    "no digits": b"\r\n",
    "not a digit": b"g\r\n",
    "a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a sign": b"+5\r\nhello\r\n",
    "a negative one": b"-1\r\n",
    "a blank before": b" 5\r\nhello\r\n",
    "a blank after": b"5 \r\nhello\r\n",
    "a bare LF": b"5\nhello\r\n",
    "a bare CR": b"5\rhello\r\n",
    "a bare LF in an extension": b"5;a\nhello\r\n",
    "an extension without a name": b"5;\r\nhello\r\n",
    "a blank before an extension": b"5 ;a\r\nhello\r\n",
    "an extension with an open quote": b'5;a="b\r\nhello\r\n',
    "NUL in an extension": b"5;\0\r\nhello\r\n",
    "too many digits": b"0000000000000005\r\nhello\r\n",
    "an overflow": b"ffffffffffffffff1\r\n",
    "data too long": b"5\r\nhello!\r\n",
    "data too short": b"5\r\nhell\r\n0\r\n\r\n",
    "an end by LF": b"5\r\nhello\n0\r\n\r\n",
    "a long extension": b"5;" + b"a" * 2000 + b"\r\nhello\r\n",
    "an endless extension": b"5;" + b"a" * 2000,
    "a folded trailer": b"0\r\nX: a\r\n b\r\n\r\n",
    "a trailer without colon": b"0\r\nX\r\n\r\n",
    "a length in the trailers": b"0\r\nContent-Length: 5\r\n\r\n",
    "a coding in the trailers": b"0\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a Host in the trailers": b"0\r\nHost: other\r\n\r\n",
    "a bare LF in the trailers": b"0\r\nX: y\n\r\n\r\n",
    "long trailers": b"0\r\n" + b"X: y\r\n" * 9000 + b"\r\n",
}


@pytest.mark.parametrize("kind", BAD_CHUNKS)
@pytest.mark.parametrize("size", [1, 10_000_000])
def test_a_wrong_chunk_is_refused_and_its_line_not_passed_on(kind, size):
    sent = BAD_CHUNKS[kind]
    chunks = Chunks(LIMITS, status=400)
    passed = b""

    with pytest.raises(Refusal) as caught:  # noqa: PT012
        for at in range(0, len(sent), size):
            passed += chunks.feed(sent[at : at + size])[0]

    assert caught.value.status == 400
    # only lines that are right, and data
    assert passed in {b"", b"5\r\n", b"5\r\nhell", b"5\r\nhello", b"5\r\nhell\r", b"0\r\n"}


def test_chunks_that_are_too_much_in_all_are_refused():
    with pytest.raises(Refusal) as caught:
        feed([chunk(b"a" * 600), chunk(b"a" * 401)], most=1000)

    assert caught.value.status == 413


# -- responses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "length", "keep"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 5, True),
        (b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", 5, True),
        (b"HTTP/1.1 200 \r\nContent-Length: 5\r\nConnection: close\r\n\r\n", 5, False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNKED, True),
        (b"HTTP/1.1 200 OK\r\n\r\n", UNTIL_CLOSE, False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", 5, False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", 5, True),
        (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", 0, True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 0, True),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", 0, True),
    ],
)
def test_a_response_ends_where_its_head_says(head, length, keep):
    found = read_response(head + b"rest", len(head), to_head=False)

    assert (found.length, found.status) == (length, int(head[9:12]))
    assert found.keep_alive is keep or found.status < 200
    assert read_response(head, len(head), to_head=True).length == 0


def test_no_bytes_make_a_reader_fail_in_another_way():
    """Only refusals come out, whatever goes in."""
    luck = random.Random(1)
    heads = [head for head, _ in ACCEPTED.values()]
    for _ in range(3000):
        data = bytearray(luck.choice(heads))
        for _ in range(luck.randrange(1, 4)):
            at = luck.randrange(len(data))
            data[at : at + luck.randrange(3)] = luck.randbytes(luck.randrange(3))
        data = bytes(data)
        try:
            found = read(data)
        except Refusal:
            continue
        if found.minor:
            assert strict_head(data[:-4])[0] == found.method
    for size in range(200):
        with pytest.raises(Refusal):
            read_response(luck.randbytes(size) + b"\r\n\r\n", size + 4, to_head=False)


# -- between dispatchers and agents ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ([], None),
        (["Equipoise-Task: d.1 7"], b"d.1 7"),
        (["equipoise-task:\td.1 7 "], b"d.1 7"),
        (["Equipoise-Task: d.1 7", "Equipoise-Task: d.1 8"], b""),
        (["Equipoise_Task: d.1 7"], b""),
        (["Equipoise_Task: d.1 7", "Equipoise-Task: d.1 7"], b""),
        (["Equipoise-Task: "], b""),
    ],
)
def test_whose_task_it_is_is_read_where_it_is_said_once_and_never_passed_on(fields, task):
    found = read(request("Accept: */*", *fields, "X: 1"))

    assert found.task == task
    assert found.forward(b"\r\n") == read(request("Accept: */*", "X: 1")).head


@pytest.mark.parametrize(
    "target",
    [
        "/.well-known/equipoise",
        "/.well-known/equipoise?a=1",
        "/.well-known/equipoise/",
        "/.well-known/%65quipoise",
        "/%2ewell-known%2Fequipoise",
        "/.well-known//equipoise",
        "//.well-known/./equipoise",
        "/.well-known/x/../equipoise",
        "/x/../.well-known/x/%2e%2e/equipoise",
        "/mounted/.well-known/equipoise",
    ],
)
def test_every_way_to_write_the_streams_path_is_seen(target):
    assert read(request(first=f"GET {target} HTTP/1.1")).private is True


@pytest.mark.parametrize(
    "target",
    [
        *("/", "/equipoise", "/.well-known/equipoise2", "/.well-known/other%20"),
        *("/a?/.well-known/equipoise", "/.well-known/equipoise/more"),
        "/.well-known/%2565quipoise",
    ],
)
def test_other_paths_are_the_servers(target):
    assert read(request(first=f"GET {target} HTTP/1.1")).private is False
