"""Sweeps: run every combination of lists of arguments, and store each run under a digest of all that it depends on.

The store is a folder of finished records. So a sweep that was interrupted or extended runs only what is missing, and a
combination that occurs twice, in one sweep or in several, runs once. `wearwell ablate --resume` uses the same kind of folder.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat, SupportsIndex

from . import _native, _tables
from ._design import Design
from ._drive import Drive
from ._executors import Executor, Outcome, Task, executor_of
from ._native import WearwellError
from ._result import PartialResultWarning, Result
from ._run import Run, larger_drive_bytes, refuse_too_small_scale, settings_of_keywords
from ._settings import Value, checked_bool, items_of, optional_path_text, values_by_key, without_numpy, write_page
from ._trace import Trace

if TYPE_CHECKING:
    import pandas
    import polars


def sweep(
    trace: Any,
    drive: Drive | str | None | Iterable[Drive | str | None] = None,
    design: Design | str | Iterable[Design | str] = "page-map",
    *,
    over_provisioning: SupportsFloat | None | Iterable[SupportsFloat | None] = None,
    precondition: str | None | Iterable[str | None] = None,
    timing: str | None | Iterable[str | None] = None,
    arrival: str | None | Iterable[str | None] = None,
    queue_depth: SupportsIndex | None | Iterable[SupportsIndex | None] = None,
    requests: SupportsIndex | None | Iterable[SupportsIndex | None] = None,
    content_model: str | None | Iterable[str | None] = None,
    seed: SupportsIndex | None | Iterable[SupportsIndex | None] = None,
    settings: Mapping[str, Value | Iterable[Value]] | None = None,
    config: str | bytes | os.PathLike[str] | None = None,
    scale_to: SupportsIndex | None = None,
    executor: str | Executor = "local",
    jobs: SupportsIndex | None = None,
    store: str | bytes | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Sweep:
    """Runs every combination of the arguments that have several values: arguments and values in `settings` may be lists.
    A keyword with several values and the key of the same setting in `settings` are an error, and so are drives or designs
    that differ only in settings that a keyword or `settings` overrides.

    `jobs` worker processes run at a time (default: one per core); an executor object has its own `jobs`. A run that
    ends is stored in the folder `store`. So a sweep that is called again continues where it ended, and a larger one
    runs only what is new. Without `store` nothing is stored.

    A run that fails becomes a row with the message in the column `error`. A run that ends before the end of its input
    (a full device, a damaged trace) becomes a row with true in the column `partial`, and a `PartialResultWarning` says
    how many there are. Ctrl-C ends the current runs and returns the finished ones.

    Raises `WearwellError` for errors that concern all runs: an unknown executor, a trace that cannot be opened, a setting
    that none of the runs uses, a configuration that is refused in every run.
    """
    chosen = executor_of(executor, jobs)
    folder_of_results = optional_path_text("store", store)
    scale_to_bytes = larger_drive_bytes(scale_to)
    teller = _ProgressPrinter(checked_bool("progress", progress))
    keywords = {
        "over_provisioning": over_provisioning,
        "precondition": precondition,
        "timing": timing,
        "arrival": arrival,
        "queue_depth": queue_depth,
        "requests": requests,
        "content_model": content_model,
        "seed": seed,
    }
    traces = [one if isinstance(one, Trace) else Trace(one) for one in _as_list_of_traces(trace)]
    inputs = itertools.product(traces, _as_list(drive), _as_list(design))
    combinations = list(_combinations(keywords, dict(items_of(settings))))  # An iterator gives its values only once.
    _refuse_overridden_axis(combinations)
    points = [
        _SweepPoint.of(one_trace, one_drive, one_design, values, config)
        for one_trace, one_drive, one_design in inputs
        for values in combinations
    ]
    if not points:
        raise WearwellError(
            "the sweep has no run, because a list is empty (trace, drive, design, a keyword such as seed, or a value "
            "of settings): give each at least one value"
        )
    _refuse_overridden_drives_and_designs(points)
    for note in [*_refuse_or_list_ignored_settings(points), *_refuse_or_list_unused_scales(points, scale_to_bytes)]:
        teller.print_line(f"wearwell: note: {note}")
    if folder_of_results is not None:
        return _run_all(points, chosen, Path(folder_of_results), scale_to_bytes, teller)
    with tempfile.TemporaryDirectory(prefix="wearwell-") as folder:
        return _run_all(points, chosen, Path(folder), scale_to_bytes, teller)


class _RunValues(NamedTuple):
    """Values of the keywords and settings in one run of a sweep."""

    keywords: dict[str, Any]
    settings: dict[str, Any]
    varied_values: dict[str, Any]
    """Keywords and settings whose value differs between runs of the sweep."""


def _combinations(keywords: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[_RunValues]:
    """Yields the values of each run: every combination of the values of keywords and settings."""
    axes = {name: _as_list(value) for name, value in {**keywords, **settings}.items()}
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        yield _RunValues(
            {name: chosen[name] for name in keywords},
            {name: chosen[name] for name in settings},
            {name: value for name, value in chosen.items() if len(axes[name]) > 1},
        )


def _refuse_overridden_axis(combinations: Iterable[_RunValues]) -> None:
    """Raises an error about a keyword with several values that `settings` overrides, because the runs would be equal."""
    for values in combinations:
        for keyword in values.varied_values.keys() & values.keywords.keys():
            for key in values_by_key(settings_of_keywords(**{keyword: values.keywords[keyword]})):
                if key in values.settings:
                    raise WearwellError(
                        f"{keyword} has several values that have no effect, because settings has {key}: leave out one of the two"
                    )


def _refuse_overridden_drives_and_designs(points: Sequence[_SweepPoint]) -> None:
    """Raises an error about two drives, or two designs, that differ only in settings that all runs override: their runs
    would be equal."""
    above_drives = {frozenset(_settings_above_drive(point)) for point in points}
    above_designs = {frozenset(values_by_key(point.sweep_settings)) for point in points}
    drives = {point.run.drive: values_by_key(point.run.drive.settings()) for point in points}
    designs = {point.run.design: values_by_key(point.run.design.settings()) for point in points}
    for (one, settings), (other, other_settings) in itertools.combinations(drives.items(), 2):
        keys = _differing_keys(settings, other_settings)
        if all(keys <= overriding for overriding in above_drives):
            raise WearwellError(_equal_runs_message("drives", one.label, other.label, keys, "the design, a keyword or settings"))
    for (first, settings), (second, other_settings) in itertools.combinations(designs.items(), 2):
        keys = _differing_keys(settings, other_settings)
        if first.name == second.name and all(keys <= overriding for overriding in above_designs):
            raise WearwellError(_equal_runs_message("designs", first.label, second.label, keys, "a keyword or settings"))


def _settings_above_drive(point: _SweepPoint) -> dict[str, str]:
    """Returns the settings of a run that override those of its drive, by key."""
    return values_by_key([*point.run.design.settings(), *point.sweep_settings])


def _differing_keys(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Returns the keys whose values differ; a key that is missing has no value."""
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def _equal_runs_message(what: str, one: str, other: str, keys: set[str], overriding: str) -> str:
    """Returns the message about two drives or designs whose runs would be equal."""
    return (
        f"the {what} {one!r} and {other!r} would have equal runs, because they differ only in {', '.join(sorted(keys))}, which "
        f"{overriding} of the sweep replaces: leave out one of the two, or what replaces it"
    )


