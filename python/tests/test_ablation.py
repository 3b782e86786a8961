"""Ablations: the record of the command line, kept runs, ctrl-C, refusals, and tables."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import wearwell as ww

from common import Command, interrupted, measured, refused_alike

LOAD = "zipf:pages=3000,requests=12000,write=0.8+dup:share=0.3,compress=0.5,delta=0.2"


def of_command(command: Command, *arguments: str) -> dict[str, Any]:
    done = command("ablate", *arguments, "--json", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["ablations"]
    assert isinstance(record, dict)
    return record


def without_machine(record: dict[str, Any]) -> dict[str, Any]:
    """An ablation without what the runs say of the machine."""
    for subset in record["subsets"]:
        if subset["run"] is not None:
            subset["run"] = measured(subset["run"])
    return record


CALLS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (
        ["--parts", "dedup,delta", "--timing", "event", "--seed", "3", "--set", "gc.policy=fifo"],
        {"parts": ["dedup", "delta"], "timing": "event", "seed": 3, "settings": {"gc.policy": "fifo"}},
    ),
    # The parts of some subsets cannot keep the persistence of the design, which a note says.
    (["--parts", "recycle+compress", "--design", "geckoftl"], {"parts": "recycle+compress", "design": "geckoftl"}),
    # A lazy map refuses all mechanisms but the elimination of silent writes.
    (["--parts", "silent,recycle", "--design", "lazyftl"], {"parts": ("silent", "recycle"), "design": ww.Design("lazyftl")}),
    (["--parts", "remap,dedup", "--design", "wearwell"], {"parts": ["remap", "dedup"], "design": "wearwell"}),
]


@pytest.mark.parametrize(("flags", "keywords"), CALLS, ids=[" ".join(flags) or "defaults" for flags, _ in CALLS])
def test_an_ablation_is_that_of_the_command_line(command: Command, flags: list[str], keywords: dict[str, Any]) -> None:
    result = ww.ablate(ww.Trace.workload(LOAD), jobs=2, **keywords)
    expected = of_command(command, "--workload", LOAD, *flags)
    assert without_machine(result.to_dict()) == without_machine(expected)
    assert str(result).splitlines()[0] in command("ablate", "--workload", LOAD, *flags).stdout


def test_shapley_values_add_up_to_the_change_of_the_whole() -> None:
    result = ww.ablate(ww.Trace.workload(LOAD), parts=["dedup", "delta", "compress"])
    programs = next(figure for figure in result.figures if figure.figure == "programs")
    assert programs.baseline == result.results["none"].programs
    assert programs.whole is not None and programs.baseline is not None
    assert programs.whole.absolute == result.results["dedup+delta+compress"].programs - programs.baseline
    shapley = [gain.shapley for gain in programs.mechanisms]
    assert sum(one.absolute for one in shapley if one is not None) == pytest.approx(programs.whole.absolute)
    assert all(one is not None and one.absolute < 0 for one in shapley)


def test_finished_runs_are_kept_and_shared_with_the_command(command: Command, tmp_path: Path) -> None:
    def ablate(**keywords: Any) -> tuple[ww.AblationResult, set[str]]:
        reported: set[str] = set()
        result = ww.ablate(
            ww.Trace.workload(LOAD), store=tmp_path, progress=lambda phase, *_: reported.add(phase.split(":")[0]), **keywords
        )
        return result, reported

    first, of_first = ablate(parts=["dedup", "delta"])
    assert of_first == {"none", "dedup", "delta", "dedup+delta"}
    again, of_again = ablate(parts=["dedup", "delta"])
    assert of_again == set() and again == first
    larger, of_larger = ablate(parts=["dedup", "delta", "compress"])
    assert of_larger == {"compress", "dedup+compress", "delta+compress", "dedup+delta+compress"}
    done = command("ablate", "--workload", LOAD, "--parts", "dedup,delta,compress", "--resume", str(tmp_path))
    assert "8 of 8 runs were made before" in done.stderr
    assert larger.results.keys() >= first.results.keys()


def test_subsets_of_equal_configurations_run_once() -> None:
    """Deduplication serves the remap commands of the host, so that `remap+dedup` is `dedup`."""
    reported: set[str] = set()
    result = ww.ablate(
        ww.Trace.workload(LOAD), parts=["remap", "dedup"], progress=lambda phase, *_: reported.add(phase.split(":")[0])
    )
    assert reported == {"none", "remap", "dedup"}
    assert result.results["remap+dedup"].programs == result.results["dedup"].programs


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_gives_a_partial_ablation(jobs: int) -> None:
    load = "uniform:pages=20000,requests=3000000+dup:share=0.3"
    call = f"ww.ablate(ww.Trace.workload({load!r}), parts=['dedup', 'recycle'], precondition='none', jobs={jobs}, progress=began)"
    record, warned = interrupted("none: replay", 100_000, call)
    assert [one for one in warned if "the result is partial: 0 of 4 subsets" in one]
    assert record["subsets"][0]["run"]["partial_reason"] == "interrupted"
    assert record["subsets"][3]["run"] is None and record["subsets"][3]["refused"] is None
    assert all(figure["whole"] is None for figure in record["figures"])


REFUSED: list[tuple[list[str], dict[str, Any]]] = [
    (["--parts", "dedup,dedup"], {"parts": ["dedup", "dedup"]}),
    (["--parts", "none"], {"parts": ["none"]}),
    (["--parts", "dedup", "--set", "parts.survives=backward"], {"parts": "dedup", "settings": {"parts.survives": "backward"}}),
    (["--set", "mapping.cache_entries=100"], {"settings": {"mapping.cache_entries": 100}}),
    (["--content", "dup:share=0.5"], {"content_model": "dup:share=0.5"}),
    (["--set", "device.over_provisioning=7"], {"settings": {"device.over_provisioning": 7}}),
]


@pytest.mark.parametrize(("flags", "keywords"), REFUSED, ids=[" ".join(flags) for flags, _ in REFUSED])
def test_what_the_command_refuses_is_refused_alike(command: Command, flags: list[str], keywords: dict[str, Any]) -> None:
    refused_alike(
        command("ablate", "--workload", LOAD, "--quiet", *flags), lambda: ww.ablate(ww.Trace.workload(LOAD), **keywords)
    )


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"design": ww.Design(content=["dedup"])}, "leave it out"),
        ({"settings": {"parts.content": "dedup"}}, "leave it out"),
        ({"parts": ["dedupe"]}, "did you mean"),
        ({"parts": []}, "`parts` names no mechanism"),
        ({"parts": 5}, "parts is 5: give a list of names"),
        ({"parts": b"dedup"}, "parts is b'dedup': give a list of names"),
        ({"jobs": 0}, "jobs is 0"),
        ({"progress": 1}, "progress is 1"),
        ({"scale_to": 1 << 50}, "scale_to"),
    ],
)
def test_arguments_without_sense_are_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ww.WearwellError, match=message.replace("`", ".")):
        ww.ablate(ww.Trace.workload(LOAD), **keywords)


def test_an_ablation_has_tables_a_page_and_copies(tmp_path: Path) -> None:
    result = ww.ablate(ww.Trace.workload(LOAD), parts=["silent", "recycle"], design="lazyftl")
    gains = result.to_pandas()
    assert len(gains) == len(result.figures) * 2
    programs = gains[gains.figure == "programs"].set_index("mechanism")
    assert programs.loc["silent", "alone.relative"] == pytest.approx(
        result.results["silent"].programs / result.results["none"].programs - 1
    )
    assert programs["shapley.absolute"].isna().all()
    runs = result.to_rows("runs")
    assert [row["subset"] for row in runs] == ["none", "recycle", "silent", "recycle+silent"]
    assert [row["refused"] is None for row in runs] == [True, False, True, False]
    assert runs[0]["programs"] == result.results["none"].programs
    (pair,) = [row for row in result.to_rows("overlaps") if row["figure"] == "erases"]
    assert (pair["first"], pair["second"], pair["overlap.absolute"]) == ("recycle", "silent", None)
    with pytest.raises(ww.WearwellError, match="tables of gains, overlaps and runs"):
        result.to_rows("subsets")  # type: ignore[arg-type]
    result.report(tmp_path / "page.html")
    assert "lazyftl" in (tmp_path / "page.html").read_text()
    assert pickle.loads(pickle.dumps(result)) == result == ww.AblationResult(result.to_json())
    assert repr(result).startswith("<AblationResult of recycle+silent on lazyftl")
    assert "<table" in result._repr_html_()
    with pytest.raises(ww.WearwellError, match="not the JSON of an ablation"):
        ww.AblationResult("{}")


def test_years_of_a_larger_drive_are_those_of_the_command_line(command: Command) -> None:
    load = LOAD.replace("write=0.8", "write=0.8,rate=2000")
    result = ww.ablate(ww.Trace.workload(load), parts=["dedup"], scale_to=1 << 40)
    assert without_machine(result.to_dict()) == without_machine(
        of_command(command, "--workload", load, "--parts", "dedup", "--scale-to", "1TiB")
    )
    assert all(one.lifetime.scaled_years is not None for one in result.results.values())
