"""Python and the command line are two doors to one engine: the same run has the same record, or the same refusal."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
import wearwell as ww

from common import PGBENCH, Command, measured, record_of, sentence_of


class Drawn(NamedTuple):
    """One run, for both doors."""

    arguments: list[str]
    trace: ww.Trace
    drive: dict[str, Any]
    design: dict[str, Any]
    keywords: dict[str, Any]


SEEDS = 100

LOADS = [
    "uniform:pages={pages},requests={requests},write={share}",
    "zipf:pages={pages},requests={requests},theta=0.9,read={share},rate=2000",
    "hotcold:pages={pages},requests={requests}",
    "sequential:pages={pages},requests={requests}",
]
CONTENTS = [
    ["recycle"],
    ["dedup"],
    ["remap"],
    ["delta"],
    ["compress"],
    ["dedup", "recycle"],
    ["delta", "recycle"],
    [],
]
POLICIES = ["greedy", "cost-benefit", "d-choices", "random", "fifo", "rc-gc"]


def drawn(seed: int) -> Drawn:
    """A run that the seed decides. Not all of them can be: a refusal has to be the same, too."""
    draw = random.Random(seed)
    arguments: list[str] = ["replay"]
    if draw.random() < 0.2:
        requests = draw.randrange(500, 3000)
        trace, keywords = ww.Trace(PGBENCH), {"requests": requests}
        arguments += [PGBENCH, "--requests", str(requests)]
    else:
        load = draw.choice(LOADS).format(
            pages=draw.randrange(1000, 4000),
            requests=draw.randrange(1000, 6000),
            share=round(draw.random(), 2),
        )
        trace, keywords = ww.Trace.workload(load), {}
        arguments += ["--workload", load]
    name = draw.choice([*ww.Design.names()])
    design: dict[str, Any] = {"name": name}
    arguments += ["--design", name]
    if draw.random() < 0.4:
        content = draw.choice(CONTENTS)
        design["content"] = content
        arguments += ["--set", f"parts.content={','.join(content) or 'none'}"]
    drive: dict[str, Any] = {}
    if draw.random() < 0.7:
        drive["over_provisioning"] = draw.choice([0.07, 0.15, 0.28, 0.5])
        arguments += ["--over-provisioning", str(drive["over_provisioning"])]
    flags: list[tuple[str, str, list[Any]]] = [
        ("--timing", "timing", ["none", "timeline", "event"]),
        ("--precondition", "precondition", ["in-use", "none", "fill", "steady", "random", "aged"]),
        ("--seed", "seed", [2, 3, 4]),
        ("--content", "content_model", ["dup:share=0.3,compress=0.5"]),
        ("--arrival", "arrival", ["closed"]),
        ("--queue-depth", "queue_depth", [4]),
    ]
    for flag, keyword, values in flags:
        if draw.random() < (0.6 if len(values) > 1 else 0.15):
            value = draw.choice(values)
            keywords[keyword] = value
            arguments += [flag, str(value)]
    settings: dict[str, Any] = {}
    if draw.random() < 0.5:
        settings["gc.policy"] = draw.choice(POLICIES)
    if draw.random() < 0.3:
        settings["wear.static_gap"] = draw.choice([4, 20])
    if draw.random() < 0.3:
        settings["buffer.pages"] = draw.choice([0, 16])
    arguments += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return Drawn(arguments, trace, drive, design, {**keywords, "settings": settings})


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_run_has_the_record_of_the_command_line(command: Command, seed: int) -> None:
    run = drawn(seed)
    done = command(*run.arguments, "--json", "-", "--quiet")
    try:
        result = ww.replay(run.trace, ww.Drive(**run.drive), ww.Design(**run.design), **run.keywords)
    except ww.WearwellError as error:
        assert str(error) == sentence_of(done.stderr), " ".join(run.arguments)
    else:
        assert done.returncode == 0, done.stderr
        assert measured(result.to_dict()) == measured(record_of(done.stdout)), " ".join(run.arguments)


def test_most_of_the_random_runs_are_runs() -> None:
    def runs(seed: int) -> bool:
        run = drawn(seed)
        try:
            ww.replay(run.trace, ww.Drive(**run.drive), ww.Design(**run.design), **run.keywords)
        except ww.WearwellError:
            return False
        return True

    assert sum(runs(seed) for seed in range(SEEDS)) >= 50


def test_a_size_to_scale_to_is_that_of_the_command_line(command: Command) -> None:
    load = "uniform:pages=3000,requests=20000,rate=1000"
    done = command("replay", "--workload", load, "--scale-to", "1TiB", "--json", "-", "--quiet")
    result = ww.replay(ww.Trace.workload(load), scale_to=1 << 40)
    assert result.lifetime.scaled_years is not None
    assert measured(result.to_dict()) == measured(record_of(done.stdout))


def test_the_text_of_a_result_is_the_table_of_the_command_line(command: Command) -> None:
    load = "zipf:pages=2000,requests=8000"
    printed = command("replay", "--workload", load).stdout
    text = str(ww.replay(ww.Trace.workload(load)))

    def without_time(table: str) -> list[list[str]]:
        return [line.split() for line in table.splitlines() if "CPU s" not in line]

    assert without_time(text) == without_time(printed)
