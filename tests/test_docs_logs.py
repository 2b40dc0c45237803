"""The pages on logs: every format field by field, and `equipoise fit` as it answers.

python tests/test_docs_logs.py    writes the fields and the answers of now into the pages
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from written import write_log

from equipoise.logs import FORMATS
from equipoise.logs.pattern import VARIABLES

ROOT = Path(__file__).parents[1]
FIELDS, PAGE = ROOT / "docs" / "logs.md", ROOT / "docs" / "commands" / "fit.md"


def section(name):
    """Return what a format's section must say."""
    form = FORMATS[name]
    rows = [
        f"| {', '.join(f'`{part}`' for part in f.name.split(', '))} | "
        f"{f.meaning.replace('<', '&lt;')} | {f.used or '-'} |"
        for f in form.fields
    ]
    return "\n".join(
        [
            f"### {name}",
            "",
            f"{form.about}. [Its documentation]({form.source})",
            "",
            "| field | meaning | becomes |",
            "|---|---|---|",
            *rows,
        ]
    )


def shown(text):
    """Return each command of a page and what it prints; a block of TOML is the file it wrote."""
    found = []
    for form, block in re.findall(r"^```(console|toml)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if form == "toml":
            found.append(("cat mine.toml", block))
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def make_logs(folder):
    """Two logs: one of HAProxy, of queues of unequal speed, and one without durations."""
    rng = np.random.default_rng(7)
    k, begun = 10_000, 1_709_640_000 + np.cumsum(rng.exponential(1 / 20.0, 10_000))
    server = rng.integers(0, 6, k)
    took = rng.lognormal(-2.0, 1.0, k) / np.where(server < 2, 0.5, 1.0)
    write_log(folder / "access.log", "haproxy", begun, took, server)
    line = '10.0.0.1 - - [05/Mar/2024:12:{:02d}:{:02d} +0000] "GET / HTTP/1.1" 200 5'
    seconds = np.sort(rng.integers(0, 3600, 5000))
    (folder / "apache.log").write_text("\n".join(line.format(s // 60, s % 60) for s in seconds))


def run(command, folder):
    """Return what a command prints on stdout; stderr must stay empty."""
    name, *arguments = shlex.split(command)
    if name == "cat":
        return (folder / arguments[0]).read_text()
    done = subprocess.run(
        [sys.executable, "-m", "equipoise", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_of_every_format_is_told_with_its_unit_and_what_becomes_of_it(name):
    assert section(name) in FIELDS.read_text(encoding="utf-8")


def test_no_format_is_told_that_is_gone():
    text = FIELDS.read_text(encoding="utf-8")

    assert re.findall(r"^### (\S+)$", text, re.MULTILINE) == list(FORMATS)


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_of_a_pattern_is_told(name):
    variable = name if name.startswith("%") else f"${name}"

    assert f"`{variable}`" in FIELDS.read_text(encoding="utf-8")


def test_fit_answers_as_its_page_shows(tmp_path):
    make_logs(tmp_path)
    pairs = shown(PAGE.read_text(encoding="utf-8"))

    assert len(pairs) >= 3
    for command, output in pairs:
        assert run(command, tmp_path).rstrip() == output.rstrip(), command


def rewrite():
    """Put the fields and the answers of now into the pages."""
    import tempfile

    text = FIELDS.read_text(encoding="utf-8")
    start, end = text.index("<!-- fields -->"), text.index("<!-- end of fields -->")
    sections = "\n\n".join(section(name) for name in FORMATS)
    text = f"{text[:start]}<!-- fields -->\n\n{sections}\n\n{text[end:]}"
    FIELDS.write_text(text, encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        make_logs(Path(folder))
        for command, output in shown(page):
            printed = run(command, Path(folder)).rstrip() + "\n"
            lead = "```toml\n" if command.startswith("cat ") else f"$ {command}\n"
            gap = "\n" if output.endswith("\n\n") else ""
            page = page.replace(lead + output, lead + printed + gap)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
