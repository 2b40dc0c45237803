"""`equipoise fit`: what it prints and writes, and every way in which a file is no log."""

import gzip
import json
import os

import numpy as np
import pytest
from written import write_log

from equipoise.cli.fit import read_columns
from equipoise.errors import EquipoiseError
from equipoise.scenario import Scenario


@pytest.fixture
def log(tmp_path):
    """A small log of HAProxy, access.log in the current directory."""
    rng = np.random.default_rng(1)
    begun = 1_709_640_000 + np.cumsum(rng.exponential(0.1, 600))
    return write_log(
        tmp_path / "access.log", "haproxy", begun, rng.exponential(0.2, 600),
        rng.integers(0, 3, 600),
    )  # fmt: skip


def refused(answer, *fragments):
    """Assert that a command refused in one line, which has these fragments."""
    assert answer.status == 1, answer.err
    assert len(answer.lines) == 1, answer.err
    assert answer.err.startswith("error: ")
    for fragment in fragments:
        assert fragment in answer.err
    assert "Traceback" not in answer.err


def test_it_tells_what_it_found_and_writes_nothing(run, log, tmp_path):
    answer = run("fit", "access.log")

    assert answer.status == 0
    assert answer.err == ""
    heads = [line.split()[0] for line in answer.out.splitlines() if line[0] != " "]
    assert heads == ["Log", "Rate", "Bursts", "Service", "Servers", "At", "Scenario"]
    assert "all 600 lines used" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100
    assert os.listdir(tmp_path) == ["access.log"]


def test_it_writes_a_scenario_a_page_and_the_tasks(run, log, tmp_path):
    answer = run("fit", "access.log", "-o", "mine.toml", "--page", "p.html", "--tasks", "t.csv")

    assert answer.status == 0
    assert "Wrote      mine.toml, p.html, t.csv" in answer.out
    assert "Next       equipoise compare mine.toml" in answer.out
    assert Scenario.from_toml(tmp_path / "mine.toml", trace=tmp_path / "t.csv").given == "traffic"
    assert "#     equipoise fit access.log\n" in (tmp_path / "mine.toml").read_text()
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")


def test_what_it_writes_can_be_compared(run, log):
    run("fit", "access.log", "-o", "mine.toml", "--discipline", "fcfs", "--servers", "4")
    answer = run(
        "compare", "mine.toml", "--policies", "jsq", "--tasks", 2000, "--replications", 2, "--json"
    )

    assert answer.status == 0, answer.err
    assert json.loads(answer.out)["scenario"]["servers"]["count"] == 4


def test_the_json_is_one_object(run, log):
    found = json.loads(run("fit", "access.log", "--json").out)

    assert found["format"] == "haproxy"
    assert found["service"]["law"] == "exponential"
    assert found["missing"] == []


def test_a_law_and_columns_can_be_given(run, tmp_path):
    rows = "\n".join(f"{i / 7:.3f},{i % 13}" for i in range(400))
    (tmp_path / "t.csv").write_text(f"at,Tokens\n{rows}\n")
    answer = run("fit", "t.csv", "--columns", "time=at,service=0.05+0.02*Tokens", "--servers", 2,
                 "--law", "empirical", "-o", "s.toml")  # fmt: skip

    assert answer.status == 0, answer.err
    read = Scenario.from_toml(tmp_path / "s.toml")
    assert read.service.law == "empirical"
    # the mean of 0 .. 12 over 400 rows
    tokens = np.arange(400) % 13
    assert read.mean_service == pytest.approx(0.05 + 0.02 * tokens.mean(), rel=1e-3)


def test_a_log_without_durations_is_told_what_is_missing(run, tmp_path):
    line = '10.0.0.1 - - [05/Mar/2024:12:00:{:02d} +0000] "GET / HTTP/1.1" 200 5'
    (tmp_path / "bare.log").write_text("\n".join(line.format(i % 60) for i in range(120)))
    answer = run("fit", "bare.log")

    assert answer.status == 0
    text = " ".join(answer.out.split())
    assert "does not say how long requests took" in text
    assert "--service 'exponential(mean=0.1)'" in text

    refused(run("fit", "bare.log", "-o", "s.toml"), "bare.log does not say how long tasks take")
    assert os.listdir(tmp_path) == ["bare.log"]
    again = run("fit", "bare.log", "--service", "exponential(mean=0.1)", "--servers", 2,
                "-o", "s.toml")  # fmt: skip
    assert again.status == 0
    assert Scenario.from_toml(tmp_path / "s.toml").mean_service == 0.1


GARBAGE = np.random.default_rng(2).bytes(300_000)
NO_LOGS = {
    "garbage": (GARBAGE, "in no format that is known"),
    "zeros": (b"\0" * 200_000, "in no format that is known"),
    "latin": ("Größe\n".encode("latin-1") * 50, "in no format that is known"),
    "empty": (b"", "the file is empty"),
    "blank": (b"\n\r\n\n", "in no format that is known"),
    "cut": (gzip.compress(b"a line\n" * 5000, mtime=0)[:40], "in no format that is known"),
    "not gzip": (b"\x1f\x8b" + GARBAGE[:100], ""),
    "header": (b"timestamp,duration\n", "in no format that is known"),
    "words": (b"timestamp,duration\nnow,long\n", "cannot be used|can be used"),
}


@pytest.mark.parametrize("name", NO_LOGS)
def test_what_is_no_log_is_refused_in_one_line(run, tmp_path, name):
    content, said = NO_LOGS[name]
    (tmp_path / "file").write_bytes(content)
    answer = run("fit", "file", "-o", "s.toml")

    refused(answer, "file")
    assert any(part in answer.err for part in said.split("|"))
    assert answer.out == ""
    assert os.listdir(tmp_path) == ["file"]


def test_directories_and_files_that_are_not_there_are_refused(run, tmp_path):
    (tmp_path / "logs").mkdir()

    refused(run("fit", "logs"), "logs: a directory; name the file")
    refused(run("fit", "none.log"), "none.log: No such file")


def test_a_gzip_file_that_is_cut_off_is_used_as_far_as_it_goes(run, log):
    whole = gzip.compress(log.read_bytes())
    log.write_bytes(whole[: len(whole) // 2])
    answer = run("fit", "access.log")

    assert answer.status == 0
    assert "the gzip data end too early" in answer.out


def test_line_ends_of_another_system_and_broken_characters_change_nothing(run, log):
    plain = json.loads(run("fit", "access.log", "--json").out)
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n").replace(b"alice", b"al\xffce"))
    other = json.loads(run("fit", "access.log", "--json").out)

    assert other == plain


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "none/s.toml"], "the directory"),
        (["--page", "."], "it is a directory"),
        (["--law", "fish"], "law = 'fish': must be best"),
        (["--format", "klingon"], "no log format is called 'klingon'"),
        (["--columns", "time"], "--columns: 'time' should read like time=TIMESTAMP"),
        (["--columns", "service=0.02*x*y+a*b"], "should be seconds times a column"),
        (["--service", "fish"], "no such law"),
        (["--servers", "0"], "servers = 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(run, log, options, said):
    refused(run("fit", "access.log", *options), said)


def test_columns_are_read_as_they_are_written():
    assert read_columns("time=at, end=b") == {"time": "at", "end": "b"}
    assert read_columns("service=took") == {"service": "took"}
    assert read_columns("service=0.5+2*x+y") == {
        "service": {"constant": 0.5, "x": 2.0, "y": 1.0}
    }  # fmt: skip
    with pytest.raises(EquipoiseError, match="should read like"):
        read_columns("=x")
