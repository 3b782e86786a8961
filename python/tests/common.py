"""What the tests share: inputs that run in milliseconds, and what is compared."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PGBENCH = str(ROOT / "traces/pgbench-ext4.wwt")
TINY = "uniform:pages=2000,requests=4000"

Command = Callable[..., subprocess.CompletedProcess[str]]


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
