"""The command that results are compared with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from common import ROOT, Command


def _path_of_command() -> Path:
    given = os.environ.get("WEARWELL_COMMAND")
    path = Path(given) if given else ROOT / "target/release/wearwell"
    if not path.exists():
        pytest.exit(f"{path} is missing: build it, or say where it is in WEARWELL_COMMAND", returncode=2)
    return path


@pytest.fixture(scope="session")
def command() -> Command:
    """Runs the command line."""
    path = _path_of_command()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)

    return run
