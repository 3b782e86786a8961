"""A long run does not hold the interpreter: other threads work, and ctrl-C ends it with what there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import wearwell as ww

from common import TINY, interrupted

LONG = "uniform:pages=200000,requests=200000000,write=1.0"


def test_ctrl_c_gives_a_partial_result() -> None:
    call = f'ww.replay(ww.Trace.workload({LONG!r}), precondition="none", progress=began)'
    record, warned = interrupted("replay", 500_000, call)
    assert record["partial"] and record["partial_reason"] == "interrupted"
    assert 500_000 < record["trace"]["requests"] < 200_000_000
    assert record["host_page_writes"] == record["trace"]["requests"]
    assert warned == ["the result is partial: interrupted"]


def test_another_thread_works_during_a_run() -> None:
    phases: list[str] = []
    ended = threading.Event()
    rounds = 0

    def work() -> None:
        nonlocal rounds
        while not ended.is_set():
            rounds += 1
            time.sleep(0.001)

    worker = threading.Thread(target=work)
    load = "uniform:pages=100000,requests=4000000,write=1.0"
    worker.start()
    try:
        began = time.monotonic()
        ww.replay(ww.Trace.workload(load), progress=lambda phase, *_: phases.append(phase))
        seconds, during = time.monotonic() - began, rounds
    finally:
        # Python does not end before this thread: a replay that fails must not leave it behind.
        ended.set()
        worker.join()
    assert "replay" in phases
    # A thread that sleeps a millisecond each time has hundreds of rounds in a second; with the lock held it has none between two
    # looks at signals, of which there are twenty in a second.
    assert during > 100 * seconds, f"{during} rounds in {seconds:.2f} s"


def test_two_runs_at_once_give_what_they_give_alone() -> None:
    loads = [f"zipf:pages=5000,requests=60000,seed={seed}" for seed in (1, 2)]
    alone = [ww.replay(ww.Trace.workload(load)).erases for load in loads]
    together = [0, 0]

    def run(number: int) -> None:
        together[number] = ww.replay(ww.Trace.workload(loads[number])).erases

    threads = [threading.Thread(target=run, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_an_exception_in_the_progress_function_ends_the_run() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ww.replay(ww.Trace.workload(LONG), precondition="none", progress=fail)


CALLS: dict[str, Callable[[Callable[[str, int, int], object]], object]] = {
    "replay": lambda progress: ww.replay(ww.Trace.workload("uniform:pages=2000,requests=400000"), progress=progress),
    "short": lambda progress: ww.replay(ww.Trace.workload(TINY), progress=progress),
    "life": lambda progress: ww.life(
        ww.Trace.workload("uniform:pages=2000,requests=40000"), settings={"device.endurance_cycles": 300}, progress=progress
    ),
    "profile": lambda progress: ww.profile(ww.Trace.workload("uniform:pages=2000,requests=400000"), progress=progress),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_last_report_of_progress_says_that_all_is_done(name: str) -> None:
    """The last call was one of some moment before the end, so a display of the progress never reached it."""
    reports: list[tuple[str, int, int]] = []
    CALLS[name](lambda *report: reports.append(report))
    phase, done, total = reports[-1]
    assert done == total > 0 and phase == {"short": "replay"}.get(name, name)
