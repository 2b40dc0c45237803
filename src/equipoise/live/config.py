"""The configuration of `equipoise serve`: a TOML file, checked as a whole before anything starts.

    listen = "127.0.0.1:8080"

    [[servers]]
    address = "10.0.0.1:8000"
    speed = 2.0                 # as in a scenario; 1 if left out
    limit = 50                  # most requests that it is sent at once
                                # or in short: [servers] with addresses = [..] and speeds = [..]

    [[policies]]                # one, written as in a scenario
    name = "jsq-d"
    d = 2

    [health]  [limits]  [admin]  [log]  [agents]    # see `Rules`, `Limits` and the classes below

A wrong file gets one line per mistake: where, what, what would be right. Unknown keys are mistakes.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ..errors import ConfigError, EquipoiseError, ScenarioError
from ..policies import PolicySpec, resolve
from ..policies.user import try_plain
from ..scenario.base import Number, Part, Whole
from ..scenario.files import read_toml
from ..scenario.mistakes import Mistake, Mistakes, did_you_mean, shown, translate
from .fleet import Backend
from .health import Rules
from .hearing import UNHEARD
from .limits import Limits
from .tls import Tls, load
from .wire import BEAT, read_secret

# what to write where a key is missing
HINTS: dict[tuple[str | int, ...], str] = {
    ("listen",): 'where to take requests, e.g. listen = "127.0.0.1:8080"',
    ("servers",): 'list each server, as [[servers]] with address = "10.0.0.1:8000"',
    ("policies",): 'name one, as [[policies]] with name = "jsq-d"',
    ("address",): 'HOST:PORT, e.g. address = "10.0.0.1:8000"',
    ("tls", "certificate"): 'a file in PEM, e.g. certificate = "site.pem"',
    ("file",): 'where to write it, e.g. file = "access.log"',
}
RULES = Rules()
LONGEST_SOCKET = 107  # bytes of a socket's path
# keys that name one
FILES = (
    *(("log", "file"), ("admin", "control"), ("tls", "certificate"), ("tls", "key")),
    ("agents", "secret_file"),
)
OF_A_SCENARIO = ("arrivals", "service", "messages", "run", "trace")
NAME = re.compile(r"[\w.:\[\]-]{1,100}")

Seconds = Annotated[Number, Field(gt=0, le=7 * 86_400)]


def split_address(text: object) -> tuple[str, int]:
    """Return host and port of "HOST:PORT", an IPv6 host in brackets.

    Raises
    ------
    ValueError
        With what would be right.
    """
    example = 'write it as HOST:PORT, e.g. "10.0.0.1:8000" or "[::1]:8000"'
    if not isinstance(text, str):
        raise ValueError(f"must be a text in quotes; {example}")
    if "://" in text:
        raise ValueError(f"is a URL; {example}, without {text.partition('://')[0]}://")
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d{1,5})", text)
    if match is None:
        raise ValueError(example)
    port = int(match[3])
    if port > 65_535:
        raise ValueError(f"port {port} is above 65535")
    return match[1] or match[2], port


def _address(value: Any) -> str:
    host, port = split_address(value)
    if not port:
        raise ValueError("port 0 is no server's; which port does it listen on?")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(value: Any) -> str:
    host, port = split_address(value)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ServerPart(Part):
    """One server."""

    address: Annotated[str, BeforeValidator(_address)]
    name: str = ""  # its address if left out
    speed: Annotated[Number, Field(gt=0)] = 1.0
    limit: Annotated[Whole, Field(ge=1)] | None = None
    agent: Annotated[str, BeforeValidator(_address)] | None = None  # its own address if left out

    @model_validator(mode="after")
    def _named(self) -> ServerPart:
        if not self.name:
            object.__setattr__(self, "name", self.address)
        if not NAME.fullmatch(self.name):
            raise Mistakes([Mistake(("name",), f"{shown(self.name)}: use letters, digits, - . _")])
        return self

    @property
    def tells_at(self) -> tuple[str, int] | None:
        """Host and port of its agent; None: where it is itself."""
        return None if self.agent is None else split_address(self.agent)

    def backend(self) -> Backend:
        """Return it as a fleet takes it."""
        host, port = split_address(self.address)
        return Backend(self.name, host, port, self.speed, self.limit, self.tells_at)


class HealthPart(Part):
    """As `Rules`."""

    check: Literal["none", "tcp", "http"] = RULES.check
    path: str = RULES.path
    interval: Seconds = RULES.interval
    timeout: Seconds = RULES.timeout
    rise: Annotated[Whole, Field(ge=1)] = RULES.rise
    fall: Annotated[Whole, Field(ge=1)] = RULES.fall
    failures: Annotated[Whole, Field(ge=0)] = RULES.failures
    bad_status: Annotated[Whole, Field(ge=0, le=599)] = RULES.bad_status
    floor: Annotated[Number, Field(ge=0, le=1)] = RULES.floor
    back_off: Seconds = RULES.back_off
    back_off_most: Seconds = RULES.back_off_most
    penalty: Annotated[Number, Field(ge=0, le=3600)] = RULES.penalty
    slow_start: Annotated[Number, Field(ge=0, le=3600)] = RULES.slow_start

    @model_validator(mode="after")
    def _fits(self) -> HealthPart:
        wrong = []
        if not re.fullmatch(r"/[!-~]*", self.path):
            wrong.append(Mistake(("path",), f"{shown(self.path)} must begin with / and be ASCII"))
        if self.path != "/" and self.check != "http":
            what = f'{shown(self.path)} is asked for only where check = "http"'
            wrong.append(Mistake(("path",), what))
        if self.back_off > self.back_off_most:
            wrong.append(Mistake(("back_off",), "is more than back_off_most"))
        if wrong:
            raise Mistakes(wrong)
        return self

    def rules(self) -> Rules:
        """Return them as health takes them."""
        return Rules(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(Rules)}
        )


class AdminPart(Part):
    """Where metrics and status are seen; nowhere if left out."""

    listen: Annotated[str, BeforeValidator(_listen)]
    public: bool = False  # on another interface than loopback
    control: str | None = None  # path of the socket through which servers are changed

    @model_validator(mode="after")
    def _hidden(self) -> AdminPart:
        wrong = []
        host, _ = split_address(self.listen)
        if not self.public and not _is_loopback(host):
            what = f"{shown(self.listen)} can be reached from outside, and there is no password; "
            wrong.append(Mistake(("listen",), what + "listen on 127.0.0.1, or say public = true"))
        if self.control is not None:
            folder = Path(self.control).parent
            if not folder.is_dir():
                wrong.append(Mistake(("control",), f"{self.control}: there is no folder {folder}"))
            elif len(os.fsencode(self.control)) > LONGEST_SOCKET:
                what = f"{self.control} is longer than the {LONGEST_SOCKET} bytes that a socket's "
                wrong.append(Mistake(("control",), what + "path may have"))
        if wrong:
            raise Mistakes(wrong)
        return self


class TlsPart(Part):
    """The certificate that clients are shown; without it they speak HTTP in the clear."""

    certificate: str  # a file in PEM, the chain behind it
    key: str = ""  # its key, in PEM, without a password; in the same file if left out
    minimum: Literal["1.2", "1.3"] = "1.2"

    @model_validator(mode="after")
    def _good(self) -> TlsPart:
        try:
            self.load()
        except EquipoiseError as error:
            raise Mistakes([Mistake((), str(error))]) from None
        return self

    def load(self) -> Tls:
        """Read the files. Raises `EquipoiseError`."""
        return load(self.certificate, self.key or self.certificate, self.minimum)


class LogPart(Part):
    """The access log."""

    file: str  # "-" is stdout
    most_waiting: Annotated[Whole, Field(ge=1)] = 10_000  # lines that wait to be written

    @model_validator(mode="after")
    def _somewhere(self) -> LogPart:
        if self.file != "-" and not Path(self.file).parent.is_dir():
            what = f"{self.file}: there is no folder {Path(self.file).parent}"
            raise Mistakes([Mistake(("file",), what)])
        return self


class AgentsPart(Part):
    """The servers tell; without this table the dispatcher counts its own tasks only."""

    secret_file: str | None = None  # what agents ask for is in it
    unheard: Seconds = UNHEARD  # s without a line of an agent, and its server is forgotten

    @model_validator(mode="after")
    def _fits(self) -> AgentsPart:
        wrong = []
        if self.unheard <= BEAT:
            what = f"{self.unheard:g} s: agents give a sign of life each {BEAT:g} s; take 3"
            wrong.append(Mistake(("unheard",), what))
        try:
            self.secret()
        except ConfigError as error:
            wrong.append(Mistake(("secret_file",), str(error)))
        if wrong:
            raise Mistakes(wrong)
        return self

    def secret(self) -> str | None:
        """Read the secret; None if there is none. Raises `ConfigError`."""
        return None if self.secret_file is None else read_secret(self.secret_file)


def _tables(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list | tuple) or not all(isinstance(t, Mapping) for t in value):
        raise ValueError('must be a [[policies]] table, e.g. name = "jsq-d"')
    if len(value) != 1:
        raise ValueError(f"lists {len(value)} policies; serve runs one, leave one")
    if not isinstance(value[0].get("name"), str):
        raise ValueError('say which policy, e.g. name = "jsq-d"')
    try:
        resolve(value[0])
    except EquipoiseError as error:
        raise ValueError(str(error)) from None
    return tuple(dict(table) for table in value)


def _limits(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("must be a table")
    known = [field.name for field in dataclasses.fields(Limits)]
    wrong = [
        Mistake(
            (key,), f"unknown key{did_you_mean(key, known) or '; there are ' + ', '.join(known)}"
        )
        for key in value
        if key not in known
    ]
    given = {key: v for key, v in value.items() if key in known}
    try:
        Limits(**given)
    except EquipoiseError as error:
        for line in str(error).splitlines():
            key, _, rest = line.removeprefix("limits.").partition(" ")
            wrong.append(Mistake((key,), rest.removeprefix("= ")))
    if wrong:
        raise Mistakes(wrong)
    return given


def _listed(servers: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Mistake]]:
    """Return servers that are listed in short, as `equipoise advise` writes them, and mistakes."""
    addresses, speeds = servers.get("addresses"), servers.get("speeds")
    if not isinstance(addresses, list) or not addresses:
        text = 'fill in addresses = ["10.0.0.1:8000", ..], or list each server as [[servers]]'
        return [], [Mistake(("servers",), text)]
    wrong = [
        Mistake(("servers", key), "unknown key; here stand addresses and speeds")
        for key in servers
        if key not in ("addresses", "speeds")
    ]
    if speeds is not None and (not isinstance(speeds, list) or len(speeds) != len(addresses)):
        text = f"{len(addresses)} numbers, one for each address"
        wrong.append(Mistake(("servers", "speeds"), text))
    if wrong:
        return [], wrong
    return [
        {"address": address} | ({} if speeds is None else {"speed": speeds[i]})
        for i, address in enumerate(addresses)
    ], []


class Config(Part):
    """Everything `equipoise serve` needs to know."""

    listen: Annotated[str, BeforeValidator(_listen)]
    servers: Annotated[tuple[ServerPart, ...], Field(min_length=1)]
    policies: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_tables)]
    seed: Annotated[Whole, Field(ge=0)] | None = None  # of the policy's coins; else they differ
    mean_service: Seconds | None = None  # s; what a policy's clock counts in
    drain: Annotated[Number, Field(ge=0)] = 30.0  # s for what is under way when it is to stop
    workers: Annotated[Whole, Field(ge=1, le=256)] = 1  # processes, each a dispatcher
    watch: bool = False  # take up the file when it has changed, as at SIGHUP
    health: HealthPart = Field(default_factory=HealthPart)
    limits: Annotated[dict[str, Any], BeforeValidator(_limits)] = Field(default_factory=dict)
    admin: AdminPart | None = None
    tls: TlsPart | None = None
    log: LogPart | None = None
    agents: AgentsPart | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_scenario(cls, tables: Any) -> Any:
        """Say what a scenario's tables are, rather than that they are unknown."""
        if not isinstance(tables, Mapping):
            return tables
        found = [
            Mistake((key,), "belongs to a scenario; a dispatcher needs none, remove it")
            for key in OF_A_SCENARIO
            if key in tables
        ]
        if isinstance(tables.get("servers"), Mapping):
            servers, wrong = _listed(tables["servers"])
            found += wrong
            tables = {**tables, "servers": servers}
        if found:
            raise Mistakes(found)
        return tables

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        wrong = [*self._twice(), *self._policy_mistakes()]
        wrong += [*self._agent_mistakes(), *self._too_small()]
        taken = self.admin is not None and self.admin.listen == self.listen
        if taken and not self.listen.endswith(":0"):
            what = f"{self.listen} is where requests are taken; choose another"
            wrong.append(Mistake(("admin", "listen"), what))
        if wrong:
            raise Mistakes(wrong)
        return self

    def _twice(self) -> Iterable[Mistake]:
        names: dict[str, int] = {}
        addresses: dict[str, int] = {}
        for i, server in enumerate(self.servers):
            first = addresses.setdefault(server.address.lower(), i)
            if first != i:
                what = f"{server.address} is that of servers #{first + 1}; list each server once"
                yield Mistake(("servers", i, "address"), what)
            elif names.setdefault(server.name, i) != i:
                what = f"'{server.name}' is that of servers #{names[server.name] + 1}"
                yield Mistake(("servers", i, "name"), what)

    def _too_small(self) -> Iterable[Mistake]:
        for i, server in enumerate(self.servers):
            if server.limit is not None and server.limit < self.workers:
                what = f"{server.limit} is less than workers = {self.workers}, among whom it is "
                yield Mistake(("servers", i, "limit"), what + "shared out")

    def _policy_mistakes(self) -> Iterable[Mistake]:
        spec = self.spec
        where = ("policies", 0)
        if "sizes" in spec.policy.needs:
            what = f"{spec.label} must observe sizes, which nobody knows in front of real traffic"
            yield Mistake(where, what)
            return
        try:
            spec.check(len(self.servers))
        except EquipoiseError as error:
            yield Mistake(where, str(error))
        if spec.policy.clock is not None and self.mean_service is None:
            yield Mistake(
                ("mean_service",),
                f"missing; {spec.label} updates {spec.params['delta']:g} times in a mean service "
                "time: how long is that, in seconds?",
            )

    def _agent_mistakes(self) -> Iterable[Mistake]:
        if self.agents is not None and not self.spec.policy.tells:
            what = f"{self.spec.label} has servers tell nothing; remove the table, or the policy"
            yield Mistake(("agents",), what)
        first: dict[str, int] = {}
        for i, server in enumerate(self.servers):
            if server.agent is None:
                continue
            if self.agents is None:
                what = "there is no [agents] table; write one, it may be empty"
                yield Mistake(("servers", i, "agent"), what)
            elif first.setdefault(server.agent.lower(), i) != i:
                what = f"{server.agent} is that of servers #{first[server.agent.lower()] + 1}"
                yield Mistake(("servers", i, "agent"), what)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file; the name of the log in it starts from its folder.

        Raises
        ------
        ConfigError
            A line for each mistake.
        """
        path = Path(path)
        try:
            tables = read_toml(path)
        except ScenarioError as error:
            raise ConfigError(str(error).partition("; `equipoise new`")[0]) from None
        return cls.from_dict(tables, base=path.parent, source=str(path))

    @classmethod
    def from_dict(
        cls, tables: Mapping[str, Any], base: str | os.PathLike[str] = ".", source: str = ""
    ) -> Config:
        """Make it from the tables of a file. Raises `ConfigError`."""
        tables = _rooted(dict(tables), Path(base))
        try:
            return cls.model_validate(tables)
        except ValidationError as error:
            raise ConfigError(str(translate(error, cls, source, HINTS))) from None

    def summary(self) -> str:
        """Return in one line what would run; a user's own policy is tried for it."""
        spec = self.spec
        if spec.written:
            try_plain(spec, len(self.servers))
        plural = "s" if len(self.servers) != 1 else ""
        workers = f", {self.workers} workers" if self.workers > 1 else ""
        return (
            f"would listen on {self.listen}, {len(self.servers)} server{plural}, {spec.label}"
            f"{workers}"
        )

    @property
    def spec(self) -> PolicySpec:
        """The policy."""
        return resolve(self.policies[0])

    @property
    def period(self) -> float | None:
        """The time between two updates of a server, s, for a policy with a clock."""
        spec = self.spec
        if spec.policy.clock is None or self.mean_service is None:
            return None
        return self.mean_service / float(spec.params["delta"])

    def backends(self) -> list[Backend]:
        """Return the servers as a fleet takes them."""
        return [server.backend() for server in self.servers]

    def proxy_limits(self) -> Limits:
        """Return the limits as the proxy takes them."""
        return Limits(**self.limits)


def _rooted(tables: dict[str, Any], base: Path) -> dict[str, Any]:
    """Let the names of files start from the folder of the configuration."""
    for table, key in FILES:
        part = tables.get(table)
        if isinstance(part, Mapping) and isinstance(part.get(key), str) and part[key] not in "-":
            tables[table] = {**part, key: str(base / part[key])}
    return tables


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)
