"""Victim policies that are written in Python."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pytest
import wearwell as ww
from common import TINY, measured

DRIVE = ww.Drive("lab-8g", blocks_per_plane=64, pages_per_block=32)
LOAD = ww.Trace.workload("zipf:pages=1500,requests=40000,theta=0.9")


class CostBenefit:
    """Kawaguchi, Nishioka, Motoda: (1 - u) / 2u times the age."""

    def choose(self, blocks: ww.Blocks) -> int:
        columns = blocks.to_numpy()
        used = columns["valid_pages"] / blocks.block_pages
        with numpy.errstate(divide="ignore"):
            score = (1.0 - used) / (2.0 * used) * (columns["age_programs"] + 1.0)
        return int(columns["block"][numpy.argmax(score)])


class Fewest:
    """Greedy without any library."""

    def __init__(self) -> None:
        self.victims = 0
        self.ages: set[bool] = set()

    def choose(self, blocks: ww.Blocks) -> int:
        self.victims += 1
        assert set(blocks.texts("kind")) == {"data"}
        assert all(0 <= age <= blocks.now for age in blocks["age_programs"])
        valid = blocks["valid_pages"]
        assert max(valid) < blocks.block_pages
        return blocks["block"][min(range(blocks.rows), key=valid.__getitem__)]


def run(policy: ww.VictimPolicy | None = None, **keywords: object) -> ww.Result:
    settings = {"gc.policy": "cost-benefit"} if keywords.pop("inside", False) else {}
    return ww.replay(LOAD, DRIVE, precondition="none", settings=settings, victim_policy=policy)


def test_a_policy_in_python_gives_the_figures_of_the_same_policy_in_the_engine() -> None:
    inside, outside = run(inside=True), run(CostBenefit())
    assert inside.programs != run().programs, "the policy matters on this load"
    differing = {
        name
        for name, value in measured(inside.to_dict()).items()
        if value != measured(outside.to_dict())[name]
    }
    assert differing == {"notes", "config", "origins"}
    assert inside.to_dict()["config"]["gc"]["policy"] == "cost-benefit"
    (note,) = set(outside.to_dict()["notes"]) - set(inside.to_dict()["notes"])
    assert note == "victims were chosen by CostBenefit, a policy from outside the engine, and not by gc.policy"


def test_a_policy_needs_no_library_and_is_asked_for_each_victim() -> None:
    policy = Fewest()
    result = run(policy)
    assert policy.victims > 100
    assert result.erases >= policy.victims
    # Greedy again, but for the order of equal blocks.
    assert result.programs == pytest.approx(run().programs, rel=0.02)


@pytest.mark.parametrize("design", ww.Design.names())
def test_every_design_keeps_its_data_under_a_random_policy(design: str) -> None:
    choice = random.Random(5)

    class AtRandom:
        def choose(self, blocks: ww.Blocks) -> int | None:
            return choice.choice([None, *blocks["block"]])

    device = ww.Device(design, ww.Drive(fit=1.0), footprint_pages=256, victim_policy=AtRandom())
    expected: dict[int, bytes] = {}
    for number in range(3000):
        lpn = choice.randrange(device.logical_pages)
        expected[lpn] = device.page_of(f"version {number} ")
        device.write(lpn, expected[lpn])
    device.check()
    assert all(device.read(lpn) == page for lpn, page in expected.items())


def test_what_a_policy_raises_ends_the_run_and_is_raised() -> None:
    class Broken:
        def choose(self, blocks: ww.Blocks) -> int:
            raise LookupError("no idea")

    with pytest.raises(LookupError, match="no idea"):
        run(Broken())
    device = ww.Device("page-map", ww.Drive(fit=1.0), footprint_pages=256, victim_policy=Broken())
    with pytest.raises(LookupError, match="no idea"):
        for lpn in range(10_000):
            device.write(lpn % device.logical_pages, f"{lpn} ")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (100_000, "it chose block 100000, but must choose one of the candidates that it was given"),
        (-1, "it chose block -1, which is not one of the candidates that it was given"),
        (1 << 32, "it chose block 4294967296, which is not one of the candidates that it was given"),
        (2.9, "it returned 2.9, which is no integer"),
        ("7", "it returned '7', which is no integer"),
        (math.nan, "it returned nan, which is no integer"),
        (numpy.float64(3.0), "it returned .*3.0.*, which is no integer"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(answer: Any, sentence: str) -> None:
    # Numbers were truncated and texts parsed, and the errors about -1 and NaN did not name the policy.
    class Wrong:
        def choose(self, blocks: ww.Blocks) -> int:
            return answer  # type: ignore[no-any-return]

    with pytest.raises(ww.WearwellError, match=f"the victim policy Wrong failed: {sentence}"):
        run(Wrong())


def test_what_is_no_policy_is_refused_before_anything_runs() -> None:
    with pytest.raises(ww.WearwellError, match="give an object with a method choose"):
        ww.replay(ww.Trace.workload(TINY), victim_policy=len)  # type: ignore[arg-type]
    with pytest.raises(ww.WearwellError, match="give an object with a method choose"):
        ww.replay(ww.Trace.workload(TINY), victim_policy=Fewest)  # type: ignore[arg-type]
    with pytest.raises(ww.WearwellError, match=r"gc\.policy has no effect beside victim_policy"):
        ww.replay(ww.Trace.workload(TINY), victim_policy=Fewest(), settings={"gc.policy": "fifo"})
    with pytest.raises(ww.WearwellError, match=r"gc\.policy has no effect beside victim_policy"):
        ww.Device(ww.Design(settings={"gc.policy": "fifo"}), victim_policy=Fewest())
    with pytest.raises(ww.WearwellError, match=r"the key of a setting is 'gc\.policy ': give a text"):
        ww.replay(ww.Trace.workload(TINY), victim_policy=Fewest(), settings={"gc.policy ": "fifo"})


INTERRUPTED = """
import json, os, signal, warnings
import wearwell as ww
# Who starts the tests in the background may have ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupted:
    victims = 0

    def choose(self, blocks):
        self.victims += 1
        if self.victims == 100:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass  # Ctrl-C arrives here.
        return None

