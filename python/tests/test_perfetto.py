"""`--perfetto`, read by Perfetto's own definitions of a trace, which the package `perfetto` has."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from common import Command, record_of

LOAD = "zipf:pages=20000,requests=4000,read=0.5,rate=4000"
RUNS = [
    ["--workload", LOAD, "--design", "dftl"],
    ["--workload", LOAD, "--design", "remap", "--set", "timing.independent_planes=true", "--set", "device.planes_per_die=2"],
    ["--workload", LOAD, "--set", "timing.suspend=true"],
]

Trace = tuple[Any, dict[str, Any]]


@pytest.fixture(scope="module", params=RUNS, ids=["dftl", "planes", "suspend"])
def run(request: pytest.FixtureRequest, command: Command, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The trace of a whole run, and the record of the run."""
    path = tmp_path_factory.mktemp("perfetto") / "run.pftrace"
    whole = ["--perfetto", str(path), "--perfetto-window", "0.."]
    done = command("replay", *request.param, "--timing", "event", *whole, "--json", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    return perfetto_trace_pb2.Trace.FromString(path.read_bytes()), record_of(done.stdout)


def messages_in(message: Any) -> Iterator[Any]:
    """A message and all messages within it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                yield from messages_in(one)


def descriptors(trace: Any) -> dict[int, Any]:
    """Track descriptors by identity."""
    found = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    by_track = {one.uuid: one for one in found}
    assert len(by_track) == len(found)
    return by_track


def events(trace: Any) -> Iterator[tuple[int, Any]]:
    for packet in trace.packet:
        if packet.HasField("track_event"):
            yield packet.timestamp, packet.track_event


def test_a_trace_has_no_field_that_perfetto_does_not_define(run: Trace) -> None:
    trace, _ = run
    assert len(trace.packet) > 1000
    for message in messages_in(trace):
        assert len(UnknownFieldSet(message)) == 0, message


def test_events_are_in_order_of_time_on_tracks_that_are_described(run: Trace) -> None:
    trace, _ = run
    tracks = descriptors(trace)
    assert all(one.parent_uuid in tracks for one in tracks.values() if one.HasField("parent_uuid"))
    times = [time for time, _ in events(trace)]
    assert times == sorted(times)
    assert {event.track_uuid for _, event in events(trace)} <= tracks.keys()
    counters = {one.uuid for one in tracks.values() if one.HasField("counter")}
    assert counters
    for _, event in events(trace):
        assert (event.type == event.TYPE_COUNTER) == (event.track_uuid in counters)


def test_names_are_written_before_they_are_referred_to(run: Trace) -> None:
    trace, _ = run
    known: dict[str, set[int]] = defaultdict(set)
    starts = [packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED for packet in trace.packet]
    assert starts[0] and not any(starts[1:])
    for packet in trace.packet:
        for field, names in packet.interned_data.ListFields():
            known[field.name] |= {one.iid for one in names}
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            assert event.name_iid in known["event_names"]
            assert set(event.category_iids) <= known["event_categories"]
            for argument in event.debug_annotations:
                assert argument.name_iid in known["debug_annotation_names"]
                assert (
                    not argument.HasField("string_value_iid")
                    or argument.string_value_iid in known["debug_annotation_string_values"]
                )


def test_slices_are_nested_and_those_of_the_dies_add_up_to_the_busy_time_of_the_record(run: Trace) -> None:
    trace, record = run
    tracks = descriptors(trace)
    open_slices: dict[int, list[int]] = defaultdict(list)
    busy_ns: dict[int, int] = defaultdict(int)
    for time, event in events(trace):
        if event.type == event.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid].append(time)
        elif event.type == event.TYPE_SLICE_END:
            start = open_slices[event.track_uuid].pop()
            if not open_slices[event.track_uuid]:
                busy_ns[event.track_uuid] += time - start
    assert not any(open_slices.values())
    arrays = [uuid for uuid, one in tracks.items() if one.name.startswith("die ")]
    of_arrays = sum(busy_ns[uuid] for uuid in arrays)
    timing = record["timing"]
    expected_ns = timing["array_utilisation"] * timing["device_s"] * 1e9 * len(arrays)
    assert of_arrays == pytest.approx(expected_ns, rel=1e-6)


def test_each_arrow_of_a_request_ends_at_a_slice_of_the_flash(run: Trace) -> None:
    trace, _ = run
    tracks = descriptors(trace)
    of_requests: set[int] = set()
    of_flash: set[int] = set()
    for _, event in events(trace):
        if tracks[event.track_uuid].name == "requests":
            of_requests |= set(event.flow_ids)
        else:
            of_flash |= set(event.flow_ids) | set(event.terminating_flow_ids)
    assert of_requests and of_requests <= of_flash
