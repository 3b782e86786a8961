"""A drive that is driven request by request: its bytes, its power cuts, and what it shows of its flash."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import re
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy
import pandas
import pyarrow
import pytest
import wearwell as ww

TRIMS_MAY_COME_UNDONE = {"page-map"}
"""Nothing on flash says that a page was trimmed: after a cut any earlier version of it may be back."""

SMALL = ww.Drive("lab-8g", blocks_per_plane=48, pages_per_block=16)
DESIGNS = [*ww.Design.names(), ww.Design("page-map", content=["dedup", "recycle", "compress"])]


def label(design: ww.Design | str) -> str:
    return design if isinstance(design, str) else design.label


def device_of(design: ww.Design | str) -> ww.Device:
    return ww.Device(design, ww.Drive(fit=1.0), footprint_pages=256)


class Host:
    """A host that knows what it wrote, and what of it is durable."""

    def __init__(self, device: ww.Device, seed: int) -> None:
        self.device, self.random = device, random.Random(seed)
        self.pages: dict[int, bytes] = {}
        self.possible: dict[int, set[bytes]] = {}
        """What a page may be since the last flush."""
        self.versions: dict[int, set[bytes]] = {}
        """All that a page has ever been."""
        self.trimmed: set[int] = set()
        """Pages whose newest durable version is a trim, or may be."""

    def zeros(self) -> bytes:
        return bytes(self.device.page_bytes)

    def request(self) -> None:
        lpn, zeros = self.random.randrange(self.device.logical_pages), self.zeros()
        before = self.pages.get(lpn, zeros)
        self.possible.setdefault(lpn, {before})
        self.versions.setdefault(lpn, set()).add(before)
        match self.random.randrange(20):
            case 0:
                self.possible[lpn].add(zeros)
                self.trimmed.add(lpn)
                self.device.trim(lpn)
                self.pages[lpn] = zeros
            case 1:
                source = self.random.randrange(self.device.logical_pages)
                content = self.pages.get(source, zeros)
                self.possible[lpn].add(content)
                if content == zeros:
                    self.trimmed.add(lpn)
                self.device.remap(lpn, source)
                self.pages[lpn] = content
            case 2:
                self.device.flush()
                self.trimmed -= {page for page in self.possible if self.pages.get(page, zeros) != zeros}
                self.possible = {}
            case 3 | 4:
                assert self.device.read(lpn) == before
            case _:
                content = self.device.page_of(f"content {self.random.randrange(400)} ")
                self.possible[lpn].add(content)
                self.device.write(lpn, content)
                self.pages[lpn] = content

    def compare(self) -> None:
        for lpn in range(self.device.logical_pages):
            assert self.device.read(lpn) == self.pages.get(lpn, self.zeros()), lpn

    def compare_after_cut(self) -> None:
        """What was flushed is there; what was not may be."""
        may_come_undone = self.trimmed if self.device.design.label in TRIMS_MAY_COME_UNDONE else set()
        for lpn in range(self.device.logical_pages):
            found = self.device.read(lpn)
            possible = self.possible.get(lpn, {self.pages.get(lpn, self.zeros())})
            older = self.versions.get(lpn, set()) if lpn in may_come_undone else set()
            assert found in possible | older, lpn
            self.pages[lpn] = found
        self.possible = {}


@pytest.mark.parametrize("design", DESIGNS, ids=label)
def test_it_is_a_map_of_pages_that_survives_loss_of_power(design: ww.Design | str) -> None:
    device = device_of(design)
    host = Host(device, 1)
    cuts = 0
    for _ in range(6):
        device.power_cut(after=host.random.randrange(200), outcome=host.random.choice(["before", "torn", "after"]))
        try:
            for _ in range(700):
                host.request()
        except ww.PowerLoss:
            cuts += 1
        else:
            host.compare()
            device.power_cut()
        assert device.is_powerless
        for too_late in (device.flush, device.check, device.view):
            with pytest.raises(ww.PowerLoss):
                too_late()
        device.recover()
        device.check()
        host.compare_after_cut()
    assert cuts > 0


@pytest.mark.parametrize("design", DESIGNS, ids=label)
def test_what_it_shows_adds_up(design: ww.Design | str) -> None:
    device = device_of(design)
    host = Host(device, 2)
    for _ in range(3000):
        host.request()
    before = device.counters
    pages, blocks, logical = device.view()
    assert device.counters == before
    assert (pages.rows, logical.rows) == (device.physical_pages, device.logical_pages)
    assert sum(blocks["erases"]) == before["erases"] == sum(before["erases_by_cause"].values())
    assert sum(before["programs_by_cause"].values()) == before["programs"]
    states, kinds = pages.texts("state"), pages.texts("kind")
    valid = Counter(
        block
        for block, state, kind in zip(pages["block"], states, kinds, strict=True)
        if state == "valid" and kind not in ("head", "tail")
    )
    assert [valid[block] for block in range(blocks.rows)] == list(blocks["valid_pages"])
    for lpn, (ppn, form) in enumerate(zip(logical["ppn"], logical.texts("form"), strict=True)):
        if ppn >= 0:
            assert states[ppn] == "valid", lpn
        if form == "hole":
            assert ppn == -1 and device.read(lpn) == host.zeros(), lpn


def test_a_write_shows_what_it_did() -> None:
    device = ww.Device("page-map", SMALL)
    device.write(5, "A")
    assert device.operations == [ww.Operation("program", "host", 0, 1)]
    (ppn,) = [ppn for ppn, state in enumerate(device.view().pages.texts("state")) if state == "valid"]
    device.write(5, "B")
    pages, blocks, logical = device.view()
    assert pages.texts("state")[ppn] == "invalid" and pages["owner"][ppn] == 5
    assert logical["ppn"][5] == ppn + 1 and device.read(5) == b"B" * device.page_bytes
    assert "#" in device.picture() and device.picture().count("-") == 1
    assert blocks.texts("stream").count("host") == 1
    device.read(5)
    assert [operation.kind for operation in device.operations] == ["read"]


def test_equal_pages_are_shared_and_dead_ones_come_back() -> None:
    device = ww.Device(ww.Design(content=["dedup"]), SMALL)
    for lpn in range(3):
        device.write(lpn, "the same")
    pages, _, logical = device.view()
    assert logical.texts("form")[:3] == ["shared"] * 3 and max(pages["logical_pages"]) == 3
    assert device.counters["programs_by_cause"]["host"] == 1
    device = ww.Device("recyclable", SMALL)
    device.write(0, "old")
    device.write(0, "new")
    assert "recyclable" in device.view().pages.texts("state")
    device.write(1, "old")
    assert device.counters["recycled_writes"] == 1 and device.operations == []


def test_collection_shows_victims_and_copies() -> None:
    device = ww.Device("page-map", SMALL)
    random_ = random.Random(3)
    causes: set[str] = set()
    for _ in range(5 * device.logical_pages):
        device.write(random_.randrange(device.logical_pages), "x")
        causes |= {f"{operation.cause} {operation.kind}" for operation in device.operations}
    assert {"host program", "gc copy", "gc erase"} <= causes
    assert device.counters["write_amplification"] > 1.0


def test_columns_are_arrays_and_tables_without_a_copy() -> None:
    device = ww.Device("page-map", SMALL)
    device.write(7, "A")
    pages = device.view().pages
    arrays, table, frame = pages.to_numpy(), pages.to_arrow(), pages.to_pandas()
    assert numpy.shares_memory(arrays["owner"], numpy.frombuffer(pages["owner"], "<i8"))
    assert isinstance(table, pyarrow.Table) and isinstance(frame, pandas.DataFrame)
    address = table["owner"].chunk(0).buffers()[1].address
    assert address == pyarrow.py_buffer(pages["owner"]).address
    texts = pages.texts("state")
    assert table["state"].to_pylist() == texts == list(frame["state"]) == pages.to_polars()["state"].to_list()
    assert list(frame["owner"]).count(7) == 1


def test_a_cut_in_the_middle_of_recovery_is_a_cut() -> None:
    device = device_of("wearwell")
    host = Host(device, 4)
    for _ in range(800):
        host.request()
    device.power_cut()
    try:
        device.recover(cut_after=0)
    except ww.PowerLoss:
        assert device.is_powerless
        device.recover()
    device.write(0, "no cut is left over")
    host.pages[0], host.possible[0] = device.read(0), {device.read(0)}
    device.check()
    host.compare_after_cut()


def test_what_it_cannot_do_is_said() -> None:
    device = ww.Device("page-map", SMALL)
    with pytest.raises(ww.WearwellError, match="beyond the end of the device"):
        device.write(device.logical_pages - 1, bytes(2 * device.page_bytes))
    with pytest.raises(ww.WearwellError, match="multiples of the sector size"):
        device.write(0, b"123")
    with pytest.raises(ww.WearwellError, match="precondition.mode has no effect"):
        ww.Device("page-map", SMALL, settings={"precondition.mode": "steady"})
    with pytest.raises(ww.WearwellError, match="recycle.policy has no effect"):
        ww.Device("page-map", SMALL, settings={"recycle.policy": "inf"})
    with pytest.raises(ww.WearwellError, match="did you mean `torn`"):
        device.power_cut(outcome="tron")  # type: ignore[arg-type]
    device.power_cut()
    for request in (lambda: device.read(0), device.check, device.view):
        with pytest.raises(ww.PowerLoss):
            request()


@pytest.mark.parametrize(
    "wrong", [-1, 1 << 40, 1 << 64, 1 << 200, 1.5, "7", None], ids=lambda wrong: repr(wrong)[:20]
)
def test_an_address_that_cannot_be_is_refused_with_its_name_and_bounds(wrong: Any) -> None:
    # A bare OverflowError or TypeError was raised, and a read of 2^40 pages was a MemoryError.
    device = ww.Device("page-map", SMALL)
    last, value = device.logical_pages - 1, re.escape(repr(wrong))
    addresses: dict[str, list[Callable[[], object]]] = {
        "lpn": [lambda: device.read(wrong), lambda: device.write(wrong, "A"), lambda: device.trim(wrong)],
        "target": [lambda: device.remap(wrong, 0)],
        "source": [lambda: device.remap(0, wrong)],
    }
    for name, calls in addresses.items():
        sentence = rf"{name} is {value}, and the device has {last + 1} logical pages: give an integer from 0 to {last}$"
        for call in calls:
            with pytest.raises(ww.WearwellError, match=sentence):
                call()
    most = last - 4
    sentence = rf"pages is {value}, and the number of logical pages from 5 on is {most}: give an integer from 0 to {most}$"
    counts: list[Callable[[], object]] = [
        lambda: device.read(5, wrong),
        lambda: device.trim(5, wrong),
        lambda: device.remap(5, 3, wrong),
        lambda: device.remap(3, 5, wrong),
    ]
    for call in counts:
        with pytest.raises(ww.WearwellError, match=sentence):
            call()
    if value not in ("None", str(1 << 40)):
        with pytest.raises(ww.WearwellError, match=rf"^after is {value}: give an integer from 0 to {(1 << 64) - 1}$"):
            device.power_cut(after=wrong)
        with pytest.raises(ww.WearwellError, match=rf"^cut_after is {value}: give an integer from 0 to"):
            device.recover(cut_after=wrong)
    with pytest.raises(ww.WearwellError, match=rf"^footprint_pages is {value}: give an integer from 1 to"):
        ww.Device(footprint_pages=wrong)


def test_integers_and_bytes_of_numpy_are_addresses_and_data() -> None:
    # The product with the size of a page was computed in 32 bits, so that another page was written.
    device = ww.Device("page-map", ww.Drive("lab-8g"))
    lpn = numpy.int32((1 << 20) + 3)
    page = numpy.arange(device.page_bytes, dtype="u1")
    for data in (page, bytearray(page), memoryview(page.tobytes())):
        device.trim(lpn)
        device.write(lpn, data)
        assert device.read((1 << 20) + 3) == page.tobytes()
    assert device.read(3) == bytes(device.page_bytes)
    for wrong in (5, None, ["a"]):
        with pytest.raises(ww.WearwellError, match=rf"data is of type {type(wrong).__name__}: give bytes"):
            device.write(0, wrong)  # type: ignore[arg-type]


def test_the_whole_device_is_read_and_no_more() -> None:
    device = ww.Device("page-map", SMALL)
    device.write(device.logical_pages - 1, "last ")
    assert device.read(0, device.logical_pages).endswith(device.page_of("last "))
    assert device.read(0, 0) == b""


def test_a_column_that_is_not_there_and_names_that_it_has_not_are_said() -> None:
    pages = ww.Device("page-map", SMALL).view().pages
    with pytest.raises(KeyError, match="there is no column 'stat': use one of block, state, kind, owner"):
        pages["stat"]
    with pytest.raises(ww.WearwellError, match="the column owner holds numbers"):
        pages.texts("owner")


def test_a_device_whose_policy_refers_to_it_is_collected() -> None:
    # It was kept for ever, with the pages of its flash.
    class Own:
        device: ww.Device
        choices = 0

        def choose(self, blocks: ww.Blocks) -> None:
            self.choices += 1
            if self.choices <= 3:
                gc.collect()  # The engine uses the policy in this moment.

    def use() -> weakref.ref[Own]:
        policy = Own()
        policy.device = ww.Device("page-map", ww.Drive(fit=1.0), footprint_pages=256, victim_policy=policy)
        for number in range(3 * policy.device.logical_pages):
            policy.device.write(number % policy.device.logical_pages, f"{number} ")
        assert policy.choices > 3
        policy.device.check()
        return weakref.ref(policy)

    policy = use()
    gc.collect()
    assert policy() is None


def test_a_device_is_not_copied() -> None:
    # The error named a class that the user does not know.
    device = ww.Device("page-map", SMALL)
    copies: list[Callable[[], object]] = [lambda: pickle.dumps(device), lambda: copy.copy(device), lambda: copy.deepcopy(device)]
    for call in copies:
        with pytest.raises(TypeError, match="a Device cannot be copied or pickled"):
            call()
