"""Derive the facts beside this file from a public trace: arrivals per bin, and quantiles.

    python examples/data/derive.py AzureLLMInferenceTrace_code.csv code-assistant \\
        --time TIMESTAMP --column GeneratedTokens --bin 5 \\
        --source "Azure LLM inference trace 2023, code (Splitwise, ISCA 2024), CC-BY-4.0"
    python examples/data/derive.py azure_functions_2021.csv functions \\
        --end end_timestamp --column duration --bin 30 \\
        --source "Azure Functions invocation trace 2021, example of invitro, CC-BY-4.0"

writes NAME-arrivals.csv and NAME-COLUMN.csv. A file of quantiles keeps every 1/200, and the
largest 1 % of the tasks nearly task by task, since they carry much of the work.
"""

import argparse
from pathlib import Path

import numpy as np

from equipoise.scenario import read_trace


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("file", help="the public CSV")
    arguments.add_argument("name", help="what the files written here begin with")
    clock = arguments.add_mutually_exclusive_group(required=True)
    clock.add_argument("--time", help="column of arrival times")
    clock.add_argument("--end", help="column of end times, in which case COLUMN is in seconds")
    arguments.add_argument("--column", required=True, help="column of sizes")
    arguments.add_argument("--bin", type=float, required=True, help="seconds")
    arguments.add_argument("--source", required=True, help="named in the files")
    given = arguments.parse_args()

    trace = read_trace(given.file, time=given.time, end=given.end, service=given.column)
    folder = Path(__file__).parent

    bins = int(trace.times[-1] // given.bin) + 1
    counts = np.bincount((trace.times // given.bin).astype(int), minlength=bins)
    write(
        folder / f"{given.name}-arrivals.csv",
        f"# Tasks that arrived in each {given.bin:g} s.\n# Source: {given.source}.\ncount\n",
        [f"{count}" for count in counts],
    )

    tail = np.linspace(0.99, 1.0, 51)
    probabilities = np.concatenate((np.arange(198) / 200, tail))
    # Hazen's positions keep the moments: within 0.2 % of the mean and 0.4 % of the square,
    # where numpy's default loses 3 % of the square in the tail.
    quantiles = np.quantile(trace.sizes, probabilities, method="hazen")
    write(
        folder / f"{given.name}-{given.column}.csv",
        f"# Quantiles of {given.column} of {len(trace.times)} tasks.\n"
        f"# Source: {given.source}.\nprobability,quantile\n",
        [f"{p:.4f},{q:.6g}" for p, q in zip(probabilities, quantiles, strict=True)],
    )


def write(path: Path, head: str, rows: list[str]) -> None:
    path.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
