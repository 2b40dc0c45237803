"""Real logs, dirty as they are; the folder is named by EQUIPOISE_DATA. Sources: its SOURCES.md.

The counts were made by hand, or with other tools, as each test says.
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from equipoise.logs import read_log

FOLDER = os.environ.get("EQUIPOISE_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="EQUIPOISE_DATA names no folder of real logs")

SERVER = "answered by the balancer itself, no server took part"
# used, skipped by reason
COUNTS = {
    # every line is one request: `grep -c ' HTTP/1.[01]"'` counts 4000
    "apache_combined_2015.log": (4000, {}),
    # by hand: 23 requests that are no HTTP, one line without "- -", 8 of an unrelated record
    "access_malformed.log": (
        2,
        {"not an HTTP request": 23, "not a line of this format": 9},
    ),
    # by hand: 16 name an upstream, two answered 400 at once with "- - - -"
    "nginx_ingress_upstream.log": (16, {SERVER: 2}),
    # `grep -c 'stdout F .'` says 4 text and 46 JSON; two of those have "upstream_host":null, and
    # the last of the text is on one line with a record of JSON
    "envoy_cri_mixed.log": (47, {SERVER: 2, "two records run together on one line": 1}),
    # one JSON record without ServiceAddr, one line that is no JSON
    "traefik_access.jsonl": (85, {SERVER: 1, "not an access record": 1}),
    # `grep -c '"handled request"'` says 14
    "caddy_mixed.log": (14, {"not an access record": 36, "blank": 1}),
    # by hand: 3 process lines, one failed handshake
    "haproxy_syslog_2019.log": (
        13,
        {"a message of the process": 3, "a connection that failed before a request": 1},
    ),
    # `wc -l` less the header
    "azure_llm_2023_code.csv": (8819, {"the header": 1}),
    "azure_functions_2021_invocations.csv": (199, {"the header": 1}),
    "aws_elb_request_count_5min.csv": (4032, {"the header": 1}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_line_of_every_file_is_accounted_for(name):
    file = Path(FOLDER) / name
    log = read_log(file)
    used, skipped = COUNTS[name]

    assert log.account.used == used
    assert {reason: entry.count for reason, entry in log.account.skipped.items()} == skipped
    assert log.account.read == used + sum(skipped.values())
    assert log.account.read == len(file.read_bytes().removesuffix(b"\n").split(b"\n"))
    assert (log.tasks is None) == (name.startswith("aws"))


def test_haproxy_times_are_those_of_a_naive_reading():
    text = (Path(FOLDER) / "haproxy_syslog_2019.log").read_text()
    timers = [list(map(int, m)) for m in
              re.findall(r" (-?\d+)/(-?\d+)/(-?\d+)/(-?\d+)/(-?\d+) \d{3} ", text)]  # fmt: skip

    tasks = read_log(Path(FOLDER) / "haproxy_syslog_2019.log").tasks

    assert len(timers) == len(tasks) == 13
    assert sorted(tasks.service) == pytest.approx(sorted((t[2] + t[3]) / 1e3 for t in timers))
    assert sorted(tasks.duration) == pytest.approx(sorted((t[4] - t[0]) / 1e3 for t in timers))
    assert tasks.servers == ("nginx_sonst",)


def test_traefik_times_are_nanoseconds():
    records = []
    for line in (Path(FOLDER) / "traefik_access.jsonl").read_text().splitlines():
        if line.startswith("{") and "ServiceAddr" in json.loads(line):
            records.append(json.loads(line))

    tasks = read_log(Path(FOLDER) / "traefik_access.jsonl").tasks

    assert tasks.duration.sum() == pytest.approx(sum(r["Duration"] for r in records) / 1e9)
    assert tasks.service.sum() == pytest.approx(sum(r["OriginDuration"] for r in records) / 1e9)
    assert np.nanmax(tasks.service - tasks.duration) <= 0


def test_caddy_times_are_seconds():
    tasks = read_log(Path(FOLDER) / "caddy_mixed.log").tasks

    # the first record of the file: "ts":1693840791.7564995, "duration":0.000002701
    assert tasks.first == pytest.approx(1693840791.7564995 - 2.701e-06, abs=1e-6)
    assert tasks.duration[0] == pytest.approx(2.701e-06)


def test_envoy_times_are_milliseconds():
    tasks = read_log(Path(FOLDER) / "envoy_cri_mixed.log").tasks

    # "... 204 - 154 0 226 100 ..." is the earliest: 226 ms in all, 100 ms at the server
    assert (tasks.duration[0], tasks.service[0]) == pytest.approx((0.226, 0.1))
    assert tasks.servers[tasks.server[0]] == "10.0.2.1:80"
    # 4 of text, one of them not used, and 4 of JSON; the other 40 of JSON have no such key
    assert np.count_nonzero(~np.isnan(tasks.duration)) == 7


def test_retries_of_the_ingress_count_for_the_server_that_answered():
    tasks = read_log(Path(FOLDER) / "nginx_ingress_upstream.log").tasks

    # "172.17.0.6:8080, 172.17.0.7:8080 61, 100 0.100, 0.004 200, 203" twice
    retried = np.flatnonzero(np.isclose(tasks.service, 0.004))
    assert len(retried) == 2
    assert {tasks.servers[i] for i in tasks.server[retried]} == {"172.17.0.7:8080"}
    # "172.17.0.6:8080, 172.17.0.7:8080 - 0.100, - 200, -": the second never answered
    once = np.flatnonzero(np.isclose(tasks.service, 0.1))
    assert {tasks.servers[i] for i in tasks.server[once]} == {"172.17.0.6:8080"}


def test_azure_invocations_begin_at_their_end_less_their_duration():
    tasks = read_log(Path(FOLDER) / "azure_functions_2021_invocations.csv").tasks

    # the first line ends at 0.07949090003967285 s after 0.078 s
    assert tasks.first == pytest.approx(0.07949090003967285 - 0.078)
    # and the file's last ends at 1260.0557980537415 after 60.041
    assert tasks.first + tasks.arrival[-1] == pytest.approx(1260.0557980537415 - 60.041)


def test_the_load_balancer_counts_have_eight_missing_bins():
    """4032 values stand on a grid of 4040 bins: the first and last time are 14 days less 20 min."""
    log = read_log(Path(FOLDER) / "aws_elb_request_count_5min.csv")

    assert (log.counts.bin, log.counts.counts.size, log.counts.missing) == (300.0, 4040, 8)
    assert np.nansum(log.counts.counts) > 0
    assert log.counts.rates()[0] == pytest.approx(94 / 300)
