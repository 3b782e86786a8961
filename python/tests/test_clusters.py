"""A sweep on a cluster gives the table of the local one, and a killed worker's runs are made again.

Slurm is a real one of this machine (`examples/slurm/up.sh`), Dask a scheduler with worker processes of its own.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas
import pytest
import wearwell as ww

from common import ROOT, TINY

POINTS = 16
OF_MACHINE = ["cpu_seconds", "precondition_cpu_seconds", "peak_rss_bytes"]


def sweep(store: Path, executor: str | ww.Executor, requests: int = 20_000) -> ww.Sweep:
    return ww.sweep(
        trace=[ww.Trace.workload(f"uniform:pages={pages},requests={requests}") for pages in (1000, 1500)],
        design=["page-map", "dftl"],
        over_provisioning=[0.07, 0.15],
        seed=range(2),
        executor=executor,
        store=store,
        progress=False,
    )


def table_of(found: ww.Sweep) -> pandas.DataFrame:
    """Without what the machine says."""
    return found.to_pandas().drop(columns=OF_MACHINE)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pandas.DataFrame:
    table = table_of(sweep(tmp_path_factory.mktemp("local"), ww.LocalExecutor(jobs=2)))
    assert len(table) == POINTS
    return table


class DaskCluster:
    """A scheduler and two workers with nannies, as processes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        python = [sys.executable, "-m", "distributed.cli"]
        common = ["--no-dashboard", "--scheduler-file", str(self.file)]
        begun: list[subprocess.Popen[bytes]] = []
        self.processes = begun
        begun.append(self._start(["dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common], python, folder))
        for _ in range(2):
            worker = ["dask_worker", "--nthreads", "1", "--local-directory", str(folder), *common]
            begun.append(self._start(worker, python, folder))

    @staticmethod
    def _start(arguments: list[str], python: list[str], folder: Path) -> subprocess.Popen[bytes]:
        program = f"{python[-1]}.{arguments[0]}"
        with (folder / "log").open("ab") as log:
            command = [*python[:-1], program, *arguments[1:]]
            return subprocess.Popen(command, stderr=log, stdout=log, start_new_session=True)

    def client(self) -> Any:
        distributed: Any = importlib.import_module("distributed")
        client = distributed.Client(scheduler_file=str(self.file), timeout=60)
        client.wait_for_workers(2, timeout=60)
        return client

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                # A nanny that is starting its worker again may miss the signal.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Any]:
    cluster = DaskCluster(tmp_path)
    client = cluster.client()
    try:
        yield client
    finally:
        client.close()
        cluster.end()


def disturb_at_work(store: Path, disturb: Callable[[], None]) -> threading.Thread:
    """Does this, say kills a worker, when some runs are finished."""

    def wait_and_disturb() -> None:
        while len(list(store.glob("*.json"))) < 3:
            time.sleep(0.01)
        disturb()

    thread = threading.Thread(target=wait_and_disturb, daemon=True)
    thread.start()
    return thread


def test_dask_gives_the_table_of_the_local_sweep(
    dask: Any, undisturbed: pandas.DataFrame, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    pids = dask.run(os.getpid)
    victim = next(iter(pids.values()))
    killer = disturb_at_work(store, lambda: os.kill(victim, signal.SIGKILL))
    found = sweep(store, ww.DaskExecutor(dask))
    killer.join(timeout=0)
    assert not killer.is_alive(), "no worker was killed"
    assert not found.errors
    pandas.testing.assert_frame_equal(table_of(found), undisturbed)


def test_a_cluster_of_dask_is_used_and_left_open(tmp_path: Path) -> None:
    # An object that is neither a client nor an address was ignored: the sweep started a cluster of its own.
    distributed: Any = importlib.import_module("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        found = ww.sweep(
            ww.Trace.workload(TINY), executor=ww.DaskExecutor(cluster), store=tmp_path, progress=False
        )
        assert (found.ran, found.errors) == (1, [])
        assert cluster.status.name == "running"
        with pytest.raises(ww.WearwellError, match="jobs has no effect together with cluster"):
            ww.DaskExecutor(cluster, jobs=2)
    with pytest.raises(ww.WearwellError, match="cluster is 5: give a distributed.Client"):
        ww.DaskExecutor(5)


def test_an_interrupted_sweep_on_dask_leaves_no_run_behind(dask: Any, tmp_path: Path) -> None:
    """Its runs went on in the workers, which did nothing else until they ended."""

    def runs_at_work() -> int:
        return sum(dask.run(lambda dask_worker: dask_worker.state.executing_count).values())

    class Interrupted(ww.Executor):
        def run(self, tasks: Sequence[ww.Task]) -> Iterator[tuple[int, ww.Outcome]]:
            with closing(ww.DaskExecutor(dask).run(tasks)) as outcomes:  # type: ignore[type-var]
                yield next(outcomes)
                assert wait_for(lambda: runs_at_work() == 2), "two runs of minutes have begun"
                raise KeyboardInterrupt

    pids = dask.run(os.getpid)
    with pytest.warns(ww.PartialResultWarning, match="the sweep was interrupted: 1 of 4 runs"):
        found = ww.sweep(
            ww.Trace.workload("uniform:pages=200000,requests=200000000,write=1.0"),
            precondition="none",
            requests=[1000, 200_000_000, 199_999_999, 199_999_998],
            executor=Interrupted(),
            store=tmp_path / "store",
            progress=False,
        )
    assert (len(found), found.errors, found.partial) == (1, [], True)
    assert wait_for(lambda: runs_at_work() == 0, 10.0), "a run goes on"
    assert dask.run(os.getpid) == pids, "the workers are the same, with what others have in them"
    assert len(list((tmp_path / "store").glob("*.json"))) == 1
    assert not sweep(tmp_path / "next", ww.DaskExecutor(dask), requests=1000).errors


def test_an_error_of_a_run_on_dask_is_a_row(dask: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone.csv"
    gone.write_text("time_ns,op,offset_bytes,len_bytes,device,fingerprints\n0,W,0,4096,0,a\n")
    trace = ww.Trace(gone)
    executor = ww.DaskExecutor(dask)
    original = executor.run

    def without_trace(tasks: Any) -> Any:
        gone.unlink()
        return original(tasks)

    executor.run = without_trace  # type: ignore[method-assign]
    found = ww.sweep(trace, executor=executor, store=tmp_path / "store", progress=False)
    assert len(found.errors) == 1 and "gone.csv" in found.errors[0]


@pytest.fixture(scope="module")
def slurm() -> Iterator[None]:
    """A Slurm of this machine, installed and started, and ended."""
    if os.geteuid() != 0:
        pytest.skip("a Slurm of this machine is set up as root")
    script = ROOT / "examples/slurm/up.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield
    subprocess.run([script, "down"], check=True)


@pytest.mark.usefixtures("slurm")
def test_slurm_gives_the_table_of_the_local_sweep(undisturbed: pandas.DataFrame, tmp_path: Path) -> None:
    store = tmp_path / "store"

    def kill() -> None:
        """A job at work, as if its node had failed; another one if it ends before that."""
        kill = ["scancel", "--signal=KILL", "--full"]
        while not any(subprocess.run([*kill, job], check=False).returncode == 0 for job in running_jobs()):
            time.sleep(0.01)

    killer = disturb_at_work(store, kill)
    executor = ww.SlurmExecutor(tmp_path / "logs", jobs=2, timeout_min=5, mem_gb=1)
    executor.GONE_S = 3.0
    found = sweep(store, executor, requests=20_000)
    killer.join(timeout=0)
    assert not killer.is_alive(), "no job was killed"
    assert not found.errors
    pandas.testing.assert_frame_equal(table_of(found), undisturbed)


def stub(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is found before the one of this name; `$real` in its script is that one."""
    real = shutil.which(name)
    assert real is not None
    folder.mkdir()
    program = folder / name
    program.write_text(f"#!/bin/sh\nreal={real}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("slurm")
def test_a_sweep_outlives_a_queue_that_does_not_answer_for_a_moment(
    undisturbed: pandas.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    # The second, third and fourth call fail.
    stub(
        tmp_path / "bin",
        "squeue",
        f"""echo call >>{calls}
        case $(wc -l <{calls}) in 2|3|4) echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1;; esac
        exec $real "$@\"""",
        monkeypatch,
    )
    executor = ww.SlurmExecutor(tmp_path / "logs", jobs=2, timeout_min=5, mem_gb=1)
    with pytest.warns(RuntimeWarning, match="squeue failed and is tried again for 600 s: slurm_load_jobs error"):
        found = sweep(tmp_path / "store", executor)
    assert len(calls.read_text().splitlines()) > 4, "the sweep looked at the queue again"
    assert not found.errors
    pandas.testing.assert_frame_equal(table_of(found), undisturbed)


@pytest.mark.usefixtures("slurm")
def test_a_sweep_goes_on_when_the_controller_of_slurm_is_restarted(
    undisturbed: pandas.DataFrame, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    warned: list[pytest.WarningsRecorder] = []
    outage: list[float] = []

    def restart() -> None:
        began = time.monotonic()
        controller = Path("/run/slurmctld.pid")
        pid = int(controller.read_text())
        os.kill(pid, signal.SIGTERM)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.1)
        # A command of Slurm waits for the controller for 9 s before it fails, and if it had reached the old one, for up to
        # the 60 s after which the sweep takes it as failed.
        while not (warned and warned[0].list) and time.monotonic() - began < 150.0:
            time.sleep(0.1)
        subprocess.run([ROOT / "examples/slurm/up.sh"], capture_output=True, check=True)
        outage.append(time.monotonic() - began)

    restarter = disturb_at_work(store, restart)
    # Either command may be the first that finds no controller: a job that died of the outage is submitted again.
    with pytest.warns(RuntimeWarning, match="(squeue|sbatch) failed and is tried again") as recorder:
        warned.append(recorder)
        found = sweep(store, ww.SlurmExecutor(tmp_path / "logs", jobs=2, timeout_min=5, mem_gb=1))
    restarter.join(timeout=60)
    assert outage, "the controller was away until the sweep noticed it, and came back"
    assert not found.errors
    pandas.testing.assert_frame_equal(table_of(found), undisturbed)


@pytest.mark.usefixtures("slurm")
def test_a_queue_that_never_answers_ends_a_sweep_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = ww.SlurmExecutor(tmp_path / "logs", timeout_min=5, mem_gb=1, outage_s=4, slurm_setup=["sleep 300"])
    stub(tmp_path / "bin", "squeue", "echo 'the controller is gone' >&2; exit 1", monkeypatch)
    began = time.monotonic()
    with pytest.warns(RuntimeWarning, match="squeue failed"):
        found = ww.sweep(
            ww.Trace.workload("uniform:pages=500,requests=1000"),
            executor=executor,
            store=tmp_path / "store",
            progress=False,
        )
    assert 4.0 < time.monotonic() - began < 60.0
    (error,) = found.errors
    assert error.startswith("squeue has failed for 4 s (the controller is gone): repeat the sweep when Slurm answers again")
    monkeypatch.undo()
    assert wait_for(lambda: not running_jobs()), "the job of the sweep was cancelled"


@pytest.mark.usefixtures("slurm")
def test_a_submission_that_fails_for_a_moment_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of the first try dies, and `sbatch` fails twice when it is to be submitted again."""
    calls, first = tmp_path / "calls", tmp_path / "first"
    stub(
        tmp_path / "bin",
        "sbatch",
        f"""echo call >>{calls}
        case $(wc -l <{calls}) in 2|3) echo 'sbatch: error: Socket timed out' >&2; exit 1;; esac
        exec $real "$@\"""",
        monkeypatch,
    )
    dies_once = [f"[ -e {first} ] || {{ touch {first}; exit 3; }}"]
    executor = ww.SlurmExecutor(tmp_path / "logs", timeout_min=5, mem_gb=1, slurm_setup=dies_once)
    executor.GONE_S = 3.0
    with pytest.warns(RuntimeWarning, match="sbatch failed and is tried again"):
        found = ww.sweep(
            ww.Trace.workload("uniform:pages=500,requests=1000"),
            executor=executor,
            store=tmp_path / "store",
            progress=False,
        )
    assert not found.errors
    assert len(calls.read_text().splitlines()) == 4


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether the condition becomes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def running_jobs() -> list[str]:
    command = ["squeue", "--noheader", "--array", "--me", "--states=running", "--format=%i"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.usefixtures("slurm")
def test_a_job_that_dies_every_time_is_a_row_that_says_so(tmp_path: Path) -> None:
    executor = ww.SlurmExecutor(tmp_path / "logs", timeout_min=5, mem_gb=1, tries=1, slurm_setup=["exit 3"])
    executor.GONE_S = 3.0
    found = ww.sweep(
        ww.Trace.workload("uniform:pages=500,requests=1000"), executor=executor, store=tmp_path / "store", progress=False
    )
    assert len(found.errors) == 1 and "left no result after 1 attempt (last line" in found.errors[0]
