"""Designs: a named FTL design, perhaps with exchanged parts and with settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._native import Configuration, WearwellError, designs, unknown_name
from ._settings import Value, checked_text, config_file_text, items_of, refuse_surrogates, setting


def mechanism_names(argument: str, given: Any) -> list[str]:
    """Returns the names of content mechanisms that an argument lists; a text is one name."""
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in names):
        raise WearwellError(f"{argument} is {given!r}: give a list of names of content mechanisms, such as ['dedup']")
    return [refuse_surrogates(argument, name) for name in names]


class Design:
    """A design of a flash translation layer: a named design (`Design.names()`), with exchanged parts and with settings.

    `content` lists all content mechanisms (recycle, remap, dedup, delta, compress, silent; an empty list for none). `map` is
    flat, cached or lazy. The other arguments are the keys of `[parts]` in docs/configuration.md. `settings` has dotted keys:
    `{"gc.policy": "fifo"}`. The `repr` of a design is the configuration file with which the command line runs it.

    Names, keys and values are checked at once. Whether the parts can be combined, and whether each setting has an effect,
    depends on the other settings of a run, so the run checks it.
    """

    def __init__(
        self,
        name: str = "page-map",
        *,
        content: Sequence[str] | None = None,
        map: str | None = None,
        validity: str | None = None,
        reverse_map: str | None = None,
        survives: str | None = None,
        settings: Mapping[str, Value] | None = None,
    ) -> None:
        self.name = name
        """Name of the design, as in `Design.names()`."""
        if not isinstance(name, str):
            raise WearwellError(f"design is {name!r}: give the name of a design, or a Design")
        refuse_surrogates("design", name)
        names = None if content is None else mechanism_names("content", content)
        parts: dict[str, Value | None] = {
            "parts.content": None if names is None else ",".join(names) or "none",
        }
        named = {"map": map, "validity": validity, "reverse_map": reverse_map, "survives": survives}
        parts.update({f"parts.{key}": checked_text(key, value) for key, value in named.items() if value is not None})
        self.values: dict[str, Value] = {key: value for key, value in parts.items() if value is not None}
        """Settings that differ from those of the named design, by dotted key."""
        self.values.update(items_of(settings))
        known = list(Design.names())
        if name not in known:
            raise unknown_name("design", name, known)
        Configuration(self.settings())

    @staticmethod
    def names() -> dict[str, str]:
        """Returns the named designs, with their sources."""
        return {name: source for name, source, _, _ in designs()}

    def settings(self) -> list[str]:
        """Returns the design's parts and settings in the notation of the command line."""
        return [setting(key, value) for key, value in self.values.items()]

    def to_toml(self) -> str:
        """Returns the design as the text of a configuration file, for `--design NAME --config FILE`."""
        head = f"# wearwell replay TRACE --design {self.name} --config FILE\n"
        try:
            head += f"# all parts: {Configuration(self.settings()).parts(self.name)}\n"
        except WearwellError:
            pass  # The parts fit only together with settings of a run, which may choose others.
        file = config_file_text(self.values)
        return f"{head}\n{file}" if file else head

    @property
    def label(self) -> str:
        """Name and settings of the design, to distinguish it from others in tables."""
        return self._label_under({})

    def _label_under(self, overriding: Mapping[str, str]) -> str:
        """Returns the label without the settings that others override, which are given by dotted key."""
        return " ".join([self.name, *(setting(key, value) for key, value in self.values.items() if key not in overriding)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Design) and (other.name, other.settings()) == (self.name, self.settings())

    def __hash__(self) -> int:
        return hash((self.name, *self.settings()))

    def __repr__(self) -> str:
        return self.to_toml()