@dataclass
class _SweepPoint:
    """One combination of a sweep: the arguments of its run and its outcome."""

    run: Run
    sweep_settings: list[str]
    """Settings from the keywords and `settings` of the sweep, without those of drive and design."""
    varied_values: dict[str, Any]
    """Keywords and settings that distinguish it from other runs, apart from trace, drive and design."""
    key: str | None = None
    outcome: Outcome | None = None

    @classmethod
    def of(
        cls,
        trace: Trace,
        drive: Drive | str | None,
        design: Design | str,
        values: _RunValues,
        config: str | bytes | os.PathLike[str] | None,
    ) -> _SweepPoint:
        sweep_settings = settings_of_keywords(**values.keywords, settings=values.settings)
        return cls(Run.of(trace, drive, design, sweep_settings, config), sweep_settings, values.varied_values)

    def inputs(self) -> dict[str, str]:
        """Returns trace, drive and design of the run as its row names them: without settings that others override."""
        trace, drive, design = self.run.trace, self.run.drive, self.run.design
        of_sweep = values_by_key(self.sweep_settings)
        of_others = _settings_above_drive(self)
        return {"trace": trace.name, "drive": drive._label_under(of_others), "design": design._label_under(of_sweep)}

    def variant(self) -> str:
        """Returns the settings that distinguish the run from others of the sweep, joined by blanks."""
        settings = {name: value for name, value in self.varied_values.items() if "." in name}
        keywords = {name: value for name, value in self.varied_values.items() if name not in settings}
        return " ".join(settings_of_keywords(**keywords, settings=settings)).replace('"', "")

    def row(self, scale_to: int | None) -> dict[str, Any]:
        """Returns the row of the run in tables: what distinguishes the run, its error, its key, and its figures."""
        result = self.result(scale_to)
        figures = {} if result is None else result.to_row()
        error = None if self.outcome is None else self.outcome.error
        mine = {**self.inputs(), **self.varied_values, "error": error, "key": self.key}
        return {**mine, **{name: value for name, value in figures.items() if name not in mine}}

    def result(self, scale_to: int | None) -> Result | None:
        """Returns the result of the run, with years of a drive of `scale_to` bytes if given; None if the run has not ended or failed."""
        text = None if self.outcome is None else self.outcome.record
        if text is None:
            return None
        return Result(text if scale_to is None else _native.scale_record_to_capacity(text, scale_to))


