"""Runs of the engine on several threads: the engine releases the interpreter's lock, and ctrl-C ends all runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

Progress = Callable[[str, int, int], object]
"""Function that is called with the phase of a run, what is done of it, and the total."""

Outcome = TypeVar("Outcome")


def run_on_threads(
    run: Callable[[int, Progress], Outcome],
    count: int,
    jobs: int,
    progress: Progress | None,
    is_interrupted: Callable[[Outcome], bool],
) -> list[Outcome]:
    """Makes the runs 0 to `count`, `jobs` at a time. Returns their outcomes in this order; after ctrl-C those of the runs that
    were begun. An interrupted run returns an outcome for which `is_interrupted` is true."""
    interrupted = threading.Event()

    def report_progress(phase: str, done: int, total: int) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        if progress is not None:
            progress(phase, done, total)

    if jobs == 1:
        outcomes: list[Outcome] = []
        for number in range(count):
            outcomes.append(run(number, report_progress))
            if is_interrupted(outcomes[-1]):
                break
        return outcomes
    with ThreadPoolExecutor(min(jobs, count)) as threads:
        runs = [threads.submit(run, number, report_progress) for number in range(count)]
        try:
            wait(runs, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            pass
        finally:
            # Either all have ended, or one failed or ctrl-C came: then the others end early.
            interrupted.set()
            for one in runs:
                one.cancel()
    return [one.result() for one in runs if not one.cancelled()]
