"""What a user gets wrong is a `WearwellError` with the sentence of the command line."""

from __future__ import annotations

import itertools
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest
import wearwell as ww
from wearwell._native import Configuration
from wearwell._settings import config_file_text, setting, settings_of_value

from common import PGBENCH, TINY, Command, measured, refused_alike, sentence_of

LOAD = ww.Trace.workload(TINY)
MISTAKES: list[tuple[str, list[str], Callable[[], Any]]] = [
    ("replay", ["--design", "pagemap"], lambda: ww.replay(LOAD, design="pagemap")),
    ("replay", ["--device", "tlc-1"], lambda: ww.Drive("tlc-1")),
    ("replay", ["--over-provisioning", "9"], lambda: ww.replay(LOAD, ww.Drive(over_provisioning=9.0))),
    ("replay", ["--timing", "evnt"], lambda: ww.replay(LOAD, timing="evnt")),
    ("replay", ["--queue-depth", "3"], lambda: ww.replay(LOAD, queue_depth=3)),
    ("replay", ["--set", "gc.polcy=fifo"], lambda: ww.Design(settings={"gc.polcy": "fifo"})),
    ("replay", ["--set", "gc.policy=fif"], lambda: ww.replay(LOAD, settings={"gc.policy": "fif"})),
    ("replay", ["--set", "parts.content=dedup,recylce"], lambda: ww.Design(content=["dedup", "recylce"])),
    (
        "replay",
        ["--set", "gecko.size_ratio=3"],
        lambda: ww.replay(LOAD, design=ww.Design(settings={"gecko.size_ratio": 3})),
    ),
    ("replay", ["--content", "dup:shar=0.3"], lambda: ww.replay(LOAD, content_model="dup:shar=0.3")),
    ("replay", ["--set", "parts.validity=gecko"], lambda: ww.replay(LOAD, design=ww.Design(validity="gecko"))),
    ("life", ["--spread", "3"], lambda: ww.life(LOAD, spread=3.0)),
    ("life", ["--set", "timing.mode=event"], lambda: ww.life(LOAD, settings={"timing.mode": "event"})),
    ("life", ["--set", "gecko.size_ratio=3"], lambda: ww.life(LOAD, settings={"gecko.size_ratio": 3})),
    (
        "life",
        ["--leveling", "none", "--set", "wear.dynamic=true"],
        lambda: ww.life(LOAD, leveling="none", settings={"wear.dynamic": True}),
    ),
    ("life", ["--scale-to", "1TiB"], lambda: ww.life(LOAD, scale_to=1 << 40)),
    ("replay", ["--scale-to", "1TiB"], lambda: ww.replay(LOAD, scale_to=1 << 40)),
    ("replay", ["--scale-to", "1TiB"], lambda: ww.sweep(LOAD, seed=[1, 2], scale_to=1 << 40, progress=False)),
    (
        "profile",
        ["--run", "--set", "gecko.size_ratio=3"],
        lambda: ww.profile(LOAD, run=True, settings={"gecko.size_ratio": 3}),
    ),
    ("profile", ["--run", "--set", "gc.policy=fif"], lambda: ww.profile(LOAD, run=True, settings={"gc.policy": "fif"})),
    (
        "profile",
        ["--run", "--set", "parts.content=dedup"],
        lambda: ww.profile(LOAD, run=True, settings={"parts.content": "dedup"}),
    ),
]


@pytest.mark.parametrize(("way", "flags", "call"), MISTAKES, ids=[" ".join([way, *flags]) for way, flags, _ in MISTAKES])
def test_a_mistake_has_the_sentence_of_the_command_line(
    command: Command, way: str, flags: list[str], call: Callable[[], Any]
) -> None:
    refused_alike(command(way, "--workload", TINY, *flags, "--quiet"), call)


TRACES: list[tuple[list[str], Callable[[str], Any]]] = [
    ([], lambda path: ww.Trace(path)),
    (["--format", "blktrac"], lambda path: ww.Trace(path, format="blktrac")),
    (["--format", "msr"], lambda path: ww.replay(ww.Trace(path, format="msr"))),
]


@pytest.mark.parametrize(("flags", "call"), TRACES)
@pytest.mark.parametrize("content", [None, "", "no trace\n", "1,2\n"])
def test_a_bad_trace_has_the_sentence_of_the_command_line(
    command: Command, tmp_path: Path, flags: list[str], call: Callable[[str], Any], content: str | None
) -> None:
    path = tmp_path / "trace"
    if content is not None:
        path.write_text(content)
    done = command("replay", str(path), *flags, "--quiet")
    refused_alike(done, lambda: call(str(path)))


