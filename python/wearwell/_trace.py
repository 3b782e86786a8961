"""Inputs of a run: trace files, generators, tables of requests."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ._native import Input, WearwellError, write_trace
from ._settings import checked_bool, checked_integer, checked_number, checked_text, displayed_path, refuse_surrogates

_PATH_TYPES = (str, bytes, os.PathLike)
_COLUMNS = ("time_us", "op", "offset_bytes", "length_bytes")


class Trace:
    """The input of a run: a trace file in any format that `wearwell trace formats` lists, or a table of requests.

    A table is a data frame of pandas or polars, a table of Arrow, or a mapping of columns: `time_us`, `op` (read, write,
    trim, zero or flush), `offset_bytes`, `length_bytes`. The keywords have the meaning of the command line's flags with these
    names: how a file is read. `Trace.workload` creates a generated input.

    A table is written to a temporary file. Copies of the trace share it, and it is deleted with the last of them, or at
    the end of the process that wrote it. A pickle holds the requests, and loading it writes a file of its own.
    """

    _table: _TableFile | None = None
    """File of a table of requests."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Any,
        *,
        format: str | None = None,
        action: Literal["D", "Q", "C"] | None = None,
        time_unit: Literal["ps", "ns", "us"] | None = None,
        assume: Literal["reads", "writes"] | None = None,
        skip_bad_lines: bool = False,
        bytes: bool = False,
        without_sidecars: bool = False,
        columns: str | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "format": format,
            "action": action,
            "time_unit": time_unit,
            "assume": assume,
            "skip_bad_lines": checked_bool("skip_bad_lines", skip_bad_lines) or None,
            "bytes": checked_bool("bytes", bytes) or None,
            "without_sidecars": checked_bool("without_sidecars", without_sidecars) or None,
            "columns": columns,
        }
        options = {key: value for key, value in options.items() if value is not None}
        for key, value in options.items():
            if not isinstance(value, bool):
                checked_text(key, value)
        if isinstance(source, _PATH_TYPES):
            path = os.fsdecode(source)
            if not path:
                raise WearwellError("the path of the trace is empty: give the path of a file")
            refuse_stream(path)
            self._set_description({"path": path, "options": options})
        else:
            if options:
                name = next(iter(options))
                raise WearwellError(f"{name} has no effect on a table of requests: leave it out, or give the path of a trace")
            self._table, requests = _write_table(source)
            self._set_description({"path": self._table.path, "options": {"name": f"a table of {requests:,} requests"}})

    @classmethod
    def workload(cls, spec: str) -> Trace:
        """Creates a generated input from a specification such as `zipf:pages=50000,requests=400000,read=0.5`; `wearwell
        workloads` lists them."""
        if not isinstance(spec, str):
            raise WearwellError(f"a workload is {spec!r}: give a text such as 'zipf:pages=50000,requests=400000'")
        return cls._of_description({"workload": refuse_surrogates("a workload", spec)})

    @classmethod
    def _of_description(cls, description: dict[str, Any]) -> Trace:
        """Creates the trace from its description as plain data, in which form it is sent to a worker process."""
        trace = cls.__new__(cls)
        trace._set_description(description)
        return trace

    @classmethod
    def _of_table(cls, name: str, content: bytes) -> Trace:
        """Creates the trace from the bytes of the file of a table of requests."""
        table = _TableFile(lambda path: Path(path).write_bytes(content))
        trace = cls._of_description({"path": table.path, "options": {"name": name}})
        trace._table = table
        return trace

    def _set_description(self, description: dict[str, Any]) -> None:
        """Sets the description of the trace, and opens its input."""
        self._description = description
        if "workload" in description:
            self._input = Input.workload(description["workload"])
        else:
            self._input = Input.trace(description["path"], **description["options"])

    @property
    def name(self) -> str:
        """Name of the trace in records."""
        given = self._description.get("options", {}).get("name")
        return str(given or displayed_path(self._description.get("path") or self._description["workload"]))

    @property
    def format(self) -> str | None:
        """Format of the file, as given or detected; None for a generated input."""
        return self._input.format

    def __reduce__(self) -> tuple[Any, ...]:
        if self._table is None:
            return Trace._of_description, (self._description,)
        return Trace._of_table, (self.name, Path(self._table.path).read_bytes())

    def __copy__(self) -> Trace:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Trace:
        return self.__copy__()  # Nothing of it ever changes.

    def _identity(self) -> str:
        """Text that is equal for equal traces: tables are equal if their requests are."""
        if self._table is None:
            return json.dumps(self._description, sort_keys=True)
        return self._table.sha256

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and other._identity() == self._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        if "workload" in self._description:
            return f"Trace.workload({self._description['workload']!r})"
        options = {
            key: value for key, value in self._description["options"].items() if key not in ("format", "name")
        }
        more = "".join(f", {key}={value!r}" for key, value in options.items())
        named = self.name if self._table is not None else self._description["path"]
        return f"Trace({named!r}, format={self.format!r}{more})"


