"""Conversion of rows of figures into tables of pandas, polars and Arrow, which are imported only when needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._native import causes

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]

_FORMS = ("page", "unchanged", "recycled", "deduplicated", "delta", "packed")
"""Forms in which a host page write can be stored, as in `writes_by_form` of a record."""


def flattened_row(fields: dict[str, Any], prefix: str = "") -> Row:
    """Returns a record as a row with dotted names such as `latency_us.read.p99`; lists of points (`series`) are omitted.

    Counters by cause and by form have a column for each cause and form: rows with and without it can be put together.
    """
    row: Row = {}
    for name, value in fields.items():
        match value:
            case dict():
                row.update(flattened_row(_with_zero_counters(name, value), f"{prefix}{name}."))
            case list() if all(isinstance(item, str) for item in value):
                row[prefix + name] = "; ".join(value) if value else None
            case list():
                pass
            case _:
                row[prefix + name] = value
    return row


def _with_zero_counters(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the field of this name. Counters that a record leaves out, because they are zero, are added to it."""
    if name.endswith("_by_cause"):
        return {**dict.fromkeys(causes(), 0), **field}
    if name == "writes_by_form":
        return {**dict.fromkeys(_FORMS, 0), **field}
    return dict(field)


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Returns the columns of all rows; None where a row lacks the column."""
    names = dict.fromkeys(name for row in rows for name in row)
    table = {name: [row.get(name) for row in rows] for name in names}
    for name, values in table.items():
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            table[name] = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            table[name] = [None if value is None else float(value) for value in values]
    return table


def import_optional(name: str, method: str) -> Any:
    """Imports an optional package; raises an error with installation advice if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{method} needs the package {name}, which is missing: pip install {name}") from None


def to_pandas(rows: Sequence[Row]) -> pandas.DataFrame:
    table: pandas.DataFrame = import_optional("pandas", "to_pandas").DataFrame(columns(rows))
    return table


def to_polars(rows: Sequence[Row]) -> polars.DataFrame:
    table: polars.DataFrame = import_optional("polars", "to_polars").DataFrame(columns(rows))
    return table


def to_arrow(rows: Sequence[Row]) -> Any:
    return import_optional("pyarrow", "to_arrow").table(columns(rows))
