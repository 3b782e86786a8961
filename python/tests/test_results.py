"""What users write works: the lines of docs/python.md, results as tables, inputs from tables, designs as files."""

from __future__ import annotations

import copy
import csv
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest
import wearwell as ww

from common import PGBENCH, ROOT, TINY, Command, measured, record_of

TABLE: dict[str, list[Any]] = {
    "time_us": [0.0, 10.5, 20.0, 30.0, 45.0],
    "op": ["write", "read", "W", "trim", "flush"],
    "offset_bytes": [0, 0, 8192, 0, 0],
    "length_bytes": [8192, 4096, 4096, 4096, 0],
}


def blocks(language: str) -> list[str]:
    """Examples of docs/python.md."""
    text = (ROOT / "docs/python.md").read_text()
    return [part.split("```")[0] for part in text.split(f"```{language}\n")[1:]]


def test_the_first_lines_of_the_documentation_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = blocks("python")[0].replace('"results"', repr(str(tmp_path)))
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(lines, "docs/python.md", "exec"), names)
    result, frame = names["result"], names["frame"]
    assert isinstance(result, ww.Result) and isinstance(frame, pandas.DataFrame)
    assert result.lifetime.years is not None and result.latency_us.write.p99 > 0.0
    assert len(frame) == 12 and frame["error"].isna().all()
    assert frame.groupby("design")["write_amplification"].nunique().min() > 1


def test_the_first_run_of_the_read_me_prints_a_table_and_a_line_per_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/first_run.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    table, rows = done.stdout.split("\ndesign, over-provisioning, write amplification, erases\n")
    assert "write amplification" in table
    assert [row.split(", ")[:2] for row in rows.splitlines()] == [
        [design, share]
        for design in ("page-map", "geckoftl", "remap", "wearwell")
        for share in ("0.07", "0.15", "0.28")
    ]


def test_the_other_examples_of_the_documentation_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, design, profile, ablation, life, executor, device, policy = blocks("python")[1:]
    names: dict[str, Any] = {"ww": ww}
    exec(table, names)
    assert names["result"].host_page_writes == 2
    exec(design, names)
    assert capsys.readouterr().out.strip() == blocks("text")[0].strip()
    monkeypatch.chdir(ROOT)
    exec(profile, names)
    assert isinstance(names["found"], ww.ProfileResult) and len(names["savings"]) == 4
    exec(ablation, names)
    assert isinstance(names["found"], ww.AblationResult) and len(names["gains"]) == 12
    exec(life, names)
    assert isinstance(names["worn"], ww.LifeResult) and len(names["lives"]) == 5
    assert list(names["curves"]["ended"])[-1] == 5
    exec(executor, names)
    assert len(ww.sweep(ww.Trace.workload(TINY), seed=[1, 2], executor=names["Here"](), progress=False)) == 2
    capsys.readouterr()
    exec(device, names)
    assert capsys.readouterr().out.strip() == blocks("text")[1].strip()
    exec(policy, names)
    in_engine, own = (float(amplification) for amplification in capsys.readouterr().out.split())
    # Two pages of a block are little: the policy is nearly greedy.
    assert 1 < in_engine and abs(own - in_engine) < 0.02 * in_engine


def test_the_fields_of_a_result_are_those_of_the_record() -> None:
    result = ww.replay(ww.Trace.workload(TINY + ",rate=1000"), timing="event")
    record = result.to_dict()
    assert result.write_amplification == record["write_amplification"]
    assert result.latency_us.write.p99 == record["latency_us"]["write"]["p99"]
    assert result.lifetime.years == record["lifetime"]["years"]
    assert result.config.timing.mode == "event"
    assert result.series[-1].erases == record["series"][-1]["erases"]
    assert result.programs_by_cause == record["programs_by_cause"]
    assert sum(result.programs_by_cause.values()) == result.programs


def test_a_result_is_a_row_of_every_kind_of_table() -> None:
    result = ww.replay(ww.Trace.workload(TINY))
    (row,) = result.to_pandas().to_dict("records")
    assert row["write_amplification"] == result.write_amplification
    assert row["config.gc.policy"] == "greedy" and row["version"] == ww.__version__
    table = result.to_arrow()
    assert isinstance(table, pyarrow.Table)
    assert table.column("host_page_reads").to_pylist() == [result.host_page_reads]


