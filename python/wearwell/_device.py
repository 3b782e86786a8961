"""A simulated drive to which requests are sent one by one, and views of its flash."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, SupportsIndex, TypeAlias

from . import _native
from ._columns import Columns
from ._design import Design
from ._drive import Drive
from ._native import Configuration, WearwellError
from ._policy import VictimPolicy, native_choice, refuse_two_policies
from ._settings import (
    Value,
    checked_bool,
    checked_integer,
    checked_text,
    items_of,
    optional_path_text,
    refuse_ignored,
    refuse_surrogates,
    setting,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

CutOutcome: TypeAlias = Literal["before", "torn", "after"]
"""Outcome of a power cut for the operation that it interrupts: not done, a torn page or block, or fully done."""


class _ArrayOfNumpy(Protocol):
    """An array of NumPy. Only from Python 3.12 on its type says that it is a `Buffer`."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


_LETTERS = {"free": ".", "valid": "#", "invalid": "-", "recyclable": "r", "torn": "x"}


_FOOTPRINT_PAGES_MAX = (1 << 32) - 1
"""Largest footprint of a drive whose size fits it: numbers of pages have 32 bits."""


class Operation(NamedTuple):
    """One flash operation that a request caused."""

    kind: str
    """Kind of operation: read, program, erase, copy (a read and a program) or nvram-scan."""
    cause: str
    """Cause of the operation, with the names in `programs_by_cause` of a result."""
    plane: int
    """Number of the plane."""
    times: int
    """Number of copies, or of NVRAM lines; 1 for other operations."""


