"""Base class of the sections of a run's record: fields are read as attributes, without copying the record."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ._native import WearwellError


class Section:
    """A section of a record, whose fields are attributes that cannot be assigned. `dir()` lists them, `to_dict()` returns a
    copy of them as plain values."""

    __slots__ = ("_fields",)

    _fields: dict[str, Any]
    """The record's own dictionary, which is not changed."""
    _sections: ClassVar[dict[str, type[Section]]] = {}
    """Fields whose value is a section or a list of sections, with the class of the section."""
    _tables: ClassVar[dict[str, type[Section]]] = {}
    """Fields whose value is a table from names to sections, with the class of the sections."""
    _optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that a record may omit; such a field is None."""

    def __init__(self, fields: dict[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    if not TYPE_CHECKING:  # With this method, type checkers would accept every name.

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
                return copy.copy(value)  # A list or a dictionary of the record stays as it is.
            section = self._sections[name]
            return [section(item) for item in value] if isinstance(value, list) else section(value)

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            raise AttributeError(f"a {type(self).__name__} cannot be changed: change the dictionary that to_dict() returns")

        def __delattr__(self, name: str) -> NoReturn:
            self.__setattr__(name, None)

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
        """Returns a copy of the fields as plain values, as docs/schema describes them."""
        return copy.deepcopy(self._fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._fields,)


def fields_of_record(text: str, needed: set[str], what: str, source: str) -> dict[str, Any]:
    """Returns the fields of a record that is given as JSON. Raises an error if the text is none, or lacks a field of `needed`.

    For the message, `what` names the kind of record, and `source` says which texts hold one.
    """
    try:
        fields: Any = json.loads(text)
        said = "it lacks fields of one" if isinstance(fields, dict) else "it holds another value"
    except (TypeError, ValueError) as error:
        fields, said = None, str(error)
    if isinstance(fields, dict) and needed <= fields.keys():
        return fields
    raise WearwellError(f"this text is not the JSON of {what} ({said}): give {source}")
