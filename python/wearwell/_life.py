"""The life of a drive: an input is repeated until the drive is worn out, on several drives that differ in their seed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex

from . import _native, _tables
from ._design import Design
from ._drive import Drive
from ._native import Configuration, WearwellError
from ._records import LifeRecord
from ._result import PartialResultWarning
from ._run import Run, larger_drive_bytes, refuse_scale, settings_of_keywords
from ._section import fields_of_record
from ._settings import (
    JOBS_MAX,
    Value,
    checked_bool,
    checked_integer,
    checked_number,
    checked_text,
    refuse_ignored,
    require_callable,
    write_page,
)
from ._threads import Progress, run_on_threads
from ._trace import Trace

if TYPE_CHECKING:
    import pandas
    import polars

Leveling = Literal["configured", "none", "dynamic", "static", "dual-pool"]

_SEEDS_MAX = (1 << 32) - 1
"""Most drives of a call, as of the command."""
_SEED_MAX = (1 << 63) - 1
"""Largest seed that a configuration can hold."""


def life(
    trace: Trace | str | os.PathLike[str] | Any,
    drive: Drive | str | None = None,
    design: Design | str = "page-map",
    *,
    seeds: SupportsIndex = 1,
    leveling: Leveling = "configured",
    spread: SupportsFloat = 0.1,
    early_share: SupportsFloat = 0.001,
    program_share: SupportsFloat = 0.5,
    spare_minimum: SupportsFloat = 0.1,
    empty: bool = False,
    over_provisioning: SupportsFloat | None = None,
    content_model: str | None = None,
    seed: SupportsIndex | None = None,
    settings: Mapping[str, Value] | None = None,
    config: str | bytes | os.PathLike[str] | None = None,
    scale_to: SupportsIndex | None = None,
    jobs: SupportsIndex = 1,
    progress: Progress | None = None,
) -> LifeResult:
    """Repeats a trace until the drive is worn out, and returns how long it lived, the same as `wearwell life`.

    Nothing is extrapolated: blocks fail when their cycles are used up. `seeds` drives are worn out, `jobs` at a time; each has
    its own weak blocks, its own content and, from a generator, its own requests. The rated cycles are
    `settings={"device.endurance_cycles": 300}`; `spread`, `early_share`, `program_share` and `spare_minimum` say how blocks
    differ and when the drive has ended (docs/life.md). `empty` does not fill the new drive first. `scale_to` is the size in
    bytes of a larger drive whose years are computed (`scale_factor` of the result).

    `progress` is called at intervals with the phase, what is done and the total: pages in `precondition`, the first fill; in
    `life` the erases done and those that all blocks are rated for. Other Python threads run meanwhile. Ctrl-C ends the lives in hand: the result is partial, with a `PartialResultWarning`.

    Raises `WearwellError` with the error message of the command line.
    """
    checked_text("leveling", leveling)
    empty = checked_bool("empty", empty)
    require_callable(progress)
    drive_count, threads = checked_integer("seeds", seeds, 1, _SEEDS_MAX), checked_integer("jobs", jobs, 1, JOBS_MAX)
    scale_to_bytes = larger_drive_bytes(scale_to)
    keywords = settings_of_keywords(
        over_provisioning=over_provisioning, content_model=content_model, seed=seed, settings=settings
    )
    run = Run.of(trace, drive, design, keywords, config)
    configuration = run.configuration()
    of_leveling = _native.leveling_settings(
        run.trace._input, configuration, run.design.name, leveling, list(run.settings)
    )
    refuse_ignored(Configuration([*run.settings, *of_leveling], run.config), run.settings_of_effect(), run.design.name)
    refuse_scale(run, scale_to_bytes)
    endurance = (
        checked_number("spread", spread),
        checked_number("early_share", early_share),
        checked_number("program_share", program_share),
        checked_number("spare_minimum", spare_minimum),
    )
    first = configuration.seed()
    if first + drive_count - 1 > _SEED_MAX:
        raise WearwellError(
            f"seed is {first} and seeds is {drive_count}: the drives have successive seeds, of which the last may be {_SEED_MAX}; "
            "lower one of them"
        )

    def wear_out_drive(number: int, report_progress: Progress) -> str:
        drive_settings = [*run.settings, *of_leveling, f"replay.seed={first + number}"]
        of_seed = Configuration(drive_settings, run.config)
        return _native.run_life(
            run.trace._input, of_seed, run.design.name, leveling, endurance, not empty, scale_to_bytes, report_progress
        )

    records = run_on_threads(wear_out_drive, drive_count, threads, progress, _is_interrupted)
    result = LifeResult(_native.join_lives(records))
    ended = sum(one.end != "interrupted" for one in result.lives)
    if ended < drive_count:
        message = f"the result is partial: interrupted, {ended} of {drive_count} drives have ended"
        warnings.warn(message, PartialResultWarning, stacklevel=2)
    return result


def _is_interrupted(record: str) -> bool:
    """Returns whether ctrl-C ended the last life in this record (JSON text)."""
    return bool(json.loads(record)["lives"][-1]["end"] == "interrupted")


class LifeResult(LifeRecord):
    """The lives of drives that differ in their seed only: an element of `drives` in the command line's `--json` output.

    `lives` has each drive, `curves` their common course over the bytes written, `estimates` the figures of whole lives with
    their 95 % interval: `result.estimates.host_bytes.mean`.
    """

    __slots__ = ("_text",)

    _text: str

    def __init__(self, text: str) -> None:
        source = "what LifeResult.to_json() returns, or an element of `drives` in the output of wearwell life --json"
        super().__init__(fields_of_record(text, {"lives", "leveling"}, "a life", source))
        object.__setattr__(self, "_text", text)

    @property
    def scale_factor(self) -> float | None:
        """How many times as large as the simulated drive the drive of `scale_to` is: its years are `scale_factor` times
        `years`, in each life and in `estimates`. None without `scale_to`."""
        if self.scale_to_bytes is None:
            return None
        return self.scale_to_bytes / self.exported_bytes

    @property
    def partial(self) -> bool:
        """Whether a life was interrupted before the drive had ended."""
        return any(one.end == "interrupted" for one in self.lives)

    def to_json(self) -> str:
        """Returns the record as JSON, in the form of an element of `drives` in the command line's `--json` output."""
        return self._text

    def to_rows(self, of: Literal["curves", "lives"] = "curves") -> list[dict[str, Any]]:
        """Returns a row for each moment of the curves, or for each life with the configuration, with dotted names."""
        if of == "curves":
            drive = {name: self._fields[name] for name in ("design", "leveling")}
            return [{**drive, **_tables.flattened_row(point)} for point in self._fields["curves"]]
        if of == "lives":
            left_out = ("lives", "curves", "estimates")
            drive = _tables.flattened_row({name: field for name, field in self._fields.items() if name not in left_out})
            return [{**drive, **_tables.flattened_row(one), **self._scaled_years_column(one)} for one in self._fields["lives"]]
        raise WearwellError(f"a life has tables of curves and lives, not of {of!r}: give one of these names")

    def _scaled_years_column(self, one: dict[str, Any]) -> dict[str, Any]:
        """Returns the years of the larger drive in a life, as a column of the table of lives; nothing without `scale_to`."""
        factor, years = self.scale_factor, one.get("years")
        return {} if factor is None else {"scaled_years": None if years is None else years * factor}

    def to_pandas(self, of: Literal["curves", "lives"] = "curves") -> pandas.DataFrame:
        """Returns a data frame with a row for each moment of the curves, or for each life."""
        return _tables.to_pandas(self.to_rows(of))

    def to_polars(self, of: Literal["curves", "lives"] = "curves") -> polars.DataFrame:
        """Returns a data frame with a row for each moment of the curves, or for each life."""
        return _tables.to_polars(self.to_rows(of))

    def to_arrow(self, of: Literal["curves", "lives"] = "curves") -> Any:
        """Returns a `pyarrow.Table` with a row for each moment of the curves, or for each life."""
        return _tables.to_arrow(self.to_rows(of))

    def report(self, path: str | bytes | os.PathLike[str], *, beside: Iterable[LifeResult] = ()) -> None:
        """Writes an HTML page, which needs no network, like `wearwell life --report`; `beside` are other drives, which the
        page compares with this one. Maps of the blocks are included if the lives had the setting `replay.timeline_cells`,
        which `--report` sets. An existing file is replaced."""
        others = list(beside) if isinstance(beside, Iterable) else [beside]
        if not all(isinstance(other, LifeResult) for other in others):
            raise WearwellError(f"beside is {beside!r}: give a list of results of life")
        write_page(path, _native.html_page_of_lives([self._text, *(other._text for other in others)]))

    def __reduce__(self) -> tuple[type[LifeResult], tuple[str]]:
        return LifeResult, (self._text,)

    def __str__(self) -> str:
        return _native.table_of_lives([self._text])

    def __repr__(self) -> str:
        written = "interrupted" if self.estimates is None else f"{self.estimates.host_bytes.mean / 1e12:.4g} TB written"
        count = len(self.lives)
        drives = "drive" if count == 1 else "drives"
        return f"<LifeResult of {self.design} on {self.input}: {written}, {count} {drives}>"

    def _repr_html_(self) -> str:
        return _native.html_tables_of_lives([self._text])
