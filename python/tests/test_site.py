"""The documentation site: it is built without a warning, its links lead somewhere, and every public name of the package is in it."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest
import wearwell
from playwright.sync_api import Browser
from sphinx.util.inventory import InventoryFile

from common import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, command_path: Path, executed_notebooks: Path) -> Path:
    """The site, built from this checkout."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, ROOT / "docs/site/build.py", command_path, out, executed_notebooks],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


class Page(HTMLParser):
    """Anchors of a page, and what it refers to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.references: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.references.append(value)


class Reference(NamedTuple):
    """A reference of a page to a file of the site, and to an anchor in it."""

    page: str
    target: Path
    anchor: str


def references(site: Path, pages: dict[Path, Page]) -> list[Reference]:
    found = []
    for path, page in pages.items():
        for reference in page.references:
            parts = urlsplit(reference)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found.append(Reference(str(path.relative_to(site)), target, unquote(parts.fragment)))
    return found


def test_no_link_of_the_site_leads_nowhere(site: Path) -> None:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    found = references(site.resolve(), pages)
    assert len(found) > 5000, "links are found"
    missing = {(each.page, str(each.target)) for each in found if not each.target.exists()}
    assert not missing
    anchors = {
        (each.page, str(each.target), each.anchor)
        for each in found
        if each.anchor and each.target in pages and each.anchor not in pages[each.target].anchors
    }
    assert not anchors


def test_every_public_name_of_the_package_has_an_entry(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    entries = {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}
    assert {f"wearwell.{name}" for name in wearwell.__all__} <= entries
    assert {"wearwell.Result.write_amplification", "wearwell.Device.write", "wearwell._records.LifetimeRecord.years"} <= entries


def test_every_command_and_every_schema_has_a_page(site: Path, command_path: Path, tmp_path: Path) -> None:
    subprocess.run([command_path, "man", tmp_path], check=True)
    manuals = {manual.stem for manual in tmp_path.glob("*.1")}
    assert "wearwell-replay" in manuals
    assert manuals <= {page.stem for page in (site / "docs/commands").glob("*.html")}
    schemas = {schema.stem for schema in (ROOT / "docs/schema").glob("*.json")}
    assert schemas <= {page.stem for page in (site / "docs/schema").glob("*.html")}


def test_pages_fit_a_narrow_screen(site: Path, browser: Browser) -> None:
    names = [
        "docs/README",
        "docs/configuration",
        "docs/python-reference",
        "docs/commands/wearwell-replay",
        "docs/schema/runs",
        "examples/notebooks/trace_to_answer",
    ]
    page = browser.new_page(viewport={"width": 390, "height": 844})
    for name in names:
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 390, name
    page.close()
