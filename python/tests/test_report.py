"""Pages of results in a browser: they are drawn, they answer to mouse and keyboard, they load nothing, and no name is markup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import wearwell as ww
from playwright.sync_api import Browser, Page
from wearwell import _native

from browsing import COUNTED, HOSTILE, assert_drawn, assert_fits, drawing, opened
from common import PGBENCH, ROOT, Command, write_trace

LOAD = "zipf:pages=4000,requests=20000,read=0.3,rate=2000"
SWEEP = f"""
[sweep]
workloads = ["{LOAD}"]
designs = ["page-map", "dftl"]
vary.device.over_provisioning = [0.07, 0.15, 0.28]
"""
COMMANDS = {
    "replay": ["replay", "--workload", LOAD, "--timing", "event"],
    "few reads": ["replay", PGBENCH, "--timing", "event"],
    "compare": [
        *["compare", "--workload", f"{LOAD}+dup:share=0.3", "--designs", "page-map,recyclable,geckoftl"],
        *["--timing", "event"],
    ],
    "ablate": ["ablate", "--workload", f"{LOAD}+dup:share=0.3", "--parts", "recycle,dedup,delta"],
    "life": [
        *["life", "--workload", LOAD, "--leveling", "none,static", "--seeds", "2"],
        *["--set", "device.endurance_cycles=30"],
    ],
    "profile": [
        *["profile", "--workload", f"{LOAD},size=1:3/8:1+dup:share=0.3,compress=0.5,delta=0.2"],
        "--run",
    ],
    "sweep": ["sweep", "sweep.toml"],
    "diff": ["diff", "compare.html", "other.html"],
}
"""Commands that have pages; the last one compares two of them."""

@pytest.fixture(scope="module")
def pages(command: Command, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every command that has one."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "sweep.toml").write_text(SWEEP)

    def run(name: str, arguments: list[str]) -> Path:
        page = folder / f"{name}.html"
        in_folder = [str(folder / one) if one.endswith((".toml", ".html")) else one for one in arguments]
        done = command(*in_folder, "--report", str(page))
        assert done.returncode == 0, done.stderr
        return page

    run("other", [*COMMANDS["compare"], "--over-provisioning", "0.25"])
    return {name: run(name, arguments) for name, arguments in COMMANDS.items()}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn(browser: Browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    with opened(browser, pages[name], color_scheme=scheme, viewport={"width": 1280, "height": 900}) as page:
        assert_drawn(page)
        assert_fits(page)
        assert page.locator("table").count() > 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_phone_and_paper_need_no_horizontal_scrolling(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    with opened(browser, pages[name], viewport={"width": 390, "height": 844}, device_scale_factor=2) as page:
        assert_fits(page)
        assert_drawn(page)
    with opened(browser, pages[name], viewport={"width": 794, "height": 1100}, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert_fits(page)
        assert_drawn(page)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(page.pdf()) > 10_000


def test_the_slider_moves_the_map_by_mouse_and_by_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["replay"], viewport={"width": 1280, "height": 900}) as page:
        figure = page.locator("figure:has(canvas.map)")
        slider, canvas, moment = figure.get_by_role("slider"), figure.locator("canvas.map"), figure.locator("output")
        last, at_the_end = moment.inner_text(), drawing(canvas)
        assert "after 20,000 requests" in last
        slider.click(position={"x": 4, "y": 10})
        assert "after 0 requests" in moment.inner_text()
        assert drawing(canvas) != at_the_end
        assert slider.get_attribute("aria-valuetext") == moment.inner_text()
        wear = page.locator("figure:has(h3:text-is('Wear of the blocks')) canvas")
        at_first = drawing(wear)
        slider.press("End")
        assert moment.inner_text() == last and drawing(canvas) == at_the_end
        assert drawing(wear) != at_first
        slider.press("ArrowLeft")
        assert moment.inner_text() != last
        canvas.press("ArrowRight")
        assert "block 0:" in figure.locator(".readout").inner_text()
        canvas.press("ArrowRight")
        canvas.press("ArrowDown")
        assert "block 1:" not in figure.locator(".readout").inner_text()
        by_pages = drawing(canvas)
        figure.get_by_role("button", name="by kind").press("Enter")
        assert drawing(canvas) != by_pages


def test_series_are_toggled_by_mouse_and_by_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["compare"], viewport={"width": 1280, "height": 900}) as page:
        chart = page.locator("figure:has(h3:text-is('Write amplification over time'))")

        def pixels() -> list[int]:
            return [one["pixels"] for one in chart.evaluate(COUNTED)]

        before = pixels()
        button = chart.get_by_role("button", name="recyclable")
        button.click()
        assert button.get_attribute("aria-pressed") == "false" and pixels()[1] < before[1] / 4
        button.press("Space")
        assert button.get_attribute("aria-pressed") == "true" and pixels() == before
        for entry in chart.locator(".legend button").all():
            entry.click()
        assert max(pixels()) < 8
        for entry in chart.locator(".legend button").all():
            entry.click()
        page.mouse.move(0, 0)  # A chart that scrolls below the pointer follows it.
        plot, readout = chart.locator(".plot"), chart.locator(".readout")
        plot.press("ArrowRight")
        first = readout.inner_text()
        plot.press("ArrowRight")
        assert first.startswith("requests ") and readout.inner_text() != first
        assert all(name in first for name in ("page-map", "recyclable", "geckoftl"))
        chart.get_by_text("Data as a table").click()
        chart.locator("tbody tr").nth(10).wait_for()
        page.locator("select").nth(0).select_option(label="device time, s")
        plot.press("ArrowRight")
        assert readout.inner_text().startswith("device time, s ")
        page.locator("select").nth(1).select_option(label="geckoftl")
        causes = page.locator("figure:has(h3:text-is('Programs by cause over time'))")
        assert "of translation pages" in causes.locator(".legend").inner_text()
        assert_drawn(page)


BAND = """figure => {
  const canvas = figure.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const [line] = [...figure.querySelectorAll(".legend .key")].map(key => getComputedStyle(key).backgroundColor.match(/[0-9.]+/g).map(Number));
  let pixels = 0;
  for (let k = 0; k < data.length; k += 4) {
    // The canvas is transparent, so that a band has the colour of its line and little opacity.
    const away = Math.abs(data[k] - line[0]) + Math.abs(data[k + 1] - line[1]) + Math.abs(data[k + 2] - line[2]);
    if (data[k + 3] > 30 && data[k + 3] < 80 && away < 48) pixels += 1;
  }
  return pixels;
}"""
"""Number of pixels in the band of the first series."""


def test_lives_of_several_seeds_have_bands_and_each_drive_can_be_shown(
    browser: Browser, pages: dict[str, Path]
) -> None:
    with opened(browser, pages["life"], viewport={"width": 1280, "height": 900}) as page:
        chart = page.locator("figure:has(h3:text-is('Spare blocks left'))")
        assert "mean of 2 drives, band: least and greatest" in chart.inner_text()
        assert chart.evaluate(BAND) > 20
        plot, readout = chart.locator(".plot"), chart.locator(".readout")
        plot.press("End")
        assert "none " in readout.inner_text() and " to " in readout.inner_text()
        chart.get_by_text("Data as a table").click()
        chart.locator("tbody tr").nth(5).wait_for()
        assert "none, low" in chart.locator("thead").inner_text()
        ended = page.locator("figure:has(h3:text-is('Drives that have ended'))")
        ended.locator(".plot").press("End")
        assert "100" in ended.locator(".readout").inner_text()
        page.locator("select").nth(0).select_option(label="each drive")
        assert "seed 2" in chart.locator(".legend").inner_text()
        assert_drawn(page)


def test_a_page_of_five_seeds_has_the_interval_of_students_t(browser: Browser, tmp_path: Path) -> None:
    drives = [
        ww.life(
            ww.Trace.workload(LOAD), seeds=5, leveling=leveling, settings={"device.endurance_cycles": 30}
        )
        for leveling in ("none", "static")
    ]
    drives[0].report(tmp_path / "life.html", beside=drives[1:])
    with opened(browser, tmp_path / "life.html", viewport={"width": 390, "height": 844}) as page:
        assert_drawn(page)
        assert_fits(page)
        chart = page.locator("figure:has(h3:text-is('Spare blocks left'))")
        assert "mean of 5 drives, band: 95 % interval of the mean (Student's t)" in chart.inner_text()
        assert "static" in chart.locator(".legend").inner_text()


def test_a_profile_shows_what_is_saved_when_run(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    with opened(browser, pages["profile"], viewport={"width": 1280, "height": 900}) as page:
        chart = page.locator("figure:has(h3:text-is('What each mechanism saves'))")
        assert "when run" in chart.locator(".legend").inner_text()
        assert "when run" in page.locator("table.answer").inner_text()
    ww.profile(ww.Trace.workload(f"{LOAD}+dup:share=0.3")).report(tmp_path / "profile.html")
    with opened(browser, tmp_path / "profile.html") as page:
        assert_drawn(page)
        assert "when run" not in page.locator("table.answer").inner_text()


def test_everything_can_be_reached_and_has_a_name(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["compare"], viewport={"width": 1280, "height": 900}) as page:
        unnamed = page.evaluate(
            """[...document.querySelectorAll("button, select, input, canvas.map, .plot, summary, [tabindex='0']")].filter(one =>
            !(one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label"))).map(one => one.outerHTML)"""
        )
        assert unnamed == []
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.className || document.activeElement.tagName"))
        assert {"skip", "plot", "BUTTON", "SELECT"} <= reached
        assert page.locator("h1").count() == 1


def test_colours_follow_the_button(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["replay"], color_scheme="light") as page:

        def paper() -> str:
            return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

        button, light = page.locator("#theme"), paper()
        button.click()
        assert paper() == light and "light" in button.inner_text()
        button.press("Enter")
        assert paper() != light and "dark" in button.inner_text()
        assert_drawn(page)


def test_settings_that_are_default_can_be_hidden(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["replay"]) as page:
        page.get_by_text("Configuration and provenance").click()
        rows = page.locator(".filtered tbody tr")
        visible = rows.filter(visible=True)
        everything = visible.count()
        assert everything == rows.count() > 80
        page.get_by_label("without rows that are default").check()
        left = visible.locator("td:last-child").all_inner_texts()
        assert 5 < len(left) < everything / 2 and "default" not in left and "set" in left, left


def test_the_record_can_be_saved(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    with opened(browser, pages["replay"]) as page:
        with page.expect_download() as download:
            page.get_by_role("button", name="Save the JSON").click()
        download.value.save_as(tmp_path / "record.json")
    saved = json.loads((tmp_path / "record.json").read_text())
    assert saved["runs"][0]["design"] == "page-map"


def test_a_page_reads_without_scripts(browser: Browser, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["compare"].as_uri())
    assert "write amplification" in page.locator("table.answer").inner_text()
    assert page.locator("#theme").is_hidden()
    context.close()


def test_hostile_names_are_shown_as_they_are(browser: Browser, command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "<img src=x onerror=alert(1)>\"'&.csv"
    write_trace(trace, requests=500, pages=97)
    done = command("compare", str(trace), "--report", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    with opened(browser, tmp_path / "page.html") as page:
        assert page.locator("h2").inner_text() == str(trace)
        assert page.locator("img").count() == 0
    record = ww.replay(str(trace)).to_json()
    failure = (HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    text = _native.html_page_of_sweep([(f"{HOSTILE}={k}", record) for k in range(3)], [failure])
    (tmp_path / "sweep.html").write_text(text, encoding="utf-8")
    with opened(browser, tmp_path / "sweep.html") as page:
        assert HOSTILE in page.locator(".notes").inner_text()
        assert page.locator("img").count() == 0


def test_hundreds_of_runs_have_a_page(browser: Browser, tmp_path: Path) -> None:
    record = ww.replay(ww.Trace.workload("zipf:pages=2000,requests=4000")).to_dict()
    # Lines of different heights: lines that lie on each other hide each other.
    heights = [{"bytes": {**record["bytes"], "write_amplification": 2.0 + k % 7}} for k in range(300)]
    records = [json.dumps({**record, **height}) for height in heights]
    runs = [
        (f"gc.policy=policy-{k % 7} device.over_provisioning=0.{10 + k % 50}", records[k]) for k in range(300)
    ]
    (tmp_path / "page.html").write_text(_native.html_page_of_sweep(runs, []), encoding="utf-8")
    with opened(browser, tmp_path / "page.html", viewport={"width": 390, "height": 844}) as page:
        assert_fits(page)
        assert_drawn(page)


def test_results_and_sweeps_report_themselves(browser: Browser, tmp_path: Path) -> None:
    result = ww.replay(ww.Trace.workload(LOAD), timing="event", settings={"replay.timeline_cells": 512})
    result.report(tmp_path / "result.html")
    with opened(browser, tmp_path / "result.html") as page:
        assert_drawn(page)
        assert page.locator("canvas.map").count() == 1
    sweep = ww.sweep(
        ww.Trace.workload(LOAD),
        design=["page-map", "dftl"],
        over_provisioning=[0.1, 0.2, 7.0],
        progress=False,
    )
    sweep.report(tmp_path / "sweep.html")
    with opened(browser, tmp_path / "sweep.html") as page:
        assert_drawn(page)
        assert "device.over_provisioning is 7" in page.locator(".notes").inner_text()
        assert "over device.over_provisioning" in page.locator("figure h3").inner_text()


def test_the_lines_of_the_documentation_read_a_page(
    pages: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "designs.html").write_text(pages["compare"].read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = (ROOT / "docs/reports.md").read_text().split("```python\n")[1].split("```")[0]
    exec(compile(lines, "docs/reports.md", "exec"), {})
    assert 0.5 < float(capsys.readouterr().out) < 0.95
