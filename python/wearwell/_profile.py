"""What is in a trace or in files, and what each content mechanism could save and does save of it."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from . import _native, _tables
from ._drive import Drive
from ._native import Configuration, Input, WearwellError
from ._records import Profile
from ._result import PartialResultWarning
from ._section import fields_of_record
from ._settings import (
    Value,
    checked_bool,
    checked_integer,
    displayed_path,
    items_of,
    optional_path_text,
    path_text,
    require_callable,
    setting,
    write_page,
)
from ._trace import Trace, refuse_stream

if TYPE_CHECKING:
    import pandas
    import polars

Progress = Callable[[str, int, int], object]

_SAMPLE_MAX = 1_000_000
"""Largest value of `sample`: the smallest sample."""


def profile(
    source: Trace | str | os.PathLike[str] | Any,
    *,
    against: str | bytes | os.PathLike[str] | None = None,
    files: bool = False,
    sample: SupportsIndex = 1,
    run: bool = False,
    drive: Drive | str | None = None,
    settings: Mapping[str, Value] | None = None,
    config: str | bytes | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ProfileResult:
    """Profiles a trace, a directory or a disk image, and returns the same as `wearwell profile`.

    `source` is a `Trace`, a table of requests, or a path. A directory, and a file that is in no trace format, are profiled by
    their bytes; with `files` every file is. `against` is the old version of the file or directory. `sample` N examines one of
    N pages and contents.

    `savings` of the result says what each content mechanism could save of the page writes at most. With `run` each is run by
    itself on `drive` (design page-map, with `settings` and the file `config`), and what it saved there is beside it: one run
    per mechanism and one without any.

    `progress` is called at intervals with the phase (`profile`, then those of the runs), what is done and the total. Other
    Python threads run meanwhile. Ctrl-C gives a partial profile and a `PartialResultWarning`.

    Raises `WearwellError` with the error message of the command line.
    """
    require_callable(progress)
    files, run = checked_bool("files", files), checked_bool("run", run)
    divisor = checked_integer("sample", sample, 1, _SAMPLE_MAX)
    configuration = _configuration_of_runs(run, drive, settings, config)
    if run and against is not None:
        raise WearwellError(
            "run has no effect beside against, because only one of the two versions would be written: leave one of them out"
        )
    if isinstance(source, (str, bytes, os.PathLike)):
        source = path_text("source", source)
        text, is_interrupted, made_of_files = _profile_of_path(source, optional_path_text("against", against), files, divisor, progress)
    elif files or against is not None:
        name = "files" if files else "against"
        raise WearwellError(
            f"{name} has no effect on requests, because it concerns the bytes of files: give the path of a file or directory as "
            f"source, or leave {name} out"
        )
    else:
        source = source if isinstance(source, Trace) else Trace(source)
        text, is_interrupted = _native.profile_requests(source._input, divisor, progress)
        made_of_files = False
    if configuration is not None and not is_interrupted:
        text = _profile_with_runs(source, made_of_files, configuration, text, progress)
    result = ProfileResult(text)
    if result.partial:
        # An interruption of the runs has a note of its own, one of the profile has none.
        of_runs = [note for note in result.notes if note.startswith("interrupted")]
        said = "; ".join(of_runs or (["interrupted"] if is_interrupted else result.notes))
        warnings.warn(f"the profile is partial: {said}", PartialResultWarning, stacklevel=2)
    return result


def _configuration_of_runs(
    run: bool,
    drive: Drive | str | None,
    settings: Mapping[str, Value] | None,
    config: str | bytes | os.PathLike[str] | None,
) -> Configuration | None:
    """Returns the configuration of the runs of mechanisms; None without runs."""
    given = {"drive": drive, "settings": settings, "config": config}
    if not run:
        for name, value in given.items():
            if value is not None:
                raise WearwellError(f"{name} has no effect without run=True: add run=True, or leave {name} out")
        return None
    drive = drive if isinstance(drive, Drive) else Drive(drive)
    all_settings = [*drive.settings(), *(setting(key, value) for key, value in items_of(settings))]
    configuration = Configuration(all_settings, optional_path_text("config", config))
    for sentence in _native.ignored_by_profile(configuration, all_settings):
        raise WearwellError(sentence)
    return configuration


def _profile_of_path(
    path: str,
    against: str | None,
    files: bool,
    sample: int,
    progress: Progress | None,
) -> tuple[str, bool, bool]:
    """Returns the profile of a path, whether it was interrupted, and whether it is one of files."""
    refuse_stream(path)
    if files or against is not None or not _native.is_trace(path):
        return (*_native.profile_files(path, against, sample, progress), True)
    return (*_native.profile_requests(Trace(path)._input, sample, progress), False)


def _profile_with_runs(
    source: Any, made_of_files: bool, configuration: Configuration, text: str, progress: Progress | None
) -> str:
    """Returns the profile with what each mechanism saves when it is run."""
    if not made_of_files:
        trace = source if isinstance(source, Trace) else Trace(source)
        return _native.run_mechanisms(trace._input, configuration, text, progress)
    with tempfile.TemporaryDirectory(prefix="wearwell-") as folder:
        path = os.path.join(folder, "files.wwt")
        _native.write_trace_of_files(source, path)
        return _native.run_mechanisms(
            Input.trace(path, name=displayed_path(source)), configuration, text, progress
        )


class ProfileResult(Profile):
    """What is in an input: an element of `profiles` in the command line's `--json` output. The fields of docs/schema are
    attributes: `result.content.duplicate_share`, `result.savings[0].at_most`."""

    __slots__ = ("_text",)

    _text: str

    def __init__(self, text: str) -> None:
        source = "what ProfileResult.to_json() returns, or an element of `profiles` in the output of wearwell profile --json"
        super().__init__(fields_of_record(text, {"input", "savings"}, "a profile", source))
        object.__setattr__(self, "_text", text)

    def to_json(self) -> str:
        """Returns the profile as JSON, in the form of an element of `profiles` in the command line's `--json` output."""
        return self._text

    def to_rows(self, of: Literal["figures", "savings"] = "figures") -> list[dict[str, Any]]:
        """Returns one row with all figures, or a row for each content mechanism, with dotted names."""
        if of == "figures":
            return [_tables.flattened_row(self._fields)]
        if of == "savings":
            return [{"input": self.input, **_tables.flattened_row(saving)} for saving in self._fields["savings"]]
        raise WearwellError(f"a profile has tables of figures and savings, not of {of!r}: give one of these names")

    def to_pandas(self, of: Literal["figures", "savings"] = "figures") -> pandas.DataFrame:
        """Returns a data frame of one row with all figures, or with a row for each content mechanism."""
        return _tables.to_pandas(self.to_rows(of))

    def to_polars(self, of: Literal["figures", "savings"] = "figures") -> polars.DataFrame:
        """Returns a data frame of one row with all figures, or with a row for each content mechanism."""
        return _tables.to_polars(self.to_rows(of))

    def to_arrow(self, of: Literal["figures", "savings"] = "figures") -> Any:
        """Returns a `pyarrow.Table` of one row with all figures, or with a row for each content mechanism."""
        return _tables.to_arrow(self.to_rows(of))

    def report(self, path: str | bytes | os.PathLike[str]) -> None:
        """Writes an HTML page with the profile, which needs no network, like `wearwell profile --report`. An existing file is
        replaced."""
        write_page(path, _native.html_page_of_profiles([self._text]))

    def __reduce__(self) -> tuple[type[ProfileResult], tuple[str]]:
        return ProfileResult, (self._text,)

    def __str__(self) -> str:
        return _native.table_of_profile(self._text)

    def __repr__(self) -> str:
        partial = ", partial" if self.partial else ""
        known = [f"{one.mechanism} {one.at_most:.1%}" for one in self.savings if one.at_most is not None]
        savings = f": saves at most {', '.join(known)}" if known else ""
        return f"<ProfileResult of {self.input}{savings}{partial}>"

    def _repr_html_(self) -> str:
        return _native.html_tables_of_profile(self._text)