def test_a_notebook_shows_the_table() -> None:
    shown = ww.replay(ww.Trace.workload(TINY))._repr_html_()
    assert shown.count("<table>") == 1 and "<td>write amplification</td>" in shown
    assert "over-provisioning" in shown.split("<table>")[0]


def test_a_result_survives_pickling_and_copying() -> None:
    result = ww.replay(ww.Trace.workload(TINY))
    assert pickle.loads(pickle.dumps(result)) == result == copy.deepcopy(result)


def test_what_runs_survives_pickling() -> None:
    run = (
        ww.Trace(PGBENCH, format="native"),
        ww.Drive("lab-8g", fit=1.0),
        ww.Design("dftl", content=["recycle"]),
    )
    assert pickle.loads(pickle.dumps(run)) == run


def test_a_copy_of_a_trace_of_a_table_has_its_requests() -> None:
    # Its file was deleted with the trace that was copied.
    for copied in (copy.copy(ww.Trace(TABLE)), copy.deepcopy(ww.Trace(TABLE))):
        assert ww.replay(copied, precondition="none").host_page_writes == 3
    path = Path(copied._description["path"])
    assert path.exists()
    del copied
    assert not path.exists()


def test_a_pickle_of_a_trace_of_a_table_has_its_requests() -> None:
    # It had the path of a file that was deleted.
    trace = ww.Trace(TABLE)
    pickled, digest = pickle.dumps(trace), hash(trace)
    del trace
    loaded, again = pickle.loads(pickled), pickle.loads(pickled)
    assert ww.replay(loaded, precondition="none").host_page_writes == 3
    assert (loaded, loaded.name, hash(loaded)) == (again, ww.Trace(TABLE).name, digest)
    assert loaded == ww.Trace(TABLE) != ww.Trace({**TABLE, "length_bytes": [4096, 4096, 4096, 4096, 0]})


def test_a_process_of_a_pool_returns_a_trace_of_a_table() -> None:
    # The thread that receives results died of the missing file, and the pool waited for ever.
    script = f"""
import multiprocessing, signal
import wearwell as ww

def made(number):
    return ww.Trace({TABLE!r})

if __name__ == "__main__":
    signal.alarm(20)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        (trace,) = pool.map(made, [0])
    print(ww.replay(trace, precondition="none").host_page_writes)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_forked_process_leaves_the_file_of_a_table_to_its_parent() -> None:
    # The end of the child deleted the file.
    script = f"""
import os, sys
import wearwell as ww

