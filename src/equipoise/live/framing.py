r"""Where a message ends, and nothing doubtful in it: heads and bodies of HTTP/1.1.

A proxy that reads a message otherwise than the server behind it can be made to smuggle one request
inside another. So this file accepts one way of writing each thing (RFC 9112 with every leniency
left out) and refuses the rest: a head is matched as a whole by one expression, in which a line ends
with CR LF and nothing else, a name is a token right before its colon, and a value has no control
characters. At most one Content-Length, or one `Transfer-Encoding: chunked`, never both. A request's
head is then read a second time by llhttp, and the two must agree on where it ends.

Requests name their target by path alone (or `*` for OPTIONS): this is a gateway, not a forward
proxy. Chunk sizes are followed byte by byte, and no byte of a chunk's line is passed on before the
line is complete and right. Bodies are never changed.
"""

from __future__ import annotations

import functools
import posixpath
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from ..errors import EquipoiseError
from .limits import Limits
from .tunnel import offered
from .wire import PATH

CHUNKED = -1  # as a length
UNTIL_CLOSE = -2

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]"
_LINES = rb"(?:" + _TOKEN + rb"++:" + _VALUE + rb"*+\r\n)*+"
# Possessive throughout, so that a head is matched or refused in one pass.
_REQUEST = re.compile(
    rb"(" + _TOKEN + rb"++) ([\x21\x22\x24-\x7e]++) HTTP/1\.([01])\r\n" + _LINES + rb"\r\n"
)
_RESPONSE = re.compile(
    rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?: " + _VALUE + rb"*+)?\r\n" + _LINES + rb"\r\n"
)
_TRAILERS = re.compile(_LINES + rb"\r\n")


def _those(names: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\r\n(" + names + rb"):([^\r]*+)", re.IGNORECASE)


# Lines that this file must look at; the rest of a head is passed on unread. Servers behind WSGI
# and CGI take `_` for `-`, so what is refused with one is refused with the other.
_OF_REQUESTS = _those(
    rb"connection|host|content[-_]length|transfer[-_]encoding|x[-_]forwarded[-_]for|x-request-id"
    rb"|keep-alive|expect|te|upgrade|http2-settings|proxy-(?:connection|authorization)"
    rb"|x[-_]forwarded[-_]proto|equipoise[-_]task"
)
_OF_RESPONSES = _those(
    rb"connection|content-length|transfer-encoding|x-request-id|keep-alive|upgrade|proxy-connection"
)
_PROTO = frozenset(
    b"x%bforwarded%bproto" % (one, two) for one in (b"-", b"_") for two in (b"-", b"_")
)
_ALWAYS_CUT = frozenset({b"te", b"upgrade", b"http2-settings", b"proxy-connection"})
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"host"})
_NOT_IN_TRAILERS = _those(
    rb"content[-_]length|transfer[-_]encoding|host|connection|trailer|te|upgrade|expect|keep-alive"
    rb"|authorization|cookie|set-cookie|x[-_]forwarded[-_]for|forwarded|via|content-(?:type|encoding)"
    rb"|equipoise[-_]task"
)
_DIGITS = re.compile(rb"[0-9]{1,18}")
_HOST = re.compile(
    rb"(?:[0-9A-Za-z\-._~%!$&'()*+;=]++|\[[0-9A-Fa-f:.]++\])(?::[0-9]{0,5})?", re.ASCII
)
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS"})
_REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE"})


class Refusal(EquipoiseError):
    """A message that is not passed on, with the status that says so."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


@functools.cache
def _llhttp() -> Any:
    """The module of the second reader."""
    import httptools

    return httptools


class Request:
    """A request's head, accepted; never changed. `length` is that of its body, or CHUNKED."""

    __slots__ = (
        "closes",
        "cuts",
        "expects",
        "forwarded_for",
        "head",
        "host",
        "keep_alive",
        "length",
        "method",
        "minor",
        "names",
        "private",
        "request_id",
        "target",
        "task",
        "upgrade",
        "upgrades",
    )

    def __init__(self, head: bytes, method: bytes, target: bytes, minor: int) -> None:
        self.head = head
        self.method = method
        self.target = target
        self.minor = minor  # of HTTP/1.x
        self.length = 0
        self.keep_alive = minor == 1
        self.closes = False
        self.expects = False  # 100 (Continue)
        self.host = False
        self.upgrades = False  # Connection names upgrade
        self.upgrade = b""  # protocols that are offered to the server
        self.request_id: bytes | None = None
        self.forwarded_for: bytes | None = None  # as it came
        self.task: bytes | None = None  # a dispatcher and its number; never passed on
        self.private = False  # asks for what dispatchers and agents alone speak of
        self.cuts: list[tuple[int, int]] | None = None  # of the head, not to be passed on
        self.names: list[bytes] | None = None  # of further hop-by-hop fields

    @property
    def idempotent(self) -> bool:
        """Whether doing it twice is as good as doing it once."""
        return self.method in _IDEMPOTENT

    def forward(self, fields: bytes) -> bytes:
        """Return the head for a server: without hop-by-hop fields, `fields` and an end added."""
        head = self.head
        if self.cuts is None and self.minor:
            return head[:-2] + fields
        kept = _without(head, self.cuts or [], self.names)
        if not self.minor:
            line, _, rest = kept.partition(b"\r\n")
            kept = line[:-1] + b"1\r\n" + rest
        return kept[:-2] + fields


