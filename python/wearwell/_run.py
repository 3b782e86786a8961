"""One run: `replay`, and the conversion of its arguments into settings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat, SupportsIndex

from . import _native
from ._design import Design
from ._drive import Drive
from ._native import Configuration, WearwellError
from ._policy import VictimPolicy, native_choice, refuse_two_policies
from ._result import PartialResultWarning, Result
from ._settings import (
    Value,
    checked_integer,
    checked_number,
    checked_text,
    items_of,
    optional_path_text,
    refuse_ignored,
    require_callable,
    setting,
    settings_of_value,
)
from ._trace import Trace


def replay(
    trace: Trace | str | os.PathLike[str] | Any,
    drive: Drive | str | None = None,
    design: Design | str = "page-map",
    *,
    over_provisioning: SupportsFloat | None = None,
    precondition: str | None = None,
    timing: str | None = None,
    arrival: str | None = None,
    queue_depth: SupportsIndex | None = None,
    requests: SupportsIndex | None = None,
    content_model: str | None = None,
    seed: SupportsIndex | None = None,
    settings: Mapping[str, Value] | None = None,
    config: str | bytes | os.PathLike[str] | None = None,
    scale_to: SupportsIndex | None = None,
    victim_policy: VictimPolicy | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> Result:
    """Replays a trace through a design on a drive and returns the result, the same as that of `wearwell replay`.

    The keywords are the flags of the command line: `precondition` (in-use, none, fill, steady, ...), `timing` (none, timeline,
    event), `content_model` (`--content`), `scale_to` in bytes. `settings` has dotted keys, which override all other
    arguments. `config` is a configuration file, which all other arguments override. `victim_policy` chooses GC victims
    instead of `gc.policy`. `progress` is called at intervals with the phase, the requests done and the requests in total.

    Other Python threads run meanwhile. Ctrl-C ends the run with a partial result and a `PartialResultWarning`.

    Raises `WearwellError` with the error message of the command line.
    """
    scale_to_bytes = larger_drive_bytes(scale_to)
    require_callable(progress)
    run = Run.of(
        trace,
        drive,
        design,
        settings_of_keywords(
            over_provisioning=over_provisioning,
            precondition=precondition,
            timing=timing,
            arrival=arrival,
            queue_depth=queue_depth,
            requests=requests,
            content_model=content_model,
            seed=seed,
            settings=settings,
        ),
        config,
    )
    configuration = run.configuration()
    refuse_ignored(configuration, run.settings_of_effect(), run.design.name)
    refuse_two_policies(victim_policy, run.settings)
    refuse_scale(run, scale_to_bytes)
    record = run.trace._input.replay(configuration, run.design.name, progress, native_choice(victim_policy))
    result = Result(record if scale_to_bytes is None else _native.scale_record_to_capacity(record, scale_to_bytes))
    if result.partial:
        warnings.warn(f"the result is partial: {result.partial_reason}", PartialResultWarning, stacklevel=2)
    return result


_INTEGER_MAX = (1 << 63) - 1
"""Largest integer that a configuration can hold."""


@dataclass(frozen=True)
class Run:
    """The arguments of a run: trace, drive, design and settings."""

    trace: Trace
    drive: Drive
    design: Design
    settings: tuple[str, ...]
    """All settings: those of the drive, of the design and of the run, in this order."""
    config: str | None

    @classmethod
    def of(
        cls,
        trace: Trace | str | os.PathLike[str] | Any,
        drive: Drive | str | None,
        design: Design | str,
        run_settings: list[str],
        config: str | bytes | os.PathLike[str] | None,
    ) -> Run:
        trace = trace if isinstance(trace, Trace) else Trace(trace)
        drive = drive if isinstance(drive, Drive) else Drive(drive)
        design = design if isinstance(design, Design) else Design(design)
        settings = (*drive.settings(), *design.settings(), *run_settings)
        return cls(trace, drive, design, settings, optional_path_text("config", config))

    def settings_of_effect(self) -> list[str]:
        """Returns the settings that must have an effect on the run."""
        return [*self.drive.settings_of_effect(), *self.settings[len(self.drive.settings()) :]]

    def configuration(self) -> Configuration:
        """Returns the configuration of the run: its settings on top of its configuration file."""
        return Configuration(list(self.settings), self.config)

    def unused_scale_sentence(self) -> str | None:
        """Returns why `scale_to` would have no effect on the run; None if it would have one."""
        return self.trace._input.unused_scale_sentence(self.configuration(), self.design.name)


def refuse_too_small_scale(run: Run, scale_to: int | None) -> None:
    """Raises an error if a run is to be scaled to a drive that exports fewer bytes than the simulated one."""
    if scale_to is not None:
        configuration = run.configuration()
        sentence = run.trace._input.too_small_scale_sentence(configuration, run.design.name, scale_to)
        if sentence is not None:
            raise WearwellError(sentence)


def larger_drive_bytes(scale_to: Any) -> int | None:
    """Returns the argument `scale_to` as an integer. Raises an error if it is no number of bytes."""
    if scale_to is None:
        return None
    return checked_integer("scale_to", scale_to, 1, (1 << 64) - 1, "bytes that the larger drive exports")


def refuse_scale(run: Run, scale_to: int | None) -> None:
    """Raises an error if a run cannot be scaled to a drive of this size, or has no lifetime in years to scale."""
    refuse_too_small_scale(run, scale_to)
    if scale_to is not None and (sentence := run.unused_scale_sentence()):
        raise WearwellError(sentence)


def _integer_setting(name: str, value: SupportsIndex | None, least: int, most: int) -> list[str]:
    """Returns the setting of the section `replay` for a keyword of the same name."""
    return [] if value is None else settings_of_value(f"replay.{name}", checked_integer(name, value, least, most))


def _number_setting(name: str, value: SupportsFloat | None) -> list[str]:
    """Returns the setting of the section `device` for a keyword of the same name, which is a number."""
    if value is None:
        return []
    checked_number(name, value)
    return settings_of_value(f"device.{name}", value)


def _text_setting(name: str, key: str, value: str | None) -> list[str]:
    """Returns the setting of the dotted key for the keyword `name`, which is a text."""
    return settings_of_value(key, None if value is None else checked_text(name, value))


def settings_of_keywords(
    *,
    over_provisioning: SupportsFloat | None = None,
    precondition: str | None = None,
    timing: str | None = None,
    arrival: str | None = None,
    queue_depth: SupportsIndex | None = None,
    requests: SupportsIndex | None = None,
    content_model: str | None = None,
    seed: SupportsIndex | None = None,
    settings: Mapping[str, Value] | None = None,
) -> list[str]:
    """Returns the keywords of a run as settings."""
    return [
        *_number_setting("over_provisioning", over_provisioning),
        *_text_setting("timing", "timing.mode", timing),
        *_text_setting("precondition", "precondition.mode", precondition),
        *_text_setting("content_model", "content.model", content_model),
        *_text_setting("arrival", "replay.arrival", arrival),
        *_integer_setting("queue_depth", queue_depth, 1, (1 << 32) - 1),
        *_integer_setting("requests", requests, 1, _INTEGER_MAX),
        *_integer_setting("seed", seed, 0, _INTEGER_MAX),
        *(setting(key, value) for key, value in items_of(settings)),
    ]
