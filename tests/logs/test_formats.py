"""Every format, from lines written by hand: what is read, in which unit, and what is not."""

import gzip

import numpy as np
import pytest

from equipoise.errors import TraceError
from equipoise.logs import Mapping, read_log

AGENT = '"-" "curl/8"'
# 2024-03-05 12:00:00 UTC, s since 1970
NOON = 1_709_640_000


def log_of(tmp_path, *lines, **how):
    """Read these lines; \n between them."""
    file = tmp_path / "access.log"
    file.write_bytes("\n".join(lines).encode() + b"\n")
    return read_log(file, **how)


def row(log, i=0):
    """A row as a dict, the server by name, the arrival in s since 1970."""
    t = log.tasks
    server = t.servers[t.server[i]] if t.server[i] >= 0 else None
    return {
        "arrival": round(t.first + float(t.arrival[i]), 6),
        "duration": float(t.duration[i]),
        "service": float(t.service[i]),
        "server": server,
        "status": int(t.status[i]),
        "size": int(t.size[i]),
    }


COMMON = '10.0.0.1 - joe [05/Mar/2024:13:00:07 +0100] "GET /a?b=c HTTP/1.1" 200 512'
NAN = float("nan")

# format, line, the row: arrival (s after noon), duration, service, server, status, size
LINES = [
    ("combined", f"{COMMON} {AGENT}", 7, NAN, NAN, None, 200, 512),
    ("combined", COMMON, 7, NAN, NAN, None, 200, 512),
    ("combined", f'{COMMON.replace("512", "-")} {AGENT}', 7, NAN, NAN, None, 200, -1),
    ("combined", f'{COMMON} "-" "quoted \\" and ] [" extra', 7, NAN, NAN, None, 200, 512),
    # Apache says when the request came; %D is in microseconds
    ("apache-us", f"{COMMON} {AGENT} 2500", 7, 0.0025, NAN, None, 200, 512),
    # nginx says when it ended
    ("nginx-timed", f"{COMMON} {AGENT} 2.500", 4.5, 2.5, NAN, None, 200, 512),
    ("nginx-timed", f"{COMMON} {AGENT} 2.500 2.250", 4.5, 2.5, 2.25, None, 200, 512),
    ("nginx-timed", f"{COMMON} {AGENT} 2.500 -", 4.5, 2.5, NAN, None, 200, 512),
    (
        "nginx-named",
        f'{COMMON} {AGENT} rt=2.500 uct="0.001" uht="0.1" urt="1.5" uaddr="10.1.0.7:80"',
        4.5, 2.5, 1.5, "10.1.0.7:80", 200, 512,
    ),
    (
        "nginx-ingress",
        f"{COMMON} {AGENT} 89 2.500 [web-80] [] 10.1.0.7:80 59 2.250 200 529a00",
        4.5, 2.5, 2.25, "10.1.0.7:80", 200, 512,
    ),
    # a retry: the last server tried answered
    (
        "nginx-ingress",
        f"{COMMON} {AGENT} 89 2.500 [web-80] [] 10.1.0.7:80, [fd00::1]:80 0, 59 1.000, 0.500 "
        "502, 200 529a00",
        4.5, 2.5, 0.5, "[fd00::1]:80", 200, 512,
    ),
    # a retry that never got an answer: the last time known
    (
        "nginx-ingress",
        f"{COMMON} {AGENT} 89 2.500 [web-80] [] 10.1.0.7:80, 10.1.0.8:80 - 1.000, - 200, - 529a00",
        4.5, 2.5, 1.0, "10.1.0.7:80", 200, 512,
    ),
    (
        "haproxy",
        "10.0.0.1:33317 [05/Mar/2024:12:00:07.655] front back/s1 100/0/30/69/1009 200 2750 - - "
        '---- 1/1/1/1/0 0/0 "GET /index.html HTTP/1.1"',
        7.755, 0.909, 0.099, "s1", 200, 2750,
    ),
    # behind syslog, with captured headers; never connected: the server's time is not known
    (
        "haproxy",
        "<134>Mar  5 12:00:12 lb haproxy[14389]: 10.0.0.1:33317 [05/Mar/2024:12:00:07.655] front~ "
        "back/s1 0/5000/-1/-1/+5001 503 212 - - sC-- 205/202/202/115/+3 1/0 {host|agent} {} "
        '"GET / HTTP/1.1"',
        7.655, 5.001, NAN, "s1", 503, 212,
    ),
    (
        "envoy",
        '[2024-03-05T12:00:07.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 '
        '"10.0.35.28" "nsq2http" "cc21d9b0-cf5c" "locations" "tcp://10.0.2.1:80"',
        7.31, 0.226, 0.1, "10.0.2.1:80", 204, 0,
    ),
    # as Istio writes it, with response details
    (
        "envoy",
        '[2024-03-05T12:00:07.310Z] "GET / HTTP/1.1" 503 UF,URX upstream_reset{x} - "refused" 0 91 '
        '10 - "-" "curl" "id" "host" "10.0.2.1:80" outbound|80||web - 10.2.3.4:80 10.9.9.9:1 - x',
        7.31, 0.01, NAN, "10.0.2.1:80", 503, 91,
    ),
    (
        "envoy",
        '{"start_time":"2024-03-05T12:00:07.310Z","duration":226,"bytes_sent":5,'
        '"x-envoy-upstream-service-time":"100","upstream_host":"10.0.2.1:80","response_code":204}',
        7.31, 0.226, 0.1, "10.0.2.1:80", 204, 5,
    ),
    # a record without the key, unlike one where it is null: nothing is known of the server
    (
        "envoy",
        '{"start_time":"2024-03-05T12:00:07.310Z","response_code":404}',
        7.31, NAN, NAN, None, 404, -1,
    ),
    (
        "traefik",
        '{"StartUTC":"2024-03-05T12:00:07.250000001Z","Duration":2500000,"OriginDuration":2000000,'
        '"Overhead":500000,"RouterName":"r","ServiceURL":{"Host":"10.1.0.7:80"},'
        '"DownstreamStatus":200,"DownstreamContentSize":17}',
        7.25, 0.0025, 0.002, "10.1.0.7:80", 200, 17,
    ),
    (
        "traefik-text",
        f'{COMMON} {AGENT} 3 "web@docker" "http://10.1.0.7:80" 25ms',
        7, 0.025, NAN, "http://10.1.0.7:80", 200, 512,
    ),
    (
        "caddy",
        f'{{"level":"info","ts":{NOON + 7.5},"logger":"http.log.access","msg":"handled request",'
        '"request":{"method":"GET"},"duration":0.25,"size":12,"status":200}',
        7.25, 0.25, NAN, None, 200, 12,
    ),
    (
        "caddy",
        'caddy  | {"ts":"2024-03-05T12:00:07.500Z","request":{},"duration":"250ms","size":12,'
        '"status":200}',
        7.25, 0.25, NAN, None, 200, 12,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "line", "arrival", "duration", "service", "server", "status", "size"), LINES
)
@pytest.mark.parametrize(
    "prefix", ["", "2024-03-05T12:00:08.123456789+01:00 stdout F ", "proxy-1  | "]
)
def test_a_line_of_each_format_is_read_in_its_units(
    tmp_path, prefix, name, line, arrival, duration, service, server, status, size
):
    log = log_of(tmp_path, prefix + line)

    assert log.format.name == name
    assert row(log) == pytest.approx(
        {
            "arrival": NOON + arrival,
            "duration": duration,
            "service": service,
            "server": server,
            "status": status,
            "size": size,
        },
        nan_ok=True,
    )
    assert (log.account.read, log.account.used, log.account.skipped) == (1, 1, {})


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        (COMMON, '10.0.0.1 - - [05/Mar/2024:12:00:07 +0000] "batman" 400 157 "-" "-"',
         "not an HTTP request"),
        (COMMON, '10.0.0.1 [05/Mar/2024:12:00:07 +0000] "GET / HTTP/1.1" 200 1',
         "not a line of this format"),
        (COMMON, COMMON.replace("05/Mar", "35/Mar"), "the time is none"),
        (COMMON, "", "blank"),
        (
            LINES[9][1],
            f"{COMMON} {AGENT} 0 0.000 [] [] - - - - 4c7d20",
            "answered by the balancer itself, no server took part",
        ),
        (
            LINES[12][1],
            "10.0.0.1:3 [05/Mar/2024:12:00:07.655] front back/<NOSRV> -1/-1/-1/-1/0 400 187 - - "
            'PR-- 0/0/0/0/0 0/0 "<BADREQ>"',
            "answered by the balancer itself, no server took part",
        ),
        (
            LINES[12][1],
            "10.0.0.1:3 [05/Mar/2024:12:00:07.655] front back/s1 0/0/5007 212 -- 0/0/0/0/3 0/0",
            "a TCP log line, which knows no requests",
        ),
        (
            LINES[12][1],
            "Mar  5 12:00:00 lb haproxy[1]: Proxy http_in started.",
            "a message of the process",
        ),
        (
            LINES[12][1],
            "10.0.0.1:3 [05/Mar/2024:12:00:07.655] front/1: SSL handshake failure",
            "a connection that failed before a request",
        ),
        (
            LINES[16][1],
            '{"start_time":"2024-03-05T12:00:07.310Z","duration":0,"upstream_host":null}',
            "answered by the balancer itself, no server took part",
        ),
        (LINES[20][1], '{"level":"info","ts":1.0,"msg":"server running"}', "not an access record"),
    ],
)  # fmt: skip
def test_a_line_that_is_skipped_says_why(tmp_path, good, bad, reason):
    log = log_of(tmp_path, good, good, bad, good, bad)

    assert log.account.used == len(log.tasks) == 3
    assert log.account.read == 5
    entry = log.account.skipped[reason]
    assert (entry.count, entry.line) == (2, 3)
    assert entry.example == bad[:160]