trace = ww.Trace({TABLE!r})
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(ww.replay(trace, precondition="none").host_page_writes, trace._description["path"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    writes, path = done.stdout.split()
    assert writes == "3" and not Path(path).exists()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_deletes_the_files_of_its_tables_at_its_end(method: str, tmp_path: Path) -> None:
    """The file of a table that a forked process made stayed for ever, because such a process calls no `atexit` function."""
    script = tmp_path / "main.py"
    script.write_text(f"""
import multiprocessing, os
import wearwell as ww

def use(trace):
    global own
    own = ww.Trace({TABLE!r}, name="own")
    for one in (own, trace):
        assert ww.replay(one, precondition="none").host_page_writes == 3
    print(len(files()), flush=True)

def files():
    return [name for name in os.listdir({str(tmp_path)!r}) if name.endswith(".wwt")]

if __name__ == "__main__":
    trace = ww.Trace({TABLE!r})
    process = multiprocessing.get_context({method!r}).Process(target=use, args=(trace,))
    process.start()
    process.join()
    print(process.exitcode, len(files()))
    # The last one is begun and not waited for: the end of this process leaves it the file.
    process = multiprocessing.get_context({method!r}).Process(target=use, args=(trace,))
    process.start()
""")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    tables = "2" if method == "fork" else "3"
    assert (done.stdout.split(), done.stderr) == ([tables, "0", "1", tables], "")
    assert os.listdir(tmp_path) == ["main.py"]


@pytest.mark.parametrize("kind", ["mapping", "numpy", "pandas", "polars", "arrow"])
def test_a_large_table_is_written_without_a_copy_of_it(kind: str) -> None:
    """Its columns became lists of Python, which took 265 bytes of memory per row."""
    rows = 400_000
    numbers = numpy.arange(rows)
    columns: dict[str, Any] = {
        "time_us": numbers * 0.5,
        "op": numpy.where(numbers % 2 == 0, "write", "read"),
        "offset_bytes": numbers % 1000 * 4096,
        "length_bytes": numpy.full(rows, 4096),
    }
    makers: dict[str, Callable[[], Any]] = {
        "mapping": lambda: {name: column.tolist() for name, column in columns.items()},
        "numpy": lambda: columns,
        "pandas": lambda: pandas.DataFrame(columns, index=numbers[::-1] * 3),
        "polars": lambda: polars.DataFrame(columns),
        "arrow": lambda: pyarrow.table({name: pyarrow.chunked_array([column[:9], column[9:]]) for name, column in columns.items()}),
    }
    table = makers[kind]()
    tracemalloc.start()
    trace = ww.Trace(table, name="large")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 30e6
    result = ww.replay(trace, precondition="none")
    assert (result.trace.requests, result.host_page_writes, result.host_page_reads) == (rows, rows // 2, rows // 2)
    assert trace == ww.Trace(columns)


@pytest.mark.parametrize("kind", ["mapping", "pandas", "arrow"])
def test_a_table_of_requests_is_a_trace(kind: str) -> None:
    arrow: Any = pyarrow.table(TABLE)
    table = {"mapping": TABLE, "pandas": pandas.DataFrame(TABLE), "arrow": arrow}[kind]
    result = ww.replay(ww.Trace(table), precondition="none")
    assert re.fullmatch(r"a table of 5 requests \([0-9a-f]{8}\)", result.trace.path)
    assert (result.host_page_writes, result.host_page_reads, result.host_page_trims) == (3, 1, 1)
    assert math.isclose(result.trace.duration_s, 45e-6)


def test_a_table_of_requests_is_replayed_as_its_file_is(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = zip(TABLE["time_us"], "WRWTF", TABLE["offset_bytes"], TABLE["length_bytes"])
    lines = [f"{round(time * 1000)},{op},{offset},{length},0," for time, op, offset, length in rows]
    path.write_text("time_ns,op,offset_bytes,len_bytes,device,fingerprints\n" + "\n".join(lines) + "\n")
    of_file, of_table = (measured(ww.replay(ww.Trace(one)).to_dict()) for one in (path, TABLE))
    assert of_file.pop("trace")["requests"] == of_table.pop("trace")["requests"] == 5
    assert of_file == of_table


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"op": ["write", "read", "erase", "trim", "flush"]},
            "row 2 of the table of requests: unknown operation `erase`",
        ),
        (
            {"time_us": [0.0, 2.0, 1.0, 3.0, 4.0]},
            "row 2 of the table of requests: time_us is 1, less than 2 in the row before",
        ),
        ({"length_bytes": [1]}, "different lengths"),
        ({"offset_bytes": [-1, 0, 0, 0, 0]}, "row 0 of the table of requests: offset_bytes is -1: give"),
    ],
)
def test_a_bad_table_of_requests_is_refused(change: dict[str, list[object]], sentence: str) -> None:
    with pytest.raises(ww.WearwellError, match=sentence):
        ww.Trace({**TABLE, **change})


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(ww.WearwellError, match="no column op"):
        ww.Trace(pandas.DataFrame(TABLE).drop(columns="op"))


def test_a_design_is_the_file_that_runs_it(command: Command, tmp_path: Path) -> None:
    design = ww.Design(
        "wearwell", content=["dedup", "recycle"], settings={"gc.policy": "fifo", "gc.low_blocks": 4}
    )
    assert "parts.content=recycle+dedup" in repr(design)
    file = tmp_path / "design.toml"
    file.write_text(repr(design))
    load = "zipf:pages=2000,requests=6000"
    done = command(
        "replay", "--workload", load, "--design", design.name, "--config", str(file), "--json", "-", "--quiet"
    )
    result = ww.replay(ww.Trace.workload(load), design=design)
    of_object, of_file = measured(result.to_dict()), measured(record_of(done.stdout))
    assert of_file["origins"]["gc.policy"]["place"].startswith(f"{file}")
    assert {**of_object, "origins": None} == {**of_file, "origins": None}