class RequestReader:
    """Reads the heads of one client connection, one after the other.

    A client often sends the same bytes again; then the same is meant (saves 2.5 us of 3).
    """

    __slots__ = ("_complete", "_last", "_limits", "_parser", "_secure")

    def __init__(self, limits: Limits, *, secure: bool = False) -> None:
        self._limits = limits
        self._secure = secure  # over TLS: we say so, whatever the client says
        self._last: Request | None = None
        self._parser: Any = None
        self._complete = False

    def limit(self, limits: Limits) -> None:
        """Keep other limits from now on."""
        self._limits = limits
        self._last = None  # what was read by the former ones may be too long for these

    def on_message_complete(self) -> None:
        """Called by llhttp where it sees the end of a message."""
        self._complete = True

    def read(self, head: bytes) -> Request:
        """Read a head, up to and with its empty line.

        Raises
        ------
        Refusal
            If anything in it is wrong or could be read in two ways.
        """
        last = self._last
        if last is not None and last.head == head:
            return last
        limits = self._limits
        match = _REQUEST.fullmatch(head)
        if match is None or len(head) > limits.head:
            raise explain(head, limits)
        method, target, minor = match.groups()
        if len(target) > limits.target:
            raise Refusal(414, f"the target is longer than {limits.target} bytes")
        if method in _REFUSED_METHODS:
            raise Refusal(405, f"{method.decode()} is not done here")
        if target[0] != 47 and not (target == b"*" and method == b"OPTIONS"):  # 47: /
            raise Refusal(400, "the target must be a path, such as /index.html")
        request = Request(head, method, target, minor[0] - 48)
        request.private = is_private(target)
        _read_fields(request, self._secure)
        if request.length > limits.body:
            raise Refusal(413, f"the body is longer than {limits.body} bytes")
        self._read_again(request)
        self._last = request
        return request

    def _read_again(self, request: Request) -> None:
        """Let llhttp read it too: it knows fewer methods, and may refuse what we overlooked."""
        parser = self._parser
        if parser is None:
            parser = self._parser = _llhttp().HttpRequestParser(self)
        self._complete = False
        try:
            parser.feed_data(request.head)
        except _llhttp().HttpParserUpgrade:
            self._parser = None  # it reads on as if the offer had been taken up
            return
        except _llhttp().HttpParserInvalidMethodError:
            raise Refusal(501, "the method is not known here") from None
        except _llhttp().HttpParserError as error:
            raise Refusal(400, f"the head is wrong: {error}".replace("\n", " ")) from None
        if request.length or not request.keep_alive:
            self._parser = None  # it waits for a body that it will not be given
        if self._complete is (request.length != 0):
            raise Refusal(400, "where the request ends is not clear")