@dataclass(frozen=True, repr=False)
class Sweep:
    """The runs of a sweep, ordered by trace, then drive, then design, then the other arguments."""

    rows: list[dict[str, Any]]
    """One row per run that has ended: what distinguishes it from others, `error`, `key` (under which it is stored), and the
    whole record with dotted names, including the configuration."""
    results: list[Result | None]
    """Result of each row; None if the run failed."""
    ran: int
    """Number of runs that this sweep executed."""
    kept: int
    """Number of combinations that were not executed: their run was in the store or is the run of another combination."""
    partial: bool
    """The sweep was interrupted by ctrl-C; runs that were not finished have no row. Whether the result of a run is
    partial is in the column `partial` of its row."""
    variants: list[str]
    """For each row, the settings that distinguish it from other runs of the sweep, joined by blanks."""

    @property
    def errors(self) -> list[str]:
        """Error messages of the runs that failed."""
        return [row["error"] for row in self.rows if row["error"] is not None]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a data frame with one row per run."""
        return _tables.to_pandas(self.rows)

    def to_polars(self) -> polars.DataFrame:
        """Returns a data frame with one row per run."""
        return _tables.to_polars(self.rows)

    def to_arrow(self) -> Any:
        """Returns a `pyarrow.Table` with one row per run."""
        return _tables.to_arrow(self.rows)

    def report(self, path: str | bytes | os.PathLike[str]) -> None:
        """Writes an HTML page with all records, which needs no network, like `wearwell sweep --report`. An existing file is
        replaced."""
        ended = list(zip(self.rows, self.variants, self.results, strict=True))
        runs = [(variant, result.to_json()) for _, variant, result in ended if result is not None]
        failures = [
            (row["trace"], row["design"], variant, row["error"]) for row, variant, result in ended if result is None
        ]
        write_page(path, _native.html_page_of_sweep(runs, failures))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Result | None]:
        return iter(self.results)

    def __repr__(self) -> str:
        failed = f", {len(self.errors)} failed" if self.errors else ""
        count = len(_partial_results(self.results))
        partial = f", {count} partial" if count else ""
        interrupted = ", interrupted" if self.partial else ""
        return f"<Sweep of {len(self)} runs: {self.ran} made now, {self.kept} known{failed}{partial}{interrupted}>"


def _partial_results(results: Iterable[Result | None]) -> list[Result]:
    """Returns those of the results that cover only a part of their input."""
    return [result for result in results if result is not None and result.partial]


def _run_all(
    points: list[_SweepPoint], executor: Executor, store: Path, scale_to: int | None, teller: _ProgressPrinter
) -> Sweep:
    """Runs all points without a stored run, and returns the sweep; after ctrl-C with the runs that are done."""
    partial, ran = False, 0
    try:
        missing = _assign_stored_runs(points, store)
        teller.begin(len(points), sum(len(same) for same in missing.values()))
        tasks = [_task_of_point(same[0], key, store) for key, same in missing.items()]
        waiting = dict(enumerate(missing.values()))
        with closing(_outcomes(executor, tasks)) as outcomes:
            for yielded in outcomes:
                number, outcome = _checked_outcome(yielded, executor)
                if number not in waiting:
                    raise WearwellError(
                        f"{type(executor).__name__} yielded an outcome of task {number}, "
                        "which is not one of those without an outcome: "
                        f"yield one for each of the {len(tasks)} tasks, with its index in the list"
                    )
                same = waiting.pop(number)
                for point in same:
                    point.outcome = outcome
                ran += 1
                teller.count_ended_runs(len(same))
        if waiting:
            raise WearwellError(
                f"{type(executor).__name__} yielded no outcome of {len(waiting)} of {len(tasks)} tasks: "
                "yield one for each task"
            )
    except KeyboardInterrupt:
        partial = True
    done = [point for point in points if point.outcome is not None]
    teller.end()
    if partial:
        message = f"the sweep was interrupted: {len(done)} of {len(points)} runs are done; repeat it for the others"
        warnings.warn(message, PartialResultWarning, stacklevel=3)
    rows, results = [point.row(scale_to) for point in done], [point.result(scale_to) for point in done]
    refused = sum(point.key is None for point in done)
    if partial_results := _partial_results(results):
        message = (
            f"{len(partial_results)} of {len(done)} results are partial (column `partial`), "
            f"the first: {partial_results[0].partial_reason}"
        )
        warnings.warn(message, PartialResultWarning, stacklevel=3)
    variants = [point.variant() for point in done]
    return Sweep(rows, results, ran, len(done) - ran - refused, partial, variants)


def _checked_outcome(yielded: Any, executor: Executor) -> tuple[int, Outcome]:
    """Returns what an executor has yielded. Raises an error if it is not the outcome of a task."""
    match yielded:
        case (int() as number, Outcome() as outcome) if (outcome.record is None) != (outcome.error is None):
            if outcome.record is not None and not _is_record(outcome.record):
                raise WearwellError(
                    f"{type(executor).__name__} yielded {str(outcome.record)[:40]!r} as the record of task {number}: yield "
                    "Outcome.of(run_task(task)), or an Outcome with an error message"
                )
            return number, outcome
    raise WearwellError(
        f"{type(executor).__name__} yielded {yielded!r}: yield the index of a task and its Outcome, which has either a record or "
        "an error"
    )


def _is_record(text: Any) -> bool:
    """Whether a text has the form of the record of a run."""
    try:
        fields = json.loads(text)
    except (TypeError, ValueError):
        return False
    return isinstance(fields, dict) and {"trace", "design", "config"} <= fields.keys()


def _outcomes(executor: Executor, tasks: Sequence[Task]) -> Generator[tuple[int, Outcome], None, None]:
    """Yields what the executor yields. Closing it closes the iterator of the executor, if that can be closed.

    An iterator that is not closed lives as long as the traceback of the exception that ended the sweep. Its runs go on
    meanwhile, and Python does not end before all runs of the sweep are done.
    """
    outcomes: Any = executor.run(tasks)
    if not isinstance(outcomes, Iterable):
        raise WearwellError(
            f"the method run of {type(executor).__name__} returned {outcomes!r}: yield the index of each task and its Outcome"
        )
    yield from outcomes


def _assign_stored_runs(points: list[_SweepPoint], store: Path) -> dict[str, list[_SweepPoint]]:
    """Assigns stored runs to their points. Returns the points without one by key; points with the same run share a key.

    Raises the error of the first point if all are refused.
    """
    refusals: list[WearwellError] = []
    points_to_run: dict[str, list[_SweepPoint]] = {}
    outcomes_by_key: dict[str, Outcome | None] = {}
    for point in points:
        try:
            point.key = point.run.trace._input.stored_run_key(point.run.configuration(), point.run.design.name)
        except WearwellError as error:
            point.outcome = Outcome(None, str(error))
            refusals.append(error)
            continue
        if point.key not in outcomes_by_key:
            record = _native.stored_run(store, point.key)
            outcomes_by_key[point.key] = None if record is None else Outcome(record, None)
        point.outcome = outcomes_by_key[point.key]
        if point.outcome is None:
            points_to_run.setdefault(point.key, []).append(point)
    if len(refusals) == len(points):
        raise refusals[0]
    return points_to_run


def _task_of_point(point: _SweepPoint, key: str, store: Path) -> Task:
    """Returns the run of a point as a task, that is as plain data."""
    run = point.run
    return {
        "key": key,
        "store": str(store),
        "trace": run.trace._description,
        "design": run.design.name,
        "settings": list(run.settings),
        "config": run.config,
    }


def _refuse_or_list_ignored_settings(points: list[_SweepPoint]) -> list[str]:
    """Raises an error about a setting that no run of the sweep uses. Returns messages about settings that some do not use.

    A setting of a drive or of a design concerns only the runs of this drive or design.
    """
    ignored_messages: dict[tuple[str, str], list[str]] = {}
    run_counts: dict[tuple[str, str], int] = {}
    for point in points:
        owners = _owners_by_setting_key(point)
        for key, owner in owners.items():
            run_counts[owner, key] = run_counts.get((owner, key), 0) + 1
        try:
            configuration = point.run.configuration()
        except WearwellError:
            continue  # The row of this run will have the error.
        for key, sentence in configuration.ignored_settings(point.run.settings_of_effect(), point.run.design.name):
            ignored_messages.setdefault((owners[key], key), []).append(sentence)
    for setting, sentences in ignored_messages.items():
        if len(sentences) == run_counts[setting]:
            raise WearwellError(sentences[0])
    return list(dict.fromkeys(sentence for sentences in ignored_messages.values() for sentence in sentences))


def _refuse_or_list_unused_scales(points: list[_SweepPoint], scale_to: int | None) -> list[str]:
    """Raises an error if lifetimes are to be scaled but no run has one in years, or a drive is larger than `scale_to`.

    Returns messages about runs without a lifetime in years.
    """
    if scale_to is None:
        return []
    sentences: list[str | None] = []
    for point in points:
        try:
            sentences.append(point.run.unused_scale_sentence())
        except WearwellError:
            continue  # The row of this run will have the error.
        refuse_too_small_scale(point.run, scale_to)
    unused = list(dict.fromkeys(sentence for sentence in sentences if sentence is not None))
    if unused and None not in sentences:
        raise WearwellError(unused[0])
    return unused


def _owners_by_setting_key(point: _SweepPoint) -> dict[str, str]:
    """Returns the keys of all settings of a run, each with what it belongs to: a drive, a design or, by "", the sweep."""
    drive, design = point.run.drive, point.run.design
    given = [(f"drive {drive.label}", drive.settings()), (f"design {design.label}", design.settings()), ("", point.sweep_settings)]
    # The last setting of a key is the one that counts.
    return {key: owner for owner, settings in given for key in values_by_key(settings)}


def _as_list(value: Any) -> list[Any]:
    """Returns the values of a list; a single value becomes a list of one, also one that is refused later, such as bytes."""
    is_single = isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable)
    if is_single or getattr(value, "shape", None) == ():  # The latter is an array of NumPy without dimensions.
        return [without_numpy(value)]
    return [without_numpy(one) for one in value]


def _as_list_of_traces(trace: Any) -> list[Any]:
    """Returns the traces of a list; a single trace, also a table, becomes a list of one."""
    return list(trace) if isinstance(trace, (list, tuple, Iterator)) else [trace]


class _ProgressPrinter:
    """Writes a sweep's progress to standard error: a line that is updated on a terminal, else a line every ten seconds."""

    def __init__(self, wanted: bool) -> None:
        # Without standard error (`2>&-`) `sys.stderr` is None.
        self._wanted = wanted and sys.stderr is not None
        self._is_terminal = wanted and sys.stderr is not None and sys.stderr.isatty()
        self._began = self._said = time.monotonic()
        self._done = self._total = self._kept = 0

    def begin(self, points: int, missing: int) -> None:
        """Prints the numbers of runs and of known ones, and starts the clock."""
        self._total, self._kept = missing, points - missing
        self._began = self._said = time.monotonic()
        known = f", {self._kept} of them known" if self._kept else ""
        self.print_line(f"{points} runs{known}")

    def count_ended_runs(self, points: int) -> None:
        """Counts runs that have ended, and prints the progress."""
        self._done += points
        elapsed = time.monotonic() - self._began
        left = duration_text(elapsed * (self._total - self._done) / self._done)
        line = f"{self._kept + self._done} of {self._kept + self._total} runs, {left} left"
        if self._is_terminal:
            self._write(f"\r\x1b[K{line}")
        elif time.monotonic() - self._said >= 10.0:
            self._said = time.monotonic()
            self.print_line(line)

    def end(self) -> None:
        """Ends the line that was updated on a terminal."""
        if self._is_terminal and self._done:
            self._write("\n")

    def print_line(self, text: str) -> None:
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        if self._wanted:
            sys.stderr.write(text)
            sys.stderr.flush()


def duration_text(seconds: float) -> str:
    """Returns a duration in a readable unit, like the command line."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    if seconds < 5400.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:.1f} h"
