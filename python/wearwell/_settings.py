"""Conversion of Python values into settings `section.key=value`, the notation of the command line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ._native import Configuration, WearwellError

Value: TypeAlias = bool | int | float | str | Sequence[str]
"""Type of the value of a setting."""

_WORD = re.compile(r"[A-Za-z][\w.:+,/=-]*")


def setting(key: str, value: Value) -> str:
    """Returns a setting in the notation of the flag `--set`."""
    refuse_surrogates("the key of a setting", key)
    if isinstance(value, str) and _WORD.fullmatch(value) and value not in ("true", "false"):
        return f"{key}={refuse_surrogates(key, value)}"
    return f"{key}={_toml_of(key, value)}"


def flag(key: str, value: str | int | float | None) -> list[str]:
    """Returns the setting that is equivalent to a flag of the command line, in a list; an empty list if there is no value."""
    if value is None:
        return []
    return [f"{key}={_toml_of(key, value)}"]


def without_numpy(value: Any) -> Any:
    """Returns the Python value of a number or truth value of NumPy; any other value as it is."""
    item = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "size", 1) == 1 else value


def refuse_surrogates(what: str, text: str) -> str:
    """Returns the text. Raises an error if it is no Unicode: Python reads a path that is not UTF-8 as such a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WearwellError(
            f"{what} is {text!r}, which cannot be written in UTF-8: give a text or path in UTF-8"
        ) from None
    return text


def readable(path: str) -> str:
    """Returns a path as the engine shows it: with a replacement character for what is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _toml_of(key: str, value: Value) -> str:
    """Returns the value of a setting in TOML notation."""
    value = without_numpy(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # Of the escapes of JSON, TOML has all but UTF-16 surrogates. It refuses 0x7f, which JSON leaves as it is.
        return json.dumps(refuse_surrogates(key, value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return "[" + ", ".join(_toml_of(key, item) for item in value) + "]"
    return repr(value)


def file_of(settings: Mapping[str, Value]) -> str:
    """Returns the text of a configuration file (TOML) with these dotted keys."""
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {_toml_of(key, value)}")
    return "\n".join(
        f"[{section}]\n" + "".join(f"{line}\n" for line in lines) for section, lines in sections.items()
    )


def refuse_ignored(configuration: Configuration, settings: Iterable[str], design: str) -> None:
    """Raises an error if the run would ignore one of the settings."""
    for _, sentence in configuration.ignored(list(settings), design):
        raise WearwellError(sentence)
