"""What stands on the page, and how each number comes from /metrics.

Tooltips and the page's list of definitions are written from here, and a test reads the formulas.
"""

from __future__ import annotations

from typing import NamedTuple

P = "equipoise_"


class Figure(NamedTuple):
    """A number of the page."""

    key: str  # the place on the page that has it as data-figure
    name: str
    meaning: str
    formula: str  # in the language of Prometheus


def _quantile(q: float, over: str) -> str:
    buckets = f"rate({P}request_duration_seconds_bucket[{over}])"
    return f"histogram_quantile({q:g}, sum by (le) ({buckets}))"


MEAN_AT_SERVER = (
    f"sum(rate({P}server_duration_seconds_sum[10s])) / "
    f"sum(rate({P}server_duration_seconds_count[10s]))"
)
UP = f'count(sum by (server) ({P}server_state{{state="up"}}) > 0)'
INTERPOLATED = (
    "Interpolated: the histogram only tells between which two of its bounds it lies, and within "
    "them requests are taken to be evenly spread."
)
FIGURES = (
    Figure(
        "requests",
        "Requests per second",
        "Requests whose head was complete, those that were refused too. Mean of the last ten "
        "seconds; the line shows ten minutes.",
        f"sum(rate({P}proxy_requests_total[10s]))",
    ),
    Figure(
        "flight",
        "In flight",
        "Requests that are not answered yet, those that wait for a server included.",
        f"sum({P}proxy_under_way)",
    ),
    Figure(
        "median",
        "Median response",
        "Half of the requests of the last minute took this long or less, from the head's end to "
        f"the last byte out. {INTERPOLATED}",
        _quantile(0.5, "1m"),
    ),
    Figure(
        "p99",
        "99th percentile",
        f"One request in a hundred of the last minute took this long or longer. {INTERPOLATED}",
        _quantile(0.99, "1m"),
    ),
    Figure(
        "errors",
        "Errors per second",
        "Requests that went wrong by a server's or the dispatcher's fault: answered with a status "
        "from 500 on, cut off, timed out, or taken by no server. Mean of the last minute.",
        f"sum(rate({P}errors_total[1m]))",
    ),
    Figure(
        "messages",
        "Messages per task",
        "Messages between servers and dispatcher, as the policy counts them, for each request sent "
        "to a server. Mean of the last minute.",
        f"sum(rate({P}messages_total[1m])) / sum(rate({P}server_started_total[1m]))",
    ),
    Figure(
        "queued",
        "Waiting",
        "Requests that wait for a server, because every one that is up is full or none is up.",
        f"sum({P}proxy_queued)",
    ),
    Figure("clients", "Clients", "Connections of clients.", f"sum({P}proxy_clients)"),
    Figure(
        "retries",
        "Retries",
        "Further servers tried during the last minute.",
        f"sum(increase({P}retries_total[1m]))",
    ),
    Figure(
        "tokens",
        "Tokens",
        "Servers of which the dispatcher has a token. Green: fewer tasks than the threshold; "
        "yellow: fewer than the higher one. For a policy that knows idle servers, those are green.",
        f"sum by (colour) ({P}tokens)",
    ),
    Figure("up", "Up for", "Since the dispatcher was started.", f"max({P}up_seconds)"),
    Figure(
        "threshold",
        "Threshold",
        "What the policy holds its servers to: a server that has fewer tasks is chosen first. "
        "Of several workers' thresholds the middle one.",
        f"quantile(0.5, {P}threshold)",
    ),
    Figure(
        "load",
        "Offered load per server",
        "Tasks sent per second, times the mean time of a task at its server, divided by the "
        "servers that are up (Little's law). Over ten seconds; the mean is of the tasks that ended "
        "in them. Where servers work on all tasks at once it is the number that each would have "
        "if all had the same; where tasks wait at servers the wait is in it.",
        f"sum(rate({P}server_started_total[10s])) * {MEAN_AT_SERVER} / {UP}",
    ),
    Figure(
        "spread",
        "Emptiest and fullest",
        "The fewest and the most requests at a server that is up.",
        f"min(sum by (server) ({P}server_slots)), max(sum by (server) ({P}server_slots)) of those "
        f'with {P}server_state{{state="up"}} 1',
    ),
    Figure(
        "quantiles",
        "Response times over time",
        f"As above, each over the ten seconds before. {INTERPOLATED}",
        f"{_quantile(0.5, '10s')}, {_quantile(0.99, '10s')}",
    ),
    Figure(
        "slots",
        "Tasks",
        "Requests at the server, or on their way to it.",
        f"sum by (server) ({P}server_slots)",
    ),
    Figure(
        "limit",
        "Limit",
        "The most requests that the server is sent at once, where one is configured.",
        f"sum by (server) ({P}server_limit)",
    ),
    Figure(
        "most",
        "At most",
        "The most tasks that the server can have by what it told last and what it was sent since; "
        "and how long ago it told it. For policies whose servers tell by a clock or by agents.",
        f"{P}server_most, {P}server_told_seconds",
    ),
    Figure(
        "state",
        "State",
        "Serving: gets requests. Slow start: has just come up and gets a growing share. Draining: "
        "on its way out. Down: its checks fail. Ejected: requests failed there, one after another.",
        f"{P}server_state, {P}server_slow_start, for {P}server_state_seconds",
    ),
    Figure(
        "rate",
        "Requests per second of a server",
        "Requests sent to it, mean of the last minute.",
        f"sum by (server) (rate({P}server_started_total[1m]))",
    ),
    Figure(
        "mean",
        "Mean time at a server",
        "Of the requests that ended well there during the last minute, to the last byte.",
        f"sum by (server) (rate({P}server_duration_seconds_sum[1m])) / "
        f"sum by (server) (rate({P}server_duration_seconds_count[1m]))",
    ),
    Figure(
        "failures",
        "Failures of a server",
        "Requests that failed there by its own fault during the last minute, those that went well "
        "elsewhere afterwards included.",
        f"sum by (server) (increase({P}server_failures_total[1m]))",
    ),
)  # fmt: skip
BY_KEY = {figure.key: figure for figure in FIGURES}


def told(key: str) -> str:
    """Return what a tooltip says of a number."""
    figure = BY_KEY[key]
    return f"{figure.meaning}\n\nIn /metrics: {figure.formula}"