def _read_fields(request: Request, secure: bool) -> None:
    """Read the fields that decide about framing and the connection; mark those to cut."""
    length: bytes | None = None
    chunked = False
    offers: list[bytes] = []
    for match in _OF_REQUESTS.finditer(request.head):
        name, value = match.groups()
        name, value = name.lower(), value.strip(b" \t")
        if name == b"host":
            if request.host or not _HOST.fullmatch(value):
                raise Refusal(400, "there must be one Host field, with one host")
            request.host = True
            continue
        if name == b"content-length":
            if length is not None or not _DIGITS.fullmatch(value):
                raise Refusal(400, "there must be at most one Content-Length field, a number")
            length = value
            continue
        if name == b"transfer-encoding":
            if chunked or not request.minor:
                raise Refusal(400, "Transfer-Encoding must be there once at most, and not in 1.0")
            if value.lower() != b"chunked":
                last = value.rpartition(b",")[2].strip(b" \t").lower()
                raise Refusal(
                    501 if last == b"chunked" else 400, "the only transfer coding known is chunked"
                )
            chunked = True
            continue
        if name == b"x-request-id" and request.request_id is None and _REQUEST_ID.fullmatch(value):
            request.request_id = value
            continue
        if name == b"connection":
            _read_connection(request, value)
        elif name == b"expect":
            if value.lower() != b"100-continue":
                raise Refusal(417, "the only expectation known is 100-continue")
            if request.minor:
                request.expects = True
                continue
        elif name.startswith(b"equipoise"):
            request.task = value if request.task is None and name[9] == 45 else b""  # 45: -
        elif name == b"upgrade":
            offers.append(value)
        elif name == b"x-forwarded-for":
            before = request.forwarded_for
            request.forwarded_for = value if before is None else before + b", " + value
        elif name in _PROTO:
            if not secure:  # TLS may have ended before us
                continue
        elif name.startswith((b"content_", b"transfer_")):
            raise Refusal(400, f"{name.decode()} with _ for -")
        if request.cuts is None:
            request.cuts = []
        request.cuts.append(match.span())
    if chunked:
        if length is not None:
            raise Refusal(400, "both Content-Length and Transfer-Encoding")
        request.length = CHUNKED
    elif length is not None:
        request.length = int(length)
    if not request.host and request.minor:
        raise Refusal(400, "there must be one Host field, with one host")
    if offers and request.upgrades and request.minor:
        request.upgrade = offered(b",".join(offers))
        if request.upgrade and request.length:
            raise Refusal(400, "a request that offers another protocol must have no body")


def is_private(target: bytes) -> bool:
    """Whether a server may take a target for that of the stream between dispatchers and agents.

    Servers undo percent-encoding, and some of them dots and double slashes.
    """
    if b"quipoise" not in target and b"%" not in target:
        return False
    path = unquote_to_bytes(target.partition(b"?")[0])
    return posixpath.normpath(path).endswith(PATH.encode())


def _read_connection(message: Any, value: bytes) -> None:
    """Note what a Connection field says: close, keep-alive, and further fields to cut."""
    if value == b"keep-alive":
        message.keep_alive = not message.closes
        return
    for option in value.lower().split(b","):
        option = option.strip(b" \t")
        if option == b"close":
            message.keep_alive = False
            message.closes = True  # it wins, in whatever order they come
        elif option == b"keep-alive":
            message.keep_alive = not message.closes
        elif option == b"upgrade":
            message.upgrades = True
        elif option in _FRAMING:
            raise Refusal(400, f"Connection must not name {option.decode()}")
        elif option and option not in _ALWAYS_CUT:
            message.names = [*(message.names or []), option]


def _without(head: bytes, cuts: list[tuple[int, int]], names: list[bytes] | None) -> bytes:
    """Return the head without the spans in `cuts` and the fields in `names`."""
    kept, at = [], 0
    for start, end in cuts:
        kept.append(head[at:start])
        at = end
    kept.append(head[at:])
    short = b"".join(kept)
    if not names:
        return short
    first, *lines = short[:-4].split(b"\r\n")
    lines = [line for line in lines if line.partition(b":")[0].lower() not in names]
    return b"\r\n".join([first, *lines, b"", b""])