def test_drives_and_designs_tell_what_they_are() -> None:
    drive = ww.Drive("tlc-1t", over_provisioning=0.12)
    assert repr(drive) == "Drive('tlc-1t', over_provisioning=0.12)"
    assert eval(repr(drive), {"Drive": ww.Drive}) == drive
    assert {"auto", "tlc-1t"} <= ww.Drive.presets().keys()
    assert {"page-map", "dftl", "wearwell"} <= ww.Design.names().keys()


def test_a_geometry_is_a_drive() -> None:
    drive = ww.Drive(
        channels=2,
        dies_per_channel=1,
        planes_per_die=1,
        blocks_per_plane=128,
        pages_per_block=32,
        logical_pages=7000,
        read_us=45.0,
    )
    result = ww.replay(ww.Trace.workload(TINY), drive)
    layout = result.device.layout
    assert (layout.channels, layout.blocks_per_plane, result.config.device.read_us) == (2, 128, 45.0)


def test_packages_that_are_missing_are_named() -> None:
    script = f"""
import sys
sys.modules["pandas"] = None
import wearwell as ww
ww.replay(ww.Trace.workload({TINY!r})).to_pandas()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("ImportError: to_pandas needs the package pandas, which is missing: pip install pandas")


def test_a_real_trace_has_the_figures_of_the_readme() -> None:
    result = ww.replay(PGBENCH)
    assert f"{result.erases:,}" in (ROOT / "README.md").read_text()


def test_a_field_that_a_record_leaves_out_is_none() -> None:
    trace = ww.Trace.workload(TINY)
    result = ww.replay(trace)
    assert "timeline" not in result.to_dict() and result.timeline is None
    assert result.config.replay.timeline_cells is None
    recorded = ww.replay(trace, settings={"replay.timeline_cells": 100})
    assert recorded.timeline is not None and recorded.timeline.frames[-1].requests == 4000
    with pytest.raises(AttributeError, match="has no field `timelines`"):
        getattr(result, "timelines")


CONTENTS: dict[str, list[Any]] = {
    "time_us": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "op": ["write", "write", "write", "remap", "phase", "move", "flush"],
    "offset_bytes": [0, 4096, 8192, 40960, None, 49152, None],
    "length_bytes": [4096, 4096, 8192, 4096, None, 4096, None],
    "device": [0, 1, 0, 0, 0, 0, 0],
    "fingerprints": ["a:2210", "a:2210", "a:2210:64 b", None, "", None, None],
    "source_bytes": [None, None, None, 0, None, 8192, None],
}
"""Requests with contents of pages, of two devices, and with remaps."""


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars", "arrow"])
def test_contents_devices_and_sources_of_a_table_are_those_of_the_csv(kind: str, tmp_path: Path) -> None:
    """They were ignored without a word: the replay of a table had other figures than that of the file with its rows."""
    path = tmp_path / "trace.csv"
    columns = ["offset_bytes", "length_bytes", "device", "fingerprints", "source_bytes"]
    rows = [[CONTENTS[name][row] for name in columns] for row in range(7)]
    lines = [
        f"{row * 1000},{letter},{offset or 0},{length or 0},{device},{contents or ''},{'' if source is None else source}"
        for row, (letter, (offset, length, device, contents, source)) in enumerate(zip("WWWCPMF", rows, strict=True))
    ]
    path.write_text("time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n" + "\n".join(lines) + "\n")
    makers: dict[str, Any] = {"mapping": dict, "pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": pyarrow.table}
    traces = path, ww.Trace(makers[kind](CONTENTS))
    of_file, of_table = (measured(ww.replay(one, None, "remap", precondition="none").to_dict()) for one in traces)
    assert of_file["writes_by_form"] == {"deduplicated": 2, "page": 2} and of_file["host_page_remaps"] == 2
    assert of_file["trace"]["footprint_pages"] == of_table["trace"]["footprint_pages"] == 6
    del of_file["trace"], of_table["trace"]
    assert of_file == of_table


def test_whole_floating_point_numbers_of_a_table_are_integers() -> None:
    """A column in which a value is missing consists of floating-point numbers, and was refused."""
    table = pandas.DataFrame({**TABLE, "offset_bytes": [float(offset) for offset in TABLE["offset_bytes"]]})
    table.loc[table["op"] == "flush", ["offset_bytes", "length_bytes"]] = None
    assert ww.Trace(table) == ww.Trace(TABLE)


def test_tables_have_names_that_distinguish_them() -> None:
    """Tables of equal length had one name, so reports took runs of different inputs for runs of the same input."""
    other = {**TABLE, "length_bytes": [4096, *TABLE["length_bytes"][1:]]}
    names = [ww.Trace(table).name for table in (TABLE, other, TABLE)]
    assert names[0] == names[2] != names[1]
    named = ww.Trace(TABLE, name="monday")
    assert (named.name, ww.replay(named, precondition="none").trace.path) == ("monday", "monday")
    assert pickle.loads(pickle.dumps(named)).name == "monday"


WAYS_TO_TIME: list[dict[str, Any]] = [
    {},
    {"timing": "event"},
    {"timing": "event", "requests": 50},
    {"timing": "event", "requests": 1},
    {"timing": "event", "arrival": "closed", "queue_depth": 4},
]
COLUMNS_OF_CSV = {
    "write_amplification": "write_amplification",
    "unchanged_writes": "writes_by_form.unchanged",
    "deduplicated_writes": "writes_by_form.deduplicated",
    "delta_writes": "writes_by_form.delta",
    "packed_writes": "writes_by_form.packed",
    "flush_mean_us": "latency_us.flush.mean",
    "flush_p99_us": "latency_us.flush.p99",
    "device_s": "timing.device_s",
    "array_utilisation": "timing.array_utilisation",
    "years": "lifetime.years",
    "requests_per_s": "service.requests_per_s",
}
"""Columns of the command's CSV whose name does not tell the column of the package, and that column."""