def test_records_run_together_on_one_line_are_told_apart_from_other_rubbish(tmp_path):
    record = "2024-03-05T12:00:08.1Z stdout F " + LINES[16][1]

    log = log_of(tmp_path, record, record + record, record)

    assert log.account.used == 2
    assert set(log.account.skipped) == {"two records run together on one line"}


def test_text_and_json_of_envoy_may_stand_in_one_file(tmp_path):
    log = log_of(tmp_path, LINES[14][1], LINES[16][1], "rubbish", LINES[15][1])

    assert (log.format.name, log.account.used, log.account.read) == ("envoy", 3, 4)


def test_tasks_come_in_order_of_arrival_whatever_the_order_of_the_lines(tmp_path):
    """nginx writes a line at the end: a long request stands behind later, shorter ones."""
    lines = [
        f'- - - [05/Mar/2024:12:00:{second:02} +0000] "GET / HTTP/1.1" 200 {i} {AGENT} {spent}'
        for i, (second, spent) in enumerate([(5, "0.100"), (6, "5.500"), (7, "0.000")])
    ]

    log = log_of(tmp_path, *lines)

    assert log.tasks.size.tolist() == [1, 0, 2]
    assert log.tasks.arrival == pytest.approx([0, 4.4, 6.5])
    assert log.tasks.first == pytest.approx(NOON + 0.5)


