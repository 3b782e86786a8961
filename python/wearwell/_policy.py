"""GC victim policies that are written in Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, runtime_checkable

from ._columns import Columns
from ._native import WearwellError
from ._settings import values_by_key

_Column: TypeAlias = tuple[str, bytes, str, list[str]]
NativeChoice: TypeAlias = Callable[[int, int, int, Sequence[_Column]], int | None]
"""A function for the engine: takes pool, pages of a block, programs so far and columns; returns the number of a block."""


class Blocks(Columns):
    """The blocks of a pool that GC can collect, one per row, in order of number: closed blocks with an invalid page.

    Columns: block (number of the block), valid_pages (pages that GC has to copy), age_programs (flash programs, and
    entries added to the reverse map, since the block was closed), erases, kind (of the pages).
    """

    def __init__(self, pool: int, block_pages: int, now: int, columns: Sequence[_Column]) -> None:
        super().__init__(columns)
        self.pool = pool
        """Number of the pool; it is the number of the plane unless blocks span several planes (superblocks)."""
        self.block_pages = block_pages
        """Number of pages of a block that can be valid."""
        self.now = now
        """Number of flash programs, and of entries added to the reverse map, since the drive was new."""


@runtime_checkable
class VictimPolicy(Protocol):
    """Chooses which block GC collects next.

    Any object with the method `choose` can be used; it need not inherit from this class. The engine calls it once per
    victim, with two exceptions: in a pool that has only one free block left, only the greedy choice is safe; and for blocks
    of metadata some designs have their own rule.
    """

    def choose(self, blocks: Blocks) -> SupportsIndex | None:
        """Returns the number of a block in `blocks`, which has at least one row; `None`: the engine chooses greedily."""


def native_choice(policy: VictimPolicy | None) -> tuple[str, NativeChoice] | None:
    """Converts a policy into the form that the engine needs: a name and a function."""
    if policy is None:
        return None
    unchecked_policy: Any = policy
    if isinstance(unchecked_policy, type) or not isinstance(unchecked_policy, VictimPolicy):
        raise WearwellError(
            f"victim_policy is {unchecked_policy!r}: give an object with a method choose(blocks) that returns the number of a block"
        )

    name = type(policy).__name__

    def choose(pool: int, block_pages: int, now: int, columns: Sequence[_Column]) -> int | None:
        chosen_block: Any = policy.choose(Blocks(pool, block_pages, now, columns))
        if chosen_block is None:
            return None
        try:
            block = operator.index(chosen_block)
        except TypeError:
            raise WearwellError(
                f"the victim policy {name} failed: it returned {chosen_block!r}, which is no integer; "
                "return a number of the column `block`, or None"
            ) from None
        if not 0 <= block < 1 << 32:  # The engine has no such number, and compares others with the candidates.
            raise WearwellError(
                f"the victim policy {name} failed: it chose block {block}, which is not one of the candidates "
                "that it was given; return a number of the column `block`, or None"
            )
        return block

    return name, choose


def refuse_two_policies(policy: VictimPolicy | None, settings: Sequence[str]) -> None:
    """Raises an error if the settings name a policy (`gc.policy`) although a policy object is given, too."""
    if policy is not None and "gc.policy" in values_by_key(settings):
        raise WearwellError("gc.policy has no effect beside victim_policy: leave one of them out")
