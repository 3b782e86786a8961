"""Executors: run the tasks of a sweep in other processes.

A task is plain data (`Task`): what to run, and the folder in which its record is stored. So a task can run in any process
on any machine that has access to the folder and the trace. An executor is one class, which takes tasks and yields their
outcomes.

The local executor starts a process per job and communicates with it over pipes (`_worker.py`). A pool of `multiprocessing`
has three drawbacks: its workers outlive a parent that is killed, scripts need a guard around their main part, and one dead
worker makes the tasks of all workers fail.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple, SupportsIndex, TypedDict

from ._native import WearwellError, unknown_name
from ._settings import JOBS_MAX, checked_integer, refuse_surrogates


class Task(TypedDict):
    """One run of a sweep, as plain data."""

    key: str
    """Key under which the record of the run is stored."""
    store: str
    """Folder in which records are stored."""
    trace: dict[str, Any]
    """Description of the trace: its path and how it is read, or the specification of a workload."""
    design: str
    """Name of the design."""
    settings: list[str]
    """Settings in the notation of the command line, which win over the file."""
    config: str | None
    """Path of a configuration file."""


class Outcome(NamedTuple):
    """Outcome of a task: the record of the run as JSON, or an error message."""

    record: str | None
    """Record of the run as JSON; None if the run failed."""
    error: str | None
    """Error message of a run that failed."""

    @classmethod
    def of(cls, answer: Mapping[str, str]) -> Outcome:
        """Returns the outcome that a worker answered with (`run_task`)."""
        return cls(answer.get("record"), answer.get("error"))


class Executor(ABC):
    """Base class of executors, which run the tasks of a sweep."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        """Yields index and outcome of each task, in the order in which tasks end. Closing the iterator ends all runs."""


class LocalExecutor(Executor):
    """Runs tasks in processes of this machine, `jobs` at a time (default: one per core)."""

    def __init__(self, jobs: SupportsIndex | None = None) -> None:
        given = None if jobs is None else checked_integer("jobs", jobs, 1, JOBS_MAX)
        self.jobs = given or os.cpu_count() or 1
        """Number of runs at a time."""

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        if not tasks:
            return
        workers = [_Worker() for _ in range(min(self.jobs, len(tasks)))]
        idle_workers: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in workers:
            idle_workers.put(worker)

        def run_on_idle_worker(task: Task) -> Outcome:
            worker = idle_workers.get()
            try:
                return worker.run(task)
            finally:
                idle_workers.put(worker)

        pool = ThreadPoolExecutor(len(workers))
        futures = {pool.submit(run_on_idle_worker, task): number for number, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()
            pool.shutdown()
            for worker in workers:
                worker.close()


class _Worker:
    """A worker process that runs one task after the other. If the process dies, another is started."""

    def __init__(self) -> None:
        self._ended = False
        self._process = self._start_process()

    def _start_process(self) -> subprocess.Popen[str]:
        """Starts a worker process, with pipes for its tasks and their outcomes."""
        # Not `-m`: the module is imported with the package, and Python warns if it is then run a second time.
        command = [sys.executable, "-P", "-c", "from wearwell._worker import main; main()"]
        # Without standard error (`2>&-`) descriptor 2 is free: the worker would take the pipe of its answers for it.
        errors = subprocess.DEVNULL if sys.stderr is None else None
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
        )

    def run(self, task: Task) -> Outcome:
        """Runs a task in the process, and returns its outcome; an error message if the process dies."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            return Outcome(None, self._replace_dead_process())
        return Outcome.of(json.loads(answer))

    def _replace_dead_process(self) -> str:
        """Starts another process in place of one that died, and returns an error message about the death."""
        status = self._process.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        if not self._ended:
            self._process = self._start_process()
        return f"the process of this run {how}: see its messages on standard error; if memory ran out, give fewer jobs"

    def end(self) -> None:
        """Kills the process at once, even during a run."""
        self._ended = True
        self._process.kill()

    def close(self) -> None:
        """Closes the pipes of the killed process and waits for its end. A replacement started meanwhile ends with its input."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # The last output is lost, which does not matter.
        self._process.wait()


def _dask_executor(jobs: SupportsIndex | None) -> Executor:
    from ._clusters import DaskExecutor

    return DaskExecutor(jobs=jobs)


def _slurm_executor(jobs: SupportsIndex | None) -> Executor:
    from ._clusters import SlurmExecutor

    return SlurmExecutor(jobs=jobs)


EXECUTORS: Mapping[str, Callable[[SupportsIndex | None], Executor]] = {
    "local": LocalExecutor,
    "dask": _dask_executor,
    "slurm": _slurm_executor,
}
"""Constructors of executors by name; the argument is the number of runs at a time."""


def executor_of(named: str | Executor, jobs: SupportsIndex | None) -> Executor:
    """Returns the executor with this name; an executor object, which has its own `jobs`, is returned as it is."""
    if isinstance(named, Executor):
        if jobs is not None:
            raise WearwellError(
                f"jobs has no effect beside an executor object: give it to {type(named).__name__}, or leave it out"
            )
        return named
    if not isinstance(named, str):
        raise WearwellError(
            f"executor is {named!r}: give {', '.join(EXECUTORS)}, or an object of a subclass of Executor"
        )
    refuse_surrogates("executor", named)
    if named not in EXECUTORS:
        raise unknown_name("executor", named, list(EXECUTORS))
    return EXECUTORS[named](jobs)