def test_the_reason_of_a_partial_result_names_arguments_of_python(tmp_path: Path) -> None:
    """The reason named options of the command line, as the message of the same mistake did not."""
    path = tmp_path / "trace.csv"
    lines = ["time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes"]
    lines += [f"{number},W,{4096 * (number % 100)},4096,0,," for number in range(1000)]
    path.write_text("\n".join(lines))
    trace = ww.Trace(path)
    assert not ww.replay(trace).partial
    # A file of the same length and time is not read again before a run, so that the run meets the bad line.
    before = path.stat()
    lines[900] = lines[900].replace("W", "?")
    path.write_text("\n".join(lines))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.warns(ww.PartialResultWarning, match="`skip_bad_lines`"):
        result = ww.replay(trace)
    assert result.partial_reason is not None
    assert "`format`" in result.partial_reason and "--" not in result.partial_reason


def test_a_mistake_in_a_file_is_told_with_its_line(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "drive.toml"
    file.write_text("[gc]\npolicy = 'greedy'\nlow_block = 2\n")
    done = command("replay", "--workload", TINY, "--config", str(file))
    with pytest.raises(ww.WearwellError) as raised:
        ww.replay(ww.Trace.workload(TINY), config=file)
    assert str(raised.value) == sentence_of(done.stderr)
    assert "drive.toml:3" in str(raised.value)


def test_a_workload_that_is_none_is_refused(command: Command) -> None:
    done = command("replay", "--workload", "ziff:pages=3")
    with pytest.raises(ww.WearwellError) as raised:
        ww.Trace.workload("ziff:pages=3")
    assert str(raised.value) == sentence_of(done.stderr)


def test_an_error_is_a_value_error() -> None:
    assert issubclass(ww.WearwellError, ValueError)


@pytest.mark.parametrize(
    "text", ["/data/\U0001f600", "/data/\u00e9 \u4e2d", 'a "b" \\c', "a\tb\n\x01\x1b\x7f\x85"]
)
def test_a_setting_may_be_any_text(text: str) -> None:
    # Above U+FFFF the text was written as two surrogates, which TOML refuses; keywords wrote quotes as they are.
    for written in (setting("content.model", text), *settings_of_value("content.model", text)):
        read = tomllib.loads(Configuration([written]).to_toml())
        assert read["content"]["model"] == text
    file = config_file_text({"gc.policy": text, "parts.content": [text]})
    assert tomllib.loads(file) == {"gc": {"policy": text}, "parts": {"content": [text]}}


@pytest.mark.parametrize(
    "call",
    [
        lambda: ww.replay(LOAD, content_model="files:/data/\udcff"),
        lambda: ww.replay(LOAD, settings={"content.model": "files:/data/\udcff"}),
        lambda: ww.replay(LOAD, settings={"gc.\udcff": "fifo"}),
        lambda: ww.Trace.workload("files:/data/\udcff"),
    ],
)
def test_a_setting_that_is_not_utf_8_is_refused(call: Callable[[], object]) -> None:
    # This raised UnicodeEncodeError, which does not say where the text comes from.
    with pytest.raises(ww.WearwellError, match=r"udcff.* cannot be written in UTF-8"):
        call()


def test_truth_values_of_numpy_are_settings() -> None:
    # They were written as True and False, which TOML has not.
    drives = [ww.Drive("lab-8g", wear_out=one) for one in (True, numpy.True_)]  # type: ignore[arg-type]
    assert drives[0].settings() == drives[1].settings()
    assert ww.Drive("lab-8g", wear_out=numpy.False_) != drives[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("scale_to", [-1, 0, 1 << 64, 1e12, "1TB"])
def test_a_size_to_scale_to_that_is_none_is_refused_before_anything_runs(scale_to: Any) -> None:
    # The error came after the run: after hours, and without its result.
    def refuse(*_: object) -> None:
        raise AssertionError("it runs")

    calls: list[Callable[[], object]] = [
        lambda: ww.replay(LOAD, scale_to=scale_to, progress=refuse),
        lambda: ww.sweep(LOAD, scale_to=scale_to, executor=Refusing(), progress=False),
        lambda: ww.life(LOAD, scale_to=scale_to, progress=refuse),
    ]
    for call in calls:
        with pytest.raises(ww.WearwellError, match=r"scale_to is .*: give an integer from 1 to .*bytes"):
            call()


def test_times_of_flash_are_refused_where_nothing_takes_time_but_may_describe_a_drive() -> None:
    # A sweep over program times without a time model had equal rows.
    described = ww.Drive("lab-8g", program_us=500, read_us=40, erase_us=3000, blocks_per_plane=16, pages_per_block=8)
    small = ww.Trace.workload("uniform:pages=50,requests=10")
    assert ww.replay(small, described, precondition="none").host_page_writes > 0
    ww.Device("page-map", described)
    for times in [{"device.program_us": [100, 500]}, {"device.erase_us": [1000, 5000]}]:
        with pytest.raises(ww.WearwellError, match=r"^device\..*_us has no effect on page-map: it counts when there is"):
            ww.sweep(small, described, settings=times, precondition="none", progress=False)
    with pytest.raises(ww.WearwellError, match=r"^device\.read_us has no effect"):
        ww.replay(small, described, settings={"device.read_us": 50}, precondition="none")
    with pytest.raises(ww.WearwellError, match=r"^device\.read_us has no effect"):
        ww.Device("page-map", described, settings={"device.read_us": 50})


def test_a_drive_to_scale_to_that_is_smaller_than_the_simulated_one_is_refused_before_anything_runs() -> None:
    # Only the command line refused it.
    def refuse(*_: object) -> None:
        raise AssertionError("it runs")

    timed = ww.Trace.workload(f"{TINY},rate=1000")
    calls: list[Callable[[], object]] = [
        lambda: ww.replay(timed, scale_to=4096, progress=refuse),
        lambda: ww.sweep(timed, scale_to=4096, executor=Refusing(), progress=False),
        lambda: ww.life(timed, scale_to=4096, progress=refuse),
    ]
    for call in calls:
        with pytest.raises(ww.WearwellError, match=r"^`scale_to` is 4096 bytes, but the simulated drive exports \d+: give"):
            call()


class Refusing(ww.Executor):
    """An executor that runs nothing."""

    def run(self, tasks: Sequence[ww.Task]) -> Iterator[tuple[int, ww.Outcome]]:
        raise AssertionError("it runs")


def test_a_size_of_numpy_is_one_to_scale_to() -> None:
    result = ww.replay(ww.Trace.workload(f"{TINY},rate=1000"), scale_to=numpy.int64(10**12))
    assert result.lifetime.scale_to_bytes == 10**12


def test_a_stream_is_refused() -> None:
    with pytest.raises(ww.WearwellError, match="copy the stream to a file"):
        ww.Trace("/dev/null")


def test_an_attribute_that_a_record_lacks_is_named() -> None:
    result = ww.replay(ww.Trace.workload(TINY))
    with pytest.raises(AttributeError, match="LifetimeRecord has no field `yeers`"):
        result.lifetime.yeers  # type: ignore[attr-defined]  # noqa: B018


def test_the_trace_is_read_again_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    head = "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n"
    path.write_text(head + "0,W,0,4096,0,\n" * 10)
    trace = ww.Trace(path)
    first = ww.replay(trace)
    path.write_text(head + "0,W,0,4096,0,\n" * 20)
    second = ww.replay(trace)
    assert (first.trace.requests, second.trace.requests) == (10, 20)
    assert first.trace.sha256 != second.trace.sha256


def test_a_trace_tells_its_format() -> None:
    assert repr(ww.Trace(PGBENCH)) == f"Trace({PGBENCH!r}, format='native')"


EMPTY: dict[str, Any] = {"time_us": [], "op": [], "offset_bytes": [], "length_bytes": []}
NUMBERS: dict[str, Callable[[Any], object]] = {
    "seeds": lambda number: ww.life(LOAD, seeds=number),
    "jobs": lambda number: ww.life(LOAD, jobs=number),
    "sample": lambda number: ww.profile(LOAD, sample=number),
    "scale_to": lambda number: ww.life(LOAD, scale_to=number),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("number", [-1, 0, 1 << 64, 2.5, "3"])
def test_a_number_that_cannot_be_is_refused_with_its_name_and_bounds(name: str, number: Any) -> None:
    # A TypeError of a comparison was raised, or an OverflowError.
    with pytest.raises(ww.WearwellError, match=rf"^{name} is {number!r}: give an integer from 1 to \d+"):
        NUMBERS[name](number)
    if name == "jobs":
        with pytest.raises(ww.WearwellError, match=rf"^jobs is {number!r}: give an integer from 1 to \d+"):
            ww.sweep(LOAD, jobs=number, progress=False)


@pytest.mark.parametrize("name", ["spread", "early_share", "program_share", "spare_minimum"])
def test_a_share_that_is_no_number_is_refused_with_its_name(name: str) -> None:
    # The error named an argument that the caller does not have.
    shares: dict[str, Any] = {name: "0.1"}
    with pytest.raises(ww.WearwellError, match=f"^{name} is '0.1': give a number"):
        ww.life(LOAD, **shares)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("offset_bytes", -4096, f"-4096: give an integer from 0 to {(1 << 64) - 1}"),
        ("offset_bytes", float("nan"), "None: give an integer"),
        ("offset_bytes", 0.5, "0.5: give an integer"),
        ("device", -1, "-1: give an integer from 0 to 4294967295"),
        ("fingerprints", 10, "10: give a text with a hexadecimal number for each page, or None"),
        ("fingerprints", "xyz", "fingerprints is `xyz`, but a fingerprint must be a hexadecimal number"),
        ("fingerprints", "a b", "but a request in the output trace must have the contents of all pages"),
        ("source_bytes", 0, "source_bytes is 0, but only a remap (remap, move) has a source"),
        ("op", "remap", "op is a remap without a source: give its address in the column source_bytes"),
        ("length_bytes", 1 << 64, "18446744073709551616: give an integer"),
        ("length_bytes", "4096", "'4096': give an integer"),
        ("time_us", "0.0", "'0.0': give a number"),
        ("time_us", None, "None: give a number"),
        ("time_us", float("inf"), "inf: give a finite number"),
        ("time_us", 1e300, "more than 292 years after that of the first row"),
        (
            "offset_bytes",
            1 << 63,
            "offset_bytes is 9223372036854775808 and length_bytes is 4096, but the addresses of a request must be at most",
        ),
        ("length_bytes", 1 << 40, "and length_bytes is 1099511627776, but a read or write must have at most 1 GiB"),
        ("op", None, "None: give read, write"),
        ("op", "erase", "unknown operation `erase`"),
    ],
)
def test_a_value_of_a_table_that_cannot_be_is_refused_with_its_row(column: str, value: Any, sentence: str) -> None:
    # The errors named neither row nor column, and the first row was compared with a row before it.
    table: dict[str, list[Any]] = {
        "time_us": [0.0, 1.0],
        "op": ["write", "write"],
        "offset_bytes": [0, 4096],
        "length_bytes": [4096, 4096],
        "device": [0, 0],
        "fingerprints": [None, None],
        "source_bytes": [None, None],
    }
    for row in [1] if value == 1e300 else [0, 1]:
        wrong = {**table, column: list(table[column])}
        wrong[column][row] = value
        with pytest.raises(ww.WearwellError, match=rf"^row {row} of the table of requests: .*{re.escape(sentence)}"):
            ww.Trace(wrong)


@pytest.mark.parametrize("unit", ["ns", "us", "D", "Y"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
def test_times_of_numpy_in_a_table_are_refused_in_every_unit(kind: str, unit: str) -> None:
    """Nanoseconds and years were taken for microseconds; other units and other types of times were refused."""
    times = numpy.array([0, 10], f"{kind}[{unit}]")
    table = {"op": ["write", "write"], "offset_bytes": [0, 4096], "length_bytes": [4096, 4096]}
    for column in (times, list(times)):
        with pytest.raises(ww.WearwellError, match=rf"^row 0 of the table of requests: time_us is np.{kind}\(.*\): give a number"):
            ww.Trace({**table, "time_us": column})
        with pytest.raises(ww.WearwellError, match=rf"^row 0 of the table of requests: device is np.{kind}\(.*\): give an integer"):
            ww.Trace({**table, "time_us": [0, 10], "device": column})


@pytest.mark.parametrize("kind", ["series", "values", "polars", "arrow"])
def test_times_of_a_data_frame_are_refused(kind: str) -> None:
    """`values` of a column of pandas were taken for microseconds."""
    series = pandas.Series(pandas.to_datetime([0, 10]))
    makers: dict[str, Callable[[], Any]] = {
        "series": lambda: series,
        "values": lambda: series.values,
        "polars": lambda: polars.Series(series),
        "arrow": lambda: pyarrow.array(series),
    }
    table = {"op": ["write", "write"], "offset_bytes": [0, 4096], "length_bytes": [4096, 4096]}
    with pytest.raises(ww.WearwellError, match=r"^row 0 of the table of requests: time_us is .*: give a number"):
        ww.Trace({**table, "time_us": makers[kind]()})


@pytest.mark.parametrize("column", ["op", "fingerprints"])
def test_a_text_of_a_table_that_is_not_utf_8_is_refused_with_its_row(column: str) -> None:
    """A UnicodeEncodeError was raised."""
    table = {"time_us": [0, 1], "op": ["write"] * 2, "offset_bytes": [0, 0], "length_bytes": [4096] * 2}
    with pytest.raises(ww.WearwellError, match=f"^row 1 of the table of requests: {column} is '.udcff', which cannot be written"):
        ww.Trace({**table, column: ["write" if column == "op" else "", "\udcff"]})


def test_a_wrong_value_far_from_the_beginning_of_a_table_is_refused_with_its_row() -> None:
    """Rows are written in batches, in which they have other numbers."""
    rows = 150_000
    table: dict[str, Any] = {
        "time_us": numpy.arange(rows),
        "op": ["write"] * rows,
        "offset_bytes": numpy.zeros(rows, int),
        "length_bytes": numpy.full(rows, 4096),
    }
    sentences: list[tuple[str, Any, str]] = [
        ("offset_bytes", -1, "offset_bytes is -1: give an integer"),
        ("time_us", 5, "time_us is 5, less than 139999 in the row before"),
        ("op", "erase", "unknown operation `erase`"),
    ]
    for column, value, sentence in sentences:
        wrong = {**table, column: list(table[column])}
        wrong[column][140_000] = value
        with pytest.raises(ww.WearwellError, match=f"^row 140000 of the table of requests: {sentence}"):
            ww.Trace(wrong)


class NamesOnly:
    """Has names of columns, but no columns."""

    columns = list(EMPTY)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (polars.LazyFrame(EMPTY), r"a LazyFrame, which has no rows yet: give what its method collect\(\) returns"),
        (numpy.zeros(3, [(name, int) for name in EMPTY]), "an array of NumPy: give a mapping from the names time_us, op,"),
        (numpy.zeros((3, 4)), "an array of NumPy: give a mapping from the names"),
        (
            pyarrow.RecordBatchReader.from_batches(pyarrow.schema([]), []),
            r"a RecordBatchReader, which can be read only once: give what its method read_all\(\) returns",
        ),
        (NamesOnly(), r"<.*NamesOnly object at .*>: give the path of a trace, a Trace, or a table of requests"),
        (list(EMPTY), r"\['time_us', .*\]: give the path of a trace, a Trace, or a table of requests"),
        ([LOAD, LOAD], r"\[Trace.workload\(.*\)\]: give the path of a trace, a Trace, or a table of requests"),
        ([{"time_us": 0.0, "op": "write"}], r"\[\{.*\}\]: give the path of a trace, a Trace, or a table of requests"),
        ([(0.0, "write", 0, 4096)] * 9, r"\[(\(.*\), ){6}\.\.\.\]: give the path of a trace, a Trace, or a table of requests"),
        (itertools.count(), r"count\(0\): give the path of a trace, a Trace, or a table of requests"),
        (range(3), r"range\(0, 3\): give the path of a trace, a Trace, or a table of requests"),
    ],
    ids=["lazy", "structured", "matrix", "batches", "names", "list", "traces", "dicts", "tuples", "endless", "range"],
)
def test_what_looks_like_a_table_of_requests_is_refused_with_advice(table: Any, sentence: str) -> None:
    """A TypeError or ValueError of the library was raised, or the error said that a table lacks a column."""
    with pytest.raises(ww.WearwellError, match=f"^a trace is {sentence}"):
        ww.replay(table)


def test_an_open_file_is_refused_and_not_read() -> None:
    """Its lines were taken for the names of columns."""
    with open(__file__, encoding="utf-8") as file:
        with pytest.raises(ww.WearwellError, match="^a trace is <_io.TextIOWrapper .*: give the path of a trace"):
            ww.replay(file)
        assert file.tell() == 0


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_a_column_that_a_table_has_twice_is_named(kind: str) -> None:
    """The error was about the name of the column, which was taken for an operation, or about the whole table."""
    columns = [("time_us", [0]), ("op", ["write"]), ("offset_bytes", [0]), ("length_bytes", [4096]), ("op", ["write"])]
    if kind == "pandas":
        table: Any = pandas.concat([pandas.Series(values, name=name) for name, values in columns], axis=1)
    else:
        table = pyarrow.table([pyarrow.array(values) for _, values in columns], names=[name for name, _ in columns])
    with pytest.raises(ww.WearwellError, match="^the table of requests has the column op 2 times: leave one of them"):
        ww.Trace(table)


WRONG: Any = 5
"""An argument of a wrong type."""
SENTENCES: list[tuple[str, Callable[[], Any]]] = [
    (r"^settings is 5: give a mapping from dotted keys", lambda: ww.replay(LOAD, settings=WRONG)),
    (r"^the key of a setting is 5: give a text such as", lambda: ww.replay(LOAD, settings={WRONG: "fifo"})),
    (r"^gc.policy is None: give a finite number, a text,", lambda: ww.Design(settings={"gc.policy": None})),  # type: ignore[dict-item]
    (r"^gc.policy is b'fifo': give a finite number, a text", lambda: ww.Design(settings={"gc.policy": b"fifo"})),  # type: ignore[dict-item]
    (r"^device.read_us is nan: give a finite number", lambda: ww.Drive(read_us=float("nan"))),
    (r"^device.channels is 1180591620717411303424: give an integer", lambda: ww.Drive(channels=1 << 70)),
    (r"^timing is 5: give a text", lambda: ww.replay(LOAD, timing=WRONG)),
    (r"^seed is -1: give an integer from 0 to 9223372036854775807", lambda: ww.replay(LOAD, seed=-1)),
    (r"^queue_depth is 1.5: give an integer from 1 to", lambda: ww.replay(LOAD, queue_depth=1.5)),  # type: ignore[arg-type]
    (r"^requests is 0: give an integer from 1 to", lambda: ww.replay(LOAD, requests=0)),
    (r"^over_provisioning is 'lots': give a number", lambda: ww.replay(LOAD, over_provisioning="lots")),  # type: ignore[arg-type]
    (r"^config is 5: give the path of a file", lambda: ww.replay(LOAD, config=WRONG)),
    (r"^design is 5: give the name of a design, or a Design", lambda: ww.replay(LOAD, design=WRONG)),
    (r"^drive is 5: give the name of a preset, or a Drive", lambda: ww.replay(LOAD, WRONG)),
    (r"^content is 5: give a list of names", lambda: ww.Design(content=WRONG)),
    (r"^map is 5: give a text", lambda: ww.Design(map=WRONG)),
    (r"^format is 5: give a text", lambda: ww.Trace(PGBENCH, format=WRONG)),
    (r"^a workload is 5: give a text such as", lambda: ww.Trace.workload(WRONG)),
    (r"^the path of the trace is empty: give", lambda: ww.Trace("")),
    (r"^uniform:pages=9 is no file: if it is a workload, give Trace.workload\('uniform:pages=9'\)", lambda: ww.replay("uniform:pages=9")),
    (r"^name has no effect on a file, which is named by its path", lambda: ww.Trace(PGBENCH, name="x")),
    (r"^name is 5: give a text", lambda: ww.Trace(EMPTY, name=WRONG)),
    (r"^this text is not the JSON of a run \(Expecting value", lambda: ww.Result("x")),
    (r"^this text is not the JSON of a run \(it lacks fields of one\): give what Result.to_json", lambda: ww.Result("{}")),
    (r"^this text is not the JSON of a life \(it holds another value\)", lambda: ww.LifeResult("[]")),
    (r"^this text is not the JSON of a profile ", lambda: ww.ProfileResult("")),
    (r"^progress is 5: give a function of three arguments", lambda: ww.replay(LOAD, progress=WRONG)),
    (r"^progress is 5: give a function of three arguments", lambda: ww.life(LOAD, progress=WRONG)),
    (r"^progress is 5: give a function of three arguments", lambda: ww.profile(LOAD, progress=WRONG)),
    (r"^leveling is 5: give a text", lambda: ww.life(LOAD, leveling=WRONG)),
    (r"^store is 5: give the path of a file or folder", lambda: ww.sweep(LOAD, store=WRONG)),
    (r"^store is empty: give the path of a file or folder", lambda: ww.sweep(LOAD, store="")),
    (r"^outcome is 5: give a text", lambda: ww.Device().power_cut(outcome=WRONG)),
    (r"^the text of a page is '.udcff', which cannot be written in UTF-8", lambda: ww.Device().write(0, "\udcff")),
    (r"^the column op of the table of requests is 5: give one value", lambda: ww.Trace({**EMPTY, "op": WRONG})),
    (r"^the column op of the table of requests is array\(5\): give", lambda: ww.Trace({**EMPTY, "op": numpy.array(5)})),
    (r"^the column op of the table of requests is 'write': give", lambda: ww.Trace({**EMPTY, "op": "write"})),
    # A mapping was read as its keys, and a set in no order.
    (r"^the column op of the table of requests is a dict: give a list", lambda: ww.Trace({**EMPTY, "op": {}})),
    (r"^the column op of the table of requests is a set: give a list", lambda: ww.Trace({**EMPTY, "op": set()})),
    (r"^a trace is 5: give the path of a trace, a Trace, or a table", lambda: ww.replay(5)),
    (r"^executor is 5: give local, dask, slurm, or an object", lambda: ww.sweep(LOAD, executor=5)),  # type: ignore[arg-type]
    (r"^executor is <class .*: give local", lambda: ww.sweep(LOAD, executor=ww.LocalExecutor)),  # type: ignore[arg-type]
    (r"^drive has no effect without run=True: add run=True, or leave drive out", lambda: ww.profile(LOAD, drive="lab-8g")),
    (r"^files has no effect on requests, .*: give the path", lambda: ww.profile(LOAD, files=True)),
    (r"^against has no effect on requests, .*: give the path", lambda: ww.profile(LOAD, against="old")),
    (r"^run has no effect beside against, .*: leave one", lambda: ww.profile(".", against="old", run=True)),
    (r"^the key of a setting is ' gc.policy': give a text such as", lambda: ww.replay(LOAD, settings={" gc.policy": "fifo"})),
    (r"^over_provisioning is b'0.1': give a number", lambda: ww.replay(LOAD, over_provisioning=b"0.1")),  # type: ignore[arg-type]
    (r"^spread is b'x': give a number", lambda: ww.life(LOAD, spread=b"x")),  # type: ignore[arg-type]
    (r"^device.over_provisioning is Decimal\('NaN'\): give a finite number", lambda: ww.Drive(over_provisioning=Decimal("NaN"))),
    (r"^device.channels is np.timedelta64\(2,'ns'\): give a finite", lambda: ww.Drive(channels=numpy.timedelta64(2, "ns"))),  # type: ignore[arg-type]
    (r"^gc.low_blocks is array\(\[1, 2\]\): give a finite", lambda: ww.Design(settings={"gc.low_blocks": numpy.array([1, 2])})),
    (r"^design is '.udcff', which cannot be written in UTF-8", lambda: ww.replay(LOAD, design="\udcff")),
    (r"^drive is '.udcff', which cannot be written in UTF-8", lambda: ww.replay(LOAD, drive="\udcff")),
    (r"^leveling is '.udcff', which cannot be written in UTF-8", lambda: ww.life(LOAD, leveling="\udcff")),  # type: ignore[arg-type]
    (r"^outcome is '.udcff', which cannot be", lambda: ww.Device().power_cut(outcome="\udcff")),  # type: ignore[arg-type]
    (r"^executor is '.udcff', which cannot be written in UTF-8", lambda: ww.sweep(LOAD, executor="\udcff")),
    (r"^the path of the trace is '.ud800', which can be the path of no file: give", lambda: ww.replay("\ud800")),
    (r"^source is '.ud800', which can be the path of no file: give", lambda: ww.profile("\ud800")),
    (r"^config is '.ud800', which can be the path of no file: give", lambda: ww.replay(LOAD, config="\ud800")),
    (r"^store is '.ud800', which can be the path of no file: give", lambda: ww.sweep(LOAD, store="\ud800")),
    (r"^folder is 5: give the path of a file or folder", lambda: ww.SlurmExecutor(WRONG)),
    (r"^timeout_min is -1: give an integer from 0 to", lambda: ww.SlurmExecutor(timeout_min=-1)),
    (r"^slurm_timeout_min is -1: give an integer from 0 to", lambda: ww.SlurmExecutor(slurm_timeout_min=-1)),
    (r"^mem_gb is nan: give a number of gigabytes", lambda: ww.SlurmExecutor(mem_gb=float("nan"))),
    (r"^outage_s is -5: give a number of seconds, at least 0", lambda: ww.SlurmExecutor(outage_s=-5)),
    (r"^tries is 0: give an integer from 1 to", lambda: ww.SlurmExecutor(tries=0)),
    (r"^unknown assume `write` \(did you mean `writes`\?\)", lambda: ww.Trace(PGBENCH, assume="write")),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("sentence", "call"), SENTENCES, ids=[sentence[1:25] for sentence, _ in SENTENCES])
def test_an_argument_that_cannot_be_is_refused_with_advice(sentence: str, call: Callable[[], Any]) -> None:
    with pytest.raises(ww.WearwellError, match=sentence):
        call()


@pytest.mark.parametrize("name", ["format", "action", "time_unit", "assume", "columns"])
@pytest.mark.parametrize("value", [True, False, "\udcff"])
def test_an_option_of_a_trace_that_is_no_text_is_refused_with_its_name(name: str, value: Any) -> None:
    """Truth values were a TypeError that named no argument, and a text that is no Unicode a UnicodeEncodeError."""
    with pytest.raises(ww.WearwellError, match=f"^{name} is {re.escape(repr(value))}(: give a text|, which cannot be written)"):
        ww.Trace(PGBENCH, **{name: value})


def test_an_unknown_parameter_of_slurm_is_a_type_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NameError was raised."""
    for program in ("sbatch", "srun"):
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}", prepend=":")
    for name in ("foo", "foo_bar", "slurm_foo"):
        with pytest.raises(TypeError, match=f"^SlurmExecutor has an unexpected argument: .*{name}"):
            ww.SlurmExecutor(tmp_path / "logs", **{name: 1})
    with pytest.raises(ww.WearwellError, match="^the parameters {'name': 5} of SlurmExecutor are refused: "):
        ww.SlurmExecutor(tmp_path / "logs", name=5)
    executor = ww.SlurmExecutor(tmp_path / "logs", mem_gb=numpy.int64(2), timeout_min=numpy.int64(5), outage_s=Decimal(9))
    assert isinstance(executor, ww.Executor)


def test_numbers_of_any_type_are_numbers() -> None:
    """Type checkers accepted some that were refused, and refused integers of NumPy that were accepted."""
    expected = ww.Drive("lab-8g", over_provisioning=0.25, channels=2, read_us=45.0)
    for share, channels in ((Decimal("0.25"), numpy.int64(2)), (Fraction(1, 4), numpy.uint8(2)), (numpy.float32(0.25), 2)):
        drive = ww.Drive("lab-8g", over_provisioning=share, channels=channels, read_us=45)
        assert drive.values["channels"] == 2 and drive.settings()[:2] == expected.settings()[:2]
        runs = ww.replay(LOAD, over_provisioning=share), ww.replay(LOAD, settings={"device.over_provisioning": share})
        assert [measured(run.to_dict()) for run in runs] == [measured(ww.replay(LOAD, over_provisioning=0.25).to_dict())] * 2


def test_paths_of_bytes_are_paths(tmp_path: Path) -> None:
    """They worked, but type checkers refused them."""
    (tmp_path / "drive.toml").write_text("[gc]\npolicy = 'fifo'\n")
    config, store = os.fsencode(tmp_path / "drive.toml"), os.fsencode(tmp_path / "store")
    sweep = ww.sweep(LOAD, config=config, store=store, jobs=1, progress=False)
    assert sweep.rows[0]["config.gc.policy"] == "fifo" and os.listdir(tmp_path / "store")
    assert ww.replay(LOAD, config=config).config.gc.policy == "fifo"


BOOLEANS: dict[str, Callable[[Any], object]] = {
    "skip_bad_lines": lambda value: ww.Trace(PGBENCH, skip_bad_lines=value),
    "bytes": lambda value: ww.Trace(PGBENCH, bytes=value),
    "without_sidecars": lambda value: ww.Trace(PGBENCH, without_sidecars=value),
    "empty": lambda value: ww.life(LOAD, empty=value),
    "files": lambda value: ww.profile(PGBENCH, files=value),
    "run": lambda value: ww.profile(LOAD, run=value),
    "relocate": lambda value: ww.Device().remap(0, 1, relocate=value),
    "progress": lambda value: ww.sweep(LOAD, progress=value, executor=Refusing()),
}


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("value", ["no", 1, 0, None])
def test_a_truth_value_that_is_none_is_refused_with_its_name(name: str, value: Any) -> None:
    """Some were taken for true, some raised a TypeError, and some errors asked for a text."""
    with pytest.raises(ww.WearwellError, match=f"^{name} is {value!r}: give True or False"):
        BOOLEANS[name](value)


def test_truth_values_of_numpy_are_arguments() -> None:
    """Some were refused because they are no `bool`."""
    true: Any = numpy.True_
    assert "skip_bad_lines=True" in repr(ww.Trace(PGBENCH, skip_bad_lines=true))
    device = ww.Device()
    device.write(1, "page")
    device.remap(0, 1, relocate=true)
    assert device.read(1)[:1] == b"\0" and device.read(0)[:4] == b"page"


def test_settings_of_a_design_are_checked_with_those_of_the_run() -> None:
    # A design was refused because of settings that the run gives it, and a sweep ignored settings of designs.
    gecko = ww.Design(settings={"gecko.size_ratio": 3})
    assert "size_ratio = 3" in repr(gecko)
    parts = {"parts.map": "cached", "parts.validity": "gecko", "parts.survives": "battery"}
    result = ww.replay(LOAD, design=gecko, settings=parts)
    assert result.to_dict()["config"]["gecko"]["size_ratio"] == 3
    refused: list[Callable[[], object]] = [
        lambda: ww.replay(LOAD, design=gecko),
        lambda: ww.life(LOAD, design=gecko),
        lambda: ww.Device(gecko),
        lambda: ww.sweep(LOAD, design=["page-map", gecko], progress=False),
        lambda: ww.replay(LOAD, design=ww.Design(content=["recycle"], settings={"recycle.policy": "inf"}), settings={"parts.content": "none"}),
    ]
    for call in refused:
        with pytest.raises(ww.WearwellError, match="has no effect"):
            call()


def test_a_setting_of_a_design_that_some_runs_use_is_noted(capfd: pytest.CaptureFixture[str]) -> None:
    design = ww.Design(content=["recycle"], settings={"recycle.policy": "inf"})
    sweep = ww.sweep(LOAD, design=design, settings={"parts.content": ["recycle", "none"]}, jobs=1)
    assert len(sweep) == 2 and sweep.errors == []
    assert "note: recycle.policy has no effect" in capfd.readouterr().err


@pytest.mark.parametrize("columns", [["pid"], ["index", "device"], ["fingerprint"], [5]])
def test_an_unknown_column_of_a_table_is_refused_with_the_known_ones(columns: list[Any]) -> None:
    """It was ignored without a word, and so were contents and devices."""
    table = pandas.DataFrame({**EMPTY, **{name: [] for name in columns}})
    known = "it needs time_us, op, offset_bytes, length_bytes, and may have device, fingerprints, source_bytes; select"
    with pytest.raises(ww.WearwellError, match=rf"^the table of requests has the unknown column {columns[0]!r}: {known}"):
        ww.Trace(table)


def test_a_page_that_cannot_be_written_is_refused_with_its_path(tmp_path: Path) -> None:
    """An error of the operating system was raised, and a path of bytes was a TypeError."""
    result = ww.replay(LOAD)
    result.report(os.fsencode(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text().startswith("<!")
    for path in (tmp_path / "missing/page.html", tmp_path, "a\0b"):
        with pytest.raises(ww.WearwellError, match="^the page cannot be written to '.*'.*: .*; give a path"):
            result.report(path)
    with pytest.raises(ww.WearwellError, match="^path is empty: give the path"):
        result.report("")
    for wrong in (None, 5):
        with pytest.raises(ww.WearwellError, match=f"^path is {wrong}: give the path"):
            result.report(wrong)  # type: ignore[arg-type]
