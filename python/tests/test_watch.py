"""The page of `wearwell watch` in a browser: it draws the flash, follows keyboard and address, and loads nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, ViewportSize

from browsing import assert_fits, opened
from common import Command, write_trace

DESIGNS = ["page-map", "remap", "geckoftl", "wearwell"]
WIDE: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def walks(command: Command, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A walk of each design, with a loss of power in it."""
    folder = tmp_path_factory.mktemp("walks")

    def walk(design: str) -> Path:
        page = folder / f"{design}.html"
        done = command(
            "watch", "--design", design, "--requests", "160", "--cut-after", "140", "--out", str(page)
        )
        assert done.returncode == 0, done.stderr
        return page

    return {design: walk(design) for design in DESIGNS}


def states(page: Page) -> list[str]:
    """The class of every cell of the flash: what it holds, and what the step did to it."""
    return list(page.locator(".die .cell").evaluate_all("cells => cells.map(cell => cell.className)"))


def record(page: Page) -> dict[str, Any]:
    text = page.locator("#record").text_content()
    assert text is not None
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def states_by_page(page: Page) -> list[str]:
    """The class of every cell of the flash, by page number."""
    cells = page.locator(".die .cell").evaluate_all(
        "cells => cells.map(cell => [Number(cell.dataset.page), cell.className])"
    )
    return [css for _, css in sorted(cells)]


def shows(css: str, state: str) -> bool:
    """Whether a cell of this class shows a page in this state; a valid page shows what it holds."""
    others = {"free", "invalid", "recyclable", "torn"}
    return state in css.split() or (state == "valid" and not others & set(css.split()))


def go(page: Page, number: int) -> None:
    page.evaluate(f"location.hash = '#step={number}'")
    expect(page.locator(".controls output")).to_contain_text(f"step {number} of")


def step(page: Page) -> int:
    return int(page.locator(".controls input[type=range]").input_value())


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_flash_is_drawn_as_the_record_says(
    browser: Browser, walks: dict[str, Path], design: str, scheme: str
) -> None:
    with opened(browser, walks[design], color_scheme=scheme, viewport=WIDE) as page:
        walk = record(page)
        drive, steps, names = walk["drive"], walk["steps"], walk["names"]
        pages = dict.fromkeys(range(drive["blocks"] * drive["block_pages"]), 0)
        for number, one in enumerate(steps):
            pages.update({row[0]: row[1] for row in one["pages"]})
            if number % 29 == 0 or number > 138:
                go(page, number)
                wrong = [
                    (number, ppn, names["page_states"][state], css)
                    for (ppn, state), css in zip(sorted(pages.items()), states_by_page(page), strict=True)
                    if not shows(css, names["page_states"][state])
                ]
                assert wrong == []
        colours = page.locator(".die .cell").evaluate_all(
            "cells => [...new Set(cells.map(cell => getComputedStyle(cell).backgroundColor))]"
        )
        assert len(colours) > 1
        assert_fits(page)


def test_the_keyboard_steps(browser: Browser, walks: dict[str, Path]) -> None:
    with opened(browser, walks["page-map"], viewport=WIDE) as page:
        title, before = page.locator(".telling h3"), states(page)
        assert title.inner_text() == "The drive is new"
        page.keyboard.press("ArrowRight")
        assert step(page) == 1 and states(page) != before and "The host" in title.inner_text()
        page.keyboard.press("End")
        last = step(page)
        assert last == len(record(page)["steps"]) - 1
        page.keyboard.press("ArrowLeft")
        assert step(page) == last - 1
        page.keyboard.press("Home")
        assert step(page) == 0 and states(page) == before
        page.keyboard.press("Space")
        expect(page.locator(".controls output")).to_contain_text("step 1 of")
        page.keyboard.press("Space")
        assert page.get_by_role("button", name="play").get_attribute("aria-pressed") == "false"


def test_a_collection_shows_its_candidates_and_arrows(browser: Browser, walks: dict[str, Path]) -> None:
    with opened(browser, walks["page-map"], viewport=WIDE) as page:
        jump, arrows = page.get_by_role("button", name="next collection"), page.locator(".arrows path")
        jump.click()
        found = step(page)
        assert found > 0 and page.locator(".victims .chosen").count() >= 1
        assert "Garbage collection" in page.locator(".telling").inner_text()
        for _ in range(20):
            if arrows.count() > 0:
                break
            jump.press("Enter")
        copies = page.locator(".operations li", has_text="copy")
        assert arrows.count() > 0 and copies.count() > 0
        after = states(page)
        page.get_by_role("button", name="show the flash before the step").click()
        assert states(page) != after


