"""Executes the notebooks of examples/notebooks, which are kept without outputs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOKS = "examples/notebooks"
"""Folder of the notebooks in the repository."""
TIMEOUT_S = 600
"""Seconds that a cell may take. Notebooks take seconds; this ends one that hangs."""


def read(path: Path) -> nbformat.NotebookNode:
    """Returns the notebook as it is in the file."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    return notebook


def run(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Executes all cells, which adds their outputs to the notebook. An exception in a cell is raised.

    The kernel listens on Unix sockets in a folder of its own. TCP ports are chosen before the kernel opens them, so one that
    starts at the same time can take them, and the kernel ends.
    """
    with TemporaryDirectory() as sockets:
        config = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": folder}}, config=config).execute()


def executed(path: Path) -> nbformat.NotebookNode:
    """Returns the notebook with its outputs. It runs in its own folder, as in Jupyter."""
    notebook = read(path)
    run(notebook, path.parent)
    return notebook
