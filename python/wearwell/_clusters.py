"""Executors of sweeps on a cluster: Dask and Slurm.

Both run the tasks of `_worker.py`, so a worker needs this package and sees the folder of records and the traces under the same paths. A
task whose worker is killed is run again, on another one: its record is kept before it is reported, so nothing is lost but time.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import _worker
from ._executors import Executor, Outcome, Task
from ._native import WearwellError

TRIES = 3
"""How often a task is begun whose worker dies."""


def _package(name: str, extra: str) -> Any:
    """An optional package, or the sentence that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise WearwellError(
            f"the package `{name}` is missing: pip install 'wearwell[{extra}]'"
        ) from error


class DaskExecutor(Executor):
    """Workers of a Dask cluster.

    `cluster` is a `distributed.Client`, the address of a scheduler (`tcp://host:8786`), or `None` for a cluster of `jobs` processes on
    this machine that lives as long as the sweep. Give each worker one thread: a run uses one core.
    """

    def __init__(self, cluster: Any = None, jobs: int | None = None) -> None:
        self._distributed = _package("distributed", "dask")
        self._cluster = cluster
        self._jobs = jobs

    def _client(self) -> Any:
        if isinstance(self._cluster, str):
            return self._distributed.Client(self._cluster)
        local = self._distributed.LocalCluster(n_workers=self._jobs, threads_per_worker=1, dashboard_address=None)
        return self._distributed.Client(local)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        if not tasks:
            return
        is_given = isinstance(self._cluster, self._distributed.Client)
        client = self._cluster if is_given else self._client()
        # Not pure: what ran before and failed is run again.
        futures = {client.submit(_worker.run_task, task, pure=False): number for number, task in enumerate(tasks)}
        try:
            for future in self._distributed.as_completed(list(futures)):
                yield futures[future], self._outcome_of(future)
        finally:
            client.cancel(list(futures))
            if not is_given:
                cluster = client.cluster
                client.close()
                if cluster is not None:
                    cluster.close()

    @staticmethod
    def _outcome_of(future: Any) -> Outcome:
        error = future.exception()
        if error is None:
            return Outcome.of(future.result())
        return Outcome(None, f"{type(error).__name__}: {error}")


class SlurmExecutor(Executor):
    """Jobs of a Slurm cluster, one array per sweep, by the package `submitit`.

    `folder` holds scripts and logs of the jobs and must be seen by all nodes. `parameters` are those of
    `submitit.AutoExecutor.update_parameters`: `timeout_min`, `mem_gb`, `slurm_partition`, `slurm_account` and so on. `jobs` is the number of
    runs at a time.
    """

    POLL_S = 1.0
    """Seconds between two looks at the jobs."""
    GONE_S = 10.0
    """Seconds that a job may be neither in the queue nor have a result, while the file system shows it."""

    def __init__(
        self, folder: str | Path = "slurm", jobs: int | None = None, tries: int = TRIES, **parameters: Any
    ) -> None:
        submitit = _package("submitit", "slurm")
        if shutil.which("sbatch") is None:
            raise WearwellError("there is no `sbatch` here: a sweep on Slurm is begun on a machine that submits jobs")
        self._executor = submitit.AutoExecutor(folder=str(folder), cluster="slurm")
        parallel = {} if jobs is None else {"slurm_array_parallelism": jobs}
        self._executor.update_parameters(**{"name": "wearwell", "cpus_per_task": 1, **parallel, **parameters})
        self._tries = tries

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        if not tasks:
            return
        jobs = dict(enumerate(self._executor.map_array(_worker.run_task, list(tasks))))
        begun = dict.fromkeys(jobs, 1)
        missing_since: dict[int, float] = {}
        try:
            while jobs:
                queued = _queued_jobs()
                for number, job in list(jobs.items()):
                    if job.paths.result_pickle.exists():
                        del jobs[number]
                        yield number, _outcome_of_job(job)
                    elif job.job_id in queued:
                        missing_since.pop(number, None)
                    elif time.monotonic() - missing_since.setdefault(number, time.monotonic()) > self.GONE_S:
                        del missing_since[number]
                        if begun[number] == self._tries:
                            del jobs[number]
                            yield number, Outcome(None, _last_words(job, self._tries))
                        else:
                            begun[number] += 1
                            jobs[number] = self._executor.submit(_worker.run_task, tasks[number])
                time.sleep(self.POLL_S)
        finally:
            for job in jobs.values():
                job.cancel(check=False)


def _queued_jobs() -> set[str]:
    """Numbers of the jobs that wait, run or end. Accounting, which `submitit` asks, is not set up on every cluster."""
    command = ["squeue", "--noheader", "--array", "--me", "--format=%A %F_%a"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise WearwellError(f"squeue: {answer.stderr.strip()}")
    return {number for line in answer.stdout.splitlines() for number in line.split()}


def _outcome_of_job(job: Any) -> Outcome:
    try:
        return Outcome.of(job.result())
    except Exception as error:  # What the function raised, as `submitit` tells it.
        return Outcome(None, f"job {job.job_id}: {error}")


def _last_words(job: Any, tries: int) -> str:
    """The sentence about a job that left no result."""
    log = job.stderr() or ""
    last = log.strip().splitlines()[-1:] or ["its log is empty"]
    return f"job {job.job_id} ended without a result {tries} times ({last[0]}): is there enough memory and time?"