@pytest.mark.parametrize("way", WAYS_TO_TIME, ids=str)
@pytest.mark.parametrize("load", [TINY, f"{TINY},rate=1000", f"{TINY},rate=10000000", f"{TINY},write=0.0"])
def test_a_row_has_a_figure_exactly_if_the_csv_of_the_command_has_it(
    way: dict[str, Any], load: str, command: Command, tmp_path: Path
) -> None:
    """Latencies without timing were 0, a percentile of ten requests was their largest, and causes without programs lacked."""
    if "arrival" in way and "rate" in load:
        load = TINY
    path = tmp_path / "runs.csv"
    flags = [text for name, value in way.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    done = command("replay", "--workload", load, *flags, "--csv", str(path), "--quiet")
    assert done.returncode == 0, done.stderr
    (of_csv,) = csv.DictReader(path.open(newline=""))
    row = ww.replay(ww.Trace.workload(load), **way).to_row()
    shared = dict(COLUMNS_OF_CSV)
    for name in of_csv:
        if of_latency := re.fullmatch("(read|write)_(mean|p50|p90|p99|p999|max)_us|(read|write)_(count)", name):
            requests, figure = filter(None, of_latency.groups())
            shared[name] = f"latency_us.{requests}.{figure}"
        elif name.startswith("programs_"):
            shared[name] = f"programs_by_cause.{name.removeprefix('programs_')}"
    assert len(shared) == len(COLUMNS_OF_CSV) + 14 + 11
    found = {name: None if of_csv[name] == "" else float(of_csv[name]) for name in shared}
    assert {name: row[column] for name, column in shared.items()} == found


def test_a_record_cannot_be_changed_through_its_attributes_and_dictionaries() -> None:
    """An assignment succeeded without an effect on tables, and a change of the dictionary changed the result."""
    result = ww.replay(ww.Trace.workload(TINY))
    for section, name in ((result, "write_amplification"), (result.lifetime, "years"), (result, "new")):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(section, name, 9)
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(section, name)
    before = json.loads(result.to_json())
    result.to_dict()["config"]["gc"]["policy"] = "fifo"
    result.programs_by_cause["host"] = 0
    result.notes.append("changed")
    assert result.to_dict() == before == json.loads(ww.Result(result.to_json()).to_json())
    assert pickle.loads(pickle.dumps(result.lifetime)) == result.lifetime == copy.deepcopy(result.lifetime)
