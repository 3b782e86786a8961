"""Conversion of Python values into settings `section.key=value`, the notation of the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ._native import Configuration, WearwellError

Value: TypeAlias = bool | int | float | str | Sequence[str]
"""Type of the value of a setting."""

_WORD = re.compile(r"[A-Za-z][\w.:+,/=-]*")


def setting(key: str, value: Value) -> str:
    """Returns a setting in the notation of the flag `--set`."""
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and value not in ("true", "false")
        return f"{key}={value}" if plain else f"{key}={json.dumps(value)}"
    return f"{key}={toml(value)}"


def flag(key: str, value: str | int | float | None) -> list[str]:
    """Returns the setting that is equivalent to a flag of the command line, in a list; an empty list if there is no value."""
    if value is None:
        return []
    return [f'{key}="{value}"' if isinstance(value, str) else f"{key}={toml(value)}"]


def toml(value: Value) -> str:
    """Returns a value in TOML notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(json.dumps(item) for item in value) + "]"
    item = getattr(value, "item", None)  # Numbers of NumPy have `item`, too.
    return repr(value if item is None else item())


def file_of(settings: Mapping[str, Value]) -> str:
    """Returns the text of a configuration file (TOML) with these dotted keys."""
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {toml(value)}")
    return "\n".join(
        f"[{section}]\n" + "".join(f"{line}\n" for line in lines) for section, lines in sections.items()
    )


def refuse_ignored(configuration: Configuration, settings: Iterable[str], design: str) -> None:
    """Raises an error if the run would ignore one of the settings."""
    for _, sentence in configuration.ignored(list(settings), design):
        raise WearwellError(sentence)
