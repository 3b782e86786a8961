"""Conversion of Python values into settings `section.key=value`, the notation of the command line."""

from __future__ import annotations

import json
import math
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

from ._native import Configuration, WearwellError

Value: TypeAlias = bool | int | float | str | SupportsIndex | SupportsFloat | Sequence[str]
"""Type of the value of a setting; numbers may be those of NumPy."""

JOBS_MAX = 1 << 16
"""Most runs at a time. Many more than the cores of any machine; more processes could not be started."""

_WORD = re.compile(r"[A-Za-z][\w.:+,/=-]*")


def setting(key: str, value: Value) -> str:
    """Returns a setting in the notation of the flag `--set`."""
    # Blanks would hide the key from comparisons with other keys.
    if not isinstance(key, str) or any(letter.isspace() for letter in key):
        raise WearwellError(f"the key of a setting is {key!r}: give a text such as 'gc.policy'")
    refuse_surrogates("the key of a setting", key)
    if isinstance(value, str) and _WORD.fullmatch(value) and value not in ("true", "false"):
        return f"{key}={refuse_surrogates(key, value)}"
    return f"{key}={_toml_of(key, value)}"


def values_by_key(settings: Iterable[str]) -> dict[str, str]:
    """Returns the values of settings in the notation of the command line, by key; the last of a key is the one that counts."""
    return {key.strip(): value.strip() for key, _, value in (setting.partition("=") for setting in settings)}


def items_of(settings: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Returns keys and values of the argument `settings`."""
    if settings is None:
        return []
    if not isinstance(settings, Mapping):
        raise WearwellError(
            f"settings is {settings!r}: give a mapping from dotted keys to values, such as {{'gc.policy': 'fifo'}}"
        )
    return list(settings.items())


def optional_path_text(name: str, path: str | bytes | os.PathLike[Any] | None) -> str | None:
    """Returns the argument `name`, the path of a file, as a text; None if it is left out."""
    return None if path is None else path_text(name, path)


def path_text(name: str, path: str | bytes | os.PathLike[Any]) -> str:
    """Returns the argument `name`, the path of a file, as a text. Raises an error that names it if it is no path."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise WearwellError(f"{name} is {path!r}: give the path of a file or folder")
    text = os.fsdecode(path)
    if not text:
        raise WearwellError(f"{name} is empty: give the path of a file or folder")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise WearwellError(f"{name} is {text!r}, which can be the path of no file: give the path of a file or folder") from None
    return text


def write_page(path: Any, page: str) -> None:
    """Writes an HTML page to the file `path`, which is replaced if it exists. Raises an error if it cannot be written."""
    target = path_text("path", path)
    try:
        with open(target, "w", encoding="utf-8") as file:
            file.write(page)
    except (OSError, ValueError) as error:  # A path with a zero byte is a ValueError.
        why = error.strerror if isinstance(error, OSError) else error
        raise WearwellError(
            f"the page cannot be written to {target!r}: {why}; give a path in a folder in which files can be written"
        ) from error


def settings_of_value(key: str, value: str | SupportsIndex | SupportsFloat | None) -> list[str]:
    """Returns a list with the setting of a key; an empty list if there is no value."""
    if value is None:
        return []
    return [f"{key}={_toml_of(key, value)}"]


def checked_integer(name: str, value: Any, least: int, most: int, meaning: str = "") -> int:
    """Returns an argument as an integer. Raises an error that names it if it is none, or not from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        said = f" ({meaning})" if meaning else ""
        raise WearwellError(f"{name} is {value!r}: give an integer from {least} to {most}{said}")
    return number


def checked_number(name: str, value: Any) -> float:
    """Returns an argument as a number. Raises an error that names it if it is none."""
    number = _float_of(value)
    if number is None:
        raise WearwellError(f"{name} is {value!r}: give a number")
    return number


def _float_of(value: Any) -> float | None:
    """Returns a number of any type, such as a `Decimal`, as a `float`; None if the value is no number."""
    # `float` parses texts and bytes, and takes a time of NumPy for its number of nanoseconds.
    if isinstance(value, str) or is_time_of_numpy(value) or not isinstance(value, (SupportsFloat, SupportsIndex)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def checked_text(name: str, value: Any) -> str:
    """Returns an argument that is a text. Raises an error that names it if it is none, or no Unicode."""
    if isinstance(value, str):
        return refuse_surrogates(name, value)
    raise WearwellError(f"{name} is {value!r}: give a text")


def checked_bool(name: str, value: Any) -> bool:
    """Returns an argument that is a truth value, perhaps one of NumPy."""
    value = without_numpy(value)
    if isinstance(value, bool):
        return value
    raise WearwellError(f"{name} is {value!r}: give True or False")


def require_callable(progress: Any) -> None:
    """Raises an error if the argument `progress` cannot be called."""
    if progress is not None and not callable(progress):
        raise WearwellError(
            f"progress is {progress!r}: give a function of three arguments: the phase, what is done of it, and the total"
        )


def without_numpy(value: Any) -> Any:
    """Returns the Python value of a number or truth value of NumPy; any other value as it is."""
    item = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "size", 1) == 1 and not is_time_of_numpy(value) else value


def is_time_of_numpy(value: Any) -> bool:
    """Whether a value is a time or a duration of NumPy, or an array of them: as numbers, their unit would be lost."""
    return getattr(getattr(value, "dtype", None), "kind", None) in ("M", "m")


def refuse_surrogates(what: str, text: str) -> str:
    """Returns the text. Raises an error if it is no Unicode: Python reads a path that is not UTF-8 as such a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WearwellError(
            f"{what} is {text!r}, which cannot be written in UTF-8: give a text or path in UTF-8"
        ) from None
    return text


def displayed_path(path: str) -> str:
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
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return "[" + ", ".join(_toml_of(key, item) for item in value) + "]"
    if isinstance(value, SupportsIndex) and (isinstance(value, int) or getattr(value, "ndim", 0) == 0):
        return repr(checked_integer(key, value, -(1 << 63), (1 << 63) - 1))
    number = _float_of(value)
    if number is not None and math.isfinite(number):
        return repr(number)
    raise WearwellError(f"{key} is {value!r}: give a finite number, a text, True or False, or a list of these")


def config_file_text(settings: Mapping[str, Value]) -> str:
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
    for _, sentence in configuration.ignored_settings(list(settings), design):
        raise WearwellError(sentence)
