"""`equipoise policies`: what each policy does, needs, costs, and where it comes from."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..policies.base import Policy

SEMANTICS = (
    "Ties are broken uniformly at random. A length includes the task in service. jsq-d draws "
    "servers without replacement unless replacement=true. Memory is kept at the dispatcher; a "
    "length counts 32 bits. A policy of your own, file.py:NAME, works wherever a name does."
)


@click.command("policies")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, for other programs.")
def command(name: str | None, as_json: bool) -> None:
    """List the policies: what each does, needs and costs.

    With NAME, a policy's own or file.py:NAME for one of yours, tell all about it.

    \b
    Examples:
        equipoise policies
        equipoise policies jsq-d
        equipoise policies --json
    """
    from ..policies import POLICIES

    policies = list(POLICIES.values()) if name is None else [_find(name)]
    if as_json:
        click.echo(json.dumps([_facts(policy) for policy in policies], indent=2))
    elif name is not None:
        click.echo(_details(policies[0]))
    else:
        click.echo("\n".join(_entry(policy) for policy in policies))
        click.echo(textwrap.fill(SEMANTICS, 88, break_on_hyphens=False))


def _find(name: str) -> Policy:
    from ..policies import POLICIES, load_policy, resolve

    if name in POLICIES:  # before resolve, which insists on parameters that have no default
        return POLICIES[name]
    file, colon, own = name.rpartition(":")
    return load_policy(file, own) if colon else resolve(name).policy


def _facts(policy: Policy) -> dict[str, Any]:
    from ..policies.base import REQUIRED

    return {
        "name": policy.name,
        "about": policy.about,
        "parameters": {
            name: {
                "default": None if p.default is REQUIRED else p.default,
                "required": p.default is REQUIRED,
                "allowed": p.allowed(),
                "meaning": p.meaning,
            }
            for name, p in policy.params.items()
        },
        "memory_bits": policy.memory,
        "cost": policy.cost,
        "probes": policy.probes,
        "announces": policy.announces,
        "needs": sorted(policy.needs),
        "clock": clock(policy),
        "source": policy.source,
    }


def _entry(policy: Policy) -> str:
    rows = {
        "needs": _needs(policy),
        "memory": _memory(policy),
        "cost": policy.cost,
        "source": policy.source,
    }
    return f"{_call(policy)}\n" + _indented(policy.about) + _table(rows)


def _details(policy: Policy) -> str:
    text = _entry(policy)
    for name, p in policy.params.items():
        text += f"\n    {name} = {_value(p.default)}\n"
        text += _indented(f"{p.meaning}; {p.allowed()}" if p.meaning else p.allowed(), " " * 8)
    return text.rstrip("\n")


def _table(rows: dict[str, str]) -> str:
    width = max(map(len, rows)) + 2
    return "".join(
        _indented(value, " " * (4 + width), first=f"    {name:<{width}}")
        for name, value in rows.items()
        if value
    )


def _indented(text: str, indent: str = "    ", first: str | None = None) -> str:
    wrapped = textwrap.fill(
        text,
        88,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return f"{wrapped}\n" if text else ""


def _call(policy: Policy) -> str:
    defaults = ", ".join(f"{name}={_value(p.default)}" for name, p in policy.params.items())
    return f"{policy.name}({defaults})" if defaults else policy.name


def _value(value: Any) -> str:
    from ..policies.base import REQUIRED

    if value is REQUIRED:
        return "..."
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _needs(policy: Policy) -> str:
    needs = [f"the {what} of the servers" for what in sorted(policy.needs - {"sizes"})]
    if "weighted" in policy.params:
        needs.append("the speeds of the servers if weighted=true")
    if "sampling" in policy.params:
        needs.append("the speeds of the servers if sampling=speed")
    if "sizes" in policy.needs:
        needs.append("the sizes of the tasks (simulation only)")
    if policy.probes:
        work = "sizes" in policy.needs
        needs.append(f"to ask servers for their {'work left' if work else 'lengths'}")
    if _listens(policy):
        needs.append("messages from the servers")
    if policy.announces:
        needs.append("to announce its threshold to all servers")
    if policy.clock is not None:
        needs.append(f"a clock for {clock(policy)} updates")
    return ", ".join(needs) or "nothing"


def clock(policy: Policy) -> str | None:
    """Say in words when servers tell their state unasked; None if they do not."""
    if policy.clock is None:
        return None
    kind = "synchronous" if policy.clock.together else "asynchronous"
    return f"{kind}, {'regular' if policy.clock.regular else 'exponential'}"


def _listens(policy: Policy) -> bool:
    from ..policies.base import ignore

    return policy.hear is not ignore


def _memory(policy: Policy) -> str:
    if policy.memory == 0:
        return "none"
    bits = f"{policy.memory:g} bit" + ("" if policy.memory == 1 else "s")
    return f"{bits} per server"
