"""What each content mechanism gains: every subset of the mechanisms is run on one input."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsFloat, SupportsIndex

from . import _native, _tables
from ._design import Design, mechanism_names
from ._drive import Drive
from ._native import Configuration, WearwellError
from ._records import Ablation
from ._result import PartialResultWarning, Result
from ._run import Run, larger_drive_bytes, refuse_scale, settings_of_keywords
from ._section import fields_of_record
from ._settings import (
    JOBS_MAX,
    Value,
    checked_integer,
    optional_path_text,
    refuse_ignored,
    require_callable,
    write_page,
)
from ._threads import Progress, run_on_threads
from ._trace import Trace

if TYPE_CHECKING:
    import pandas
    import polars

_Table = Literal["gains", "overlaps", "runs"]


def ablate(
    trace: Trace | str | os.PathLike[str] | Any,
    drive: Drive | str | None = None,
    design: Design | str = "page-map",
    *,
    parts: str | Iterable[str] = ("recycle", "dedup", "delta", "compress"),
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
    jobs: SupportsIndex = 1,
    store: str | bytes | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> AblationResult:
    """Runs every subset of the content mechanisms `parts` on a trace, and returns what each mechanism gains, the same as
    `wearwell ablate`: 2^N runs for N mechanisms.

    Each gain is measured alone on the design without any of them, last (added to all others), and as the Shapley value, the
    mean over all orders (docs/ablate.md). `design` is the design whose content mechanisms are replaced; it must not choose
    `content` itself. The other keywords are those of `replay`. `jobs` runs are made at a time. A run that ends is kept in the
    folder `store`, like that of `wearwell ablate --resume`, and a run that is in it is not repeated.

    `progress` is called at intervals with the subset and its phase (`"recycle+delta: replay"`), the requests done and the
    requests in total. Other Python threads run meanwhile. Ctrl-C ends the runs in hand: the result is partial, with a
    `PartialResultWarning`.

    Raises `WearwellError` with the error message of the command line.
    """
    names = mechanism_names("parts", parts)
    subsets = _native.subsets_of_mechanisms(names)
    require_callable(progress)
    threads = checked_integer("jobs", jobs, 1, JOBS_MAX)
    folder = optional_path_text("store", store)
    scale_to_bytes = larger_drive_bytes(scale_to)
    keywords = settings_of_keywords(
        over_provisioning=over_provisioning,
        precondition=precondition,
        timing=timing,
        arrival=arrival,
        queue_depth=queue_depth,
        requests=requests,
        content_model=content_model,
        seed=seed,
        settings=settings,
    )
    run = Run.of(trace, drive, design, keywords, config)
    if run.configuration().has_chosen_content():
        raise WearwellError(
            "parts.content is set, by the design or otherwise, but ablate runs each subset of the content mechanisms that parts "
            "names: leave it out"
        )
    configurations = [
        Configuration([*run.settings, of_subset], run.config).keeping_persistence_of(run.design.name)
        for _, of_subset in subsets
    ]
    refuse_ignored(configurations[-1], run.settings_of_effect(), run.design.name)
    refuse_scale(run, scale_to_bytes)
    outcomes = _outcomes_of_runs(
        run, {name: one for (name, _), one in zip(subsets, configurations, strict=True)}, threads, folder, progress
    )
    if all(one.refusal is not None for one in outcomes):
        raise WearwellError(outcomes[0].refusal)
    made = [
        (configuration, _scaled(one.record, scale_to_bytes), one.refusal)
        for configuration, one in zip(configurations, outcomes, strict=True)
    ]
    input_name = run.trace._input.name_in_records(run.configuration())
    result = AblationResult(_native.ablation_of_runs(input_name, run.design.name, names, made))
    if result.partial:
        ended = sum(one.refused is not None or (one.run is not None and not one.run.partial) for one in result.subsets)
        message = f"the result is partial: {ended} of {len(subsets)} subsets have been run to the end of the input"
        warnings.warn(message, PartialResultWarning, stacklevel=2)
    return result


class _SubsetOutcome(NamedTuple):
    """Outcome of the run of a subset: its record as JSON, or the message of a refusal; neither if it was not run."""

    record: str | None
    refusal: str | None


def _outcomes_of_runs(
    run: Run, configurations: Mapping[str, Configuration], jobs: int, store: str | None, progress: Progress | None
) -> list[_SubsetOutcome]:
    """Runs all subsets that are neither refused nor stored, those with equal configurations once. Returns their outcomes."""
    native_input, design = run.trace._input, run.design.name
    refusals = {name: native_input.refusal_of_parts(one, design) for name, one in configurations.items()}
    keys = {
        name: native_input.stored_run_key(one, design) for name, one in configurations.items() if refusals[name] is None
    }
    names = {key: name for name, key in reversed(keys.items())}  # Of subsets with the same run, the first makes it.
    records = {} if store is None else {key: _native.stored_run(store, key) for key in names}
    outcomes = {key: _SubsetOutcome(record, None) for key, record in records.items() if record is not None}
    missing = [key for key in dict.fromkeys(keys.values()) if key not in outcomes]

    def run_subset(number: int, report_progress: Progress) -> _SubsetOutcome:
        key = missing[number]
        name = names[key]

        def report_subset_progress(phase: str, done: int, total: int) -> None:
            report_progress(f"{name}: {phase}", done, total)

        try:
            record = native_input.replay(configurations[name], design, report_subset_progress)
        except WearwellError as error:
            return _SubsetOutcome(None, str(error))
        if store is not None:
            _native.store_run(store, key, record)
        return _SubsetOutcome(record, None)

    made = run_on_threads(run_subset, len(missing), jobs, progress, _is_interrupted) if missing else []
    outcomes.update(zip(missing, made, strict=False))  # After ctrl-C the last runs are missing.
    not_run = _SubsetOutcome(None, None)
    return [
        outcomes.get(keys[name], not_run) if refusal is None else _SubsetOutcome(None, refusal)
        for name, refusal in refusals.items()
    ]


def _is_interrupted(outcome: _SubsetOutcome) -> bool:
    """Returns whether ctrl-C ended the run of a subset."""
    return outcome.record is not None and json.loads(outcome.record).get("partial_reason") == "interrupted"


def _scaled(record: str | None, scale_to: int | None) -> str | None:
    """Returns a record with the years of a drive of `scale_to` bytes, if given."""
    return record if record is None or scale_to is None else _native.scale_record_to_capacity(record, scale_to)


class AblationResult(Ablation):
    """What each content mechanism gains: an element of `ablations` in the command line's `--json` output. The fields of
    docs/schema are attributes: `result.figures[0].mechanisms[0].shapley.relative`."""

    __slots__ = ("_text",)

    _text: str

    def __init__(self, text: str) -> None:
        source = "what AblationResult.to_json() returns, or an element of `ablations` in the output of wearwell ablate --json"
        super().__init__(fields_of_record(text, {"subsets", "figures"}, "an ablation", source))
        object.__setattr__(self, "_text", text)

    @property
    def results(self) -> dict[str, Result]:
        """Results of the runs, by the subset of the mechanisms: `none`, `recycle`, `recycle+dedup` and so on. Subsets that were
        refused or not run are missing."""
        return {
            _name_of(subset): Result(json.dumps(subset["run"])) for subset in self._fields["subsets"] if subset["run"] is not None
        }

    def to_json(self) -> str:
        """Returns the ablation as JSON, in the form of an element of `ablations` in the command line's `--json` output."""
        return self._text

    def to_rows(self, of: _Table = "gains") -> list[dict[str, Any]]:
        """Returns rows with dotted names: one for each figure and mechanism (`gains`), for each figure and pair of mechanisms
        (`overlaps`), or for each subset with its run (`runs`). A change that is not known is None."""
        about = {"input": self.input, "design": self.design}
        if of == "gains":
            return [
                {**about, **_row_of_figure(figure), "mechanism": gain["mechanism"], **_changes(gain, "alone", "last", "shapley")}
                for figure in self._fields["figures"]
                for gain in figure["mechanisms"]
            ]
        if of == "overlaps":
            return [
                {
                    **about,
                    **_row_of_figure(figure),
                    "first": pair["first"],
                    "second": pair["second"],
                    **_changes(pair, "overlap"),
                }
                for figure in self._fields["figures"]
                for pair in figure["overlaps"]
            ]
        if of == "runs":
            results = self.results
            return [
                {"subset": name, "refused": subset["refused"], **(results[name].to_row() if name in results else about)}
                for subset in self._fields["subsets"]
                if (name := _name_of(subset)) in results or subset["refused"] is not None
            ]
        raise WearwellError(f"an ablation has tables of gains, overlaps and runs, not of {of!r}: give one of these names")

    def to_pandas(self, of: _Table = "gains") -> pandas.DataFrame:
        """Returns a data frame with the rows of `to_rows`."""
        return _tables.to_pandas(self.to_rows(of))

    def to_polars(self, of: _Table = "gains") -> polars.DataFrame:
        """Returns a data frame with the rows of `to_rows`."""
        return _tables.to_polars(self.to_rows(of))

    def to_arrow(self, of: _Table = "gains") -> Any:
        """Returns a `pyarrow.Table` with the rows of `to_rows`."""
        return _tables.to_arrow(self.to_rows(of))

    def report(self, path: str | bytes | os.PathLike[str]) -> None:
        """Writes an HTML page, which needs no network, like `wearwell ablate --report`. An existing file is replaced."""
        write_page(path, _native.html_page_of_ablation(self._text))

    def __reduce__(self) -> tuple[type[AblationResult], tuple[str]]:
        return AblationResult, (self._text,)

    def __str__(self) -> str:
        return _native.table_of_ablation(self._text)

    def __repr__(self) -> str:
        partial = ", partial" if self.partial else ""
        runs = sum(subset["run"] is not None for subset in self._fields["subsets"])
        return f"<AblationResult of {'+'.join(self.mechanisms)} on {self.design} and {self.input}: {runs} runs{partial}>"

    def _repr_html_(self) -> str:
        return _native.html_tables_of_ablation(self._text)


def _name_of(subset: Mapping[str, Any]) -> str:
    """Returns the name of a subset: its mechanisms with plus signs between them, or `none`."""
    return "+".join(subset["mechanisms"]) or "none"


def _row_of_figure(figure: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns of a figure: its key, whether more of it is better, and its value without any mechanism."""
    return {name: figure[name] for name in ("figure", "more_is_better", "baseline")}


def _changes(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns the columns of the changes with these names."""
    parts = ("absolute", "relative", "is_from_unsteady_run")
    return {f"{name}.{part}": (fields[name] or {}).get(part) for name in names for part in parts}
