"""The command that results are compared with, and the browser that shows pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from claims import CLAIMS, VALUES
from common import ROOT, Command
from playwright.sync_api import Browser, sync_playwright
from notebooks import NOTEBOOKS, read, run
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]


LONG = {"test_notebooks": "notebooks", "test_site": "notebooks", "test_clusters": "clusters"}
"""Files that take long, with the name of their group: the site is built of the executed notebooks."""


class Grouped(LoadScopeScheduling):  # type: ignore[misc]
    """In several processes (`pytest -n 2`) the tests of a file, or of a group of files, run in one, so that fixtures are made once."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        if "dask" in test:
            return "dask"  # Beside Slurm, whose tests wait for minutes, one after the other.
        return LONG.get(Path(file).stem, Path(file).stem)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Grouped:
    config.option.loadscopereorder = False
    return Grouped(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups that take long begin, so that none of them is left to the end."""
    items.sort(key=lambda item: item.path.stem not in LONG)


def _path_of_command() -> Path:
    given = os.environ.get("WEARWELL_COMMAND")
    path = Path(given) if given else ROOT / "target/release/wearwell"
    if not path.exists():
        pytest.exit(f"{path} is missing: build it, or say where it is in WEARWELL_COMMAND", returncode=2)
    return path


@pytest.fixture(scope="session")
def command_path() -> Path:
    """The binary of the command line."""
    return _path_of_command().resolve()


@pytest.fixture(scope="session")
def command(command_path: Path) -> Command:
    """Runs the command line."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([command_path, *arguments], capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without windows, which takes less than half the CPU time of the whole one. A machine without it fails here."""
    path = shutil.which("chromium-headless-shell")
    assert path is not None, "chromium-headless-shell is missing (a package of Debian with this name)"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Executed(NamedTuple):
    """What an executed notebook found."""

    claims: dict[str, Any]
    """Values of the claims of its text."""
    values: dict[str, Any]
    """Values of expressions that a test needs."""
    cpu_seconds: float
    """CPU time of its kernel and of the workers that ended."""


@pytest.fixture(scope="session")
def notebooks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where executed notebooks are written."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def executed(notebooks_folder: Path) -> dict[str, Executed]:
    """Executes all notebooks, each with a last cell that evaluates claims, which is not in the notebook that is written."""
    return {
        path.name: _execute(path, notebooks_folder) for path in sorted((ROOT / NOTEBOOKS).glob("*.ipynb"))
    }


def _execute(path: Path, folder: Path) -> Executed:
    notebook = read(path)
    pairs = [
        "{" + ", ".join(f"{name!r}: ({code})" for name, code in expressions.items()) + "}"
        for expressions in (CLAIMS[path.name], VALUES.get(path.name, {}))
    ]
    cpu = "sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))"
    last = f"import json, resource\nprint(json.dumps([{pairs[0]}, {pairs[1]}, {cpu}], default=bool))"
    notebook.cells.append(nbformat.v4.new_code_cell(last))
    run(notebook, path.parent)
    found = json.loads(notebook.cells.pop().outputs[0].text)
    nbformat.write(notebook, folder / path.name)
    return Executed(*found)


@pytest.fixture(scope="session")
def executed_notebooks(notebooks_folder: Path, executed: dict[str, Executed]) -> Path:
    """The folder of the executed notebooks."""
    assert executed
    return notebooks_folder
