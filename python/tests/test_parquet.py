"""The Parquet files of the command line, as the libraries of their readers see them: the values and types of the CSV."""

from __future__ import annotations

import csv
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import polars.testing
import pyarrow
import pyarrow.parquet
import pytest

from common import TINY, Command

SWEEP = f"""
[sweep]
workloads = ["{TINY}"]
traces = ["no, where.csv"]
"""

WAYS: list[tuple[int, list[str]]] = [
    (0, ["compare", "--workload", TINY, "--designs", "page-map,dftl"]),
    (0, ["compare", "--workload", TINY, "--designs", "page-map,dftl", "--timing", "event"]),
    (0, ["ablate", "--workload", TINY, "--parts", "dedup,compress", "--set", "parts.reverse_map=segments"]),
    (0, ["life", "--workload", TINY, "--set", "device.endurance_cycles=20", "--seeds", "2"]),
    (3, ["sweep", "sweep.toml"]),
]

VALUES: dict[Any, Callable[[str], object]] = {
    pyarrow.string(): str,
    pyarrow.int64(): int,
    pyarrow.float64(): float,
    pyarrow.bool_(): {"true": True, "false": False}.__getitem__,
}
"""How a field of the CSV becomes a value of each type that a column may have."""


@pytest.fixture(params=WAYS, ids=[" ".join(arguments) for _, arguments in WAYS])
def files(
    request: pytest.FixtureRequest, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """The CSV and the Parquet file of one command."""
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text(SWEEP)
    code, arguments = request.param
    done = command(*arguments, "--quiet", "--csv", "runs.csv", "--parquet", "runs.parquet")
    assert done.returncode == code, done.stderr
    return tmp_path / "runs.csv", tmp_path / "runs.parquet"


def test_arrow_reads_the_values_of_the_csv_with_their_types(files: tuple[Path, Path]) -> None:
    table = pyarrow.parquet.read_table(files[1])
    titles, *lines = list(csv.reader(files[0].open(newline="")))
    assert table.column_names == titles
    types = [VALUES[kind] for kind in table.schema.types]
    rows = [[value(field) if field else None for value, field in zip(types, line, strict=True)] for line in lines]
    assert [list(row.values()) for row in table.to_pylist()] == rows
    assert any(None in row for row in rows)
    version = table.schema.metadata[b"wearwell.version"].decode()
    assert all(row[titles.index("version")] in (version, None) for row in rows)


def test_polars_reads_the_frame_of_the_csv(files: tuple[Path, Path]) -> None:
    frame = polars.read_parquet(files[1])
    assert set(frame.dtypes) == {polars.String, polars.Int64, polars.Float64, polars.Boolean}
    polars.testing.assert_frame_equal(frame, polars.read_csv(files[0], schema=frame.schema), check_exact=True)


def test_pandas_reads_the_frame_of_the_csv(files: tuple[Path, Path]) -> None:
    frame = pandas.read_parquet(files[1], dtype_backend="numpy_nullable")
    assert set(map(str, frame.dtypes)) == {"string", "Int64", "Float64", "boolean"}
    of_csv = pandas.read_csv(files[0], dtype=frame.dtypes.to_dict())
    pandas.testing.assert_frame_equal(frame, of_csv, check_exact=True)


def test_a_terminal_is_not_given_a_parquet_file(command_path: Path) -> None:
    controller, terminal = pty.openpty()
    done = subprocess.run(
        [command_path, "replay", "--workload", TINY, "--parquet", "-"],
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(terminal)
    os.close(controller)
    assert done.returncode == 2
    assert "standard output is a terminal" in done.stderr and "name a file" in done.stderr
