"""A victim policy of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ._columns import Columns
from ._native import WearwellError

_Column: TypeAlias = tuple[str, bytes, str, list[str]]
NativeChoice: TypeAlias = Callable[[int, int, int, Sequence[_Column]], int | None]
"""What the engine calls: pool, pages of a block, programs so far, columns; the number of a block."""


class Blocks(Columns):
    """The blocks of a pool that can be collected, a row each, by number: closed, and with an invalid page.

    Columns: block (its number), valid_pages (what collection has to copy), age_programs (flash programs since it was closed), erases,
    kind (of its pages).
    """

    def __init__(self, pool: int, block_pages: int, now: int, columns: Sequence[_Column]) -> None:
        super().__init__(columns)
        self.pool = pool
        """A plane, where a block lies in one plane."""
        self.block_pages = block_pages
        """Pages of a block that can be valid."""
        self.now = now
        """Flash programs since the drive was new."""


@runtime_checkable
class VictimPolicy(Protocol):
    """Chooses which block is collected next.

    Any object with this method will do; it need not inherit. The engine asks it once for each victim, but for those that only a greedy
    choice is safe for (a pool that is down to its last free block) and for blocks of metadata where a design has a rule of its own.
    """

    def choose(self, blocks: Blocks) -> int | None:
        """The number of a block out of `blocks`, which has a row at least; `None` leaves this victim to greedy."""


def native_choice(policy: VictimPolicy | None) -> tuple[str, NativeChoice] | None:
    """A policy as the engine takes it: its name, and a function."""
    if policy is None:
        return None
    chosen_by: Any = policy
    if isinstance(chosen_by, type) or not isinstance(chosen_by, VictimPolicy):
        raise WearwellError(
            f"victim_policy is {chosen_by!r}: give an object with a method choose(blocks) that returns the number of a block"
        )

    def choose(pool: int, block_pages: int, now: int, columns: Sequence[_Column]) -> int | None:
        chosen = policy.choose(Blocks(pool, block_pages, now, columns))
        return None if chosen is None else int(chosen)

    return type(policy).__name__, choose


def refuse_two_policies(policy: VictimPolicy | None, settings: Sequence[str]) -> None:
    """Refuses a policy of the engine beside one's own."""
    if policy is not None and any(setting.startswith("gc.policy=") for setting in settings):
        raise WearwellError("gc.policy has no effect beside victim_policy: leave one of them out")
