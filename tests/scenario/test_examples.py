"""The scenarios in examples/ are right, need no other file, and say where their facts are from."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from equipoise.scenario import Scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.toml"))
every_example = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])

DATA = os.environ.get("EQUIPOISE_DATA")


@every_example
def test_an_example_is_a_scenario(file):
    scenario = Scenario.from_toml(file)

    assert scenario.policies
    assert Scenario.from_dict(scenario.to_dict()).to_dict() == scenario.to_dict()


@every_example
def test_an_example_names_no_file_outside_the_project(file):
    tables = tomllib.loads(file.read_text())

    for table in tables.values():
        if isinstance(table, dict) and "file" in table:
            assert (EXAMPLES / table["file"]).resolve().is_relative_to(EXAMPLES.resolve())


def test_derived_facts_name_their_source():
    for file in (EXAMPLES / "data").glob("*.csv"):
        assert file.read_text().split("\n")[1].startswith("# Source: Azure")


def test_the_code_assistant_offers_about_eight_tasks_per_server():
    pools = Scenario.from_toml(EXAMPLES / "code-assistant.toml")
    queues = Scenario.from_toml(EXAMPLES / "code-assistant-queues.toml")

    assert pools.offered_load()[0] == pytest.approx(7.8, abs=0.01)
    assert pools.rate_table()[1].sum() * 5 == pytest.approx(100 * 8819)
    assert queues.rate_table()[1].sum() * 5 == pytest.approx(8819)


@pytest.mark.skipif(not DATA, reason="EQUIPOISE_DATA names no folder of public traces")
def test_the_derived_facts_follow_from_the_public_file(tmp_path):
    script = tmp_path / "derive.py"
    script.write_text((EXAMPLES / "data" / "derive.py").read_text())
    source = "Azure LLM inference trace 2023, code (Splitwise, ISCA 2024), CC-BY-4.0"
    subprocess.run(
        [sys.executable, script, Path(DATA) / "azure_llm_2023_code.csv", "code-assistant",
         "--time", "TIMESTAMP", "--column", "GeneratedTokens", "--bin", "5", "--source", source],
        check=True, capture_output=True,
    )  # fmt: skip

    for name in ("code-assistant-arrivals.csv", "code-assistant-GeneratedTokens.csv"):
        assert (tmp_path / name).read_text() == (EXAMPLES / "data" / name).read_text()


@pytest.mark.skipif(not DATA, reason="EQUIPOISE_DATA names no folder of public traces")
@pytest.mark.parametrize(
    ("name", "trace"),
    [
        ("code-assistant", "azure_llm_2023_code.csv"),
        ("code-assistant-queues", "azure_llm_2023_code.csv"),
        ("functions", "azure_functions_2021_invocations.csv"),
    ],
)
def test_the_derived_service_law_is_close_to_the_trace(name, trace):
    law = Scenario.from_toml(EXAMPLES / f"{name}.toml").service.moments()
    sizes = Scenario.from_toml(EXAMPLES / f"{name}.toml", trace=Path(DATA) / trace).recording.sizes

    assert law.mean == pytest.approx(sizes.mean(), rel=0.02)
    assert law.scv == pytest.approx(np.var(sizes) / sizes.mean() ** 2, rel=0.02)
