"""A sweep runs each point once, whatever happens in between, and its table says which run each row is of."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
import wearwell as ww
from wearwell import _native

from common import PGBENCH, TINY, Command, measured

# 100 points: 2 loads x 2 designs x 5 shares of spare space x 5 seeds.
POINTS = 100
SCRIPT = """
import sys
import wearwell as ww

if __name__ == "__main__":
    ww.sweep(
        trace=[ww.Trace.workload(f"uniform:pages={pages},requests=20000") for pages in (1000, 1500)],
        design=["page-map", ww.Design("recyclable", settings={"gc.policy": "fifo"})],
        over_provisioning=[0.07, 0.1, 0.15, 0.28, 0.5],
        seed=range(5),
        jobs=2,
        store=sys.argv[1],
    ).to_pandas().to_pickle(sys.argv[2])
"""
OF_MACHINE = ["cpu_seconds", "precondition_cpu_seconds", "peak_rss_bytes"]


def begin(store: Path, table: Path) -> subprocess.Popen[str]:
    script = table.parent / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen([sys.executable, script, store, table], stderr=subprocess.PIPE, text=True)


def runs_in(store: Path) -> dict[str, tuple[int, int]]:
    """Records, and what would change if one were written again."""
    found = {}
    for path in store.glob("*.json"):
        state = path.stat()
        found[path.name] = (state.st_ino, state.st_mtime_ns)
    return found


def test_a_sweep_that_is_killed_five_times_is_the_undisturbed_one(tmp_path: Path) -> None:
    undisturbed = begin(tmp_path / "whole", tmp_path / "whole.pickle")
    assert undisturbed.wait() == 0
    assert len(runs_in(tmp_path / "whole")) == POINTS

    draw, store = random.Random(7), tmp_path / "killed"
    finished: dict[str, tuple[int, int]] = {}
    for kill in range(5):
        # At a random moment, told by the number of finished runs: the machine may be slow.
        limit = len(finished) + draw.randrange(1, 18)
        process = begin(store, tmp_path / "killed.pickle")
        while len(runs_in(store)) < limit and process.poll() is None:
            time.sleep(draw.random() * 0.02)
        assert process.poll() is None, f"sweep {kill} came to its end before it was killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        # A run in hand ends with it, unfinished.
        time.sleep(0.3)
        now = runs_in(store)
        time.sleep(0.3)
        assert runs_in(store) == now, "a worker goes on"
        assert finished.items() <= now.items(), "a finished run was made again"
        finished = now
    last = begin(store, tmp_path / "killed.pickle")
    _, said = last.communicate()
    assert last.returncode == 0
    assert said.splitlines()[0] == f"100 runs, {len(finished)} of them known"
    everything = runs_in(store)
    assert finished.items() <= everything.items(), "a finished run was made again"
    assert everything.keys() == runs_in(tmp_path / "whole").keys()
    whole, killed = (pandas.read_pickle(tmp_path / f"{name}.pickle") for name in ("whole", "killed"))
    pandas.testing.assert_frame_equal(whole.drop(columns=OF_MACHINE), killed.drop(columns=OF_MACHINE))
    assert whole["key"].nunique() == POINTS


def is_running(process: int) -> bool:
    """Whether it works: one that has ended may wait for its parent to notice."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the /proc of Linux to find processes")
