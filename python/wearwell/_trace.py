"""Inputs of a run: trace files, generators, tables of requests."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import reprlib
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ._native import Input, RequestTableWriter, WearwellError
from ._settings import (
    checked_bool,
    checked_integer,
    checked_number,
    checked_text,
    displayed_path,
    is_time_of_numpy,
    path_text,
    refuse_surrogates,
)

_PATH_TYPES = (str, bytes, os.PathLike)
_NEEDED_COLUMNS = ("time_us", "op", "offset_bytes", "length_bytes")
_OPTIONAL_COLUMNS = ("device", "fingerprints", "source_bytes")
_OPERATIONS = "read, write, trim, zero, flush, remap, move or phase"
_OPERATIONS_WITHOUT_ADDRESS = ("flush", "F", "phase", "P")
_ROWS_AT_A_TIME = 1 << 16
"""Rows of a table that are converted and written at a time, so that memory holds no second copy of a large table."""
_WORKLOAD = re.compile(r"[a-z][a-z0-9-]*:[a-z_]+=[^/]*")
"""Texts that look like the specification of a workload."""


class Trace:
    """The input of a run: a trace file in any format that `wearwell trace formats` lists, or a table of requests.

    A table is a data frame of pandas or polars, a table of Arrow, or a mapping of columns. It needs the columns `time_us`, `op`
    (read, write, trim, zero, flush, remap, move or phase), `offset_bytes` and `length_bytes`. It may have `device` (numbers),
    `fingerprints` (contents of the pages, as in Wearwell's CSV) and `source_bytes` (of a remap or move); any other column is an
    error. `name` is the name of a table in results. The other keywords have the meaning of the command line's flags with these
    names: how a file is read. `Trace.workload` creates a generated input.

    A table is written to a temporary file. Copies of the trace share it, and it is deleted with the last of them, or when
    the process that wrote it ends, unless it is killed. A pickle holds the requests, and loading it writes a file of its own.
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
        name: str | None = None,
    ) -> None:
        texts = {"format": format, "action": action, "time_unit": time_unit, "assume": assume, "columns": columns}
        flags = {"skip_bad_lines": skip_bad_lines, "bytes": bytes, "without_sidecars": without_sidecars}
        options: dict[str, Any] = {key: checked_text(key, value) for key, value in texts.items() if value is not None}
        options.update({key: True for key, value in flags.items() if checked_bool(key, value)})
        path = path_text("the path of the trace", source) if isinstance(source, _PATH_TYPES) else None
        if path is not None:
            if not path:
                raise WearwellError("the path of the trace is empty: give the path of a file")
            if name is not None:
                raise WearwellError("name has no effect on a file, which is named by its path: leave it out")
            if _WORKLOAD.fullmatch(path) and not os.path.exists(path):
                raise WearwellError(f"{path} is no file: if it is a workload, give Trace.workload({path!r})")
            refuse_stream(path)
            self._set_description({"path": path, "options": options})
        else:
            if options:
                option = next(iter(options))
                raise WearwellError(f"{option} has no effect on a table of requests: leave it out, or give the path of a trace")
            given = None if name is None else checked_text("name", name)
            self._table, requests = _write_table(source)
            # The digest distinguishes tables of equal length in results.
            shown = given or f"a table of {requests:,} requests ({self._table.sha256[:8]})"
            self._set_description({"path": self._table.path, "options": {"name": shown}})

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
        from multiprocessing import util  # Imported only here, because it takes milliseconds.

        handle, self.path = tempfile.mkstemp(prefix="wearwell-", suffix=".wwt")
        os.close(handle)
        # Unlike `weakref.finalize` it is called at the end of a process of `multiprocessing`, too. With a negative priority
        # it is called when child processes, which may use the file, have ended.
        delete = util.Finalize(self, _delete_if_writer, (self.path, os.getpid()), exitpriority=-1)
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


class _Rows(NamedTuple):
    """Successive rows of a table of requests as lists of one value per request; an optional column may be empty."""

    time_us: list[Any]
    op: list[Any]
    offset_bytes: list[Any]
    length_bytes: list[Any]
    device: list[Any]
    fingerprints: list[Any]
    source_bytes: list[Any]


