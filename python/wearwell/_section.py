"""Base class of the sections of a run's record: fields are read as attributes, without copying the record."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, ClassVar


class Section:
    """A section of a record, whose fields are attributes. `dir()` lists them, `to_dict()` returns them as plain values."""

    __slots__ = ("_fields",)

    _sections: ClassVar[dict[str, type[Section]]] = {}
    """Fields whose value is a section or a list of sections, with the class of the section."""
    _tables: ClassVar[dict[str, type[Section]]] = {}
    """Fields whose value is a table from names to sections, with the class of the sections."""
    _optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that a record may omit; such a field is None."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            value = object.__getattribute__(self, "_fields")[name]
        except (KeyError, AttributeError):
            if name in self._optional:
                return None
            raise AttributeError(self._missing_field_message(name)) from None
        if name in self._tables:
            return {key: self._tables[name](item) for key, item in value.items()}
        if name not in self._sections or value is None:
            return value
        section = self._sections[name]
        return [section(item) for item in value] if isinstance(value, list) else section(value)

    def _missing_field_message(self, name: str) -> str:
        """Returns the sentence about a field that the section does not have."""
        sentence = f"a {type(self).__name__} has no field `{name}`"
        if name.startswith("_"):
            return sentence  # Protocols of Python and of notebooks ask for such names, often in vain.
        near = difflib.get_close_matches(name, [one for one in dir(self) if not one.startswith("_")], 1)
        return f"{sentence}: did you mean `{near[0]}`?" if near else f"{sentence}: dir() of it lists its fields"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._fields == self._fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self)
        return f"{type(self).__name__}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values, as docs/schema describes them."""
        return self._fields
