"""Types of the native module, which is written in Rust (crates/python)."""

from collections.abc import Callable
from os import PathLike
from typing import SupportsIndex

from ._policy import NativeChoice

__version__: str

class WearwellError(ValueError):
    """An error that the user can correct: the message says what is wrong, where, and what to do."""

class PowerLoss(RuntimeError):
    """Power was lost, during this request or before it. `Device.recover()` restores power and recovers the drive."""

class Configuration:
    """The configuration of a run: a file and settings; of two values for a key the later one counts."""

    def __new__(cls, settings: list[str], file: str | PathLike[str] | None = None) -> Configuration: ...
    def to_toml(self) -> str:
        """Returns the configuration as the text of a TOML file, with the default of every key that has one."""

    def seed(self) -> int:
        """Returns the seed of a run."""

    def parts(self, design: str) -> str:
        """Returns all parts of the design (map, validity, content mechanisms, ...) as settings, joined by blanks."""

    def keeping_persistence_of(self, design: str) -> Configuration:
        """Returns this configuration with the persistence that the design has without `parts.content`, if the parts can be
        combined with it."""

    def has_chosen_content(self) -> bool:
        """Whether `parts.content` is set."""

    def ignored_settings(self, settings: list[str], design: str) -> list[tuple[str, str]]:
        """Returns the keys of those settings that a run of the design would ignore, each with a message about it."""

class Device:
    """A simulated drive that serves requests from Python. Addresses and lengths are in logical pages."""

    def __new__(
        cls,
        configuration: Configuration,
        design: str,
        footprint_pages: int,
        victim_policy: tuple[str, NativeChoice] | None = None,
    ) -> Device: ...
    @property
    def page_bytes(self) -> int: ...
    @property
    def block_pages(self) -> int: ...
    @property
    def logical_pages(self) -> int: ...
    @property
    def physical_pages(self) -> int: ...
    @property
    def is_powerless(self) -> bool: ...
    def write(self, lpn: SupportsIndex, data: bytes) -> None: ...
    def read(self, lpn: SupportsIndex, pages: SupportsIndex) -> bytes: ...
    def trim(self, lpn: SupportsIndex, pages: SupportsIndex) -> None: ...
    def remap(
        self, target: SupportsIndex, source: SupportsIndex, pages: SupportsIndex, relocate: bool
    ) -> None: ...
    def flush(self) -> None: ...
    def power_cut(self, after: SupportsIndex | None, outcome: str) -> None:
        """Cuts power now, or at the flash operation with number `after` from now on."""

    def recover(self, cut_after: SupportsIndex | None, outcome: str) -> str:
        """Restores power and runs the recovery. Returns a report of its costs as JSON."""

    def check(self) -> None:
        """Checks every invariant of the engine; raises `AssertionError` if one does not hold."""

    def counters(self) -> str:
        """Returns the counters since the drive was new, as JSON."""

    def ram_bytes(self) -> list[tuple[str, int]]:
        """Returns how many bytes of RAM a controller needs for the drive, by data structure."""

    def operations(self) -> list[tuple[str, str, int, int]]:
        """Returns the flash operations of the last request, in order: kind, cause, plane, count."""

    def view(self) -> list[list[tuple[str, bytes, str, list[str]]]]:
        """Returns the columns of all flash pages, all blocks and all logical pages: name, values, type, names of codes."""

class Input:
    """The source of a run's requests: a trace file or a generated workload."""

    @staticmethod
    def trace(
        path: str | PathLike[str],
        *,
        format: str | None = None,
        action: str | None = None,
        time_unit: str | None = None,
        assume: str | None = None,
        skip_bad_lines: bool = False,
        bytes: bool = False,
        without_sidecars: bool = False,
        columns: str | None = None,
        name: str | None = None,
    ) -> Input:
        """Creates the input from a trace file, which is opened to detect its format."""

    @staticmethod
    def workload(spec: str) -> Input:
        """Creates the input from the specification of a generator or of a host model."""

    @property
    def format(self) -> str | None:
        """Format of the trace; None for a generated input."""

    def stored_run_key(self, configuration: Configuration, design: str) -> str:
        """Returns the key under which a finished run is stored: a digest of code, input, design and every effective setting."""

    def name_in_records(self, configuration: Configuration) -> str:
        """Returns the name of the input in the record of a run with this configuration."""

    def refusal_of_parts(self, configuration: Configuration, design: str) -> str | None:
        """Returns why the parts of the design cannot be combined, without advice; None if they can."""

    def unused_scale_sentence(self, configuration: Configuration, design: str) -> str | None:
        """Returns why a size to which lifetimes are scaled would have no effect on a run; None if it would have one."""

    def too_small_scale_sentence(
        self, configuration: Configuration, design: str, exported_bytes: int
    ) -> str | None:
        """Returns why a run cannot be scaled to a drive that exports so many bytes; None if it can."""

    def replay(
        self,
        configuration: Configuration,
        design: str,
        on_progress: Callable[[str, int, int], object] | None = None,
        victim_policy: tuple[str, NativeChoice] | None = None,
    ) -> str:
        """Runs a design on the input to its end, or until ctrl-C. Returns the record of the run as JSON."""

def devices() -> list[tuple[str, str]]:
    """Returns the presets of drives: name, and source of the figures."""

def designs() -> list[tuple[str, str, str, str]]:
    """Returns the designs: name, source, what is modelled, what is not modelled."""

def causes() -> list[str]:
    """Returns the names of all causes of flash operations, as in `programs_by_cause` of a record."""