class _Column:
    """A column of a table of requests, of which successive values can be converted into a list."""

    def __init__(self, name: str, column: Any) -> None:
        if isinstance(column, (Mapping, Set)):
            raise WearwellError(
                f"the column {name} of the table of requests is a {type(column).__name__}: give a list with one value per request, "
                "in order (`to_dict('list')` of a data frame, or the frame itself)"
            )
        source = getattr(column, "iloc", column)  # A series of pandas takes integers in brackets for labels.
        try:
            is_converted_in_parts = not isinstance(column, (str, bytes)) and isinstance(_as_list(source[0:0]), (list, tuple, range))
            self.length = len(column)
        except Exception:  # Whatever an object raises that has no slices.
            is_converted_in_parts = False
        if not is_converted_in_parts:
            values = _as_list(column)
            if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
                raise WearwellError(f"the column {name} of the table of requests is {column!r}: give one value per request")
            source = list(values)
            self.length = len(source)
        self._source = source

    def values(self, first: int, rows: int) -> list[Any]:
        """Returns the values of `rows` rows (or of fewer, at the end) from the row `first` on."""
        return list(_as_list(self._source[first : first + rows]))


def _as_list(column: Any) -> Any:
    """Returns values of a column as a list, if its type has a method for this; else as they are."""
    if is_time_of_numpy(column):
        return list(column)  # The method would return some of them as integers, without their unit.
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return column


def _write_table(table: Any) -> tuple[_TableFile, int]:
    """Writes a table of requests to a temporary file in the native format; returns it and the number of requests."""
    columns = {name: _Column(name, column) for name, column in _columns_of(table).items()}
    if len({column.length for column in columns.values()}) > 1:
        said = ", ".join(f"{name} {column.length}" for name, column in columns.items())
        raise WearwellError(
            f"the columns of the table of requests have different lengths ({said}): give each one value per request"
        )
    file = _TableFile(lambda path: _write_columns(path, columns))
    return file, columns["time_us"].length


def _write_columns(path: str, columns: dict[str, _Column]) -> None:
    """Writes the columns of a table of requests to a file in the native format."""
    writer = RequestTableWriter(path)
    for first in range(0, columns["time_us"].length, _ROWS_AT_A_TIME):
        rows = _rows_of_columns({name: column.values(first, _ROWS_AT_A_TIME) for name, column in columns.items()})
        try:
            if _has_times_of_numpy(rows):
                raise TypeError("it has times of NumPy")
            writer.write_rows(*rows)
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            _refuse_first_wrong_value(first, rows)
            raise WearwellError(f"the table of requests cannot be written: {error}; correct its values") from error
    writer.finish()


def _has_times_of_numpy(rows: _Rows) -> bool:
    """Whether a column of numbers has a time or a duration of NumPy, which converts into a number without its unit."""
    numbers = (rows.time_us, rows.offset_bytes, rows.length_bytes, rows.device, rows.source_bytes)
    kinds = {kind for values in numbers for kind in set(map(type, values))}
    return any(kind.__name__ in ("datetime64", "timedelta64") for kind in kinds)


def _rows_of_columns(columns: dict[str, list[Any]]) -> _Rows:
    """Returns the columns with integers in place of floating-point numbers that are whole, and without missing values where
    none is needed."""
    op = columns["op"]
    source_bytes = [None if value == "" else value for value in _integers(columns.get("source_bytes", []))]
    return _Rows(
        columns["time_us"],
        op,
        _addresses(columns["offset_bytes"], op),
        _addresses(columns["length_bytes"], op),
        [0 if value is None else value for value in _integers(columns.get("device", []))],
        ["" if _is_missing(value) else value for value in columns.get("fingerprints", [])],
        source_bytes,
    )


def _addresses(values: list[Any], op: list[Any]) -> list[Any]:
    """Returns offsets or lengths as integers. A missing one becomes 0 in the row of an operation that has no address."""
    return [
        0 if value is None and one in _OPERATIONS_WITHOUT_ADDRESS else value
        for value, one in zip(_integers(values), op, strict=True)
    ]


def _integers(values: list[Any]) -> list[Any]:
    """Returns whole floating-point numbers as integers, missing values as None, and all other values as they are."""
    if all(type(value) is int for value in values):
        return values
    return [
        None if _is_missing(value) else int(value) if isinstance(value, float) and value.is_integer() else value
        for value in values
    ]


