"""What is installed, from what, and what make offers."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALLED_BY_MAKE = [
    *PROJECT["dependencies"],
    *(
        need
        for extra in ("dev", "bench", "docs", "live")
        for need in PROJECT["optional-dependencies"][extra]
    ),
]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as packed:
        packed.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.mark.parametrize("need", INSTALLED_BY_MAKE)
def test_every_dependency_is_pinned_to_a_version_in_its_range(need):
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    requirement = Requirement(need)

    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_the_wheel_holds_the_whole_package_and_its_licence(wheel):
    source = ROOT / "src"
    files = {
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {path.relative_to(wheel) for path in wheel.rglob("equipoise/**/*.*")} == files
    assert {path.name for path in wheel.rglob("licenses/*")} == {"LICENSE", "NOTICE"}


def test_the_wheel_answers_without_any_extra(wheel):
    code = f"""
import sys
sys.path.insert(0, {str(wheel)!r})
extras = "uvloop httptools prometheus_client dask distributed simpy pytest hypothesis sphinx"
sys.modules.update(dict.fromkeys(extras.split()))  # None: importing one of them fails
import equipoise.cli.main
assert equipoise.__file__.startswith({str(wheel)!r})
equipoise.cli.main.main(["policies"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "learning-threshold" in done.stdout


def test_make_alone_lists_every_target_with_a_line():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    targets = re.search(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)[1].split()

    for target in targets:
        assert re.search(rf"^make {target} +\w.*", done.stdout, re.MULTILINE), target


def test_make_says_which_python_it_needs_when_there_is_none(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    done = subprocess.run(
        ["make", "-f", ROOT / "Makefile", "PYTHON=/nonexistent/python", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert done.stderr.startswith("Equipoise needs Python 3.11 or newer")
    assert not (tmp_path / ".venv").exists()