def test_a_bind_is_found_and_shared_pages_are_marked(browser: Browser, walks: dict[str, Path]) -> None:
    with opened(browser, walks["remap"], viewport=WIDE) as page:
        page.get_by_role("button", name="next bind").click()
        assert "a bind" in page.locator(".telling").inner_text()
        assert page.locator(".die .cell.shared").count() > 0


@pytest.mark.parametrize("design", DESIGNS)
def test_power_is_lost_and_the_drive_recovers(browser: Browser, walks: dict[str, Path], design: str) -> None:
    with opened(browser, walks[design], viewport=WIDE) as page:
        page.get_by_role("button", name="next loss of power").click()
        assert "Power is lost" in page.locator(".telling h3").inner_text()
        page.keyboard.press("ArrowRight")
        assert "recovers" in page.locator(".telling h3").inner_text()
        assert "Recovery" in page.locator(".telling").inner_text()
        page.keyboard.press("ArrowRight")
        assert "The host" in page.locator(".telling h3").inner_text()


def test_an_address_names_a_step(browser: Browser, walks: dict[str, Path]) -> None:
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    page.goto(f"{walks['page-map'].as_uri()}#step=77")
    page.wait_for_selector("body[data-ready]")
    assert step(page) == 77
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("#step=78$"))
    page.goto(f"{walks['page-map'].as_uri()}#step=100000")
    expect(page).not_to_have_url(re.compile("100000$"))
    assert step(page) == len(record(page)["steps"]) - 1
    context.close()


def test_a_flash_page_is_read_out_by_keyboard_and_pointer(browser: Browser, walks: dict[str, Path]) -> None:
    with opened(browser, walks["page-map"], viewport=WIDE) as page:
        go(page, 60)
        readout = page.locator(".flashing .readout")
        page.locator(".flash").press("ArrowRight")
        assert readout.inner_text().startswith("block 0, page 0: ")
        page.locator(".flash").press("ArrowRight")
        assert readout.inner_text().startswith("block 0, page 1: ") and step(page) == 60
        page.locator(".die .cell").nth(3).hover()
        assert readout.inner_text().startswith("block 0, page 3: ")


def test_a_phone_and_paper_need_no_horizontal_scrolling(browser: Browser, walks: dict[str, Path]) -> None:
    with opened(
        browser, walks["wearwell"], viewport={"width": 390, "height": 844}, device_scale_factor=2
    ) as page:
        page.get_by_role("button", name="next metadata write").click()
        assert_fits(page)
    with opened(
        browser, walks["page-map"], viewport={"width": 794, "height": 1100}, color_scheme="dark"
    ) as page:
        page.get_by_role("button", name="next collection").click()
        page.emulate_media(media="print")
        assert_fits(page)
        assert page.locator(".controls button").first.is_hidden()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert len(page.pdf()) > 10_000


def test_everything_can_be_reached_and_has_a_name(browser: Browser, walks: dict[str, Path]) -> None:
    with opened(browser, walks["wearwell"], viewport=WIDE) as page:
        unnamed = page.evaluate(
            """[...document.querySelectorAll("button, select, input, summary, [tabindex='0']")].filter(one =>
            !(one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label"))).map(one => one.outerHTML)"""
        )
        assert unnamed == []
        assert page.locator(".telling").get_attribute("aria-live") == "polite"
        label = page.locator(".flash").get_attribute("aria-label")
        assert label is not None and label.startswith("Flash after step 0: 96 free")


def test_a_hostile_name_is_shown_as_it_is(browser: Browser, command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "<script>alert(1)<img src=x onerror=alert(2)>\"'&.csv"
    write_trace(trace, requests=60, pages=9)
    done = command("watch", str(trace), "--out", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    with opened(browser, tmp_path / "page.html") as page:
        assert page.locator("h2").inner_text() == str(trace)
        assert page.locator("img").count() == 0
        page.keyboard.press("End")
        assert step(page) == 60


def test_a_page_reads_without_scripts(browser: Browser, walks: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(walks["page-map"].as_uri())
    assert page.locator(".steps li").count() == 162
    page.locator("summary", has_text="All steps as text").click()
    assert page.locator(".steps li").nth(1).inner_text().startswith("The host ")
    context.close()
