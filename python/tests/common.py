"""What the tests share: inputs that run in milliseconds, and what is compared."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wearwell as ww

ROOT = Path(__file__).resolve().parents[2]
PGBENCH = str(ROOT / "traces/pgbench-ext4.wwt")
TINY = "uniform:pages=2000,requests=4000"

Command = Callable[..., subprocess.CompletedProcess[str]]


def write_trace(path: Path, requests: int, pages: int) -> None:
    """A trace of this many writes, a microsecond apart, which go over the pages again and again."""
    lines = [f"{k * 1000},W,{k % pages * 4096},4096,0," for k in range(requests)]
    path.write_text("time_ns,op,offset_bytes,len_bytes,device,fingerprints\n" + "\n".join(lines) + "\n")


def measured(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what the machine says: times and memory of the simulation."""
    of_machine = {"cpu_seconds", "precondition_cpu_seconds", "peak_rss_bytes"}
    assert of_machine <= record.keys()
    return {name: value for name, value in record.items() if name not in of_machine}


def record_of(output: str) -> dict[str, Any]:
    """The one record of the command's JSON."""
    (record,) = json.loads(output)["runs"]
    assert isinstance(record, dict)
    return record


def sentence_of(output: str) -> str:
    """The error of the command line; notes stand in front of it."""
    return output.strip().splitlines()[-1].removeprefix("wearwell: ")


def interrupted(phase: str, done: int, call: str) -> tuple[dict[str, Any], list[str]]:
    """The record and the warnings of `call`, an expression that reports its progress to `began`, in a process that gets ctrl-C
    once `done` of the phase is done."""
    script = f"""
import json, signal, warnings
import wearwell as ww
# Who starts the tests in the background may have ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def began(phase, done, total):
    if phase == {phase!r} and done > {done}:
        print("began\\n", end="", flush=True)  # One write, because two threads may be here.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = {call}
print(json.dumps([result.partial, result.to_dict(), [str(one.message) for one in caught]]), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    partial, record, warned = json.loads(output.splitlines()[-1])
    assert partial
    return record, warned


def refused_alike(done: subprocess.CompletedProcess[str], call: Callable[[], object]) -> None:
    """The command failed, and the call fails with the command's sentence, with arguments in the place of options."""
    assert done.returncode != 0
    with pytest.raises(ww.WearwellError) as raised:
        call()
    sentence = sentence_of(done.stderr)
    of_traces = ("format", "action", "time-unit", "assume", "skip-bad-lines", "bytes", "without-sidecars", "columns")
    of_profiles_and_lives = ("against", "spread", "early-share", "program-share", "spare-minimum", "empty", "leveling", "scale-to")
    for option in (*of_traces, *of_profiles_and_lives, "parts"):
        sentence = sentence.replace(f"--{option}", f"`{option.replace('-', '_')}`")
    assert str(raised.value) == sentence
