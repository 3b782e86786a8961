"""The notebooks of examples/notebooks run, and what their text claims is what their cells find."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from claims import CLAIMS
from nbformat import NotebookNode

from common import ROOT
from conftest import Executed
from notebooks import NOTEBOOKS, read

FOLDER = ROOT / NOTEBOOKS
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def text_of(notebook: NotebookNode) -> str:
    """What the text cells say, without code and targets of links."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_notebook_claims_is_what_its_cells_find(name: str, executed: dict[str, Executed]) -> None:
    found = executed[name].claims
    assert found.keys() == CLAIMS[name].keys()
    for claim, value in found.items():
        assert value is True or value == claim, f"the text says `{claim}`, the cells find `{value}`"


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_claims_no_figure_that_is_not_checked(name: str) -> None:
    text = text_of(read(FOLDER / name))
    for claim in sorted(CLAIMS[name], key=len, reverse=True):
        assert claim in text, f"the notebook does not say `{claim}`"
        text = text.replace(claim, "")
    unchecked = re.findall(r"(?<![A-Za-z0-9_`.-])[\d.,]*\d[^.;]{0,30}", re.sub(r"`[^`]*`", "", text))
    assert not unchecked


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_takes_less_than_a_minute_of_cpu_time(name: str, executed: dict[str, Executed]) -> None:
    assert 0.0 < executed[name].cpu_seconds < 60.0


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_kept_without_outputs(name: str) -> None:
    for cell in read(FOLDER / name).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, "clear all outputs before you save it"


def test_a_notebook_that_fails_is_not_taken_for_one_that_runs(tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError
    from nbformat.v4 import new_code_cell, new_notebook
    from notebooks import run

    with pytest.raises(CellExecutionError, match="no such thing"):
        run(new_notebook(cells=[new_code_cell("raise LookupError('no such thing')")]), tmp_path)


def test_the_policy_of_the_notebook_does_the_same_in_rust(executed: dict[str, Executed], command_path: Path) -> None:
    """The program is crates/replay/examples/victim_policy.rs, which `cargo test` and `./check` build beside the command."""
    rust = command_path.parent / "examples/victim_policy"
    assert rust.exists(), "build it: cargo build -p wearwell-replay --example victim_policy"
    python: dict[str, Any] = executed["victim_policy.ipynb"].values["own"]
    arguments = executed["victim_policy.ipynb"].values["arguments"]
    done = subprocess.run([rust, *arguments], capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    for name in ("programs_by_cause", "erases", "write_amplification", "lifetime", "notes"):
        assert record[name] == python[name], name
