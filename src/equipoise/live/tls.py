"""TLS on the clients' side: certificate and key read and judged, handshakes bounded.

What is wrong with the files is one line before anything starts: one that is missing, that is no
PEM, a key that has a password or belongs to another certificate. A certificate that has expired
works, since some clients may not care, but it is told.

Connections in a handshake are counted with those of the clients, take no longer than
`limits.handshake_timeout`, and each gets the certificate that is in force when it comes. HTTP/1.1
is the one protocol that is agreed on (ALPN).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import time
from calendar import timegm
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import EquipoiseError

if TYPE_CHECKING:
    from .proxy import Proxy

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
SOON = 7 * 86_400.0  # s before its end that a certificate's end is told
AT_ONCE = 64  # connections that are accepted before others have their turn
PAUSE = 0.5  # s without accepting when there are too many open files


class Tls(NamedTuple):
    """A certificate with its key, ready to serve."""

    context: ssl.SSLContext
    begins: float  # s since 1970, of the certificate
    ends: float
    certificate: str  # the file
    mark: bytes  # stands for what certificate and key say

    def warning(self, now: float | None = None) -> str:
        """Return what is to be told of the certificate's time, "" if it is well."""
        now = time.time() if now is None else now
        if now > self.ends:
            return f"{self.certificate}: the certificate has expired, on {_day(self.ends)}"
        if now < self.begins:
            return f"{self.certificate}: the certificate is not valid before {_day(self.begins)}"
        if now > self.ends - SOON:
            return f"{self.certificate}: the certificate expires on {_day(self.ends)}"
        return ""


def load(certificate: str, key: str, minimum: str = "1.2") -> Tls:
    """Read a certificate (its chain behind it) and its key.

    Raises
    ------
    EquipoiseError
        If they cannot be used; one line that says why.
    """
    pem = _read(certificate)
    if "-----BEGIN CERTIFICATE-----" not in pem:
        raise EquipoiseError(
            f"{certificate}: is no certificate in PEM, -----BEGIN CERTIFICATE-----"
        )
    secret = pem if key == certificate else _read(key)
    if "PRIVATE KEY-----" not in secret:
        raise EquipoiseError(f"{key}: is no private key in PEM, -----BEGIN PRIVATE KEY-----")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[minimum]
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except _Encrypted:
        raise EquipoiseError(f"{key}: the key has a password; give one without") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{key}: the key does not belong to the certificate {certificate}"
        else:
            text = f"{certificate}, {key}: cannot be used: {error.reason or 'they are damaged'}"
        raise EquipoiseError(text) from None
    except OSError as error:
        raise EquipoiseError(f"{certificate}, {key}: {_why(error)}") from None
    try:
        first = pem[pem.index("-----BEGIN CERTIFICATE-----") :].partition("-----END")[0]
        begins, ends = validity(ssl.PEM_cert_to_DER_cert(first + "-----END CERTIFICATE-----\n"))
    except (ValueError, IndexError):
        begins, ends = 0.0, float("inf")  # OpenSSL has taken it
    mark = hashlib.sha256(f"{pem}\n{secret}".encode()).digest()
    return Tls(context, begins, ends, certificate, mark)


class _Encrypted(Exception):
    """The key has a password."""


def _no_password() -> str:
    raise _Encrypted  # else OpenSSL would ask for it on the terminal


def _read(path: str) -> str:
    try:
        return Path(path).read_text("latin-1")
    except OSError as error:
        raise EquipoiseError(f"{path}: {_why(error)}") from None


def _why(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def validity(der: bytes) -> tuple[float, float]:
    """Return from when to when an X.509 certificate is valid, s since 1970 (RFC 5280, 4.1.2.5).

    Raises
    ------
    ValueError, IndexError
        If it is no certificate.
    """
    _, inside, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, inside)  # TBSCertificate
    if der[at] == 0xA0:  # the version, which may be left out
        at = _element(der, at)[2]
    for _ in range(3):  # serial number, signature algorithm, issuer
        at = _element(der, at)[2]
    _, at, _ = _element(der, at)  # Validity
    times = []
    for _ in range(2):
        kind, start, at = _element(der, at)
        text = der[start:at].decode("ascii")
        if kind == 0x17:  # UTCTime: two digits for the year
            text = ("20" if int(text[:2]) < 50 else "19") + text
        times.append(float(timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))))
    return times[0], times[1]


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return kind, beginning and end of what an element holds."""
    kind, size = der[at], der[at + 1]
    at += 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(der[at : at + count], "big")
        at += count
    if at + size > len(der):
        raise ValueError("it is cut short")
    return kind, at, at + size


class Listener:
    """Accepts connections on a socket; each becomes a client of the proxy after its handshake.

    Accepting by hand, and not by the event loop's server, lets a connection take the certificate
    that is in force now, and lets those in a handshake be counted and cut.
    """

    def __init__(self, proxy: Proxy, sock: socket.socket) -> None:
        """`sock` listens already."""
        self._proxy, self.sock = proxy, sock
        sock.setblocking(False)
        self.sockets = (sock,)
        self.shaking: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._accepting = True
        proxy.loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Accept no more, and break off handshakes."""
        if self._accepting:
            self._accepting = False
            self._proxy.loop.remove_reader(self.sock)
            if self._again is not None:
                self._again.cancel()
            self.sock.close()
        for task in self.shaking:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until no handshake is left."""
        await asyncio.gather(*self.shaking, return_exceptions=True)

    def _accept(self) -> None:
        proxy = self._proxy
        for _ in range(AT_ONCE):
            try:
                sock, _ = self.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor is left: it would be called again at once
                proxy.loop.remove_reader(self.sock)
                self._again = proxy.loop.call_later(PAUSE, self._go_on)
                return
            sock.setblocking(False)
            if proxy.full:
                sock.close()
                continue
            task = proxy.loop.create_task(self._shake(sock))
            self.shaking.add(task)
            task.add_done_callback(self.shaking.discard)

    def _go_on(self) -> None:
        self._again = None
        self._proxy.loop.add_reader(self.sock, self._accept)

    async def _shake(self, sock: socket.socket) -> None:
        proxy, limits = self._proxy, self._proxy.limits
        tls = proxy.tls
        assert tls is not None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await proxy.loop.connect_accepted_socket(
                lambda: proxy.client(secure=True),
                sock,
                ssl=tls.context,
                ssl_handshake_timeout=limits.handshake_timeout,
                ssl_shutdown_timeout=limits.linger_timeout,
            )
        except OSError:  # among them SSLError and TimeoutError
            proxy.not_shaken += 1


async def listening(
    host: str, port: int, backlog: int = 1024, *, reuse_port: bool = False, listen: bool = True
) -> list[socket.socket]:
    """Return a socket for each address of a host that listens there, on one port.

    `reuse_port`: other processes of this user may too. Without `listen` they are only bound.

    Raises
    ------
    OSError
        If an address cannot be had.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, place in dict.fromkeys((entry[0], entry[4]) for entry in found):
            made = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((place[0], port, *place[2:]))
            if listen:
                made.listen(backlog)
            port = made.getsockname()[1]  # the one that was free
    except BaseException:
        for made in sockets:
            made.close()
        raise
    return sockets
