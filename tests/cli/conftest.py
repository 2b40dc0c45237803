"""Running the command line, here and in a process of its own."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from equipoise.cli.main import main


@dataclass
class Answer:
    """What a command answered: exit status, stdout and stderr."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return Answer(ended.value.code, out, err)

    yield call
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def start(tmp_path):
    """Start a command in a process of its own, which ends with the test, in an empty directory."""
    started = []

    def call(*arguments, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", "equipoise", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "error"},
            **options,
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


QUEUES = """
name = "small"
[servers]
count = 4
discipline = "fcfs"
[arrivals]
law = "poisson"
load = 0.7
[service]
law = "exponential"
mean = 1.0
[[policies]]
name = "random"
[[policies]]
name = "jsq-d"
d = 2
[run]
tasks = 2000
replications = 3
warm_up = 100.0
seed = 5
"""


@pytest.fixture
def scenario(tmp_path) -> Path:
    """A small scenario of queues, small.toml in the current directory."""
    path = tmp_path / "small.toml"
    path.write_text(QUEUES)
    return path


@pytest.fixture
def changed(scenario):
    """The small scenario with one piece of its text replaced."""

    def change(old, new):
        assert QUEUES.count(old) == 1
        scenario.write_text(QUEUES.replace(old, new))
        return scenario

    return change
