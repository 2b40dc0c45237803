"""Readers of request streams, independent of the proxy's: one strict, one that lets much pass.

Both return what they see in the bytes of one connection: the complete requests, as (method, target,
body), and whether something incomplete is left. Where they differ, a request can be smuggled.
"""

TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
HEX = frozenset(b"0123456789abcdefABCDEF")


class Wrong(Exception):
    """Not HTTP, for this reader."""


def strict(data):
    """Read as RFC 9112 says, without any leniency."""
    requests = []
    while data:
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            return requests, True
        method, target, fields = strict_head(head)
        lengths = [value for name, value in fields if name == b"content-length"]
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        if codings:
            if lengths or codings != [b"chunked"]:
                raise Wrong("framing")
            body, rest = strict_chunks(rest)
            if body is None:
                return requests, True
        else:
            if len(lengths) > 1 or any(set(v) - set(b"0123456789") or not v for v in lengths):
                raise Wrong("length")
            size = int(lengths[0]) if lengths else 0
            if len(rest) < size:
                return requests, True
            body, rest = rest[:size], rest[size:]
        requests.append((method, target, body))
        data = rest
    return requests, False


def strict_head(head):
    first, *lines = head.split(b"\r\n")
    if any(byte in b"\r\n\0" for line in lines for byte in line):
        raise Wrong("line")
    parts = first.split(b" ")
    if len(parts) != 3 or parts[2] != b"HTTP/1.1" or not parts[0] or set(parts[0]) - TOKEN:
        raise Wrong("request line")
    if not parts[1] or any(byte <= 32 or byte >= 127 for byte in parts[1]):
        raise Wrong("target")
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or set(name) - TOKEN:
            raise Wrong("field")
        if any((byte < 32 and byte != 9) or byte == 127 for byte in value):
            raise Wrong("value")
        fields.append((name.lower(), value.strip(b" \t").lower()))
    if sum(name == b"host" for name, _ in fields) != 1:
        raise Wrong("host")
    return parts[0], parts[1], fields


def strict_chunks(data):
    body = b""
    while True:
        line, found, data = data.partition(b"\r\n")
        if not found:
            return None, b""
        size = line.split(b";")[0]
        if not size or set(size) - HEX or any(b < 32 and b != 9 for b in line):
            raise Wrong("chunk")
        length = int(size, 16)
        if not length:
            break
        if len(data) < length + 2:
            return None, b""
        if data[length : length + 2] != b"\r\n":
            raise Wrong("chunk end")
        body, data = body + data[:length], data[length + 2 :]
    while True:
        line, found, data = data.partition(b"\r\n")
        if not found:
            return None, b""
        if not line:
            return body, data


def sloppy(data):
    """Read as many servers have: bare LF ends a line, the last length counts, blanks are trimmed.

    A coding that mentions chunked is chunked, `_` in a name is `-`, folded lines are joined, a
    chunk's size is what can be read of it.
    """
    requests = []
    while data.strip(b"\r\n\0 \t"):
        data = data.lstrip(b"\r\n")
        lines, rest = [], data
        while True:
            line, found, rest = rest.partition(b"\n")
            if not found:
                return requests, True
            line = line.rstrip(b"\r\0 \t")
            if not line:
                break
            if line[:1] in b" \t" and lines:
                lines[-1] += line
            else:
                lines.append(line)
        words = lines[0].split()
        length, chunked = 0, False
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            name, value = name.strip().lower().replace(b"_", b"-"), value.strip().lower()
            if name == b"content-length":
                length = int(b"0" + bytes(b for b in value if b in b"0123456789"))
            elif name == b"transfer-encoding" and b"chunked" in value:
                chunked = True
        if chunked:
            body, rest = sloppy_chunks(rest)
            if body is None:
                return requests, True
        else:
            if len(rest) < length:
                return requests, True
            body, rest = rest[:length], rest[length:]
        requests.append((words[0], words[1] if len(words) > 1 else b"", body))
        data = rest
    return requests, False


def sloppy_chunks(data):
    body = b""
    while True:
        line, found, data = data.partition(b"\n")
        if not found:
            return None, b""
        digits = b""
        for byte in line.strip():
            if byte not in HEX:
                break
            digits += bytes([byte])
        length = int(digits or b"0", 16)
        if not length:
            break
        if len(data) < length:
            return None, b""
        body, data = body + data[:length], data[length:]
        data = data[2:] if data[:2] == b"\r\n" else data[1:] if data[:1] == b"\n" else data
    while True:
        line, found, data = data.partition(b"\n")
        if not found:
            return None, b""
        if not line.strip(b"\r"):
            return body, data