def unknown_name(what: str, name: str, known: list[str]) -> WearwellError:
    """Returns the error about an unknown name; the message suggests the most similar known name."""

def stored_run(folder: str | PathLike[str], key: str) -> str | None:
    """Returns the finished run with this key as JSON; None if there is none."""

def store_run(folder: str | PathLike[str], key: str, record: str) -> None:
    """Stores the record of a run, if the run is complete. A concurrent reader sees the whole file or none."""

def table_of_runs(records: list[str]) -> str:
    """Returns the command line's table of runs, with ratios to the first run."""

def markdown_table_of_runs(records: list[str]) -> str:
    """Returns the table of runs as markdown, with ratios to the first run."""

def html_page_of_runs(records: list[str]) -> str:
    """Returns the HTML page of several runs."""

def html_page_of_sweep(runs: list[tuple[str, str]], failures: list[tuple[str, str, str, str]]) -> str:
    """Returns the HTML page of a sweep. `runs` has, for each finished run, the settings that distinguish it and its record;
    `failures` has trace, design, settings and error of each failed run."""

def scale_record_to_capacity(record: str, bytes: int) -> str:
    """Scales the record of a run to a drive that exports `bytes` bytes: adds its lifetime in years. Returns it as JSON."""

class RequestTableWriter:
    """A trace file in the native format to which the rows of a table of requests are written in batches."""

    def __new__(cls, path: str | PathLike[str]) -> RequestTableWriter: ...
    def write_rows(
        self,
        time_us: list[float],
        op: list[str],
        offset_bytes: list[int],
        length_bytes: list[int],
        device: list[int],
        fingerprints: list[str],
        source_bytes: list[int | None],
    ) -> None:
        """Writes the next rows of the table. Columns that the table lacks are empty."""

    def finish(self) -> int:
        """Completes the file after the last row, and returns its number of requests."""

def leveling_settings(
    input: Input, configuration: Configuration, design: str, leveling: str, settings: list[str]
) -> list[str]:
    """Returns the settings of a kind of wear leveling on the drive of a configuration. Refuses one of the user's `settings`
    that the wear leveling replaces."""

def run_life(
    input: Input,
    configuration: Configuration,
    design: str,
    leveling: str,
    endurance: tuple[float, float, float, float],
    is_filled: bool,
    scale_to: int | None = None,
    on_progress: Callable[[str, int, int], object] | None = None,
) -> str:
    """Wears out one simulated drive, or until ctrl-C. Returns a record with this life as JSON. `endurance` has spread, early
    share, program share and spare minimum."""

def join_lives(records: list[str]) -> str:
    """Joins records of one life each, of drives that differ in their seed only, to one record with estimates and curves."""

def table_of_lives(records: list[str]) -> str:
    """Returns the command line's table of lives, one column per record."""

def html_page_of_lives(records: list[str]) -> str:
    """Returns the HTML page of drives' lives."""

def html_tables_of_lives(records: list[str]) -> str:
    """Returns the tables and notes of the HTML page of drives' lives, without its charts."""

def profile_requests(
    input: Input, sample: int = 1, on_progress: Callable[[str, int, int], object] | None = None
) -> tuple[str, bool]:
    """Profiles the requests of an input, one of `sample` pages and contents. Returns the profile as JSON, and whether ctrl-C
    ended it."""

def profile_files(
    path: str | PathLike[str],
    against: str | PathLike[str] | None = None,
    sample: int = 1,
    on_progress: Callable[[str, int, int], object] | None = None,
) -> tuple[str, bool]:
    """Profiles the pages of a file or of all files of a directory. Returns the profile as JSON, and whether ctrl-C ended it."""

def is_trace(path: str | PathLike[str]) -> bool:
    """Whether a path is profiled as a trace; a directory, and a file of unknown format, are profiled by their bytes."""

def write_trace_of_files(path: str | PathLike[str], target: str | PathLike[str]) -> int:
    """Writes a trace that writes each page of a file, or of all files of a directory, once; returns the number of pages."""

def run_mechanisms(
    input: Input,
    configuration: Configuration,
    profile: str,
    on_progress: Callable[[str, int, int], object] | None = None,
) -> str:
    """Runs each content mechanism by itself on an input and adds what it saves to the profile, both as JSON."""

def ignored_by_profile(configuration: Configuration, settings: list[str]) -> list[str]:
    """Returns messages about those settings that none of the runs of a profile would use."""

def table_of_profile(profile: str) -> str:
    """Returns the command line's text of a profile."""

def html_page_of_profiles(profiles: list[str]) -> str:
    """Returns the HTML page of profiles."""

def html_tables_of_profile(profile: str) -> str:
    """Returns the tables and notes of the HTML page of a profile, without its charts."""

def subsets_of_mechanisms(parts: list[str]) -> list[tuple[str, str]]:
    """Returns every subset of the mechanisms: its name, and the setting that gives a design these mechanisms."""

def ablation_of_runs(
    input_name: str, design: str, parts: list[str], runs: list[tuple[Configuration, str | None, str | None]]
) -> str:
    """Computes an ablation from the outcomes of all subsets: configuration, record and message of a refusal. Returns JSON."""

def table_of_ablation(ablation: str) -> str:
    """Returns an ablation as the text that `wearwell ablate` prints."""

def html_page_of_ablation(ablation: str) -> str:
    """Returns the HTML page of an ablation."""

def html_tables_of_ablation(ablation: str) -> str:
    """Returns the tables and notes of the HTML page of an ablation, without its charts."""
