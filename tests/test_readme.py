"""The README, read as a newcomer would: what it tells to type works, and shows what it says.

A block of `console` has lines that begin with "$ ", each followed by what it prints. A block of
`python` is followed by one of `text`, what that prints. Commands in a block of `sh` show nothing
and need only work, with the files they speak of at hand. Only what differs between machines is
left out of the comparison: the speed.

    python tests/test_readme.py    writes what is printed now into the README
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # when run as a script
from written import write_log

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(kind):
    """Return the contents of the blocks of a kind, as they come."""
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def sessions():
    """Return each command and what it should print."""
    parts = [re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] for block in blocks("console")]
    shown = [part.partition("\n") for each in parts for part in each]
    return [pytest.param(command, output, id=command) for command, _, output in shown]


def silent():
    """Return the commands of which nothing is shown."""
    lines = "".join(blocks("sh")).splitlines()
    return [line for line in lines if line.startswith("equipoise ")]


def masked(text):
    """Return the text without what a machine's speed decides, and without trailing blanks."""
    text = re.sub(r"[\d.]+ (million |thousand )?events/s", "SPEED events/s", text)
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    return re.sub(r" {2,}", "  ", text).strip()


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A folder that looks like a clone, where commands may leave files."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "examples").symlink_to(ROOT / "examples")
    text = run(["-m", "equipoise", "new", "-"], folder)
    for line in ("[trace]", 'time = "TIMESTAMP"', 'service = "duration"'):
        assert f"# {line}" in text
        text = text.replace(f"# {line}", line)
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    rows = "".join(f"{i / 10},{0.1 + i % 7}\n" for i in range(2000))
    (folder / "tuesday.csv").write_text("TIMESTAMP,duration\n" + rows, encoding="utf-8")
    rng = np.random.default_rng(1)
    begun = 1.6e9 + np.cumsum(rng.exponential(0.02, 2000))
    log = folder / "access.log"
    write_log(log, "haproxy", begun, rng.exponential(0.1, 2000), rng.integers(0, 12, 2000))
    run(["-m", "equipoise", "fit", "access.log", "-o", "traffic.toml"], folder)
    return folder


def run(arguments, folder):
    """Run Python in the clone and return what it prints on stdout; stderr must stay empty."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(("command", "output"), sessions())
def test_every_command_prints_what_is_shown(clone, command, output):
    name, *arguments = shlex.split(command)

    assert name == "equipoise"
    assert masked(run(["-m", "equipoise", *arguments], clone)) == masked(output)


@pytest.mark.parametrize("command", silent())
def test_every_command_that_shows_nothing_works(clone, command):
    _, *arguments = shlex.split(command)
    if arguments[0] == "advise":  # whose answer is not shown here: a fraction of the work will do
        arguments += ["--budget", "2000000"]

    assert run(["-m", "equipoise", *arguments], clone)


def test_the_python_example_prints_what_is_shown(clone):
    (code,) = blocks("python")
    (output,) = blocks("text")

    assert masked(run(["-c", code], clone)) == masked(output)


def test_every_make_target_it_names_exists():
    targets = set(re.findall(r"\bmake ([a-z]+)", README))

    assert {"demo", "test"} <= targets
    assert targets <= set(re.search(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)[1].split())


def test_make_demo_runs_what_it_shows():
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]

    assert "equipoise compare examples/code-assistant-queues.toml" in recipe
    assert "equipoise compare examples/code-assistant.toml --report compare.html" in recipe


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_every_link_leads_somewhere(link):
    assert link.startswith("https://") or (ROOT / link).exists()


def rewrite():
    """Put what the README's commands print now in the place of what it shows."""
    text = README
    for command, output in (parameter.values for parameter in sessions()):
        _, *arguments = shlex.split(command)
        printed = run(["-m", "equipoise", *arguments], ROOT)
        if masked(printed) != masked(output):
            text = text.replace(f"$ {command}\n{output}", f"$ {command}\n{printed}")
    (code,), (output,) = blocks("python"), blocks("text")
    text = text.replace(f"```text\n{output}", f"```text\n{run(['-c', code], ROOT)}")
    (ROOT / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
