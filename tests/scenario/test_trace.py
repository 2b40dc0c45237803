"""Reading traces: every form that is promised, and every way to be wrong in one line."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from equipoise.errors import TraceError
from equipoise.scenario import Scenario, read_trace


@pytest.fixture
def write(tmp_path):
    def write(content, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_seconds_start_at_the_first_arrival(write):
    trace = read_trace(write("id,t,d\na,100.5,1\nb,102,0\n"), time="t", service="d")

    assert trace.times.tolist() == [0, 1.5]
    assert trace.sizes.tolist() == [1, 0]


def test_windows_line_ends_a_byte_order_mark_and_no_final_newline_are_read(write):
    trace = read_trace(write(b"\xef\xbb\xbft,d\r\n1,2\r\n\r\n3,4"), time="t", service="d")

    assert trace.times.tolist() == [0, 2]
    assert trace.sizes.tolist() == [2, 4]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_recognised(write, separator):
    trace = read_trace(write("t,d\n1,2\n3,4\n".replace(",", separator)), time="t", service="d")

    assert trace.sizes.tolist() == [2, 4]


def test_quoted_cells_keep_their_commas_and_line_ends(write):
    path = write('name,t\n"a, b",1\n"c\nd",2\nx,y\n')

    with pytest.raises(TraceError, match=r"line 5: column t: 'y'; it must be a number"):
        read_trace(path, time="t")


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        ("2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.0319601", 0.0520001),
        ("2023-11-16T23:59:59.9999999Z", "2023-11-17T00:00:00Z", 1e-7),
        ("2023-11-16T18:00:00+01:00", "2023-11-16T17:00:00.5Z", 0.5),
        ("2023-11-16T18:00:00-0530", "2023-11-16T18:00:01,25-05:30", 1.25),
        ("2024-02-28T23:00:00Z", "2024-03-01T00:00:00Z", 25 * 3600),
        ("1700000000.25", "1700000001.5", 1.25),
    ],
)
def test_times_are_seconds_or_iso(write, first, second, seconds):
    trace = read_trace(write(f't\n"{first}"\n"{second}"\n'), time="t")

    assert trace.times[1] == pytest.approx(seconds, abs=1e-9)
    assert trace.sizes is None


def test_an_arrival_is_the_end_less_the_service_time(write):
    path = write("end,d\n10,9\n4,2\n12,9.5\n")

    trace = read_trace(path, end="end", service="d")

    assert trace.times.tolist() == [0, 1, 1.5]
    assert trace.sizes.tolist() == [9, 2, 9.5]


def test_a_combination_of_columns_makes_seconds(write):
    path = write("t,In,Out\n0,100,10\n1,0,1\n")

    trace = read_trace(path, time="t", service={"constant": 1, "In": 0.01, "Out": 0.5})

    assert trace.sizes.tolist() == [7, 1.5]


def test_jsonl_is_read_like_csv(write):
    path = write('{"t": 1, "d": "2.5", "x": null}\n\n{"d": 0, "t": 3.5}', "trace.jsonl")

    trace = read_trace(path, time="t", service="d")

    assert trace.times.tolist() == [0, 2.5]
    assert trace.sizes.tolist() == [2.5, 0]


@pytest.mark.parametrize("text", ["t\n1\n2.5\n", '{"t": 1}\n{"t": 2.5}\n'])
def test_gzipped_files_are_read_whatever_they_are_called(write, text):
    trace = read_trace(write(gzip.compress(text.encode()), "trace"), time="t")

    assert trace.times.tolist() == [0, 1.5]


def test_rounding_of_epoch_seconds_does_not_make_time_go_back(write):
    path = write("end,d\n1700000000.1,0.1\n1700000000.3,0.3\n1700000000.7,0.7\n")

    trace = read_trace(path, end="end", service="d")

    assert np.diff(trace.times).min() >= 0
    assert trace.times[-1] < 1e-6


def test_sort_puts_the_tasks_in_order_of_arrival(write):
    path = write("end,d\n3,1\n4,4\n5,4\n")

    with pytest.raises(TraceError, match=r"line 3: the arrival \(end - service time\) goes back"):
        read_trace(path, end="end", service="d")
    trace = read_trace(path, end="end", service="d", sort=True)

    assert trace.times.tolist() == [0, 1, 2]
    assert trace.sizes.tolist() == [4, 4, 1]


WRONG = {
    "": "{}: the file is empty; a trace has a line for each task",
    "\n \n": "{}: the file is empty; a trace has a line for each task",
    "t,d\n": "{}: there are no tasks below the header",
    "T,d\n1,2\n": "{}: no column 't'; the columns are: T, d",
    "tt,d\n1,2\n": "{}: no column 't'; did you mean 'tt'?; the columns are: tt, d",
    "t,d\n1,2\n3\n": "{}, line 3: 1 values, but the header names 2 columns",
    "t,d\n1,2\n3,x\n": "{}, line 3: column d: 'x'; it must be a number",
    "t,d\n1,2\n\n3,\n": "{}, line 4: column d: the value is empty; it must be a number",
    "t,d\n1,NaN\n": "{}, line 2: column d: 'NaN'; it must be a finite number",
    "t,d\n1,inf\n": "{}, line 2: column d: 'inf'; it must be a finite number",
    "t,d\n1,2\n3,-0.5\n": "{}, line 3: d gives -0.5 s; a service time must be at least 0",
    "t,d\n1,2\nsoon,1\n": "{}, line 3: column t: 'soon'; it must be a number",
    "t,d\nnan,2\n": "{}, line 2: column t: 'nan'; it must be a finite number",
    "t,d\n2023-01-01 00:00:00,1\n2023-13-01 00:00:00,1\n": (
        "{}, line 3: column t: '2023-13-01 00:00:00'; a time is written as seconds (12.5) or "
        "ISO 8601 (2023-11-16T18:17:03.97Z)"
    ),
    "t,d\n16/Nov/2023,1\n": (
        "{}, line 2: column t: '16/Nov/2023'; a time is written as seconds (12.5) or ISO 8601 "
        "(2023-11-16T18:17:03.97Z)"
    ),
    "t,d\n5,1\n9,1\n3.5,1\n": (
        "{}, line 4: the arrival time goes back by 5.5 s; sort the file by arrival, or say "
        "sort = true"
    ),
    '{"t": 1, "d": 2}\n{"t": 2}\n': "{}, line 2: no 'd'; the names are: t",
    '{"t": 1, "d": 2}\n{"t": 2,\n': "{}, line 2: not a JSON object: '{{\"t\": 2,'",
    '{"t": 1, "d": null}\n': "{}, line 1: column d: the value is empty; it must be a number",
    '{"t": 1, "d": true}\n': "{}, line 1: column d: 'True'; it must be a number",
    '[{"t": 1, "d": 2}]\n': "{}, line 1: a JSON list; a trace has one JSON object per line",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_trace_is_refused_in_one_line(write, text):
    path = write(text)

    with pytest.raises(TraceError) as caught:
        read_trace(path, time="t", service="d")

    assert str(caught.value) == WRONG[text].format(path)


def test_broken_utf8_is_refused_with_its_line(write):
    path = write(b"t\n1\n2\n\xff\xfe\n")

    with pytest.raises(TraceError) as caught:
        read_trace(path, time="t")

    assert str(caught.value).startswith(f"{path}, line 4: not UTF-8 text")


def test_a_file_that_is_cut_short_is_refused(write):
    packed = gzip.compress(b"t\n" + b"".join(b"%d\n" % i for i in range(9999)))

    with pytest.raises(TraceError, match="the compressed file is damaged or cut short"):
        read_trace(write(packed[:-100]), time="t")


def test_a_directory_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(TraceError, match="is a directory; name a file in it"):
        read_trace(tmp_path, time="t")
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.csv", time="t")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission_is_refused(write):
    path = write("t\n1\n")
    path.chmod(0)

    with pytest.raises(TraceError, match="no permission to read it"):
        read_trace(path, time="t")


def test_a_scenario_reads_its_trace_from_its_own_folder(tmp_path, write):
    write("t,d\n0,1\n4,3\n")
    write(
        '[servers]\ncount = 1\ndiscipline = "pool"\n'
        '[arrivals]\nlaw = "trace"\nfile = "trace.csv"\ntime = "t"\n'
        '[service]\nlaw = "trace"\ncolumn = "d"\n',
        "s.toml",
    )

    scenario = Scenario.from_toml(tmp_path / "s.toml")

    assert scenario.mean_service == 2
    assert scenario.given == "traffic"
    assert scenario.horizon == 8  # one mean interval after the last arrival


def test_a_trace_without_a_trace_table_is_refused_with_what_to_write(write):
    scenario = Scenario.simple(servers=2, load=0.5)

    with pytest.raises(Exception, match=r"^trace: missing; a \[trace\] table says"):
        scenario.with_trace(write("t\n1\n"))


DATA = os.environ.get("EQUIPOISE_DATA")
real = pytest.mark.skipif(not DATA, reason="EQUIPOISE_DATA names no folder of public traces")
EXAMPLES = Path(__file__).parents[2] / "examples"


@real
@pytest.mark.parametrize("name", ["code-assistant", "code-assistant-queues"])
def test_the_public_trace_of_a_code_assistant_is_read(name):
    scenario = Scenario.from_toml(
        EXAMPLES / f"{name}.toml", trace=Path(DATA) / "azure_llm_2023_code.csv"
    )

    assert len(scenario.recording.times) == 8819
    assert scenario.recording.times[-1] == pytest.approx(3435.948056, abs=1e-9)
    assert scenario.mean_service == pytest.approx(0.05 + 0.02 * 27.882526, abs=1e-6)


@real
def test_the_public_trace_of_cloud_functions_is_read():
    """Its ends are out of order, its arrivals are not."""
    scenario = Scenario.from_toml(
        EXAMPLES / "functions.toml", trace=Path(DATA) / "azure_functions_2021_invocations.csv"
    )

    assert len(scenario.recording.times) == 199
    assert (scenario.recording.sizes == 0).sum() == 8
    assert scenario.recording.times[-1] == pytest.approx(1200.0133, abs=1e-4)
