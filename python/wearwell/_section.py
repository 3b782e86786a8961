"""A part of a record: its fields as attributes, without a copy of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar


class Section:
    """Fields of a record, by attribute. `dir()` names them, `to_dict()` gives them as plain values."""

    __slots__ = ("_fields",)

    _sections: ClassVar[dict[str, type[Section]]] = {}
    """Fields that are sections, or lists of sections."""
    _tables: ClassVar[dict[str, type[Section]]] = {}
    """Fields that are sections by name."""
    _optional: ClassVar[frozenset[str]] = frozenset()
    """Fields that a record may leave out; they are None then."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            value = object.__getattribute__(self, "_fields")[name]
        except (KeyError, AttributeError):
            if name in self._optional:
                return None
            raise AttributeError(f"a {type(self).__name__} has no field `{name}`") from None
        if name in self._tables:
            return {key: self._tables[name](item) for key, item in value.items()}
        if name not in self._sections or value is None:
            return value
        section = self._sections[name]
        return [section(item) for item in value] if isinstance(value, list) else section(value)

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
        """The fields as plain values, those of docs/schema."""
        return self._fields