class _TableFile:
    """The temporary file of a table of requests.

    It is deleted with this object, but only by the process that wrote it: a forked process has this object, too.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        handle, self.path = tempfile.mkstemp(prefix="wearwell-", suffix=".wwt")
        os.close(handle)
        delete = weakref.finalize(self, _delete_if_writer, self.path, os.getpid())
        try:
            write(self.path)
        except BaseException:
            delete()
            raise

    @cached_property
    def sha256(self) -> str:
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _delete_if_writer(path: str, writer: int) -> None:
    """Deletes the file of a table if this is the process that wrote it."""
    if os.getpid() == writer:
        Path(path).unlink(missing_ok=True)


def refuse_stream(path: str) -> None:
    """Raises an error about a path that can be read only once, such as a pipe."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # The error of opening the file is clearer.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise WearwellError(f"{path} is no file, and an input is read more than once: copy the stream to a file")


def _write_table(table: Any) -> tuple[_TableFile, int]:
    """Writes a table of requests to a temporary file in the native format; returns it and the number of requests."""
    columns = zip(_COLUMNS, _columns_of(table), strict=True)
    time_us, op, offset_bytes, length_bytes = (_column_values(name, column) for name, column in columns)
    if not len(time_us) == len(op) == len(offset_bytes) == len(length_bytes):
        raise WearwellError(
            "the columns of the table of requests have different lengths, "
            f"{len(time_us)}, {len(op)}, {len(offset_bytes)} and {len(length_bytes)}: give each one value per request"
        )
    try:
        file = _TableFile(lambda path: write_trace(path, time_us, op, offset_bytes, length_bytes))
    except (TypeError, OverflowError) as error:
        _refuse_first_wrong_value(time_us, op, offset_bytes, length_bytes)
        raise WearwellError(f"the table of requests cannot be written: {error}; correct its values") from error
    return file, len(time_us)


def _refuse_first_wrong_value(
    time_us: list[Any], op: list[Any], offset_bytes: list[Any], length_bytes: list[Any]
) -> None:
    """Raises an error about the first value of a table of requests that does not have the type of its column."""
    for row, values in enumerate(zip(time_us, op, offset_bytes, length_bytes, strict=True)):
        at = f"row {row} of the table of requests: "
        checked_number(f"{at}time_us", values[0])
        if not isinstance(values[1], str):
            raise WearwellError(f"{at}op is {values[1]!r}: give read, write, trim, zero or flush")
        for name, value in zip(_COLUMNS[2:], values[2:], strict=True):
            checked_integer(f"{at}{name}", value, 0, (1 << 64) - 1)


_NO_TABLES = {
    "LazyFrame": "a LazyFrame, which has no rows yet: give what its method collect() returns",
    "ndarray": f"an array of NumPy: give a mapping from the names {', '.join(_COLUMNS)} to its columns",
}
"""Types that look like a table of requests, with what is said about them."""


def _columns_of(table: Any) -> list[Any]:
    """Returns the columns of a table of requests, in the order of `_COLUMNS`."""
    for kind in type(table).__mro__:
        if kind.__name__ in _NO_TABLES:
            raise WearwellError(f"a trace is {_NO_TABLES[kind.__name__]}")
    try:
        names = _column_names(table)
        missing = [name for name in _COLUMNS if name not in names]
        columns = [] if missing else [table[name] for name in _COLUMNS]
    except Exception as error:  # Whatever an object raises that is no table.
        raise WearwellError(
            f"a trace is {table!r}: give the path of a trace, a Trace, or a table of requests with the columns {', '.join(_COLUMNS)}"
        ) from error
    if missing:
        raise WearwellError(f"the table of requests has no column {missing[0]}: it needs {', '.join(_COLUMNS)}")
    return columns


def _column_names(table: Any) -> list[Any]:
    """Returns the names of the columns of a table of requests."""
    # In an Arrow table, `columns` has no names; they are in `column_names`.
    return list(getattr(table, "column_names", None) or getattr(table, "columns", table))


def _column_values(name: str, column: Any) -> list[Any]:
    """Returns the values of a column of a table of requests as a list."""
    values = column
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            values = getattr(column, method)()
            break
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise WearwellError(f"the column {name} of the table of requests is {column!r}: give one value per request")
    return list(values)