class Device:
    """A simulated drive, empty at first, that serves requests of its caller: for teaching, notebooks, and tests of a mechanism.

    It is the drive that `replay` uses, but it stores the bytes of its pages, has no clock, and its power can be cut.
    Addresses are logical pages of `page_bytes` bytes. A drive whose size is to fit its input is made for a footprint of
    `footprint_pages` (4 KiB each).

    `victim_policy` chooses GC victims instead of `gc.policy`. An exception of the policy is raised by the request that
    triggered GC. The policy cannot send requests to the drive that asks it, or look at its state.

    Several threads can use a drive: a request waits until that of another thread has ended.

    Raises `WearwellError` for errors of the caller (an address beyond the end, a full drive) and `PowerLoss` while power
    is lost.
    """

    def __init__(
        self,
        design: Design | str = "page-map",
        drive: Drive | str | None = None,
        *,
        footprint_pages: SupportsIndex = 1024,
        settings: Mapping[str, Value] | None = None,
        config: str | bytes | os.PathLike[str] | None = None,
        victim_policy: VictimPolicy | None = None,
    ) -> None:
        self.design = design if isinstance(design, Design) else Design(design)
        """Design of the drive."""
        self.drive = drive if isinstance(drive, Drive) else Drive(drive)
        """Preset and figures of the drive."""
        own = [setting(key, value) for key, value in items_of(settings)]
        chosen = [*self.drive.settings(), *self.design.settings(), *own]
        configuration = Configuration(chosen, optional_path_text("config", config))
        of_effect = [*self.drive.settings_of_effect(), *self.design.settings(), *own]
        refuse_ignored(configuration, of_effect, self.design.name)
        refuse_two_policies(victim_policy, chosen)
        choice = native_choice(victim_policy)
        footprint = checked_integer("footprint_pages", footprint_pages, 1, _FOOTPRINT_PAGES_MAX)
        self._native = _native.Device(configuration, self.design.name, footprint, choice)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, the unit of addresses."""
        return self._native.page_bytes

    @property
    def block_pages(self) -> int:
        """Number of pages of a block."""
        return self._native.block_pages

    @property
    def logical_pages(self) -> int:
        """Number of pages that are exported to the host."""
        return self._native.logical_pages

    @property
    def physical_pages(self) -> int:
        """Number of pages of the flash."""
        return self._native.physical_pages

    @property
    def is_powerless(self) -> bool:
        """Whether power is lost. `recover()` restores it."""
        return self._native.is_powerless

    def write(self, lpn: SupportsIndex, data: Buffer | _ArrayOfNumpy | str) -> None:
        """Writes bytes (whole 512-byte sectors) from the start of a logical page on. A text is repeated to fill one page.

        Any object whose bytes Python can see is written as its bytes, such as an array of NumPy.
        """
        if not isinstance(data, bytes):
            data = self.page_of(data) if isinstance(data, str) else _bytes_of(data)
        self._native.write(lpn, data)

    def page_of(self, text: str) -> bytes:
        """Returns the bytes of a page that is filled with repetitions of a text."""
        if not isinstance(text, str):
            raise WearwellError(f"the text of a page is {text!r}: give a text")
        once = refuse_surrogates("the text of a page", text).encode() or bytes(1)
        return (once * (self.page_bytes // len(once) + 1))[: self.page_bytes]

    def read(self, lpn: SupportsIndex, pages: SupportsIndex = 1) -> bytes:
        """Returns the bytes of logical pages; those never written are zeros."""
        return self._native.read(lpn, pages)

    def trim(self, lpn: SupportsIndex, pages: SupportsIndex = 1) -> None:
        """Deallocates logical pages."""
        self._native.trim(lpn, pages)

    def remap(
        self, target: SupportsIndex, source: SupportsIndex, pages: SupportsIndex = 1, *, relocate: bool = False
    ) -> None:
        """Gives `target` the content of `source`, by a map update if the design supports it. `relocate` unmaps `source`."""
        self._native.remap(target, source, pages, checked_bool("relocate", relocate))

    def flush(self) -> None:
        """Makes all writes durable."""
        self._native.flush()

    def power_cut(self, after: SupportsIndex | None = None, outcome: CutOutcome = "torn") -> None:
        """Cuts power now, or at a later program, erase or NVRAM store: `after` counts them from now on, 0 is the next one."""
        self._native.power_cut(after, checked_text("outcome", outcome))

    def recover(self, cut_after: SupportsIndex | None = None, outcome: CutOutcome = "torn") -> dict[str, Any]:
        """Restores power and runs the recovery. Returns what it cost. `cut_after` cuts power again at that operation of it."""
        report: dict[str, Any] = json.loads(self._native.recover(cut_after, checked_text("outcome", outcome)))
        return report

    def check(self) -> None:
        """Checks every invariant of the engine, in O(pages). Raises `AssertionError` that names the violated invariant."""
        self._native.check()

    @property
    def counters(self) -> dict[str, Any]:
        """Counters of requests and flash operations since the drive was new."""
        counters: dict[str, Any] = json.loads(self._native.counters())
        return counters

    @property
    def operations(self) -> list[Operation]:
        """Flash operations of the last request, in order."""
        return [Operation(*operation) for operation in self._native.operations()]

    @property
    def ram_bytes(self) -> dict[str, int]:
        """Bytes of RAM that a controller needs for the drive, by data structure."""
        return dict(self._native.ram_bytes())

    def view(self) -> View:
        """Returns what is on the flash now, in O(pages), without changing any counter."""
        return View(*(Columns(columns) for columns in self._native.view()))

    def picture(self) -> str:
        """Returns a text with one line per block in use. Pages: `#` valid, `-` invalid, `r` recyclable, `x` torn, `.` free."""
        return "\n".join(self._picture_lines())

    def _picture_lines(self) -> Iterator[str]:
        """Yields the lines of `picture()`, one per block in use."""
        pages, blocks, _ = self.view()
        letters = [_LETTERS[state] for state in pages.texts("state")]
        states, kinds, streams = (blocks.texts(name) for name in ("state", "kind", "stream"))
        for block, (state, kind, stream) in enumerate(zip(states, kinds, streams, strict=True)):
            if state == "free":
                continue
            first = block * self.block_pages
            filled_by = f"{kind} ({stream})" if state == "open" else kind
            yield (
                f"block {block:4} {''.join(letters[first : first + self.block_pages])} "
                f"{state} {filled_by}, {blocks['erases'][block]} erases"
            )

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Device cannot be copied or pickled, because the state of its flash is in the engine: make another one, and repeat "
            "the requests"
        )

    def __repr__(self) -> str:
        power = ", no power" if self.is_powerless else ""
        return (
            f"<Device {self.design.label} on {self.drive.label}: {self.logical_pages} logical pages of "
            f"{self.page_bytes} bytes, {self.physical_pages} of flash{power}>"
        )


def _bytes_of(data: Any) -> bytes:
    """Returns the bytes of an object that has some, such as a `bytearray`, a `memoryview` or an array of NumPy."""
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise WearwellError(
            f"data is of type {type(data).__name__}: give bytes (whole 512-byte sectors), or a text that is repeated to fill a page"
        ) from None


class View(NamedTuple):
    """What is on the flash: one table of its pages, one of its blocks, one of the logical pages."""

    pages: Columns
    """Flash pages, one row per PPN. Columns: block, state (free, valid, invalid, recyclable, torn), kind, owner (the number in
    the spare area, for a data page the LPN; -1 for none), logical_pages (number of logical pages whose content it holds)."""
    blocks: Columns
    """Blocks, one row per block number. Columns: state, kind, stream (which fills the block if it is open), valid_pages,
    programmed_pages, erases."""
    logical: Columns
    """Logical pages, one row per LPN. Columns: ppn (-1 for none), form (hole, stored, shared, delta, packed, waiting)."""