# --- Patterns, tables, counts --------------------------------------------------------------------


def test_a_pattern_in_nginx_variables_reads_a_format_of_one_s_own(tmp_path):
    log = log_of(
        tmp_path,
        "2024-03-05T12:00:07+00:00|0.500|10.1.0.7:80, 10.1.0.8:80|0.100, 0.300|200|/x",
        "2024-03-05T12:00:08+00:00|0.500|-|-|404|/y",
        format="$time_iso8601|$request_time|$upstream_addr|$upstream_response_time|$status|$uri",
    )

    assert log.account.used == 1
    assert row(log) == {
        "arrival": NOON + 6.5, "duration": 0.5, "service": 0.3, "server": "10.1.0.8:80",
        "status": 200, "size": -1,
    }  # fmt: skip
    assert log.account.skipped["answered by the balancer itself, no server took part"].count == 1


def test_a_pattern_in_apache_directives_is_understood_too(tmp_path):
    log = log_of(
        tmp_path,
        "[05/Mar/2024:12:00:07 +0000] 200 1500 93",
        format="%t %>s %D %b",
    )

    found = row(log)
    assert (found["arrival"], found["duration"]) == (NOON + 7, pytest.approx(0.0015))
    assert (found["status"], found["size"]) == (200, 93)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("$request_time", "a line needs one time"),
        ("$time_local $msec", "a line needs one time"),
        ("$msec $request_time $request_time_ms", "two fields for the duration"),
        ("nonsense", "no log format is called 'nonsense'"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_in_one_line(tmp_path, pattern, line):
    with pytest.raises(TraceError) as caught:
        log_of(tmp_path, "x", format=pattern)

    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_of_a_table_are_known_by_their_usual_names_or_named(tmp_path):
    usual = log_of(tmp_path, "time,duration,server", "0.5,2,a", "1.5,3,b", "x,1,a", "1,2")
    assert usual.account.used == 2
    assert usual.account.skipped["the time is none"].line == 4
    assert usual.account.skipped["more or fewer values than the header names"].line == 5
    assert usual.tasks.servers == ("a", "b")

    named = log_of(
        tmp_path, "when;took", "10;2", "12;3", mapping=Mapping(end="when", duration="took")
    )
    assert named.tasks.first == 8.0
    assert named.tasks.arrival.tolist() == [0.0, 1.0]

    with pytest.raises(TraceError, match="no column 'then'; there are when, took"):
        log_of(tmp_path, "when;took", "10;2", mapping=Mapping(time="then"))


def test_json_objects_that_are_no_access_log_are_a_table(tmp_path):
    log = log_of(
        tmp_path,
        '{"time": "2024-03-05 12:00:07.5", "duration": 0.5}',
        '{"time": "2024-03-05 12:00:09", "duration": null}',
        '{"time": ',
    )

    assert log.format.name == "jsonl"
    assert log.tasks.duration == pytest.approx([0.5, NAN], nan_ok=True)
    assert log.account.used == 2


def test_counts_by_time_become_rates_and_missing_bins_are_marked(tmp_path):
    log = log_of(
        tmp_path,
        "timestamp,value",
        "2024-03-05 12:00:00,30",
        "2024-03-05 12:05:00,60",
        "2024-03-05 12:15:00,90",
        "2024-03-05 12:20:00,0",
    )

    assert log.tasks is None
    assert (log.counts.bin, log.counts.start, log.counts.missing) == (300.0, NOON, 1)
    assert log.counts.rates() == pytest.approx([0.1, 0.2, 0.25, 0.3, 0.0])
    assert "1 of 5 bins of 300 s are missing" in log.notes[0]


def test_rates_only_counts_requests_per_second(tmp_path):
    log = log_of(tmp_path, COMMON, COMMON, COMMON.replace(":07 ", ":10 "), rates_only=True)

    assert log.tasks is None
    assert log.counts.counts.tolist() == [2, 0, 0, 1]


# --- Files that are none -------------------------------------------------------------------------


def test_line_ends_and_bytes_of_any_kind_do_no_harm(tmp_path):
    file = tmp_path / "x.log"
    good = COMMON.encode()
    file.write_bytes(
        good + b"\r\n" + b"\xff\xfe\x00\x01 \xc3\x28\n" + good.replace(b"/a", b"/\xe9\xff") + b"\n"
        + b"\x00" * 200_000 + b"\n" + good
    )  # fmt: skip

    log = read_log(file)

    assert log.account.used == 3
    assert all(entry.example.isprintable() for entry in log.account.skipped.values())


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
def test_a_truncated_gzip_file_gives_what_it_holds_and_says_so(tmp_path, keep):
    whole = gzip.compress("\n".join([COMMON] * 50_000).encode(), mtime=0)
    file = tmp_path / "x.log.gz"
    file.write_bytes(whole[: int(keep * len(whole))])

    log = read_log(file)

    assert 0 < log.account.used < 50_000
    assert any("gzip data end too early" in note for note in log.notes)


def test_a_gzipped_log_is_the_same_as_a_plain_one(tmp_path):
    text = "\n".join([COMMON, COMMON.replace(":07 ", ":10 ")]).encode()
    (tmp_path / "a.log").write_bytes(text)
    (tmp_path / "b").write_bytes(gzip.compress(text))

    plain, zipped = read_log(tmp_path / "a.log"), read_log(tmp_path / "b")

    assert plain.tasks.arrival.tolist() == zipped.tasks.arrival.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "the file is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 40, "in no format that is known"),
        (b"hello\nworld\n", "in no format that is known"),
        (b"\n\n\n", "in no format that is known"),
        (gzip.compress(b"", mtime=0)[:12], "in no format that is known"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, content, line):
    file = tmp_path / "x.log"
    file.write_bytes(content)

    with pytest.raises(TraceError) as caught:
        read_log(file)

    assert str(caught.value).startswith(f"{file}: ")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_and_a_missing_file_are_refused_in_one_line(tmp_path):
    with pytest.raises(TraceError, match="a directory; name the file"):
        read_log(tmp_path)
    with pytest.raises(TraceError, match="No such file"):
        read_log(tmp_path / "no.log")


def test_a_format_that_reads_no_line_says_what_the_lines_are(tmp_path):
    with pytest.raises(TraceError) as caught:
        log_of(tmp_path, COMMON, format="haproxy")

    assert "none of its 1 lines can be used as 'haproxy': not a line of this format" in str(
        caught.value
    )


def test_progress_ends_at_the_whole_file(tmp_path):
    told = []
    file = tmp_path / "x.log"
    file.write_bytes((COMMON + "\n").encode() * 60_000)

    read_log(file, on_progress=told.append)

    assert told == sorted(told)
    assert len(told) > 3
    assert told[-1] == pytest.approx(1.0)


def test_a_row_takes_at_most_forty_bytes(tmp_path):
    tasks = log_of(tmp_path, COMMON, COMMON).tasks

    columns = (tasks.arrival, tasks.duration, tasks.service, tasks.server, tasks.status, tasks.size)
    assert sum(column.itemsize for column in columns) <= 40
    assert all(isinstance(column, np.ndarray) for column in columns)
