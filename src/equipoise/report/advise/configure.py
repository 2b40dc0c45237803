"""The configuration to use: our own file, and the closest setting of proxies that have one.

A proxy is named only where it has the policy, or one that differs in a way that is said. Each
counts its own requests, so what it knows of a server's length costs no message, and is all there is
to know as long as it is alone in front of the servers.
Sources: HAProxy configuration manual, `balance`; nginx, ngx_http_upstream_module, `least_conn` and
`random`; Envoy API v3, config.cluster.v3.Cluster `lb_policy` and
extensions.load_balancing_policies.least_request.v3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...policies import PolicySpec
from ...scenario import Scenario

HAPROXY, NGINX, ENVOY = "HAProxy", "nginx", "Envoy"


class Setting(NamedTuple):
    """How a proxy is told to use the policy, or the closest that it has."""

    proxy: str
    text: str
    remark: str = ""  # how it differs


def settings_of(spec: PolicySpec) -> list[Setting]:
    """Return the settings of proxies that have a policy; none where none has it."""
    name, params = spec.policy.name, spec.params
    weights = "server weights in proportion to speed" if params.get("weighted") else ""
    if name == "round-robin":
        return [
            Setting(HAPROXY, "balance roundrobin", weights),
            Setting(NGINX, "upstream without a method (round robin is its default)", weights),
            Setting(ENVOY, "lb_policy: ROUND_ROBIN", weights),
        ]
    if name == "random":
        return [
            Setting(HAPROXY, "balance random(1)", weights),
            Setting(NGINX, "random;", weights),
            Setting(ENVOY, "lb_policy: RANDOM", weights),
        ]
    if name == "jsq":
        return [
            Setting(HAPROXY, "balance leastconn"),
            Setting(NGINX, "least_conn;"),
            Setting(
                ENVOY, "least_request with selection_method: FULL_SCAN", "in versions that have it"
            ),
        ]
    if name == "sed":
        by_speed = "server weights in proportion to speed; compares length / weight"
        return [
            Setting(HAPROXY, "balance leastconn", by_speed),
            Setting(NGINX, "least_conn;", by_speed),
        ]
    if name == "jsq-d" and params["sampling"] == "uniform":
        d = params["d"]
        found = [
            Setting(HAPROXY, f"balance random({d})", "draws may repeat a server"),
            Setting(ENVOY, f"lb_policy: LEAST_REQUEST, choice_count: {d}", "draws may repeat"),
        ]
        if d == 2:
            found.insert(1, Setting(NGINX, "random two least_conn;"))
        return found
    return []


def configuration(scenario: Scenario, spec: PolicySpec, lines: list[str]) -> str:
    """Return the TOML file of the advice: the policy as in a scenario, the servers to fill in.

    Parameters
    ----------
    lines
        What to say at the top, a comment each.
    """
    out = [f"# {line}".rstrip() for line in lines]
    out += ["", 'listen = "127.0.0.1:8080"']
    if spec.policy.clock is not None:
        out.append(f"mean_service = {scenario.mean_service:.6g}  # s; delta counts in these")
    out += ["", "[[policies]]", f'name = "{spec.written or spec.policy.name}"']
    for name, value in spec.params.items():
        if value is not None and value != spec.policy.params[name].default:
            out.append(f"{name} = {_toml(value)}")
    servers = scenario.servers
    out += ["", "[servers]"]
    many = "the address of the server" if servers.count == 1 else f"{servers.count} addresses"
    out.append(f"# Fill in {many}, host and port.")
    out.append('# addresses = ["10.0.0.1:8080", "10.0.0.2:8080"]')
    if not servers.identical and ("speeds" in spec.policy.needs or _by_speed(spec)):
        speeds = ", ".join(f"{speed:g}" for speed in servers.speed_of)
        out.append(f"speeds = [{speeds}]  # in the order of the addresses")
    settings = settings_of(spec)
    if settings:
        out += ["", "# The closest setting of other proxies:"]
        width = max(len(one.proxy) for one in settings)
        for one in settings:
            remark = f"  ({one.remark})" if one.remark else ""
            out.append(f"#   {one.proxy:<{width}}  {one.text}{remark}")
    return "\n".join(out) + "\n"


def _by_speed(spec: PolicySpec) -> bool:
    return bool(spec.params.get("weighted")) or spec.params.get("sampling") == "speed"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
