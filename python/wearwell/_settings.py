"""Settings `section.key=value`, as the command line writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ._native import Configuration, WearwellError

Value: TypeAlias = bool | int | float | str | Sequence[str]
"""What a key can be set to."""

_WORD = re.compile(r"[A-Za-z][\w.:+,/=-]*")


def setting(key: str, value: Value) -> str:
    """One setting, as `--set` takes it."""
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and value not in ("true", "false")
        return f"{key}={value}" if plain else f"{key}={json.dumps(value)}"
    return f"{key}={toml(value)}"


def flag(key: str, value: str | int | float | None) -> list[str]:
    """The setting that a flag of the command line stands for; none without a value."""
    if value is None:
        return []
    return [f'{key}="{value}"' if isinstance(value, str) else f"{key}={toml(value)}"]


def toml(value: Value) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(json.dumps(item) for item in value) + "]"
    item = getattr(value, "item", None)  # Numbers of numpy too.
    return repr(value if item is None else item())


def file_of(settings: Mapping[str, Value]) -> str:
    """Dotted keys as a configuration file."""
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {toml(value)}")
    return "\n".join(
        f"[{section}]\n" + "".join(f"{line}\n" for line in lines) for section, lines in sections.items()
    )


def refuse_ignored(configuration: Configuration, settings: Iterable[str], design: str) -> None:
    """Refuses a setting that the run would ignore."""
    for _, sentence in configuration.ignored(list(settings), design):
        raise WearwellError(sentence)
