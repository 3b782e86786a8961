"""Tables of columns that hold numbers or codes, in the binary form in which the engine returns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._native import WearwellError
from ._tables import import_optional

if TYPE_CHECKING:
    import pandas
    import polars

_FORMATS: dict[str, Literal["B", "q"]] = {"u1": "B", "<i8": "q"}


class Columns(Mapping[str, memoryview]):
    """A table: column names and their values.

    Each column is a `memoryview`, which NumPy and Arrow use without a copy. The codes of a column have names (`names`).
    """

    def __init__(self, columns: Sequence[tuple[str, bytes, str, list[str]]]) -> None:
        self._columns = {name: (data, kind, names) for name, data, kind, names in columns}

    def __getitem__(self, name: str) -> memoryview:
        data, kind, _ = self._column(name)
        return memoryview(data).cast(_FORMATS[kind])

    def _column(self, name: str) -> tuple[bytes, str, list[str]]:
        """Returns the bytes of a column, the type of its values, and the names of its codes."""
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"there is no column {name!r}: use one of {', '.join(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return len(self[next(iter(self))])

    def names(self, column: str) -> list[str]:
        """Returns the names of a column's codes, by code; empty for a column of numbers."""
        return self._column(column)[2]

    def texts(self, column: str) -> list[str]:
        """Returns a column of codes with each code replaced by its name."""
        names = self.names(column)
        if not names:
            raise WearwellError(f"the column {column} holds numbers, which have no names: read them by [{column!r}]")
        return [names[code] for code in self[column]]

    def to_numpy(self) -> dict[str, Any]:
        """Returns read-only NumPy arrays that share the memory of the columns; codes remain numbers."""
        numpy = import_optional("numpy", "to_numpy")
        return {name: numpy.frombuffer(data, kind) for name, (data, kind, _) in self._columns.items()}

    def to_arrow(self) -> Any:
        """Returns a `pyarrow.Table` that shares the memory of the columns; codes become dictionary arrays."""
        pa = import_optional("pyarrow", "to_arrow")
        arrays = {}
        for name, (data, kind, names) in self._columns.items():
            of_codes = kind == "u1"
            buffers = [None, pa.py_buffer(data)]
            array = pa.Array.from_buffers(pa.uint8() if of_codes else pa.int64(), self.rows, buffers)
            arrays[name] = pa.DictionaryArray.from_arrays(array, names) if of_codes else array
        return pa.table(arrays)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas data frame; codes become categories."""
        pd, arrays = import_optional("pandas", "to_pandas"), self.to_numpy()
        columns = {
            name: pd.Categorical.from_codes(array, self.names(name)) if self.names(name) else array
            for name, array in arrays.items()
        }
        frame: pandas.DataFrame = pd.DataFrame(columns)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars data frame; codes are replaced by their names."""
        columns = {name: self.texts(name) if self.names(name) else list(self[name]) for name in self}
        frame: polars.DataFrame = import_optional("polars", "to_polars").DataFrame(columns)
        return frame

    def __repr__(self) -> str:
        return f"<{self.rows} rows of {', '.join(self)}>"
