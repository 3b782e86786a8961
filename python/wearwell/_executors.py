"""Who runs the tasks of a sweep.

A task is plain data (`Task`): what to run, and the folder that its record is kept in. So a run may happen in any process on any machine
that sees the folder and the trace, and an executor is one class: it takes tasks and yields what became of them.

The local one starts a process per job and talks to it over pipes (`_worker.py`). A pool of `multiprocessing` would do less: its workers
outlive a parent that is killed, its scripts need a guard around their main part, and one dead worker fails the tasks of all.
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
from typing import Any, NamedTuple, TypedDict

from ._native import WearwellError, unknown_name


class Task(TypedDict):
    """One run, as plain data."""

    key: str
    """By what its record is kept."""
    store: str
    """Folder of records."""
    trace: dict[str, Any]
    design: str
    settings: list[str]
    config: str | None


class Outcome(NamedTuple):
    """What became of a task: a record as JSON, or a sentence."""

    record: str | None
    error: str | None


class Executor(ABC):
    """Runs tasks."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        """Yields the number of each task with its outcome, in the order in which they end. Closing the iterator ends all runs."""


class LocalExecutor(Executor):
    """Processes of this machine."""

    def __init__(self, jobs: int | None = None) -> None:
        if jobs is not None and jobs < 1:
            raise WearwellError(f"jobs is {jobs}; it is the number of runs at a time, 1 or more")
        self.jobs = jobs or os.cpu_count() or 1

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        if not tasks:
            return
        workers = [_Worker() for _ in range(min(self.jobs, len(tasks)))]
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in workers:
            idle.put(worker)

        def one(task: Task) -> Outcome:
            worker = idle.get()
            try:
                return worker.run(task)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(len(workers))
        futures = {pool.submit(one, task): number for number, task in enumerate(tasks)}
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
    """A process that runs one task after the other, and is replaced when it dies."""

    def __init__(self) -> None:
        self._ended = False
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-m", "wearwell._worker"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, task: Task) -> Outcome:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            return Outcome(None, self._replace())
        outcome = json.loads(answer)
        return Outcome(outcome.get("record"), outcome.get("error"))

    def _replace(self) -> str:
        """The sentence about a process that died; another takes its place."""
        status = self._process.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        if not self._ended:
            self._process = self._start()
        return f"the process of this run {how}: is there enough memory? fewer jobs need less"

    def end(self) -> None:
        """At once, whatever it does."""
        self._ended = True
        self._process.kill()

    def close(self) -> None:
        """After its end, when nobody waits for an answer: a process that took the place of one just then ends with its input."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # What was written last goes nowhere.
        self._process.wait()


def _dask(jobs: int | None) -> Executor:
    from ._clusters import DaskExecutor

    return DaskExecutor(jobs=jobs)


def _slurm(jobs: int | None) -> Executor:
    from ._clusters import SlurmExecutor

    return SlurmExecutor(jobs=jobs)


EXECUTORS: Mapping[str, Callable[[int | None], Executor]] = {
    "local": LocalExecutor,
    "dask": _dask,
    "slurm": _slurm,
}
"""Executors by name, each made for so many runs at a time."""


def executor_of(named: str | Executor, jobs: int | None) -> Executor:
    """The executor of this name, or the one that is given."""
    if isinstance(named, Executor):
        return named
    if named not in EXECUTORS:
        raise unknown_name("executor", named, list(EXECUTORS))
    return EXECUTORS[named](jobs)
