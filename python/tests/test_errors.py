"""What a user gets wrong is a `WearwellError` with the sentence of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wearwell as ww

from common import PGBENCH, TINY, Command, sentence_of

MISTAKES: list[tuple[list[str], Callable[[], Any]]] = [
    (["--design", "pagemap"], lambda: ww.replay(ww.Trace.workload(TINY), design="pagemap")),
    (["--device", "tlc-1"], lambda: ww.Drive("tlc-1")),
    (
        ["--over-provisioning", "9"],
        lambda: ww.replay(ww.Trace.workload(TINY), ww.Drive(over_provisioning=9.0)),
    ),
    (["--timing", "evnt"], lambda: ww.replay(ww.Trace.workload(TINY), timing="evnt")),
    (["--queue-depth", "3"], lambda: ww.replay(ww.Trace.workload(TINY), queue_depth=3)),
    (["--set", "gc.polcy=fifo"], lambda: ww.Design(settings={"gc.polcy": "fifo"})),
    (["--set", "gc.policy=fif"], lambda: ww.replay(ww.Trace.workload(TINY), settings={"gc.policy": "fif"})),
    (["--set", "parts.content=dedup,recylce"], lambda: ww.Design(content=["dedup", "recylce"])),
    (["--set", "gecko.size_ratio=3"], lambda: ww.Design(settings={"gecko.size_ratio": 3})),
    (["--content", "dup:shar=0.3"], lambda: ww.replay(ww.Trace.workload(TINY), content_model="dup:shar=0.3")),
    (
        ["--set", "parts.validity=gecko"],
        lambda: ww.replay(ww.Trace.workload(TINY), design=ww.Design(validity="gecko")),
    ),
]


@pytest.mark.parametrize(("flags", "call"), MISTAKES, ids=[" ".join(flags) for flags, _ in MISTAKES])
def test_a_mistake_has_the_sentence_of_the_command_line(
    command: Command, flags: list[str], call: Callable[[], Any]
) -> None:
    done = command("replay", "--workload", TINY, *flags, "--quiet")
    assert done.returncode != 0
    with pytest.raises(ww.WearwellError) as raised:
        call()
    assert str(raised.value) == sentence_of(done.stderr)


TRACES: list[tuple[list[str], Callable[[str], Any]]] = [
    ([], lambda path: ww.Trace(path)),
    (["--format", "blktrac"], lambda path: ww.Trace(path, format="blktrac")),
    (["--format", "msr"], lambda path: ww.replay(ww.Trace(path, format="msr"))),
]


@pytest.mark.parametrize(("flags", "call"), TRACES)
@pytest.mark.parametrize("content", [None, "", "no trace\n", "1,2\n"])
def test_a_bad_trace_has_the_sentence_of_the_command_line(
    command: Command, tmp_path: Path, flags: list[str], call: Callable[[str], Any], content: str | None
) -> None:
    path = tmp_path / "trace"
    if content is not None:
        path.write_text(content)
    done = command("replay", str(path), *flags, "--quiet")
    assert done.returncode != 0
    with pytest.raises(ww.WearwellError) as raised:
        call(str(path))
    assert str(raised.value) == sentence_of(done.stderr)


def test_a_mistake_in_a_file_is_told_with_its_line(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "drive.toml"
    file.write_text("[gc]\npolicy = 'greedy'\nlow_block = 2\n")
    done = command("replay", "--workload", TINY, "--config", str(file))
    with pytest.raises(ww.WearwellError) as raised:
        ww.replay(ww.Trace.workload(TINY), config=file)
    assert str(raised.value) == sentence_of(done.stderr)
    assert "drive.toml:3" in str(raised.value)


def test_a_workload_that_is_none_is_refused(command: Command) -> None:
    done = command("replay", "--workload", "ziff:pages=3")
    with pytest.raises(ww.WearwellError) as raised:
        ww.Trace.workload("ziff:pages=3")
    assert str(raised.value) == sentence_of(done.stderr)


def test_an_error_is_a_value_error() -> None:
    assert issubclass(ww.WearwellError, ValueError)


def test_a_stream_is_refused() -> None:
    with pytest.raises(ww.WearwellError, match="copy the stream to a file"):
        ww.Trace("/dev/null")


def test_an_attribute_that_a_record_lacks_is_named() -> None:
    result = ww.replay(ww.Trace.workload(TINY))
    with pytest.raises(AttributeError, match="LifetimeRecord has no field `yeers`"):
        result.lifetime.yeers  # noqa: B018


def test_the_trace_is_read_again_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    head = "time_ns,op,offset_bytes,len_bytes,device,fingerprints\n"
    path.write_text(head + "0,W,0,4096,0,\n" * 10)
    trace = ww.Trace(path)
    first = ww.replay(trace)
    path.write_text(head + "0,W,0,4096,0,\n" * 20)
    second = ww.replay(trace)
    assert (first.trace.requests, second.trace.requests) == (10, 20)
    assert first.trace.sha256 != second.trace.sha256


def test_a_trace_tells_its_format() -> None:
    assert repr(ww.Trace(PGBENCH)) == f"Trace({PGBENCH!r}, format='native')"
