"""The live device in a browser: charts and map are drawn, figures follow writes, keyboard and names work, nothing is loaded from
elsewhere, and a server that is full, gone or started again is reported."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from browsing import HOSTILE, Heard, assert_drawn, assert_fits, drawing
from common import Command

PAGE_BYTES = 4096
SIZE_MIB = 16
SCRIPT = "<script>alert(1)</script>"
CHARTS = ["Write amplification", "Requests of hosts", "Programs by cause", "Erases", "Reads of flash", "Wear of the blocks"]
PATIENCE_MS = 60_000


class Server:
    """`wearwell serve` with a dashboard at a port of its choice."""

    def __init__(self, command_path: Path, folder: Path, *arguments: str, port: int = 0) -> None:
        self.socket = folder / "nbd"
        doors = ["--socket", str(self.socket), "--dashboard", f"127.0.0.1:{port}"]
        started = [str(command_path), "serve", *arguments, *doors]
        self.process = subprocess.Popen(started, stderr=subprocess.PIPE, text=True)
        self.address = self.find_address()
        # What follows is read too: a full pipe would stop the server.
        threading.Thread(target=self.process.communicate, daemon=True).start()

    def find_address(self) -> str:
        assert self.process.stderr is not None
        lines: list[str] = []
        for line in self.process.stderr:
            lines.append(line)
            if "serving " in line:
                (address,) = (line.split("dashboard at ")[1] for line in lines if "dashboard at " in line)
                return address.strip()
        raise AssertionError(lines)

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1].rstrip("/"))

    def end(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0


class Writer:
    """A client of NBD in the oldest way, that writes and reads pages at random."""

    def __init__(self, path: Path, export: str) -> None:
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(str(path))
        self.random = random.Random(7)
        name = export.encode()
        assert len(self.receive(18)) == 18
        self.stream.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, len(name)) + name)
        self.receive(10)

    def receive(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            part = self.stream.recv(count - len(received))
            assert part, "the server hung up"
            received += part
        return received

    def request(self, command: int, page: int, payload: bytes = b"") -> None:
        self.stream.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 1, page * PAGE_BYTES, PAGE_BYTES) + payload)
        assert struct.unpack(">IIQ", self.receive(16)) == (0x67446698, 0, 1)

    def fill(self) -> None:
        """Writes every page once."""
        for page in range(SIZE_MIB * 256):
            self.request(1, page, self.random.randbytes(PAGE_BYTES))

    def write(self, count: int) -> None:
        for _ in range(count):
            self.request(1, self.random.randrange(SIZE_MIB * 256), self.random.randbytes(PAGE_BYTES))

    def read(self, page: int) -> None:
        self.request(0, page)
        self.receive(PAGE_BYTES)


class Load:
    """Writes and reads until it is ended."""

    def __init__(self, server: Server, export: str = "wearwell") -> None:
        self.writer = Writer(server.socket, export)
        self.writer.fill()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.is_over.wait(0.02):
            self.writer.write(20)
            self.writer.read(3)

    def end(self) -> None:
        self.is_over.set()
        self.thread.join()
        self.writer.stream.close()


@pytest.fixture(scope="module")
def server(command_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    memory = ["--memory", "--size", f"{SIZE_MIB}MiB", "--design", "dftl"]
    server = Server(command_path, tmp_path_factory.mktemp("served"), *memory)
    yield server
    server.end()


@pytest.fixture
def load(server: Server) -> Iterator[Load]:
    load = Load(server)
    yield load
    load.end()


@contextmanager
def opened(browser: Browser, server: Server, **options: Any) -> Iterator[Page]:
    """The dashboard in a window of its own, which must have been silent and have asked nobody but the server."""
    heard, context = Heard(), browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    heard.listen_to(page)
    page.goto(server.address)
    page.wait_for_selector("body[data-ready]")
    yield page
    assert heard.messages == []
    assert [one for one in heard.addresses if not one.startswith(("data:", server.address))] == []
    context.close()


def tile(page: Page, name: str) -> Locator:
    return page.locator(f".tiles > div:has(dt:text-is('{name}')) .now")


def figure(page: Page, title: str) -> Locator:
    return page.locator(f"figure:has(h3:text-is('{title}'))")


def wait_for_rates(page: Page) -> None:
    """Waits for the third moment: two rates are a line."""
    expect(tile(page, "Host writes")).not_to_have_text("-", timeout=PATIENCE_MS)
    before = page.locator("#tiles").inner_text()
    page.wait_for_function("before => document.getElementById('tiles').innerText !== before", arg=before)
    page.wait_for_timeout(2500)


def number(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_chart_is_drawn_and_nothing_is_wider_than_the_window(
    browser: Browser, server: Server, load: Load, scheme: str, width: int
) -> None:
    with opened(browser, server, color_scheme=scheme, viewport={"width": width, "height": 900}) as page:
        wait_for_rates(page)
        assert page.locator("figure:has(.plot) h3").all_inner_texts() == CHARTS
        assert_drawn(page)
        assert_fits(page)
        pixels = map_pixels(page)
        assert pixels["valid"] > 500 and pixels["invalid"] > 50


def map_pixels(page: Page) -> dict[str, int]:
    """How many pixels of the map have the colours of its key."""
    counted: dict[str, int] = page.locator("figure:has(canvas.map)").evaluate(
        """figure => {
          const canvas = figure.querySelector("canvas.map");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const count = (key) => {
            const [r, g, b] = getComputedStyle(key).backgroundColor.match(/[0-9.]+/g).map(Number);
            let pixels = 0;
            for (let k = 0; k < data.length; k += 4) pixels += data[k] === r && data[k + 1] === g && data[k + 2] === b && data[k + 3] === 255;
            return pixels;
          };
          return Object.fromEntries([...figure.querySelectorAll(".key")].map(key => [key.parentElement.textContent, count(key)]));
        }"""
    )
    return counted


def test_figures_charts_and_map_follow_the_writes(browser: Browser, server: Server) -> None:
    with opened(browser, server, viewport={"width": 1280, "height": 900}) as page:
        writes, programs = tile(page, "Host writes"), page.locator(".tiles > div:has(dt:text-is('Programs')) .beside")
        expect(writes).to_have_text("0 /s", timeout=PATIENCE_MS)
        before = number(programs.inner_text())
        canvas = page.locator("canvas.map")
        at_first, description = drawing(canvas), canvas.get_attribute("aria-label")
        load = Load(server)
        expect(writes).not_to_have_text("0 /s", timeout=PATIENCE_MS)
        page.wait_for_timeout(3000)
        assert number(programs.inner_text()) >= before + SIZE_MIB * 256
        assert drawing(canvas) != at_first or canvas.get_attribute("aria-label") != description
        chart = figure(page, "Requests of hosts").get_by_role("img").get_attribute("aria-label")
        assert chart is not None and "writes: from 0 to" in chart
        load.end()
        expect(writes).to_have_text("0 /s", timeout=PATIENCE_MS)


def test_the_keyboard_reaches_and_reads_everything(browser: Browser, server: Server, load: Load) -> None:
    with opened(browser, server, viewport={"width": 1280, "height": 900}) as page:
        wait_for_rates(page)
        reached: list[str] = []
        while reached.count("skip") < 2 and len(reached) < 100:
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.className || document.activeElement.textContent"))
        assert reached[0] == "skip" and reached.count("plot") == len(CHARTS)
        assert {"map", "pause", "by kind", "scroll", "colours: as the system"} <= set(reached)

        canvas, readout = page.locator("canvas.map"), page.locator("figure:has(canvas.map) .readout")
        canvas.press("ArrowRight")
        assert readout.inner_text().startswith("block 0: ")
        canvas.press("ArrowRight")
        assert readout.inner_text().startswith("block 1: ")
        canvas.press("ArrowDown")
        below = readout.inner_text()
        assert not below.startswith("block 1: ")
        canvas.press("ArrowUp")
        assert readout.inner_text().startswith("block 1: ")
        page.wait_for_timeout(1500)
        assert readout.inner_text().startswith("block 1: "), "a snapshot keeps the block that is read"

        plot = figure(page, "Requests of hosts").locator(".plot")
        plot.press("Home")
        plot.press("ArrowRight")
        assert figure(page, "Requests of hosts").locator(".readout").inner_text().startswith("seconds ")
        entry = figure(page, "Requests of hosts").get_by_role("button", name="writes")
        entry.press("Space")
        page.wait_for_timeout(1500)
        assert entry.get_attribute("aria-pressed") == "false", "a snapshot keeps what is switched off"
        assert page.evaluate("document.activeElement.textContent") == "writes", "a snapshot keeps the focus"


def test_everything_has_a_name_for_screen_readers(browser: Browser, server: Server, load: Load) -> None:
    with opened(browser, server) as page:
        wait_for_rates(page)
        unnamed = page.evaluate(
            """[...document.querySelectorAll("button, select, input, canvas.map, .plot, summary, [tabindex='0']")].filter(one =>
            !(one.getAttribute("aria-label") || one.textContent.trim() || one.closest("label"))).map(one => one.outerHTML)"""
        )
        assert unnamed == []
        assert page.locator("h1").count() == 1
        label = page.locator("canvas.map").get_attribute("aria-label")
        assert label is not None and "of the pages valid" in label
        for title in CHARTS:
            described = figure(page, title).get_by_role("img").get_attribute("aria-label")
            assert described is not None and described.startswith(f"Chart of {title}, ")
        assert page.get_by_role("status").first.inner_text() == "live, an update each second"
        assert page.get_by_role("table", name="health log").locator("tbody tr").count() > 15


def test_a_page_that_is_paused_does_not_change(browser: Browser, server: Server, load: Load) -> None:
    with opened(browser, server) as page:
        wait_for_rates(page)
        pause = page.get_by_role("button", name="pause")
        pause.press("Enter")
        assert page.locator("#state").inner_text() == "paused"
        before = page.locator("#tiles").inner_text()
        page.wait_for_timeout(2500)
        assert page.locator("#tiles").inner_text() == before
        pause.press("Enter")
        page.wait_for_function("before => document.getElementById('tiles').innerText !== before", arg=before)


def test_colours_follow_the_button(browser: Browser, server: Server, load: Load) -> None:
    with opened(browser, server, color_scheme="light") as page:

        def paper() -> str:
            return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

        wait_for_rates(page)
        button, light = page.locator("#theme"), paper()
        button.click()
        button.press("Enter")
        assert paper() != light and "dark" in button.inner_text()
        assert_drawn(page)


def test_all_exports_can_be_looked_at_and_a_hostile_name_is_text(
    browser: Browser, command: Command, command_path: Path, tmp_path: Path
) -> None:
    for folder, design in [("one", "page-map"), ("two", "remap")]:
        done = command("create", str(tmp_path / folder), "--size", f"{SIZE_MIB}MiB", "--design", design)
        assert done.returncode == 0, done.stderr
    name = SCRIPT.replace("/", "")
    server = Server(command_path, tmp_path, f"{name}={tmp_path}/one", f"plain={tmp_path}/two")
    load = Load(server, "plain")
    with opened(browser, server, viewport={"width": 390, "height": 844}) as page:
        assert page.locator("h1").inner_text().startswith(f"{name}: page-map, ")
        assert tile(page, "Host writes").inner_text() in ("-", "0 /s")
        page.get_by_label("export").select_option(label="plain")
        assert page.locator("h1").inner_text().startswith("plain: remap, ")
        wait_for_rates(page)
        assert number(tile(page, "Host writes").inner_text()) > 0
        assert_drawn(page)
        assert_fits(page)
        page.get_by_label("export").select_option(label=name)
        page.wait_for_selector(".tiles .now")
        assert page.locator("figure:has(canvas.map)").count() == 1, "the charts of the other export are gone"
        assert page.title() == f"Wearwell: {name}"
    load.end()
    server.end()


def test_a_name_that_would_be_markup_is_shown_as_it_is(browser: Browser, command_path: Path, tmp_path: Path) -> None:
    server = Server(command_path, tmp_path, "--memory", "--size", "16MiB", "--export", f"{SCRIPT}{HOSTILE}")
    with opened(browser, server, viewport={"width": 390, "height": 844}) as page:
        assert page.locator("h1").inner_text().startswith(f"{SCRIPT}{HOSTILE}: page-map, ")
        assert page.locator("img").count() == 0 and page.locator("script").count() == 1
        assert_fits(page)
    server.end()


def test_a_server_that_is_gone_or_started_again_is_noticed(
    browser: Browser, command_path: Path, tmp_path: Path
) -> None:
    memory = ["--memory", "--size", f"{SIZE_MIB}MiB"]
    server = Server(command_path, tmp_path, *memory)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(server.address)
    page.wait_for_selector("body[data-ready]")
    Writer(server.socket, "wearwell").write(50)
    server.end()
    expect(page.locator("#state")).to_have_text("the server does not answer; trying again", timeout=PATIENCE_MS)
    server = Server(command_path, tmp_path, *memory, port=server.port)
    expect(page.locator("#state")).to_have_text("live, an update each second", timeout=PATIENCE_MS)
    expect(page.locator(".tiles > div:has(dt:text-is('Programs')) .beside")).to_have_text("0 in all")
    context.close()
    server.end()


def test_a_client_beyond_the_limit_is_told_why(browser: Browser, command_path: Path, tmp_path: Path) -> None:
    server = Server(command_path, tmp_path, "--memory", "--size", "16MiB", "--max-connections", "1")
    with opened(browser, server):
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.address)
        sentence = (
            "the dashboard has the largest possible number of viewers (1): "
            "close one of the browser tabs or programs that show it"
        )
        expect(page.locator("#state")).to_contain_text(sentence, timeout=PATIENCE_MS)
        context.close()
    server.end()


def test_another_site_cannot_read_or_frame_the_dashboard(browser: Browser, server: Server, tmp_path: Path) -> None:
    """A page of a stranger fetches, subscribes and frames: it gets nothing."""
    (tmp_path / "stranger.html").write_text("<!doctype html><title>stranger</title>")
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "stranger.html").as_uri())
    refused = page.evaluate(
        """async address => {
          const fetched = await fetch(address + "exports").then(() => "read", () => "refused");
          const source = new EventSource(address + "events/0");
          const subscribed = await new Promise(done => {
            source.onmessage = () => done("read");
            source.onerror = () => done("refused");
          });
          source.close();
          const frame = document.createElement("iframe");
          frame.src = address;
          const loaded = new Promise(done => { frame.onload = done; });
          document.body.append(frame);
          await loaded;
          return [fetched, subscribed, frame.contentDocument === null ? "closed" : "open"];
        }""",
        server.address,
    )
    assert refused[:2] == ["refused", "refused"]
    framed = [frame for frame in page.frames if frame != page.main_frame]
    assert all(frame.locator("#tiles").count() == 0 for frame in framed)
    context.close()