policy = Interrupted()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    load = ww.Trace.workload({load!r})
    drive = ww.Drive("lab-8g", blocks_per_plane={blocks}, pages_per_block=32)
    result = ww.replay(load, drive, precondition={precondition!r}, victim_policy=policy)
print(json.dumps([policy.victims, result.to_dict(), [str(one.message) for one in caught]]))
"""


@pytest.mark.parametrize(
    ("blocks", "requests", "precondition", "reason"),
    [
        (64, 200_000_000, "none", "interrupted"),
        (4096, 200_000_000, "steady", "interrupted before the first measured request"),
        # The run has no progress to report after ctrl-C.
        (64, 40_000, "none", "interrupted"),
    ],
)
def test_ctrl_c_in_a_policy_gives_a_partial_result(
    blocks: int, requests: int, precondition: str, reason: str
) -> None:
    # It was raised, and the result was lost.
    script = INTERRUPTED.format(
        load=f"uniform:pages=1500,requests={requests},write=1.0", precondition=precondition, blocks=blocks
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    victims, record, warned = json.loads(done.stdout)
    assert victims == 100, "the policy is not asked again"
    assert record["partial"] and record["partial_reason"] == reason
    assert warned == [f"the result is partial: {reason}"]
    (note,) = [note for note in record["notes"] if "ctrl-C interrupted the victim policy" in note]
    assert "victims, until the run ended, were chosen by greedy" in note


def test_ctrl_c_in_the_policy_of_a_device_ends_the_request() -> None:
    class Interrupted:
        def choose(self, blocks: ww.Blocks) -> int:
            raise KeyboardInterrupt

    device = ww.Device("page-map", ww.Drive(fit=1.0), footprint_pages=256, victim_policy=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        for lpn in range(10_000):
            device.write(lpn % device.logical_pages, f"{lpn} ")


def test_a_policy_cannot_use_the_device_that_asks_it() -> None:
    # It raised "Already borrowed", even for the size of a page.
    refusals: list[str] = []
    texts: set[str] = set()

    class Curious:
        def choose(self, blocks: ww.Blocks) -> None:
            assert device.page_bytes * device.logical_pages > 0 and not device.is_powerless
            texts.add(repr(device))
            calls: list[Callable[[], object]] = [
                lambda: device.read(0),
                lambda: device.write(0, "A"),
                lambda: device.counters,
                lambda: device.operations,
                device.view,
                device.power_cut,
                device.check,
            ]
            for call in calls:
                with pytest.raises(ww.WearwellError, match="use only the argument blocks in choose") as raised:
                    call()
                refusals.append(str(raised.value))

    device = ww.Device("page-map", ww.Drive(fit=1.0), footprint_pages=256, victim_policy=Curious())
    for number in range(4000):
        device.write(number % device.logical_pages, f"{number} ")
    assert len(refusals) > 100 and len(texts) == 1
    device.check()


def test_threads_take_turns_at_a_device_whose_policy_is_in_python() -> None:
    # While a policy runs, another thread may run, too: it got "Already borrowed".
    class Slow:
        def choose(self, blocks: ww.Blocks) -> None:
            time.sleep(0.0005)  # Another thread begins a request meanwhile.

    device = ww.Device("page-map", ww.Drive(fit=1.0), footprint_pages=256, victim_policy=Slow())
    half = device.logical_pages // 2

    def work(first: int) -> None:
        for number in range(2000):
            lpn = first + number % half
            device.write(lpn, f"{lpn} {number} ")
            assert device.read(lpn) == device.page_of(f"{lpn} {number} ")

    with ThreadPoolExecutor(2) as threads:
        for one in [threads.submit(work, first) for first in (0, half)]:
            one.result()
    device.check()