def _is_missing(value: Any) -> bool:
    """Whether a value of a table says that there is none: None, not a number, or the missing value of pandas."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")


def _refuse_first_wrong_value(first: int, rows: _Rows) -> None:
    """Raises an error about the first value of rows that does not have the type of its column; `first` is their first number."""
    for row in range(len(rows.time_us)):
        at = f"row {first + row} of the table of requests: "
        checked_number(f"{at}time_us", rows.time_us[row])
        if not isinstance(rows.op[row], str):
            raise WearwellError(f"{at}op is {rows.op[row]!r}: give {_OPERATIONS}")
        refuse_surrogates(f"{at}op", rows.op[row])
        checked_integer(f"{at}offset_bytes", rows.offset_bytes[row], 0, (1 << 64) - 1)
        checked_integer(f"{at}length_bytes", rows.length_bytes[row], 0, (1 << 64) - 1)
        if rows.device:
            checked_integer(f"{at}device", rows.device[row], 0, (1 << 32) - 1)
        if rows.fingerprints and not isinstance(rows.fingerprints[row], str):
            raise WearwellError(
                f"{at}fingerprints is {rows.fingerprints[row]!r}: give a text with a hexadecimal number for each page, or None"
            )
        if rows.fingerprints:
            refuse_surrogates(f"{at}fingerprints", rows.fingerprints[row])
        if rows.source_bytes and rows.source_bytes[row] is not None:
            checked_integer(f"{at}source_bytes", rows.source_bytes[row], 0, (1 << 64) - 1)


_NO_TABLES = {
    "LazyFrame": "a LazyFrame, which has no rows yet: give what its method collect() returns",
    "RecordBatchReader": "a RecordBatchReader, which can be read only once: give what its method read_all() returns",
    "ndarray": f"an array of NumPy: give a mapping from the names {', '.join(_NEEDED_COLUMNS)} to its columns",
}
"""Types that look like a table of requests, with what is said about them."""


def _columns_of(table: Any) -> dict[str, Any]:
    """Returns the columns of a table of requests by name. Raises an error about a missing and about an unknown column."""
    for kind in type(table).__mro__:
        if kind.__name__ in _NO_TABLES:
            raise WearwellError(f"a trace is {_NO_TABLES[kind.__name__]}")
    needed = ", ".join(_NEEDED_COLUMNS)
    try:
        names = _column_names(table)
        missing = [name for name in _NEEDED_COLUMNS if name not in names]
        known = [name for name in (*_NEEDED_COLUMNS, *_OPTIONAL_COLUMNS) if name in names]
        repeated = [name for name in known if names.count(name) > 1]
        columns = {} if missing or repeated else {name: table[name] for name in known}
    except Exception as error:  # Whatever an object raises that is no table.
        raise WearwellError(
            f"a trace is {_shown(table)}: give the path of a trace, a Trace, or a table of requests with the columns {needed}"
        ) from error
    if missing:
        raise WearwellError(f"the table of requests has no column {missing[0]}: it needs {needed}")
    if repeated:
        raise WearwellError(f"the table of requests has the column {repeated[0]} {names.count(repeated[0])} times: leave one of them")
    if unknown := [name for name in names if name not in known]:
        raise WearwellError(
            f"the table of requests has the unknown column {unknown[0]!r}: it needs {needed}, and may have "
            f"{', '.join(_OPTIONAL_COLUMNS)}; select the columns that requests have, such as table[{list(_NEEDED_COLUMNS)}]"
        )
    return columns


def _column_names(table: Any) -> list[Any]:
    """Returns the names of the columns of a table of requests. Raises any exception if the object is no table."""
    # In an Arrow table, `columns` has no names; they are in `column_names`.
    for names in ("column_names", "columns"):
        if hasattr(table, names):
            return list(getattr(table, names))
    return list(table.keys())  # Of a mapping. Any other collection is not read, because it may be endless.


def _shown(value: Any) -> str:
    """Returns a text that shows a value, shortened if it is a long collection."""
    shortened = reprlib.Repr()
    shortened.maxother = shortened.maxstring = 200
    return shortened.repr(value)
