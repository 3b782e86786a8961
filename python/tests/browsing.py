"""What the tests of pages share: a page that is listened to, and whether its charts are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Dialog, Locator, Page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
COUNTED = """figure => {
  const canvas = figure.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const described = figure.querySelector("[role=img]").getAttribute("aria-label");
  return [...figure.querySelectorAll(".legend button")].map(button => {
    const style = getComputedStyle(button.querySelector(".key")).backgroundColor;
    const [r, g, b] = style.match(/[0-9.]+/g).map(Number);
    let pixels = 0;
    for (let k = 0; k < data.length; k += 4) {
      const away = Math.abs(data[k] - r) + Math.abs(data[k + 1] - g) + Math.abs(data[k + 2] - b);
      if (data[k + 3] > 128 && away < 48) pixels += 1;
    }
    const label = button.textContent;
    return { label, pixels, isOn: button.getAttribute("aria-pressed") === "true", isEmpty: described.includes(`${label}: no values`) };
  });
}"""
"""Of each series of a chart how many pixels have its colour."""


@dataclass
class Heard:
    """What a page did that it must not do."""

    messages: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def listen_to(self, page: Page) -> None:
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("dialog", self.dismiss)
        page.on("request", lambda request: self.addresses.append(request.url))

    def dismiss(self, dialog: Dialog) -> None:
        self.messages.append(dialog.message)
        dialog.dismiss()


@contextmanager
def opened(browser: Browser, path: Path, **options: Any) -> Iterator[Page]:
    """A page in a window of its own, which must have been silent and alone when it is closed."""
    heard, context = Heard(), browser.new_context(**options)
    page = context.new_page()
    heard.listen_to(page)
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    yield page
    assert heard.messages == []
    assert [one for one in heard.addresses if not one.startswith(("data:", "blob:"))] == [path.as_uri()]
    context.close()


def charts(page: Page) -> list[Locator]:
    return page.locator("figure:has(.plot)").all()


def assert_drawn(page: Page) -> None:
    """Every series that is on and has values has pixels of its colour."""
    found = charts(page)
    assert found
    for chart in found:
        title = chart.locator("h3").inner_text()
        series = chart.evaluate(COUNTED)
        assert series, title
        for one in series:
            assert not one["isOn"] or one["isEmpty"] or one["pixels"] >= 3, (title, one)
        assert any(one["pixels"] >= 8 for one in series), title


def assert_fits(page: Page) -> None:
    wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window


def drawing(canvas: Locator) -> str:
    return str(canvas.evaluate("canvas => canvas.toDataURL()"))
