"""The unit for systemd and the Containerfile among the examples say what they should."""

import configparser
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from equipoise.cli.main import cli
from equipoise.live.config import Config

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "live"


@pytest.fixture
def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(EXAMPLES / "equipoise.service")
    return parser


def accepted(words):
    """Whether the command line takes these words after `equipoise`."""
    command = cli.get_command(click.Context(cli), words[0])
    return command is not None and bool(command.make_context(words[0], list(words[1:])))


def test_the_unit_starts_reloads_and_stops_what_we_have(unit):
    service = unit["Service"]
    program, *words = service["ExecStart"].split()

    assert program.endswith("/bin/equipoise")
    assert accepted(words)
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillMode"] == "mixed", "SIGTERM is for the parent alone"
    drain = Config.model_fields["drain"].default
    assert int(service["TimeoutStopSec"]) > drain + 5
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_unit_has_few_rights_and_those_that_are_needed(unit):
    service = unit["Service"]

    assert service["DynamicUser"] == service["NoNewPrivileges"] == service["PrivateTmp"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"
    assert set(service["RestrictAddressFamilies"].split()) == {"AF_INET", "AF_INET6", "AF_UNIX"}
    assert "MemoryDenyWriteExecute" not in service, "policies are compiled"
    assert service["Environment"] == f"EQUIPOISE_CACHE=/var/cache/{service['CacheDirectory']}"


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd here")
    text = (EXAMPLES / "equipoise.service").read_text()
    (tmp_path / "equipoise.service").write_text(
        text.replace("/opt/equipoise/bin/equipoise", "/bin/true")
    )

    done = subprocess.run(
        [analyze, "verify", tmp_path / "equipoise.service"], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_containerfile_installs_what_is_needed_and_runs_as_nobody():
    text = (EXAMPLES / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    given = {}
    for line in lines:
        key, _, value = line.partition(" ")
        given.setdefault(key, []).append(value)

    assert set(given) <= {
        *("FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV"),
        *("EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"),
    }
    (source,) = given["FROM"]
    version = re.fullmatch(r"docker\.io/library/python:3\.(\d+)-slim", source)
    assert version is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: 3.{version[1]}" in project["classifiers"]
    assert any("[live]" in command for command in given["RUN"])
    assert "live" in project["optional-dependencies"]
    (uid,) = given["USER"]
    assert int(uid) > 0
    assert any(f"--uid {uid}" in command for command in given["RUN"])
    assert given["STOPSIGNAL"] == ["SIGTERM"]
    words = json.loads(given["ENTRYPOINT"][0]) + json.loads(given["CMD"][0])  # exec form
    assert words[0] == "equipoise"
    assert accepted(words[1:])
    for copied in given["COPY"]:
        for name in copied.split()[:-1]:
            assert (ROOT / name).exists(), name
    needed = {project["readme"], *project["license-files"], "pyproject.toml", "src"}
    assert needed <= {name for copied in given["COPY"] for name in copied.split()[:-1]}


def test_the_example_configuration_with_all_that_is_commented_out_is_good(tmp_path):
    """Every key that it shows exists, at its default."""
    text = (EXAMPLES / "dispatch.toml").read_text()
    for name in ("certificate.pem", "key.pem"):
        shutil.copy(Path(__file__).parent / "tls" / name, tmp_path)
    shown = re.sub(r"(?m)^# (?=[a-z_]+ = |\[)", "", text)
    shown = shown.replace("site.pem", "certificate.pem").replace("site.key", "key.pem")
    (tmp_path / "d.toml").write_text(shown)
    (tmp_path / "secret").write_text("word\n")

    found = Config.from_toml(tmp_path / "d.toml")

    assert found.tls is not None
    assert (found.workers, found.watch) == (1, False)
    assert found.admin.control == str(tmp_path / "equipoise.sock")
