"""The command as such: help, version, exit statuses, completion, a reader that has gone."""

import importlib
import os
import subprocess
import sys
import time

import pytest

from equipoise.cli.main import COMMANDS


def test_help_lists_every_command_with_its_own_words(run):
    answer = run("--help")

    assert answer.status == 0
    for name, line in COMMANDS.items():
        assert f"{name} " in answer.out
        assert line in answer.out
        assert importlib.import_module(f"equipoise.cli.{name}").command.help.startswith(line)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(run, name):
    answer = run(name, "--help")

    assert answer.status == 0
    assert f"    equipoise {name}" in answer.out


def test_help_needs_none_of_the_libraries_that_take_long_to_import():
    code = (
        "import sys, equipoise.cli.main as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'numba', 'scipy', 'pydantic', 'rich'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("[]\n")


def test_help_takes_less_than_two_fifths_of_a_second(start):
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        start("--help").communicate()
        times.append(time.perf_counter() - begin)

    assert min(times) < 0.4


def test_version_is_told(run):
    from importlib.metadata import version

    assert run("--version").out == f"equipoise {version('equipoise')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["compare"],
        ["compare", "--nosuch"],
        ["compare", "x.toml", "--json", "--csv"],
        ["compare", "x.toml", "--servers", "3"],
        ["compare", "--load", "0.5"],
        ["compare", "--servers", "three", "--load", "0.5"],
        ["compare", "--servers", "3", "--load", "0.5", "--policies", ","],
        ["compare", "--servers", "3", "--load", "0.5", "--trace", "x.csv"],
        ["compare", "x.toml", "--duration", "3", "--tasks", "4"],
        ["simulate", "--servers", "3", "--load", "0.5"],
        ["simulate", "--show", "x.json", "--csv", "--json"],
        ["compare", "x.toml", "--show", "y.json"],
        ["simulate", "x.toml", "--policy", "jsq", "--kernel", "fast"],
        ["new", "--kind", "ring"],
        ["completion", "tcsh"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_status_2_with_its_usage(run, arguments):
    answer = run(*arguments)

    assert answer.status == 2
    assert answer.out == ""
    assert "Usage: equipoise" in answer.err
    assert "Error: " in answer.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(run, shell):
    answer = run("completion", shell)

    assert answer.status == 0
    assert "_EQUIPOISE_COMPLETE" in answer.out
    assert f"{shell}_complete" in answer.out


def completed(words):
    environment = {
        **os.environ,
        "_EQUIPOISE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "equipoise"], capture_output=True, text=True, env=environment
    )
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


def test_a_shell_completes_commands_options_and_policies():
    assert completed("equipoise comp") == ["compare", "completion"]
    assert completed("equipoise compare --serv") == ["--servers", "--service"]
    assert completed("equipoise compare --policies jsq,thr") == ["jsq,threshold"]
    assert completed("equipoise simulate --policy ji") == ["jiq"]


def test_a_reader_that_has_gone_is_no_error(start):
    process = start("policies", "--json", pass_fds=())
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)

    assert process.returncode == 141
    assert err == ""
