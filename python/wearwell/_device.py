"""A drive that is driven request by request, and what is on its flash."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from . import _native
from ._columns import Columns
from ._design import Design
from ._drive import Drive
from ._native import Configuration
from ._policy import VictimPolicy, native_choice, refuse_two_policies
from ._settings import Value, refuse_ignored, setting

CutOutcome: TypeAlias = Literal["before", "torn", "after"]
"""What a power cut leaves of the operation that it interrupts: nothing, a damaged page or block, or all of it."""

_LETTERS = {"free": ".", "valid": "#", "invalid": "-", "recyclable": "r", "torn": "x"}


class Operation(NamedTuple):
    """What a request did to the flash."""

    kind: str
    """read, program, erase, copy (a read and a program), nvram-scan."""
    cause: str
    """As in `programs_by_cause` of a result."""
    plane: int
    times: int
    """How many copies, or lines of NVRAM; 1 of anything else."""


class Device:
    """A new drive, empty, whose host is whoever holds it: for teaching, notebooks, and tests of a mechanism.

    It is the drive of `replay`, but it keeps the bytes of its pages, has no clock, and its power can be cut. Addresses are logical
    pages of `page_bytes`. A drive that is sized to its input takes `footprint_pages` (4 KiB) for its size.

    `victim_policy` chooses the blocks to collect in place of `gc.policy`; what it raises, the request raises that needed room.

    Raises `WearwellError` for what can be mended (an address beyond the end, a full drive), `PowerLoss` without power.
    """

    def __init__(
        self,
        design: Design | str = "page-map",
        drive: Drive | str | None = None,
        *,
        footprint_pages: int = 1024,
        settings: Mapping[str, Value] | None = None,
        config: str | os.PathLike[str] | None = None,
        victim_policy: VictimPolicy | None = None,
    ) -> None:
        self.design = design if isinstance(design, Design) else Design(design)
        self.drive = drive if isinstance(drive, Drive) else Drive(drive)
        own = [setting(key, value) for key, value in (settings or {}).items()]
        chosen = [*self.drive.settings(), *self.design.settings(), *own]
        configuration = Configuration(chosen, None if config is None else os.fspath(config))
        refuse_ignored(configuration, chosen, self.design.name)
        refuse_two_policies(victim_policy, chosen)
        choice = native_choice(victim_policy)
        self._native = _native.Device(configuration, self.design.name, footprint_pages, choice)

    @property
    def page_bytes(self) -> int:
        return self._native.page_bytes

    @property
    def block_pages(self) -> int:
        """Pages of a block."""
        return self._native.block_pages

    @property
    def logical_pages(self) -> int:
        """Pages that the host sees."""
        return self._native.logical_pages

    @property
    def physical_pages(self) -> int:
        """Pages of the flash."""
        return self._native.physical_pages

    @property
    def is_powerless(self) -> bool:
        """Whether power is lost. `recover()` brings it back."""
        return self._native.is_powerless

    def write(self, lpn: int, data: bytes | str) -> None:
        """Writes bytes, whole sectors of 512, from the beginning of a logical page on; a text fills one page, repeated."""
        if isinstance(data, str):
            data = self.page_of(data)
        self._native.write(lpn * self.page_bytes, data)

    def page_of(self, text: str) -> bytes:
        """A page that says this all over."""
        once = text.encode() or bytes(1)
        return (once * (self.page_bytes // len(once) + 1))[: self.page_bytes]

    def read(self, lpn: int, pages: int = 1) -> bytes:
        """The bytes of logical pages; zeros where none were written."""
        return self._native.read(lpn * self.page_bytes, pages * self.page_bytes)

    def trim(self, lpn: int, pages: int = 1) -> None:
        """Deallocates logical pages."""
        self._native.trim(lpn * self.page_bytes, pages * self.page_bytes)

    def remap(self, target: int, source: int, pages: int = 1, *, relocate: bool = False) -> None:
        """Gives `target` the content of `source`, by a change of the map where the design can; `relocate` moves it."""
        self._native.remap(
            target * self.page_bytes, source * self.page_bytes, pages * self.page_bytes, relocate
        )

    def flush(self) -> None:
        """Makes all writes durable."""
        self._native.flush()

    def power_cut(self, after: int | None = None, outcome: CutOutcome = "torn") -> None:
        """Cuts power now; or at the program, erase or store of NVRAM number `after` from now (0 is the next one)."""
        self._native.power_cut(after, outcome)

    def recover(self, cut_after: int | None = None, outcome: CutOutcome = "torn") -> dict[str, Any]:
        """Brings power back, and the drive with it; what that cost. `cut_after` cuts it again, if recovery has so many operations."""
        report: dict[str, Any] = json.loads(self._native.recover(cut_after, outcome))
        return report

    def check(self) -> None:
        """Checks every invariant of the engine. O(pages). A broken one is an `AssertionError` that says which."""
        self._native.check()

    @property
    def counters(self) -> dict[str, Any]:
        """What the drive has done since it was new."""
        counters: dict[str, Any] = json.loads(self._native.counters())
        return counters

    @property
    def operations(self) -> list[Operation]:
        """What the last request did to the flash, in order."""
        return [Operation(*operation) for operation in self._native.operations()]

    @property
    def ram_bytes(self) -> dict[str, int]:
        """RAM that a controller holds for the drive, by structure."""
        return dict(self._native.ram_bytes())

    def view(self) -> View:
        """What is on the flash now. O(pages); counts nothing."""
        return View(*(Columns(columns) for columns in self._native.view()))

    def picture(self) -> str:
        """The blocks in use, a row each: `#` valid pages, `-` invalid, `r` recyclable, `x` torn, `.` free."""
        return "\n".join(self._rows())

    def _rows(self) -> Iterator[str]:
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

    def __repr__(self) -> str:
        power = ", no power" if self.is_powerless else ""
        return (
            f"<Device {self.design.label} on {self.drive.label}: {self.logical_pages} logical pages of "
            f"{self.page_bytes} bytes, {self.physical_pages} of flash{power}>"
        )


class View(NamedTuple):
    """What is on the flash: columns of its pages, its blocks, and of the logical pages."""

    pages: Columns
    """By PPN: block, state (free, valid, invalid, recyclable, torn), kind, owner (the number in its spare area: of a page of data
    the LPN; -1 for none), logical_pages (how many it holds content of)."""
    blocks: Columns
    """By number: state, kind, stream (that fills it, if it is open), valid_pages, programmed_pages, erases."""
    logical: Columns
    """By LPN: ppn (-1 for none), form (hole, stored, shared, delta, packed, waiting)."""
