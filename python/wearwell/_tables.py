"""Rows of figures as tables of pandas, polars and Arrow. None of them is needed until it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]


def flat(fields: dict[str, Any], prefix: str = "") -> Row:
    """A record as a row: dotted names as in `result.latency_us.read.p99`. Lists of points (`series`, `phases`) are left out."""
    row: Row = {}
    for name, value in fields.items():
        match value:
            case dict():
                row.update(flat(value, f"{prefix}{name}."))
            case list() if all(isinstance(item, str) for item in value):
                row[prefix + name] = "; ".join(value) if value else None
            case list():
                pass
            case _:
                row[prefix + name] = value
    return row


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Every column of any row, with None where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name in row)
    table = {name: [row.get(name) for row in rows] for name in names}
    for name, values in table.items():
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            table[name] = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            table[name] = [None if value is None else float(value) for value in values]
    return table


def needed(name: str, method: str) -> Any:
    """An optional package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{method} needs {name}: pip install {name}") from None


def to_pandas(rows: Sequence[Row]) -> pandas.DataFrame:
    table: pandas.DataFrame = needed("pandas", "to_pandas").DataFrame(columns(rows))
    return table


def to_polars(rows: Sequence[Row]) -> polars.DataFrame:
    table: polars.DataFrame = needed("polars", "to_polars").DataFrame(columns(rows))
    return table


def to_arrow(rows: Sequence[Row]) -> Any:
    return needed("pyarrow", "to_arrow").table(columns(rows))