def explain(head: bytes, limits: Limits) -> Refusal:
    """Say what is wrong with a request's head that does not match; slow, for once."""
    line, _, rest = head.partition(b"\r\n")
    if len(line) > limits.target + 32:
        return Refusal(414, f"the target is longer than {limits.target} bytes")
    if len(head) > limits.head:
        return Refusal(431, f"the head is longer than {limits.head} bytes")
    if early := too_early(head, 0):
        return early
    parts = line.split(b" ")
    if len(parts) != 3 or not re.fullmatch(_TOKEN + rb"+", parts[0]):
        return Refusal(400, "the first line must be: METHOD /path HTTP/1.1")
    if not re.fullmatch(rb"HTTP/[0-9]\.[0-9]", parts[2]):
        return Refusal(400, "the first line must be: METHOD /path HTTP/1.1")
    if not parts[2].startswith(b"HTTP/1."):
        return Refusal(505, "HTTP/1.1 is spoken here")
    if parts[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return Refusal(505, "HTTP/1.1 is spoken here")
    if not re.fullmatch(rb"[\x21\x22\x24-\x7e]+", parts[1]):
        return Refusal(400, "a target has visible ASCII characters only, and no #")
    for field in rest[:-4].split(b"\r\n"):
        name, colon, _ = field.partition(b":")
        if not colon or not re.fullmatch(_TOKEN + rb"+", name):
            return Refusal(400, "a field must be: Name: value, without a space before the colon")
    return Refusal(400, "the head is wrong")


_WRONG_BYTES = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def too_early(part: bytes, start: int) -> Refusal | None:
    """Say what is wrong in `part` of a head from `start` on, before it is complete; None if not."""
    match = _WRONG_BYTES.search(part, max(0, start - 1))
    if match is None:
        return None
    found = match[0]
    if found == b"\n":
        return Refusal(400, "a line must end with CR LF")
    if found == b"\r":
        return Refusal(400, "a CR without LF")
    if found[:1] == b"\n":
        return Refusal(400, "a folded line")
    return Refusal(400, "a control character")


def incomplete(part: bytes, start: int, limits: Limits) -> Refusal | None:
    """Say whether the beginning of a head, new from `start` on, can be refused already."""
    line = part.find(b"\r\n")
    if (len(part) if line < 0 else line) > limits.target + 32:
        return Refusal(414, f"the target is longer than {limits.target} bytes")
    if len(part) > limits.head:
        return Refusal(431, f"the head is longer than {limits.head} bytes")
    return too_early(part, start)


class Response:
    """A response's head, accepted; never changed.

    `length` is that of its body, or CHUNKED or UNTIL_CLOSE.
    """

    __slots__ = (
        "closes",
        "cuts",
        "end",
        "has_id",
        "keep_alive",
        "length",
        "minor",
        "names",
        "status",
        "upgrade",
        "upgrades",
    )

    def __init__(self, status: int, minor: int, end: int) -> None:
        self.status = status
        self.minor = minor
        self.end = end  # of the head, in the bytes it was read from
        self.length = UNTIL_CLOSE
        self.keep_alive = minor == 1
        self.closes = False
        self.has_id = False
        self.upgrades = False
        self.upgrade = b""  # to what it switches
        self.cuts: list[tuple[int, int]] | None = None
        self.names: list[bytes] | None = None

    def forward(self, data: bytes, framing: int) -> bytes:
        """Return the head for a client, hop-by-hop fields cut, without its empty line.

        `framing` is how the body will be sent: the length that came, or CHUNKED or UNTIL_CLOSE.
        """
        if self.cuts is None:
            kept = data[: self.end - 2]
        elif len(self.cuts) == 1 and self.names is None:
            start, end = self.cuts[0]
            kept = data[:start] + data[end : self.end - 2]
        else:
            kept = _without(data[: self.end], self.cuts, self.names)[:-2]
        if framing != self.length:
            if framing == CHUNKED:
                kept += b"Transfer-Encoding: chunked\r\n"
            else:
                kept = _without(kept + b"\r\n", [], [b"transfer-encoding"])[:-2]
        return kept if self.minor else b"HTTP/1.1" + kept[8:]


def read_response(data: bytes, end: int, *, to_head: bool) -> Response:
    """Read the head of a response to a request (`to_head`: to a HEAD), `data` up to `end`.

    Raises
    ------
    Refusal
        If it is wrong or could be read in two ways.
    """
    match = _RESPONSE.fullmatch(data, 0, end)
    if match is None:
        raise _explain_response(data[:end])
    status = int(match[1])
    response = Response(status, data[7] - 48, end)
    bodiless = status < 200 or status == 204
    length: bytes | None = None
    chunked = False
    for field in _OF_RESPONSES.finditer(data, 0, end):
        name, value = field.groups()
        name, value = name.lower(), value.strip(b" \t")
        if name == b"content-length":
            if length is not None or not _DIGITS.fullmatch(value):
                raise Refusal(502, "its Content-Length is not one number")
            length = value
            if not bodiless:
                continue
        elif name == b"transfer-encoding":
            if chunked or value.lower() != b"chunked":
                raise Refusal(502, "its transfer coding is not chunked")
            chunked = True
            if not bodiless:
                continue
        elif name == b"x-request-id":
            response.has_id = True
            continue
        elif name == b"connection":
            _read_connection(response, value)
        elif name == b"upgrade":
            response.upgrade = value if not response.upgrade else response.upgrade + b"," + value
        if response.cuts is None:
            response.cuts = []
        response.cuts.append(field.span())
    if chunked and length is not None:
        raise Refusal(502, "it has both Content-Length and Transfer-Encoding")
    if chunked and not response.minor:
        raise Refusal(502, "it is chunked in HTTP/1.0")
    if bodiless or to_head or status == 304:
        response.length = 0
    elif chunked:
        response.length = CHUNKED
    elif length is not None:
        response.length = int(length)
    else:
        response.keep_alive = False
    return response


def _explain_response(head: bytes) -> Refusal:
    if early := too_early(head, 0):
        return Refusal(502, f"its head has {early.why.removeprefix('a ')}")
    if not head.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")):
        return Refusal(502, "it does not speak HTTP/1.1")
    return Refusal(502, "its head is wrong")


_QUOTED = rb'"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e]|\\[\t\x20-\x7e])*+"'
_EXTENSIONS = rb"(?:;" + _TOKEN + rb"++(?:=(?:" + _TOKEN + rb"++|" + _QUOTED + rb"))?+)*+"
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})" + _EXTENSIONS + rb"\r\n")
_CHUNK_LINE_BEGUN = re.compile(rb"(?:[0-9A-Fa-f]{1,15}(?:;[\t\x20-\x7e]*+)?\r?)?")
_LONGEST_CHUNK_LINE = 1024


