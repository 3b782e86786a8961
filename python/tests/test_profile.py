"""Profiles: the record of the command line for every kind of input, what mechanisms could save and do save, and tables."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import wearwell as ww

from common import PGBENCH, Command, interrupted, refused_alike

LOAD = "zipf:pages=3000,requests=20000,write=0.8,size=1:3/8:1+dup:share=0.3,compress=0.5,delta=0.2"


def of_command(command: Command, *arguments: str) -> dict[str, Any]:
    done = command("profile", *arguments, "--json", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["profiles"]
    assert isinstance(record, dict)
    return record


def make_tree(folder: Path) -> Path:
    """Files with equal pages, pages that compress, and zero pages."""
    draw = random.Random(1)
    noise = draw.randbytes(20 * 4096)
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(noise)
    (folder / "sub/b").write_bytes(noise[: 8 * 4096] + bytes(4 * 4096))
    (folder / "sub/c").write_bytes(b"word " * 5000)
    return folder


def test_a_trace_has_the_profile_of_the_command_line(command: Command) -> None:
    assert ww.profile(PGBENCH).to_dict() == of_command(command, PGBENCH)
    assert ww.profile(ww.Trace(PGBENCH), sample=4).to_dict() == of_command(command, PGBENCH, "--sample", "4")


def test_files_have_the_profile_of_the_command_line(command: Command, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "new")
    assert ww.profile(tree).to_dict() == of_command(command, str(tree))
    image = tree / "a"
    assert ww.profile(str(image)).to_dict() == of_command(command, str(image))
    assert ww.profile(PGBENCH, files=True).to_dict() == of_command(command, PGBENCH, "--files")
    old = make_tree(tmp_path / "old")
    (old / "a").write_bytes((old / "a").read_bytes().replace(b"\x00", b"\x01"))
    of_both = of_command(command, str(tree), "--against", str(old))
    assert ww.profile(tree, against=old).to_dict() == of_both
    assert of_both["delta"] is not None


RUNS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (
        ["--set", "device.over_provisioning=0.3", "--set", "gc.policy=fifo"],
        {"drive": ww.Drive(over_provisioning=0.3), "settings": {"gc.policy": "fifo"}},
    ),
    (["--set", "recycle.policy=lru"], {"settings": {"recycle.policy": "lru"}}),
]


@pytest.mark.parametrize(("flags", "keywords"), RUNS, ids=[" ".join(flags) for flags, _ in RUNS])
def test_what_is_saved_when_run_is_that_of_the_command_line(
    command: Command, flags: list[str], keywords: dict[str, Any]
) -> None:
    result = ww.profile(ww.Trace.workload(LOAD), run=True, **keywords)
    assert result.to_dict() == of_command(command, "--workload", LOAD, "--run", *flags)
    for saving in result.savings:
        assert saving.at_most is not None and saving.when_run is not None
        assert saving.when_run.page_writes <= saving.at_most
    assert result.runs is not None and result.runs.programs >= result.runs.host_page_writes


def test_a_directory_is_run_as_by_the_command_line(command: Command, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    result = ww.profile(tree, run=True)
    assert result.to_dict() == of_command(command, str(tree), "--run")
    dedup = next(one for one in result.savings if one.mechanism == "dedup")
    assert dedup.when_run is not None and dedup.at_most == pytest.approx(dedup.when_run.page_writes)


def test_a_profile_is_a_table_of_figures_and_of_savings() -> None:
    result = ww.profile(ww.Trace.workload(LOAD), run=True)
    (row,) = result.to_pandas().to_dict("records")
    assert row["content.duplicate_share"] == result.content.duplicate_share  # type: ignore[union-attr]
    savings = result.to_arrow("savings")
    assert isinstance(savings, pyarrow.Table)
    assert savings.column("mechanism").to_pylist() == ["recycle", "dedup", "delta", "compress"]
    assert savings.column("when_run.page_writes").to_pylist() == [
        one.when_run and one.when_run.page_writes for one in result.savings
    ]
    of: Any = "runs"
    with pytest.raises(ww.WearwellError, match="figures and savings"):
        result.to_rows(of)


def test_a_table_of_requests_has_a_profile() -> None:
    table = {"time_us": [0.0, 1.0], "op": ["write", "write"], "offset_bytes": [0, 0], "length_bytes": [8192, 4096]}
    result = ww.profile(table)
    assert result.input == ww.Trace(table).name and result.savings == []
    assert result.traffic is not None and result.traffic.pages_written == 3
    assert any("does not know what was written" in note for note in result.notes)


def test_a_profile_is_shown_as_the_command_line_shows_it(command: Command) -> None:
    result = ww.profile(ww.Trace.workload(LOAD), run=True)
    assert str(result) == command("profile", "--workload", LOAD, "--run").stdout
    assert "dedup " in repr(result)
    shown = result._repr_html_()
    assert "deduplication" in shown and "when run" in shown and "<td>" in shown
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_path_that_is_missing_or_empty_is_refused(command: Command, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    for path in (empty, tmp_path / "missing", tmp_path):
        if path == tmp_path:
            empty.unlink()
        done = command("profile", str(path), "--quiet")
        refused_alike(done, partial(ww.profile, path))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"settings": {"gc.policy": "fifo"}}, "without run=True"),
    ({"drive": "tlc-1t"}, "without run=True"),
    ({"run": True, "against": "."}, "against"),
    ({"sample": 0}, "sample is 0"),
]


@pytest.mark.parametrize(("keywords", "sentence"), REFUSED)
def test_what_has_no_effect_is_refused(keywords: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ww.WearwellError, match=sentence):
        ww.profile(PGBENCH, **keywords)
    with pytest.raises(ww.WearwellError, match="has no effect on requests"):
        ww.profile(ww.Trace(PGBENCH), files=True)


@pytest.mark.parametrize("phase", ["profile", "replay"])
def test_ctrl_c_gives_a_partial_profile(phase: str) -> None:
    requests = 10**11 if phase == "profile" else 300_000
    load = f"uniform:pages=2000,requests={requests},write=1.0+dup:share=0.3,compress=0.5"
    settings = {"replay.seed": 2}
    call = f"ww.profile(ww.Trace.workload({load!r}), run=True, settings={settings}, progress=began)"
    profile, warned = interrupted(phase, 100_000, call)
    assert profile["partial"]
    assert any(one["when_run"] is None for one in profile["savings"])
    assert phase != "profile" or profile["runs"] is None
    more = " before all content mechanisms were run" if phase == "replay" else ""
    assert warned == [f"the profile is partial: interrupted{more}"]


def test_ctrl_c_is_the_reason_of_a_partial_profile_that_has_notes() -> None:
    # The reason was the note that the requests have no content.
    load = f"uniform:pages=2000,requests={10**11},write=1.0"
    profile, warned = interrupted("profile", 100_000, f"ww.profile(ww.Trace.workload({load!r}), progress=began)")
    assert profile["notes"]
    assert warned == ["the profile is partial: interrupted"]


def test_a_directory_whose_name_is_not_utf_8_is_run_as_by_the_command_line(
    command_path: Path, tmp_path: Path
) -> None:
    # With run=True this raised UnicodeEncodeError.
    folder = os.path.join(os.fsencode(tmp_path), b"bad\xff")
    os.mkdir(folder)
    with open(os.path.join(folder, b"file"), "wb") as file:
        file.write(bytes(range(256)) * 160)
    done = subprocess.run([command_path, "profile", folder, "--run", "--json", "-"], capture_output=True, check=True)
    profile = ww.profile(os.fsdecode(folder), run=True)
    assert profile.input == json.loads(done.stdout)["profiles"][0]["input"] == f"{tmp_path}/bad\ufffd"
    assert profile.runs is not None