def test_no_process_outlives_a_sweep_that_is_killed(tmp_path: Path) -> None:
    load = "uniform:pages=200000,requests=200000000,write=1.0"
    script = f"import wearwell as ww; ww.sweep(ww.Trace.workload({load!r}), seed=[1, 2], jobs=2, store={str(tmp_path)!r})"
    sweep = subprocess.Popen([sys.executable, "-c", script])
    children: list[int] = []
    while len(children) < 2:
        assert sweep.poll() is None, "the sweep ended before its runs began"
        time.sleep(0.02)
        children = [
            int(child) for child in Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children").read_text().split()
        ]
    # Both are in the middle of a run of minutes.
    time.sleep(1.0)
    assert all(is_running(child) for child in children)
    sweep.kill()
    sweep.wait()
    deadline = time.monotonic() + 10.0
    while any(is_running(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [child for child in children if is_running(child)]
    for child in left:
        os.kill(child, signal.SIGKILL)
    assert not left, "a process goes on"


def test_an_extended_sweep_runs_what_is_new(tmp_path: Path) -> None:
    load = ww.Trace.workload(TINY)
    first = ww.sweep(load, over_provisioning=[0.07, 0.15], store=tmp_path, jobs=1, progress=False)
    assert (len(first), first.ran, first.kept) == (2, 2, 0)
    second = ww.sweep(load, over_provisioning=[0.07, 0.15, 0.28], store=tmp_path, jobs=1, progress=False)
    assert (len(second), second.ran, second.kept) == (3, 1, 2)
    assert [row["over_provisioning"] for row in second.rows] == [0.07, 0.15, 0.28]
    assert second.rows[0] == first.rows[0]


def test_a_row_is_what_replay_gives(tmp_path: Path) -> None:
    sweep = ww.sweep(
        [PGBENCH], [None], ["page-map", "dftl"], requests=2000, timing="event", jobs=2, progress=False
    )
    for row, design in zip(sweep.rows, ["page-map", "dftl"], strict=True):
        alone = ww.replay(PGBENCH, design=design, requests=2000, timing="event").to_row()
        assert {name: row[name] for name in alone if name not in OF_MACHINE} == {
            name: value for name, value in alone.items() if name not in OF_MACHINE
        }


def test_a_row_says_where_it_comes_from() -> None:
    (row,) = ww.sweep(PGBENCH, requests=1000, jobs=1, progress=False).rows
    assert row["trace.sha256"] and len(row["key"]) == 16 and row["version"] == ww.__version__
    assert (row["trace"], row["design"], row["seed"], row["config.replay.requests"]) == (
        PGBENCH,
        "page-map",
        1,
        1000,
    )


def test_a_row_names_no_value_that_another_overrides() -> None:
    """Rows of one and the same run had the labels of two drives."""
    sweep = ww.sweep(
        ww.Trace.workload(TINY),
        drive=[ww.Drive(over_provisioning=share, endurance_cycles=500) for share in (0.07, 0.28)],
        design=ww.Design("page-map", settings={"gc.policy": "fifo", "device.endurance_cycles": 300}),
        over_provisioning=[None, 0.1],
        settings={"gc.policy": ["greedy", "fifo"], "replay.seed": 3},
        seed=1,
        jobs=2,
        progress=False,
    )
    assert {row["design"] for row in sweep.rows} == {"page-map device.endurance_cycles=300"}
    assert {row["seed"] for row in sweep.rows} == {3}, "the one of settings counts"
    found = {(row["drive"], round(row["device.over_provisioning"], 2)) for row in sweep.rows}
    assert found == {("auto over_provisioning=0.07", 0.07), ("auto over_provisioning=0.28", 0.28), ("auto", 0.1)}
    preset = {"device.preset": "lab-8g"}
    other = ww.sweep(ww.Trace.workload(TINY), "lab-64g", precondition="none", settings=preset, jobs=1, progress=False)
    assert other.rows[0]["drive"] == "lab-8g"


def test_a_point_that_fails_is_a_row_with_its_message() -> None:
    sweep = ww.sweep(ww.Trace.workload(TINY), over_provisioning=[0.15, 9.0], jobs=1, progress=False)
    good, bad = sweep.to_pandas().to_dict("records")
    with pytest.raises(ww.WearwellError) as raised:
        ww.replay(ww.Trace.workload(TINY), over_provisioning=9.0)
    assert pandas.isna(good["error"]) and good["write_amplification"] > 1.0
    assert bad["error"] == str(raised.value) and pandas.isna(bad["write_amplification"])
    assert sweep.errors == [bad["error"]]


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ({"config": "missing.toml"}, "missing.toml"),
        ({"settings": {"gc.polcy": "fifo"}}, "polcy"),
        ({"timing": "evnt"}, "evnt"),
        ({"over_provisioning": [8.0, 9.0]}, "over_provisioning"),
    ],
)
def test_a_mistake_in_all_points_is_an_error(mistake: dict[str, Any], sentence: str) -> None:
    """The sweep ran nothing, and returned a table of nothing but failures, without a word."""
    with pytest.raises(ww.WearwellError, match=sentence):
        ww.sweep(ww.Trace.workload(TINY), seed=[1, 2], jobs=1, progress=False, **mistake)


def test_the_processes_of_a_sweep_write_nothing_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    ww.sweep(ww.Trace.workload(TINY), seed=[1, 2], jobs=2, progress=False)
    assert capfd.readouterr() == ("", "")


