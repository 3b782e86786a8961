"""Lives of drives: the record of the command line, curves with bands, tables, and what ctrl-C leaves."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pytest
import wearwell as ww

from common import Command, interrupted, write_trace

LOAD = "zipf:pages=4000,requests=40000,write=1.0,rate=2000"
CYCLES = {"device.endurance_cycles": 25}
FLAGS = ["--set", "device.endurance_cycles=25"]


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    """A record of lives without what the machine says."""
    assert all("cpu_seconds" in one for one in record["lives"])
    lives = [{name: field for name, field in one.items() if name != "cpu_seconds"} for one in record["lives"]]
    return {**record, "lives": lives}


def of_command(command: Command, *arguments: str) -> dict[str, Any]:
    done = command("life", "--workload", LOAD, *FLAGS, *arguments, "--json", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["drives"]
    assert isinstance(record, dict)
    return record


@pytest.fixture(scope="module")
def three() -> ww.LifeResult:
    """Three drives that differ in their seed."""
    return ww.life(ww.Trace.workload(LOAD), seeds=3, settings=CYCLES)


WAYS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (["--seeds", "3", "--seed", "7"], {"seeds": 3, "seed": 7}),
    (["--seeds", "2", "--leveling", "static"], {"seeds": 2, "leveling": "static", "jobs": 2}),
    (
        ["--spread", "0.2", "--early-share", "0.01", "--program-share", "0.2", "--spare-minimum", "0.3"],
        {"spread": 0.2, "early_share": 0.01, "program_share": 0.2, "spare_minimum": 0.3},
    ),
    (
        ["--empty", "--scale-to", "1TiB", "--over-provisioning", "0.3"],
        {"empty": True, "scale_to": 1 << 40, "over_provisioning": 0.3},
    ),
    (["--designs", "recyclable", "--content", "dup:share=0.3"], {"design": "recyclable", "content_model": "dup:share=0.3"}),
]


@pytest.mark.parametrize(("flags", "keywords"), WAYS, ids=[" ".join(flags) for flags, _ in WAYS])
def test_a_life_has_the_record_of_the_command_line(
    command: Command, flags: list[str], keywords: dict[str, Any]
) -> None:
    result = ww.life(ww.Trace.workload(LOAD), settings=CYCLES, **keywords)
    assert without_times(result.to_dict()) == without_times(of_command(command, *flags))


def test_an_unknown_design_is_refused_by_its_name() -> None:
    # The command line refuses names of designs before it reads anything, with a sentence of its own.
    with pytest.raises(ww.WearwellError, match="pagemap"):
        ww.life(ww.Trace.workload(LOAD), design="pagemap")


def test_an_unknown_leveling_is_refused_with_the_nearest_name() -> None:
    leveling: Any = "statik"
    with pytest.raises(ww.WearwellError, match="static"):
        ww.life(ww.Trace.workload(LOAD), leveling=leveling)


def test_curves_go_to_the_end_of_the_last_drive(three: ww.LifeResult) -> None:
    last = three.curves[-1]
    assert last.ended == 3 and last.host_bytes == max(one.host_bytes for one in three.lives)
    assert [point.ended for point in three.curves] == sorted(point.ended for point in three.curves)
    assert all(point.spare.least <= point.spare.mean <= point.spare.most for point in three.curves)
    assert three.estimates is not None and three.estimates.host_bytes.half_width is not None
    assert len({one.host_bytes for one in three.lives}) == 3, "each drive has its own weak blocks"


def test_the_interval_is_that_of_students_t(three: ww.LifeResult) -> None:
    assert three.estimates is not None
    values = pandas.Series([one.host_bytes / 1e9 for one in three.lives])
    # The quantile for two degrees of freedom, from a table.
    half_width = 4.303 * values.std() / 3**0.5
    assert three.estimates.host_bytes.half_width == pytest.approx(half_width * 1e9, rel=1e-3)
    assert three.estimates.host_bytes.mean == pytest.approx(values.mean() * 1e9)


def test_a_life_is_a_table_of_curves_and_of_lives(three: ww.LifeResult) -> None:
    curves = three.to_pandas()
    assert len(curves) == len(three.curves)
    assert curves["spare.mean"].is_monotonic_decreasing
    assert list(curves["ended"])[-1] == 3
    lives = three.to_arrow("lives")
    assert isinstance(lives, pyarrow.Table) and lives.num_rows == 3
    assert lives.column("seed").to_pylist() == [1, 2, 3]
    assert lives.column("config.device.endurance_cycles").to_pylist() == [25] * 3
    of: Any = "runs"
    with pytest.raises(ww.WearwellError, match="curves and lives"):
        three.to_rows(of)


def test_a_life_is_shown_as_the_command_line_shows_it(command: Command, three: ww.LifeResult) -> None:
    printed = command("life", "--workload", LOAD, *FLAGS, "--seeds", "3").stdout

    def without_time(table: str) -> list[list[str]]:
        return [line.split() for line in table.splitlines() if "CPU s" not in line]

    assert without_time(str(three)) == without_time(printed)
    assert "TB written" in repr(three) and "3 drives" in repr(three)
    assert "<td>" in three._repr_html_() and "TB written until the end" in three._repr_html_()


def test_a_life_survives_pickling(three: ww.LifeResult) -> None:
    assert pickle.loads(pickle.dumps(three)) == three


def test_a_trace_file_lives_as_by_the_command_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_trace(path, requests=5000, pages=997)
    done = command("life", str(path), *FLAGS, "--seeds", "2", "--json", "-", "--quiet")
    (record,) = json.loads(done.stdout)["drives"]
    assert without_times(ww.life(path, seeds=2, settings=CYCLES).to_dict()) == without_times(record)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_gives_what_the_drives_have_lived(jobs: int) -> None:
    worn = {"device.endurance_cycles": 100000}
    call = f"ww.life(ww.Trace.workload({LOAD!r}), seeds=3, jobs={jobs}, settings={worn}, progress=began)"
    record, warned = interrupted("life", 20_000, call)
    assert [one["end"] for one in record["lives"]] == ["interrupted"] * jobs
    assert record["estimates"] is None and record["curves"][-1]["ended"] == 0
    assert warned == ["the result is partial: interrupted, 0 of 3 drives have ended"]


def test_an_exception_in_the_progress_function_ends_the_lives() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("enough")

    for jobs in (1, 2):
        with pytest.raises(RuntimeError, match="enough"):
            ww.life(
                ww.Trace.workload(LOAD),
                seeds=2,
                jobs=jobs,
                settings={"device.endurance_cycles": 100000},
                progress=fail,
            )


def test_a_life_says_what_its_years_are_scaled_to(three: ww.LifeResult) -> None:
    # The years of the larger drive were in the text only.
    assert three.scale_factor is None and "scaled_years" not in three.to_rows("lives")[0]
    scaled = ww.life(ww.Trace.workload(LOAD), seeds=3, settings=CYCLES, scale_to=1 << 40)
    assert scaled.scale_to_bytes == 1 << 40
    factor = scaled.scale_factor
    assert factor is not None and factor == (1 << 40) / scaled.exported_bytes
    for one, row in zip(scaled.lives, scaled.to_rows("lives"), strict=True):
        assert one.years is not None
        assert row["scaled_years"] == pytest.approx(one.years * factor, rel=1e-12)
    assert [one.years for one in scaled.lives] == [one.years for one in three.lives]


def test_the_years_of_the_larger_drive_are_those_of_the_command_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "lives.csv"
    done = command("life", "--workload", LOAD, *FLAGS, "--scale-to", "1TiB", "--csv", str(path), "--quiet")
    assert done.returncode == 0, done.stderr
    frame = pandas.read_csv(path, comment="#")
    result = ww.life(ww.Trace.workload(LOAD), settings=CYCLES, scale_to=1 << 40)
    assert result.to_rows("lives")[0]["scaled_years"] == pytest.approx(frame["scaled_years"][0], rel=1e-9)


def test_the_last_seed_is_looked_at_before_the_first_drive_lives() -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it runs")

    with pytest.raises(ww.WearwellError, match="seed is 9223372036854775807 and seeds is 2"):
        ww.life(ww.Trace.workload(LOAD), seeds=2, seed=(1 << 63) - 1, progress=refuse)


def test_what_is_beside_a_life_are_lives(three: ww.LifeResult, tmp_path: Path) -> None:
    # A result is iterable, too: its fields were taken for results.
    with pytest.raises(ww.WearwellError, match="^beside is .*: give a list of results of life"):
        three.report(tmp_path / "page.html", beside=three)  # type: ignore[arg-type]
    with pytest.raises(ww.WearwellError, match="^beside is 5: give a list of results of life"):
        three.report(tmp_path / "page.html", beside=5)  # type: ignore[arg-type]