class Chunks:
    """Follows a chunked body to its end.

    `feed` gives back what may be passed on: everything but a line that is not complete yet, which
    is kept until it is. With `decode` it gives the data inside instead.
    """

    __slots__ = ("_decode", "_held", "_last", "_left", "_limit", "_most", "_status", "size")

    def __init__(
        self, limits: Limits, *, status: int, most: int | None = None, decode: bool = False
    ) -> None:
        self._left = 0  # of this chunk: its data, and 2 for the CR LF after it
        self._held = b""  # an incomplete line, or incomplete trailers
        self._last = False  # the chunk of size 0 was seen: trailers follow
        self._limit = limits.head
        self._status = status  # of refusals: 400 for requests, 502 for responses
        self._most = most
        self._decode = decode
        self.size = 0  # of the data announced so far

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return (what to pass on, None), or at the end (what to pass on, what comes after it).

        Raises
        ------
        Refusal
            If a line is not as it must be; nothing that came in this call is to be passed on.
        """
        seen = len(self._held)
        if seen:
            data, self._held = self._held + data, b""
        inside: list[bytes] = []
        at, size, left = 0, len(data), self._left
        while True:
            if left > 2:
                step = min(left - 2, size - at)
                if self._decode:
                    inside.append(data[at : at + step])
                at += step
                left -= step
                if left > 2:
                    break
            if left:
                if size - at < 2:
                    if data[at:] not in (b"", b"\r"):
                        raise self._refusal("a chunk is longer than it says")
                    break
                if data[at : at + 2] != b"\r\n":
                    raise self._refusal("a chunk is longer than it says")
                at += 2
                left = 0
            if self._last:
                end = self._trailers(data, at, seen)
                if end < 0:
                    break
                passed = b"".join(inside) if self._decode else data[:end]
                return passed, data[end:]
            end = data.find(b"\n", at) + 1
            if not end:
                if size - at > _LONGEST_CHUNK_LINE or not _CHUNK_LINE_BEGUN.fullmatch(data, at):
                    raise self._refusal("a chunk's size is not a hexadecimal number")
                break
            left = self._chunk(data, at, end)
            at = end
        self._left = left
        if at < size:
            self._held = data[at:]
            data = data[:at]
        return (b"".join(inside) if self._decode else data), None

    def _chunk(self, data: bytes, at: int, end: int) -> int:
        """Read a chunk's line; return the length of its data and end, 0 for the last chunk."""
        match = _CHUNK_LINE.fullmatch(data, at, end)
        if match is None or end - at > _LONGEST_CHUNK_LINE:
            raise self._refusal("a chunk's size is not a hexadecimal number")
        length = int(match[1], 16)
        if not length:
            self._last = True
            return 0
        self.size += length
        if self._most is not None and self.size > self._most:
            raise Refusal(413, f"the body is longer than {self._most} bytes")
        return length + 2

    def _trailers(self, data: bytes, at: int, seen: int) -> int:
        """Return where the trailers end, -1 if that has not come yet; `seen` was looked at."""
        if data.startswith(b"\r\n", at):
            return at + 2
        end = data.find(b"\r\n\r\n", at) + 4
        if (len(data) if end < 4 else end) - at > self._limit:
            raise self._refusal("the trailers are too long")
        if end < 4:
            if early := too_early(data, max(at, seen)):
                raise self._refusal(early.why)
            return -1
        lines = data[at:end]
        if not _TRAILERS.fullmatch(lines) or _NOT_IN_TRAILERS.search(b"\r\n" + lines):
            raise self._refusal("the trailers are wrong, or have what belongs in the head")
        return end

    def _refusal(self, why: str) -> Refusal:
        return Refusal(self._status, why)
