"""Executors of sweeps on a cluster: Dask and Slurm.

Both run the tasks of `_worker.py`, so a worker needs this package and sees the folder of records and the traces under the same paths. A
task whose worker is killed is run again, on another one: its record is kept before it is reported, so nothing is lost but time.
"""

from __future__ import annotations

import importlib
import math
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

from . import _worker
from ._executors import Executor, Outcome, Task
from ._native import WearwellError
from ._settings import JOBS_MAX, checked_integer, checked_number, path_text

TRIES = 3
"""How often a task is begun whose worker dies."""
OUTAGE_S = 600.0
"""Seconds for which the commands of Slurm may fail before a sweep gives up."""

_TRIES_MAX = 1 << 16
"""Most starts of a run."""
_LEAST_OF_PARAMETER = {"timeout_min": 0, "nodes": 1, "cpus_per_task": 1, "tasks_per_node": 1, "gpus_per_node": 0}
"""Least value of each parameter of `submitit` that is an integer. A time of 0 is no limit."""

Answer = TypeVar("Answer")


def _import_package(name: str, extra: str) -> Any:
    """Imports an optional package. Raises an error that says how to install it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise WearwellError(
            f"the package `{name}` is missing: pip install 'wearwell[{extra}]'"
        ) from error


class DaskExecutor(Executor):
    """Workers of a Dask cluster.

    `cluster` is a `distributed.Client`, a cluster of Dask such as a `LocalCluster`, the address of a scheduler
    (`tcp://host:8786`), or `None` for a cluster of `jobs` processes on this machine that lives as long as the sweep. Give each
    worker one thread: a run uses one core. When the sweep ends early, as by Ctrl-C, the workers end its runs within a moment.
    """

    def __init__(self, cluster: Any = None, jobs: SupportsIndex | None = None) -> None:
        self._distributed = _import_package("distributed", "dask")
        is_cluster = isinstance(cluster, (str, self._distributed.Client)) or hasattr(cluster, "scheduler_address")
        if cluster is not None and not is_cluster:
            raise WearwellError(
                f"cluster is {cluster!r}: give a distributed.Client, a cluster of Dask, or the address of a scheduler"
            )
        if cluster is not None and jobs is not None:
            raise WearwellError(
                "jobs has no effect together with cluster, which determines the number of workers: leave jobs out"
            )
        self._cluster: Any = cluster
        self._jobs = None if jobs is None else checked_integer("jobs", jobs, 1, JOBS_MAX)

    def _connect_client(self) -> Any:
        """Returns a new client of the cluster, which is started on this machine if none was given."""
        if self._cluster is not None:
            return self._distributed.Client(self._cluster)
        local = self._distributed.LocalCluster(n_workers=self._jobs, threads_per_worker=1, dashboard_address=None)
        return self._distributed.Client(local)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        if not tasks:
            return
        is_given = isinstance(self._cluster, self._distributed.Client)
        client = self._cluster if is_given else self._connect_client()
        # Not pure: what ran before and failed is run again.
        futures = {client.submit(_run_task_on_dask, task, pure=False): number for number, task in enumerate(tasks)}
        try:
            for future in self._distributed.as_completed(list(futures)):
                yield futures[future], self._outcome_of(future)
        finally:
            client.cancel(list(futures))
            if not is_given:
                own = client.cluster if self._cluster is None else None
                client.close()
                if own is not None:
                    own.close()

    @staticmethod
    def _outcome_of(future: Any) -> Outcome:
        """Returns the outcome of the run that a future of Dask has ended; an error message if the run failed."""
        error = future.exception()
        if error is None:
            return Outcome.of(future.result())
        return Outcome(None, f"{type(error).__name__}: {error}")


def _run_task_on_dask(task: Task) -> dict[str, str]:
    """Runs a task in a worker of Dask, and ends the run when its future is cancelled: Dask cannot end the thread of a task."""
    distributed = _import_package("distributed", "dask")
    try:
        worker = distributed.get_worker()
        key = worker.get_current_task()
    except (ValueError, KeyError):  # A worker with a pool of processes: they do not know whether a task is cancelled.
        return _worker.run_task(task)

    def end_if_cancelled(*_: object) -> None:
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":
            raise KeyboardInterrupt

    try:
        return _worker.run_task(task, end_if_cancelled)
    except KeyboardInterrupt:
        # Dask would end the worker. If somebody waits for the task again meanwhile, this begins it again.
        raise distributed.Reschedule from None


class SlurmExecutor(Executor):
    """Jobs of a Slurm cluster, one array per sweep, by the package `submitit`.

    `folder` holds scripts and logs of the jobs and must be seen by all nodes. `parameters` are those of
    `submitit.AutoExecutor.update_parameters`: `timeout_min`, `mem_gb`, `slurm_partition`, `slurm_account` and so on. `jobs` is the number of
    runs at a time.

    While Slurm does not answer (its controller is restarted, the network fails), the sweep goes on: results are collected, and
    `squeue` and `sbatch` are tried again after pauses of 1 to 30 seconds. After `outage_s` seconds of failures the sweep gives
    up: each run without a result becomes a row that says so.
    """

    POLL_S = 1.0
    """Seconds between two looks at the jobs."""
    GONE_S = 10.0
    """Seconds that a job may be neither in the queue nor have a result, while the file system shows it."""

    def __init__(
        self,
        folder: str | bytes | os.PathLike[str] = "slurm",
        jobs: SupportsIndex | None = None,
        tries: SupportsIndex = TRIES,
        outage_s: SupportsFloat = OUTAGE_S,
        **parameters: Any,
    ) -> None:
        folder_path = path_text("folder", folder)
        parallel = {} if jobs is None else {"slurm_array_parallelism": checked_integer("jobs", jobs, 1, JOBS_MAX)}
        self._tries = checked_integer("tries", tries, 1, _TRIES_MAX)
        self._outage_s = checked_number("outage_s", outage_s)
        if not 0.0 <= self._outage_s < math.inf:
            raise WearwellError(f"outage_s is {outage_s!r}: give a number of seconds, at least 0")
        parameters = {name: _checked_parameter(name, value) for name, value in parameters.items() if value is not None}
        submitit = _import_package("submitit", "slurm")
        if shutil.which("sbatch") is None:
            raise WearwellError("this machine has no `sbatch`: start the sweep on a machine that can submit jobs to Slurm")
        self._executor = submitit.AutoExecutor(folder=folder_path, cluster="slurm")
        try:
            self._executor.update_parameters(**{"name": "wearwell", "cpus_per_task": 1, **parallel, **parameters})
        except NameError as error:  # As `submitit` says that it has no such parameter.
            raise TypeError(f"SlurmExecutor has an unexpected argument: {' '.join(str(error).split())}") from None
        except (AssertionError, TypeError, ValueError) as error:
            raise WearwellError(f"the parameters {parameters} of SlurmExecutor are refused: {error}") from error

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
        if not tasks:
            return
        jobs = dict(enumerate(self._executor.map_array(_worker.run_task, list(tasks))))
        begun = dict.fromkeys(jobs, 1)
        missing_since: dict[str, float] = {}
        squeue, sbatch = _RetriedCommand("squeue", self._outage_s), _RetriedCommand("sbatch", self._outage_s)
        try:
            while jobs:
                queued = squeue.attempt(_queued_job_ids)
                for number in [number for number, job in jobs.items() if job.paths.result_pickle.exists()]:
                    yield number, _outcome_of_job(jobs.pop(number))
                missing_since = _times_missing_since(missing_since, jobs, queued)
                for number in self._dead_tasks(missing_since, jobs):
                    if begun[number] == self._tries:
                        yield number, Outcome(None, _lost_job_message(jobs.pop(number), self._tries))
                    elif again := sbatch.attempt(partial(self._executor.submit, _worker.run_task, tasks[number])):
                        jobs[number] = again
                        begun[number] += 1
                for command in (squeue, sbatch):
                    if command.has_failed_too_long():
                        yield from ((number, Outcome(None, command.gave_up_message())) for number in jobs)
                        return
                time.sleep(self.POLL_S)
        finally:
            for job in jobs.values():
                job.cancel(check=False)

    def _dead_tasks(self, missing_since: Mapping[str, float], jobs: Mapping[int, Any]) -> list[int]:
        """Returns the numbers of the tasks whose job has been missing from the queue so long that it is dead."""
        now = time.monotonic()
        return [number for number, job in jobs.items() if now - missing_since.get(job.job_id, now) > self.GONE_S]


def _checked_parameter(name: str, value: Any) -> Any:
    """Returns a parameter of `submitit`, which does not check numbers. Raises an error that names a wrong one."""
    shared_name = name.removeprefix("slurm_")
    if shared_name in _LEAST_OF_PARAMETER:
        return checked_integer(name, value, _LEAST_OF_PARAMETER[shared_name], (1 << 31) - 1)
    if shared_name == "mem_gb":
        gigabytes = checked_number(name, value)
        if not 0.0 <= gigabytes < math.inf:
            raise WearwellError(f"{name} is {value!r}: give a number of gigabytes, or 0 for all memory of a node")
        return gigabytes
    return value


def _times_missing_since(
    before: Mapping[str, float], jobs: Mapping[int, Any], queued: set[str] | None
) -> dict[str, float]:
    """Returns when each job that is not in the queue was first found missing; nothing while the queue cannot be read."""
    if queued is None:
        return {}
    now = time.monotonic()
    return {job.job_id: before.get(job.job_id, now) for job in jobs.values() if job.job_id not in queued}


class _RetriedCommand:
    """A command of Slurm that is tried again after failures, with pauses, until it has failed for too long.

    One object for each command: that `squeue` answers does not mean that `sbatch` does.
    """

    FIRST_PAUSE_S = 1.0
    """Seconds between the first failure and the second attempt; each further failure doubles the pause."""
    LONGEST_PAUSE_S = 30.0

    def __init__(self, name: str, outage_s: float) -> None:
        self._name, self._outage_s = name, outage_s
        self._failing_since: float | None = None
        self._pause_s = self.FIRST_PAUSE_S
        self._next_attempt = 0.0
        self._message = ""

    def attempt(self, run: Callable[[], Answer]) -> Answer | None:
        """Returns what `run` returns; `None` if it fails, and, without a call, during the pause after a failure."""
        if time.monotonic() < self._next_attempt:
            return None
        try:
            answer = run()
        except Exception as error:  # `submitit` has no common class of its errors.
            self._note_failure(" ".join(str(error).split()))
            return None
        self._failing_since, self._pause_s = None, self.FIRST_PAUSE_S
        return answer

    def _note_failure(self, message: str) -> None:
        """Stores the message of a failed attempt, warns about a first failure, and sets the time of the next attempt."""
        now = time.monotonic()
        self._message = message
        if self._failing_since is None:
            self._failing_since = now
            warnings.warn(
                f"{self._name} failed and is tried again for {self._outage_s:.0f} s: {message}", RuntimeWarning, stacklevel=2
            )
        self._next_attempt = now + self._pause_s
        self._pause_s = min(2.0 * self._pause_s, self.LONGEST_PAUSE_S)

    def has_failed_too_long(self) -> bool:
        """Whether all attempts of `outage_s` seconds have failed."""
        return self._failing_since is not None and time.monotonic() - self._failing_since > self._outage_s

    def gave_up_message(self) -> str:
        """Returns the sentence about a run that was given up."""
        return (
            f"{self._name} has failed for {self._outage_s:.0f} s ({self._message}): repeat the sweep when Slurm answers again; "
            "jobs of this one may still be queued (scancel --me --name=wearwell)"
        )


def _queued_job_ids() -> set[str]:
    """Returns the ids of jobs that wait, run or end. Accounting, which `submitit` asks, is not set up on every cluster."""
    command = ["squeue", "--noheader", "--array", "--me", "--format=%A %F_%a"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if answer.returncode != 0:
        raise WearwellError(answer.stderr.strip() or f"squeue ended with exit status {answer.returncode}: check that Slurm answers here")
    return {number for line in answer.stdout.splitlines() for number in line.split()}


def _outcome_of_job(job: Any) -> Outcome:
    """Returns the outcome of an ended job of Slurm; an error message if its run failed."""
    try:
        return Outcome.of(job.result())
    except Exception as error:  # What the function raised, as `submitit` tells it.
        return Outcome(None, f"job {job.job_id}: {error}")


def _lost_job_message(job: Any, tries: int) -> str:
    """Returns the sentence about a job that left no result."""
    log = job.stderr() or ""
    last = log.strip().splitlines()[-1:] or ["its log is empty"]
    attempts = "1 attempt" if tries == 1 else f"{tries} attempts"
    return (
        f"job {job.job_id} left no result after {attempts} (last line of its log: {last[0]}): read the log; if memory "
        "or time ran out, give the jobs more, such as mem_gb=8 or timeout_min=240"
    )
