"""Whatever is registered is documented, and what the documents show exists.

python tests/test_docs.py    writes what is printed now into the pages that show it
"""

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest
from test_readme import masked, run

from equipoise.cli.main import COMMANDS, cli
from equipoise.policies import POLICIES
from equipoise.theory.limits import LIMITS, POOL_LIMITS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"), key=str)
READERS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def sessions(page):
    """Return each command in the page's console blocks, and what it should print."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    parts = [re.split(r"^\$ ", block, flags=re.M)[1:] for block in blocks]
    split = [part.partition("\n") for each in parts for part in each]
    return [(command, output) for command, _, output in split]


SHARE = ("simulate", "limit", "advise")  # options with compare


def commands_in(text):
    """Yield the commands of a page that are whole: a synopsis has brackets or capital letters."""
    for line in re.findall(r"^(?:    |\$ )(equipoise .*)$", text, re.MULTILINE):
        command = re.split(r" >{1,2} ", line)[0]
        if not re.search(r"[\[|]|\b[A-Z]\b", command):
            yield command


SHOWN = [
    pytest.param(command, id=f"{page.relative_to(ROOT)}: {command}")
    for page in READERS
    for command in commands_in(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_page_that_tells_its_parameters_and_source(name):
    page = (DOCS / "policies" / f"{name}.md").read_text(encoding="utf-8")
    policy = POLICIES[name]

    assert page.startswith(f"# {name}\n")
    assert "## Source" in page
    assert f"--policy {name}" in page or f"--policy '{name}(" in page
    for parameter in policy.params:
        assert f"| `{parameter}` |" in page, parameter


def test_no_page_tells_of_a_policy_that_is_gone():
    assert {page.stem for page in (DOCS / "policies").glob("*.md")} == set(POLICIES)


@pytest.mark.parametrize("limit", [*LIMITS.values(), *POOL_LIMITS.values()])
def test_every_limit_is_named_on_its_policys_page(limit):
    page = (DOCS / "policies" / f"{limit.policy}.md").read_text(encoding="utf-8")

    assert limit.drift.__module__ in page
    assert "rest_point" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_page_that_names_its_options(name):
    page = (DOCS / "commands" / f"{name}.md").read_text(encoding="utf-8")
    compare = (DOCS / "commands" / "compare.md").read_text(encoding="utf-8")
    command = importlib.import_module(f"equipoise.cli.{name}").command

    assert page.startswith(f"# equipoise {name}\n")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            option = max(parameter.opts, key=len)
            # the pages of simulate, limit and advise refer to that of compare for what they share
            assert option in page + (compare if name in SHARE else ""), option


def test_no_page_tells_of_a_command_that_is_gone():
    assert {page.stem for page in (DOCS / "commands").glob("*.md")} == set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_page_is_in_the_table_of_contents(page):
    name = str(page.relative_to(DOCS).with_suffix(""))

    assert name == "index" or f"\n{name}\n" in (DOCS / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", SHOWN)
def test_every_command_shown_is_one_that_the_command_line_accepts(line):
    _, name, *arguments = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    command.make_context(name, arguments)


def test_the_page_on_pools_says_what_theory_answers():
    page = (DOCS / "theory-pools.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(code, names)
    answer = names["answer"]

    for line in re.findall(r"^answer\.(\w+) +# ([\d.]+)", code, re.MULTILINE):
        said = line[1].rstrip(".")
        digits = len(said.partition(".")[2])
        assert f"{getattr(answer, line[0]):.{digits}f}" == said, line
    assert answer.warnings[0].startswith("load 7.3 is 1.6 standard deviations")


def test_there_are_commands_to_check():
    assert len(SHOWN) > 20


TOLD = ("commands/advise.md", "what-if.md")  # pages that show what commands print
SESSIONS = [  # advice takes ten seconds each
    pytest.param(page, *session, id=session[0], marks=[pytest.mark.slow] * ("advise" in session[0]))
    for page in TOLD
    for session in sessions(DOCS / page)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the examples, where commands leave their files."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize(("page", "command", "output"), SESSIONS)
def test_every_command_on_a_page_prints_what_is_shown(folder, page, command, output):
    name, *arguments = shlex.split(command)

    assert name == "equipoise"
    assert masked(run(["-m", "equipoise", *arguments], folder)) == masked(output)


@pytest.mark.slow
def test_the_configuration_on_the_page_is_the_one_that_is_written(folder):
    (shown,) = re.findall(r"^```toml\n(.*?)^```", (DOCS / TOLD[0]).read_text(), re.S | re.M)
    command = next(s for s in sessions(DOCS / TOLD[0]) if "advised.toml" in s[0])[0]
    if not (folder / "advised.toml").exists():  # where this test runs alone
        run(["-m", "equipoise", *shlex.split(command)[1:]], folder)

    assert (folder / "advised.toml").read_text() == shown


def test_the_page_on_what_if_does_in_python_what_it_says(folder, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "what-if.md").read_text(), re.S)
    monkeypatch.chdir(folder)
    names = {}
    exec(code, names)

    assert names["sizes"].labels == ("jsq", "jsq-d(d=2)", "round-robin")


def test_the_table_of_the_page_on_dispatchers_is_what_its_program_prints(capsys):
    page = (DOCS / "dispatchers.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code, {})

    assert f"|---|---|---|---|---|\n{capsys.readouterr().out}\n" in page


def test_the_python_page_does_what_it_says(tmp_path, monkeypatch):
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    exec(code, names)

    assert names["comparison"].best.label == "jsq"
    assert (tmp_path / "compare.html").stat().st_size > 10_000


def rewrite():
    """Put what commands print now in the place of what the pages show, and the file they write."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        for page in TOLD:
            path = DOCS / page
            text = path.read_text(encoding="utf-8")
            for command, output in sessions(path):
                printed = run(["-m", "equipoise", *shlex.split(command)[1:]], folder)
                text = text.replace(f"$ {command}\n{output}", f"$ {command}\n{printed}")
            if page == TOLD[0]:
                before, _, after = text.partition("```toml\n")
                written = (folder / "advised.toml").read_text()
                text = f"{before}```toml\n{written}```{after.partition('```')[2]}"
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
