"""One run: `replay`, and the conversion of its arguments into settings."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _native
from ._design import Design
from ._drive import Drive
from ._native import Configuration, WearwellError
from ._policy import VictimPolicy, native_choice, refuse_two_policies
from ._result import PartialResultWarning, Result
from ._settings import Value, flag, refuse_ignored, setting
from ._trace import Trace


def replay(
    trace: Trace | str | os.PathLike[str] | Any,
    drive: Drive | str | None = None,
    design: Design | str = "page-map",
    *,
    over_provisioning: float | None = None,
    precondition: str | None = None,
    timing: str | None = None,
    arrival: str | None = None,
    queue_depth: int | None = None,
    requests: int | None = None,
    content_model: str | None = None,
    seed: int | None = None,
    settings: Mapping[str, Value] | None = None,
    config: str | os.PathLike[str] | None = None,
    scale_to: int | None = None,
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
    scale_to = size_of_larger_drive(scale_to)
    run = Run.of(
        trace,
        drive,
        design,
        common(
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
    refuse_ignored(configuration, run.settings, run.design.name)
    refuse_two_policies(victim_policy, run.settings)
    text = run.trace._input.replay(configuration, run.design.name, progress, native_choice(victim_policy))
    result = Result(text if scale_to is None else _native.scaled(text, scale_to))
    if result.partial:
        warnings.warn(f"the result is partial: {result.partial_reason}", PartialResultWarning, stacklevel=2)
    return result


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
        common: list[str],
        config: str | os.PathLike[str] | None,
    ) -> Run:
        trace = trace if isinstance(trace, Trace) else Trace(trace)
        drive = drive if isinstance(drive, Drive) else Drive(drive)
        design = design if isinstance(design, Design) else Design(design)
        settings = (*drive.settings(), *design.settings(), *common)
        return cls(trace, drive, design, settings, None if config is None else os.fspath(config))

    def configuration(self) -> Configuration:
        return Configuration(list(self.settings), self.config)


def size_of_larger_drive(scale_to: Any) -> int | None:
    """Returns the argument `scale_to` as an integer. Raises an error if it is no number of bytes."""
    if scale_to is None:
        return None
    try:
        size_bytes = operator.index(scale_to)
    except TypeError:
        size_bytes = 0
    if not 0 < size_bytes < 1 << 64:
        raise WearwellError(f"scale_to is {scale_to!r}: give the bytes that a drive exports, an integer above 0")
    return size_bytes


def common(
    *,
    over_provisioning: float | None = None,
    precondition: str | None = None,
    timing: str | None = None,
    arrival: str | None = None,
    queue_depth: int | None = None,
    requests: int | None = None,
    content_model: str | None = None,
    seed: int | None = None,
    settings: Mapping[str, Value] | None = None,
) -> list[str]:
    """Returns the keywords of a run as settings."""
    return [
        *flag("device.over_provisioning", over_provisioning),
        *flag("timing.mode", timing),
        *flag("precondition.mode", precondition),
        *flag("content.model", content_model),
        *flag("replay.arrival", arrival),
        *flag("replay.queue_depth", queue_depth),
        *flag("replay.requests", requests),
        *flag("replay.seed", seed),
        *(setting(key, value) for key, value in (settings or {}).items()),
    ]