def be_the_worker(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the interpreter of the workers a program that runs these lines."""
    fake = folder / "python"
    fake.write_text(f"#!{sys.executable} -P\n{program}")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))


def test_a_process_that_dies_fails_its_run_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_the_worker(
        """
import os, signal
from wearwell import _worker

class Runs(_worker.TaskRunner):
    def run(self, task):
        if "replay.seed=2" in task["settings"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(task)

_worker.TaskRunner = Runs
_worker.main()
""",
        tmp_path,
        monkeypatch,
    )
    sweep = ww.sweep(ww.Trace.workload(TINY), seed=[1, 2, 3, 4], jobs=2, progress=False)
    assert [row["error"] is None for row in sweep.rows] == [True, False, True, True]
    assert "was killed by signal 9" in sweep.errors[0]


def test_a_process_whose_input_cannot_be_read_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The thread that reads tasks died, and the process and the sweep waited for each other. The alarm is the time
    # limit.
    be_the_worker(
        """
import signal, sys
from wearwell import _worker

class Unreadable:
    def __iter__(self):
        raise MemoryError("no room for a task")

signal.alarm(20)
sys.stdin = Unreadable()
_worker.main()
""",
        tmp_path,
        monkeypatch,
    )
    sweep = ww.sweep(ww.Trace.workload(TINY), jobs=1, progress=False)
    (error,) = sweep.errors
    assert "ended with status 1" in error
    assert "MemoryError: no room for a task" in capfd.readouterr().err


def test_a_run_that_cannot_be_stored_is_a_row_and_the_others_are_stored(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with pytest.MonkeyPatch.context() as monkeypatch:
        be_the_worker(
            """
import json
from wearwell import _native, _worker

store_run = _native.store_run

def refuse_the_second(folder, key, record):
    if json.loads(record)["seed"] == 2:
        raise AttributeError("no such function")
    store_run(folder, key, record)

_native.store_run = refuse_the_second
_worker.main()
""",
            tmp_path,
            monkeypatch,
        )
        first = ww.sweep(ww.Trace.workload(TINY), seed=[1, 2, 3, 4], store=store, jobs=2, progress=False)
    assert [row["error"] for row in first.rows] == [None, "AttributeError: no such function", None, None]
    second = ww.sweep(ww.Trace.workload(TINY), seed=[1, 2, 3, 4], store=store, jobs=2, progress=False)
    assert (second.errors, second.ran, second.kept) == ([], 1, 3)


def test_an_unexpected_error_of_the_store_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path, key: str) -> str | None:
        raise AttributeError("no such function")

    monkeypatch.setattr(_native, "stored_run", refuse)
    with pytest.raises(AttributeError, match="no such function"):
        ww.sweep(ww.Trace.workload(TINY), seed=[1, 2], store=tmp_path, jobs=2, progress=False)


def test_a_sweep_that_an_unexpected_error_ends_runs_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The workers went on, until the last run, for as long as somebody kept the traceback: here `raised`, in a program
    # Python itself.
    def sweep() -> ww.Sweep:
        load = ww.Trace.workload("uniform:pages=20000,requests=400000")
        return ww.sweep(load, seed=range(40), jobs=2, store=tmp_path)

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            if runs_in(tmp_path):
                raise BrokenPipeError("who reads standard error has ended")
            return len(text)

    # Standard error is a terminal, which gets a line after each run.
    closed = Closed()
    monkeypatch.setattr(closed, "isatty", lambda: True)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", closed)
        with pytest.raises(BrokenPipeError) as raised:
            sweep()
    finished = runs_in(tmp_path)
    time.sleep(0.3)
    assert runs_in(tmp_path) == finished, "a worker goes on"
    assert 1 <= len(finished) < 40
    again = sweep()
    assert (again.ran, again.kept) == (40 - len(finished), len(finished))
    assert raised.traceback


def test_ctrl_c_gives_what_is_done(tmp_path: Path) -> None:
    script = f"""
import signal, warnings
import wearwell as ww
# Who starts the tests in the background may have ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    sweep = ww.sweep(ww.Trace.workload("uniform:pages=20000,requests=400000"), seed=range(200), jobs=2, store={str(tmp_path)!r})
print(sweep.partial, len(sweep), [str(one.message) for one in caught])
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while len(runs_in(tmp_path)) < 3:
        assert process.poll() is None, "the sweep ended without three finished runs"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    partial, count, warned = output.split(maxsplit=2)
    # Each of the two workers keeps a run a moment before it says so.
    assert partial == "True" and 1 <= int(count) < 200
    assert f"interrupted: {count} of 200 runs are done" in warned


def test_ctrl_c_in_a_run_of_this_process_ends_the_sweep() -> None:
    """It ended one run only: the sweep went on, returned this run as a partial row, and was not partial itself."""
    script = """
import signal
import wearwell as ww
signal.signal(signal.SIGINT, signal.default_int_handler)

class Here(ww.Executor):
    def run(self, tasks):
        for number, task in enumerate(tasks):
            print("began", number, flush=True)
            yield number, ww.Outcome.of(ww.run_task(task))

load = ww.Trace.workload("uniform:pages=200000,requests=200000000,write=1.0")
sweep = ww.sweep(load, precondition="none", requests=[1000, 200_000_000], seed=[1, 2], executor=Here(), progress=False)
print(sweep.partial, [row["partial"] for row in sweep.rows])
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == [f"began {number}\n" for number in range(3)]
    time.sleep(1.0)  # The third run, of minutes, is in the engine then.
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output == "True [False, False]\n"


def test_the_folder_is_that_of_ablate(command: Command, tmp_path: Path) -> None:
    done = command("ablate", "--workload", TINY, "--parts", "dedup", "--resume", str(tmp_path), "--quiet")
    assert done.returncode == 0, done.stderr
    design = ww.Design("page-map", content=["dedup"])
    sweep = ww.sweep(ww.Trace.workload(TINY), design=design, store=tmp_path, jobs=1, progress=False)
    assert (sweep.ran, sweep.kept) == (0, 1)
    alone = ww.replay(ww.Trace.workload(TINY), design=design)
    (kept,) = sweep.results
    assert kept is not None and measured(kept.to_dict()) == measured(alone.to_dict())


def test_the_sweep_of_the_command_is_the_same(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        f"""
[sweep]
workloads = ["{TINY}"]
designs = ["page-map", "geckoftl"]
vary.device.over_provisioning = [0.07, 0.28]
vary.replay.seed = [1, 2, 3]
"""
    )
    store = tmp_path / "store"
    done = command("sweep", str(file), "--jobs", "2", "--resume", str(store), "--json", "-")
    assert done.returncode == 0, done.stderr
    sweep = ww.sweep(
        ww.Trace.workload(TINY),
        design=["page-map", "geckoftl"],
        over_provisioning=[0.07, 0.28],
        seed=[1, 2, 3],
        store=store,
        progress=False,
    )
    assert (sweep.ran, sweep.kept) == (0, 12)
    of_command = {
        (run["design"], run["seed"], run["device"]["over_provisioning"]): run["programs"]
        for run in json.loads(done.stdout)["runs"]
    }
    of_python = {
        (run.design, run.seed, run.device.over_provisioning): run.programs
        for run in sweep.results
        if run is not None
    }
    assert of_command == of_python and len(of_python) == 12


def test_equal_points_run_once(tmp_path: Path) -> None:
    sweep = ww.sweep(
        ww.Trace.workload(TINY),
        design=["page-map", ww.Design("page-map")],
        store=tmp_path,
        jobs=2,
        progress=False,
    )
    assert (len(sweep), sweep.ran, sweep.kept, len(runs_in(tmp_path))) == (2, 1, 1, 1)


def test_an_unknown_executor_is_refused() -> None:
    with pytest.raises(ww.WearwellError, match="unknown executor `cloud`; expected one of local, dask, slurm"):
        ww.sweep(ww.Trace.workload(TINY), executor="cloud")


def test_an_executor_is_one_class() -> None:
    class InThisProcess(ww.Executor):
        def run(self, tasks: Sequence[ww.Task]) -> Iterator[tuple[int, ww.Outcome]]:
            from wearwell._worker import TaskRunner

            runs = TaskRunner()
            for number, task in enumerate(tasks):
                done = runs.run(dict(task))
                yield number, ww.Outcome(done.get("record"), done.get("error"))

    sweeps = [
        ww.sweep(ww.Trace.workload(TINY), seed=[1, 2], executor=executor, progress=False)
        for executor in ("local", InThisProcess())
    ]
    local, here = [sweep.to_pandas().drop(columns=OF_MACHINE) for sweep in sweeps]
    pandas.testing.assert_frame_equal(local, here)


def test_an_executor_object_and_a_number_of_jobs_are_refused() -> None:
    # The number was ignored.
    with pytest.raises(ww.WearwellError, match="jobs has no effect beside an executor object"):
        ww.sweep(ww.Trace.workload(TINY), executor=ww.LocalExecutor(1), jobs=7, progress=False)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([], "Own yielded no outcome of 2 of 2 tasks"),
        ([1], "Own yielded no outcome of 1 of 2 tasks"),
        ([0, 0, 1], "Own yielded an outcome of task 0, which is not one of those without an outcome"),
        ([0, -1], "Own yielded an outcome of task -1, which is not one of those without an outcome"),
    ],
)
def test_an_executor_that_does_not_yield_each_task_once_is_an_error(numbers: list[int], sentence: str) -> None:
    # Runs without an outcome had no row: the sweep was empty. An outcome too many was counted, or counted for another.
    class Own(ww.Executor):
        def run(self, tasks: Sequence[ww.Task]) -> Iterator[tuple[int, ww.Outcome]]:
            return iter([(number, ww.Outcome(None, "not run")) for number in numbers])

    with pytest.raises(ww.WearwellError, match=sentence):
        ww.sweep(ww.Trace.workload(TINY), seed=[1, 2], executor=Own(), progress=False)


def test_partial_runs_of_a_sweep_are_told(tmp_path: Path) -> None:
    # Neither a warning nor the repr said so.
    damaged = tmp_path / "damaged.wwt"
    content = Path(PGBENCH).read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    with pytest.warns(ww.PartialResultWarning, match="2 of 4 results are partial .*, the first: .*truncated") as warned:
        sweep = ww.sweep([PGBENCH, str(damaged)], seed=[1, 2], jobs=2, progress=False)
    assert (len(warned), warned[0].filename) == (1, __file__)
    assert [row["partial"] for row in sweep.rows] == [False, False, True, True]
    assert repr(sweep) == "<Sweep of 4 runs: 4 made now, 0 known, 2 partial>"
    assert not sweep.partial, "nothing interrupted it"


def test_numbers_of_numpy_are_columns_of_numbers() -> None:
    # Beside numbers of Python they made a column of texts.
    seeds: list[Any] = [numpy.int64(1), 2]
    sweep = ww.sweep(
        ww.Trace.workload(TINY),
        over_provisioning=[*numpy.linspace(0.1, 0.2, 2), 0.28],
        seed=seeds,
        settings={"device.wear_out": numpy.False_},
        jobs=2,
        progress=False,
    )
    assert not sweep.errors
    frame = sweep.to_pandas()
    assert [str(frame[name].dtype) for name in ("over_provisioning", "seed")] == ["float64", "int64"]
    assert list(frame["seed"]) == [1, 2] * 3
    assert [type(row["seed"]) for row in sweep.rows] == [int] * 6


@pytest.mark.parametrize("progress", [False, True])
def test_a_sweep_needs_no_standard_error(progress: bool) -> None:
    # It failed, because `sys.stderr` is None then. A worker took the pipe of its answers for its standard error.
    call = f"ww.sweep(ww.Trace.workload({TINY!r}), jobs=1, progress={progress})"
    script = f"import wearwell as ww; print(len({call}.results))"
    closed = ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, script]
    done = subprocess.run(closed, stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_a_setting_that_no_run_uses_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    load = ww.Trace.workload(TINY)
    with pytest.raises(ww.WearwellError, match="dftl.cache_entries has no effect on page-map"):
        ww.sweep(load, design=["page-map"], settings={"dftl.cache_entries": 1024})
    ww.sweep(load, design=["page-map", "dftl"], settings={"dftl.cache_entries": 1024}, jobs=1)
    assert "wearwell: note: dftl.cache_entries has no effect on page-map" in capfd.readouterr().err


def test_a_list_in_settings_is_an_axis() -> None:
    sweep = ww.sweep(
        ww.Trace.workload(TINY), settings={"gc.policy": ["greedy", "fifo"]}, jobs=1, progress=False
    )
    assert [row["gc.policy"] for row in sweep.rows] == ["greedy", "fifo"]
    assert [row["config.gc.policy"] for row in sweep.rows] == ["greedy", "fifo"]


def test_a_store_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ww.WearwellError, match="file"):
        ww.sweep(ww.Trace.workload(TINY), store=tmp_path / "file", progress=False)


def test_the_table_of_requests_of_a_data_frame_is_swept() -> None:
    table = {
        "time_us": range(4000),
        "op": ["write"] * 4000,
        "offset_bytes": [number * 4096 % (1 << 20) for number in range(4000)],
        "length_bytes": [4096] * 4000,
    }
    sweep = ww.sweep(ww.Trace(pandas.DataFrame(table)), seed=[1, 2], jobs=2, progress=False)
    assert [row["host_page_writes"] for row in sweep.rows] == [4000, 4000]
    assert not [name for name in os.listdir("/tmp") if name.endswith(".wwt.partial")]


def test_values_of_an_iterator_are_those_of_a_list() -> None:
    # After the first design an iterator had no values left, and the runs of the others were missing without a word.
    sweep = ww.sweep(
        (ww.Trace.workload(TINY) for _ in range(1)),
        design=(name for name in ("page-map", "remap")),
        seed=(seed for seed in (1, 2)),
        settings={"gc.policy": iter(["greedy", "fifo"])},
        jobs=2,
        progress=False,
    )
    found = [(row["design"], row["seed"], row["gc.policy"]) for row in sweep.rows]
    expected = itertools.product(("page-map", "remap"), (1, 2), ("greedy", "fifo"))
    assert found == list(expected) and sweep.errors == []


@pytest.mark.parametrize(
    "yielded", [0, None, (0, None), (0, ww.Outcome(None, None)), (0, ww.Outcome("{}", "failed")), ("0", ww.Outcome("{}", None))]
)
def test_what_an_executor_yields_is_an_outcome_or_an_error(yielded: Any) -> None:
    # A TypeError named no executor, and an outcome without record and error was a row that said nothing.
    class Own(ww.Executor):
        def run(self, tasks: Sequence[ww.Task]) -> Iterator[tuple[int, ww.Outcome]]:
            yield yielded

    with pytest.raises(ww.WearwellError, match=r"^Own yielded .*: yield the index of a task and its Outcome"):
        ww.sweep(ww.Trace.workload(TINY), executor=Own(), progress=False)


@pytest.mark.parametrize("record", ["garbage", "", "[]", '{"trace": 1}', 5])
def test_a_record_of_an_executor_that_is_none_is_an_error(record: Any) -> None:
    """The error was one of the parser of JSON, or a field that the record lacks."""

    class Own(ww.Executor):
        def run(self, tasks: Sequence[ww.Task]) -> Iterator[tuple[int, ww.Outcome]]:
            yield 0, ww.Outcome(record, None)

    with pytest.raises(ww.WearwellError, match=r"^Own yielded .* as the record of task 0: yield Outcome.of\(run_task\(task\)\)"):
        ww.sweep(ww.Trace.workload(TINY), executor=Own(), progress=False)


def test_an_executor_that_returns_nothing_is_an_error() -> None:
    """A TypeError said that None is not iterable, without the name of the executor."""

    class Own(ww.Executor):
        def run(self, tasks: Sequence[ww.Task]) -> Any:
            pass

    with pytest.raises(ww.WearwellError, match="^the method run of Own returned None: yield the index of each task"):
        ww.sweep(ww.Trace.workload(TINY), executor=Own(), progress=False)


@pytest.mark.parametrize(
    ("axis", "settings", "key"),
    [
        ({"seed": [1, 2, 3]}, {"replay.seed": 9}, "replay.seed"),
        ({"seed": range(2)}, {"replay.seed": [8, 9]}, "replay.seed"),
        ({"over_provisioning": [None, 0.4]}, {"device.over_provisioning": 0.2}, "device.over_provisioning"),
        ({"timing": ["none", "event"]}, {"timing.mode": "event"}, "timing.mode"),
    ],
)
def test_a_list_that_settings_override_is_refused(axis: dict[str, Any], settings: dict[str, Any], key: str) -> None:
    """The rows of one and the same run stood there without the values that should distinguish them."""
    (keyword,) = axis
    sentence = f"^{keyword} has several values that have no effect, because settings has {key}: leave out one of the two"
    with pytest.raises(ww.WearwellError, match=sentence):
        ww.sweep(ww.Trace.workload(TINY), settings=settings, progress=False, **axis)


def test_bytes_and_mappings_are_no_lists_of_values() -> None:
    """The bytes of a text were seeds, and the keys of a mapping values of a setting."""
    calls: list[tuple[str, dict[str, Any]]] = [
        (r"^seed is b'ab': give an integer", {"seed": b"ab"}),
        (r"^seed is bytearray\(b'ab'\): give an integer", {"seed": bytearray(b"ab")}),
        (r"^seed is {1: 2}: give an integer", {"seed": {1: 2}}),
        (r"^gc.policy is {'fifo': 1}: give a finite number, a text", {"settings": {"gc.policy": {"fifo": 1}}}),
        (r"^drive is b'lab-8g': give the name of a preset", {"drive": b"lab-8g"}),
        (r"^design is {'dftl': 1}: give the name of a design", {"design": {"dftl": 1}}),
    ]
    for sentence, arguments in calls:
        with pytest.raises(ww.WearwellError, match=sentence):
            ww.sweep(ww.Trace.workload(TINY), progress=False, **arguments)


DRIVES = [ww.Drive(over_provisioning=share) for share in (0.1, 0.2)]
DESIGNS = [ww.Design(settings={"gc.policy": policy}) for policy in ("fifo", "greedy")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"drive": DRIVES, "over_provisioning": 0.3}, "drives 'auto over_.*=0.1' and 'auto over_.*=0.2' .* device.over_provisioning"),
        ({"drive": [None, *DRIVES], "over_provisioning": [0.3, 0.4]}, "drives 'auto' and 'auto over_provisioning=0.1' "),
        ({"drive": DRIVES, "settings": {"device.over_provisioning": 0.3}}, "drives 'auto over_"),
        ({"drive": DRIVES, "design": ww.Design(settings={"device.over_provisioning": 0.3})}, "drives 'auto over_"),
        ({"design": DESIGNS, "settings": {"gc.policy": ["fifo", "random"]}}, "designs 'page-map gc.policy=fifo' and .* gc.policy"),
    ],
)
def test_drives_and_designs_whose_difference_is_overridden_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    """Equal rows stood there without the values that should distinguish them."""
    with pytest.raises(ww.WearwellError, match=f"^the {sentence}.*: leave out one of the two"):
        ww.sweep(ww.Trace.workload(TINY), progress=False, **arguments)


def test_drives_and_designs_whose_difference_some_runs_use_are_swept() -> None:
    """Runs of which each row says what distinguishes it are no mistake."""
    load = ww.Trace.workload(TINY)
    sweep = ww.sweep(load, drive=DRIVES, over_provisioning=[0.3, None], jobs=2, progress=False)
    assert [row["drive"] for row in sweep.rows] == ["auto", "auto over_provisioning=0.1", "auto", "auto over_provisioning=0.2"]
    sweep = ww.sweep(load, design=[*DESIGNS, "dftl"], over_provisioning=0.3, jobs=2, progress=False)
    assert len(sweep) == 3 and sweep.errors == []
    sweep = ww.sweep(load, drive=[DRIVES[0], DRIVES[0]], over_provisioning=0.3, jobs=1, progress=False)
    assert (len(sweep), sweep.ran) == (2, 1)


def test_a_size_to_scale_to_that_some_runs_do_not_use_is_noted(capfd: pytest.CaptureFixture[str]) -> None:
    """It was ignored without a word."""
    sweep = ww.sweep(ww.Trace.workload(TINY), timing=["none", "event"], scale_to=10**12, jobs=1)
    assert "wearwell: note: uniform:pages=2000,requests=4000,seed=1: `scale_to` has no effect" in capfd.readouterr().err
    assert [row["lifetime.scaled_years"] is None for row in sweep.rows] == [True, False]


def test_arguments_of_numpy_and_of_any_collection_are_values() -> None:
    # Type checkers refused them.
    sweep = ww.sweep(
        ww.Trace.workload(TINY),
        design={"page-map", "dftl"},
        over_provisioning=numpy.linspace(0.1, 0.2, 2),
        timing=["none", None],
        seed=numpy.int64(3),
        jobs=2,
        progress=False,
    )
    assert len(sweep) == 8 and sweep.errors == []
    assert {row["seed"] for row in sweep.rows} == {3}
