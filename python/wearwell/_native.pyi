"""The native module (crates/python)."""

from collections.abc import Callable
from os import PathLike

from ._policy import NativeChoice

__version__: str

class WearwellError(ValueError):
    """What the user can mend: the message says what is wrong, where, and what to do. It is the sentence of the command line."""

class PowerLoss(RuntimeError):
    """Power was lost: in the middle of this request, or before it. `Device.recover()` brings the drive back."""

class Configuration:
    """A configuration of a run: a file, then settings, later ones winning."""

    def __new__(cls, settings: list[str], file: str | PathLike[str] | None = None) -> Configuration: ...
    def to_toml(self) -> str:
        """As a file; defaults included where they have a value."""

    def parts(self, design: str) -> str:
        """All parts that a design has, as settings joined by blanks."""

    def ignored(self, settings: list[str], design: str) -> list[tuple[str, str]]:
        """Keys of those settings that a run of the design would ignore, each with the sentence about it."""

class Device:
    """A drive, driven request by request. Offsets and lengths are bytes."""

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
    def write(self, offset: int, data: bytes) -> None: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def trim(self, offset: int, length: int) -> None: ...
    def remap(self, target: int, source: int, length: int, relocate: bool) -> None: ...
    def flush(self) -> None: ...
    def power_cut(self, after: int | None, outcome: str) -> None:
        """Cuts power, at once or at an operation from now."""

    def recover(self, cut_after: int | None, outcome: str) -> str:
        """Brings power back and recovers; a report as JSON."""

    def check(self) -> None:
        """Checks every invariant of the engine; a broken one is an `AssertionError`."""

    def counters(self) -> str:
        """Counters since the drive was new, as JSON."""

    def ram_bytes(self) -> list[tuple[str, int]]:
        """Bytes of RAM that a controller holds for the drive, by structure."""

    def operations(self) -> list[tuple[str, str, int, int]]:
        """What the last request did to the flash, in order: kind, cause, plane, how many."""

    def view(self) -> list[list[tuple[str, bytes, str, list[str]]]]:
        """Columns of all flash pages, all blocks, and all logical pages: name, values, their type, the names of codes."""

class Input:
    """Where requests come from."""

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
        """A trace file. It is opened, to find the format."""

    @staticmethod
    def workload(spec: str) -> Input:
        """A generator or host model."""

    @property
    def format(self) -> str | None:
        """Format of a trace."""

    def key(self, configuration: Configuration, design: str) -> str:
        """By what a finished run is found again: a digest of code, input, design and every effective setting."""

    def replay(
        self,
        configuration: Configuration,
        design: str,
        on_progress: Callable[[str, int, int], object] | None = None,
        victim_policy: tuple[str, NativeChoice] | None = None,
    ) -> str:
        """Runs a design to its end, or to ctrl-C; the record as JSON."""

def devices() -> list[tuple[str, str]]:
    """Presets of drives, with the source of their figures."""

def designs() -> list[tuple[str, str, str, str]]:
    """Designs: name, source, what is modelled, what is not."""

def unknown_name(what: str, name: str, known: list[str]) -> WearwellError:
    """The error about a name that nothing has, with the nearest one."""

def kept(folder: str | PathLike[str], key: str) -> str | None:
    """The finished run of this key, as JSON."""

def keep(folder: str | PathLike[str], key: str, record: str) -> None:
    """Keeps a record if it went to its end. A reader sees the whole file or none."""

def table(records: list[str]) -> str:
    """The table of the command line, with ratios to the first run."""

def markdown(records: list[str]) -> str:
    """The same as markdown."""

def page_of_runs(records: list[str]) -> str:
    """The page of runs, as HTML."""

def page_of_sweep(runs: list[tuple[str, str]], failures: list[tuple[str, str, str, str]]) -> str:
    """The page of a sweep, as HTML: settings that tell a run from others with its record; trace, design, settings and error of
    the runs that failed."""

def scaled(record: str, bytes: int) -> str:
    """The record with the years of a drive of so many exported bytes."""

def write_trace(
    path: str | PathLike[str],
    time_us: list[float],
    op: list[str],
    offset_bytes: list[int],
    length_bytes: list[int],
) -> int:
    """Writes requests to a file in the native format; returns how many."""
