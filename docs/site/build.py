"""Builds the documentation site: the documents of the repository, notebooks with their outputs, and references.

    python docs/site/build.py COMMAND OUT [NOTEBOOKS]

COMMAND is the binary `wearwell`; pages are written to OUT/html. Notebooks are executed, unless NOTEBOOKS is a folder of executed ones.
`tools/site` installs what this needs and calls it. The sources of the site are assembled in OUT/source, with the layout of the
repository, so that links between documents hold as they are. What documents link to and Sphinx cannot read is made a page: files
of code, folders, JSON Schema. So every link of a document leads to a page of the site.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
from notebooks import NOTEBOOKS, executed, read
from schema_pages import schema_page
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs/site"

DOCUMENTS = ("*.md", "docs/*.md", "papers/**/*.md")
"""Patterns of the documents that are pages."""
IMAGES = (".svg", ".png")
LANGUAGES = {".rs": "rust", ".py": "python", ".sh": "bash", ".toml": "toml", ".json": "json", ".c": "c"}
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
"""A link of Markdown to a file: its path, and its anchor."""


class Sources:
    """The sources of the site, below one folder, by the paths that they have in the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code: set[Path] = set()
        """Files of code that are pages because a document links to them."""

    def write(self, path: str | Path, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def add_document(self, path: Path) -> None:
        """Adds a document of the repository, with its links and images."""
        self.write(path.relative_to(ROOT), self._linked(path.read_text(encoding="utf-8"), path.parent))

    def add_notebook(self, name: str, notebook: nbformat.NotebookNode) -> None:
        """Adds a notebook, with its outputs and links."""
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self._linked(cell.source, ROOT / NOTEBOOKS)
        self.write(f"{NOTEBOOKS}/{name}", nbformat.writes(notebook))

    def _linked(self, text: str, folder: Path) -> str:
        """The text of a document in `folder`, with the links of the site."""
        return LINK.sub(lambda link: self._link(link, folder), text)

    def _link(self, link: re.Match[str], folder: Path) -> str:
        """The link as it is on the site. A target that is not there is left: Sphinx warns about it."""
        target = (folder / link[1]).resolve()
        if not target.exists() or target.suffix in (".md", ".ipynb") or not target.is_relative_to(ROOT):
            return link[0]
        if target.suffix in IMAGES:
            copy = self.folder / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
            return link[0]
        if target.is_dir():
            return f"]({link[1].rstrip('/')}/index.md)"
        if target.parent == ROOT / "docs/schema":
            return f"]({link[1].removesuffix('.json')}.md)"
        self.code.add(target)
        page = self.folder / f"{target.relative_to(ROOT)}.md"
        return f"]({os.path.relpath(page, self.folder / folder.relative_to(ROOT))})"

    def add_code(self) -> None:
        """Adds a page for each file of code that documents link to; the pages are in no table of contents."""
        for path in sorted(self.code):
            name = path.relative_to(ROOT)
            text = path.read_text(encoding="utf-8")
            fence = "`" * (1 + max([2, *(len(run) for run in re.findall("`+", text))]))
            language = LANGUAGES.get(path.suffix, "text")
            self.write(f"{name}.md", f"---\norphan: true\n---\n\n# `{name}`\n\n{fence}{language}\n{text}{fence}\n")

    def add_commands(self, command: Path) -> None:
        """Adds a page for the command and each of its subcommands, from the manual pages that it prints."""
        folder = self.folder / "docs/commands"
        manuals = self.folder.parent / "man"
        shutil.rmtree(manuals, ignore_errors=True)
        subprocess.run([command, "man", manuals], check=True)
        for manual in sorted(manuals.glob("*.1")):
            html = subprocess.run(
                ["mandoc", "-T", "html", "-O", "fragment,man=%N.html", manual], capture_output=True, text=True, check=True
            ).stdout
            title = manual.stem.replace("-", " ", 1)
            self.write(folder / f"{manual.stem}.md", f"# {title}\n\n```{{raw}} html\n{part_of_page(html)}\n```\n")
        pages = "\n".join(manual.stem for manual in sorted(manuals.glob("wearwell-*.1")))
        self.write(
            folder / "index.md",
            "# Commands\n\nThe manual pages, which `wearwell man FOLDER` writes; `wearwell help COMMAND` prints the same.\n\n"
            f"```{{toctree}}\n:maxdepth: 1\n\nwearwell\n{pages}\n```\n",
        )

    def add_schemas(self) -> None:
        """Adds a page for each JSON Schema, and a copy of the schema to download."""
        schemas = sorted((ROOT / "docs/schema").glob("*.json"))
        for schema in schemas:
            self.write(schema.relative_to(ROOT), schema.read_text())
            self.write(schema.relative_to(ROOT).with_suffix(".md"), schema_page(schema))
        pages = "\n".join(schema.stem for schema in schemas)
        self.write(
            "docs/schema/index.md",
            "# JSON Schema\n\nSchemas of the configuration and of results, which `wearwell schema` prints.\n\n"
            f"```{{toctree}}\n:maxdepth: 1\n\n{pages}\n```\n",
        )


def part_of_page(html: str) -> str:
    """A fragment of mandoc for a page that has a title: without its own header and footer, with headings from `h2` on, and with links
    to the pages of subcommands."""
    html = re.sub(r'<(div|table) class="(head|foot)".*?</\1>', "", html, flags=re.DOTALL)
    html = re.sub(r'<a class="permalink" href="[^"]*">(wearwell-[a-z-]+)\(1\)</a>', r'<a href="\1.html">\1</a>', html)
    html = re.sub(r"`([^`<>]+)`", r"<code>\1</code>", html)
    return re.sub(r"<(/?)h([12])\b", lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}", html)


def assemble(folder: Path, command: Path, notebooks: Mapping[str, nbformat.NotebookNode]) -> None:
    """Writes the sources of the site into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = Sources(folder)
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            sources.add_document(path)
    sources.write("docs/python-reference.rst", (SITE / "python.rst").read_text())
    for name, notebook in notebooks.items():
        sources.add_notebook(name, notebook)
    sources.add_commands(command)
    sources.add_schemas()
    sources.add_code()


def build(out: Path, command: Path, notebooks: Mapping[str, nbformat.NotebookNode]) -> int:
    """Builds the site into `out`; returns an exit status, which is not 0 after a warning. Every warning is printed."""
    assemble(out / "source", command, notebooks)
    shutil.rmtree(out / "html", ignore_errors=True)
    # In one process: on two cores, two took a third more CPU time and were not done earlier.
    return build_main(
        [
            *("-b", "html", "-q", "-W", "--keep-going"),
            *("-c", str(SITE), "-d", str(out / "doctrees"), str(out / "source"), str(out / "html")),
        ]
    )


def main(arguments: list[str]) -> int:
    """Builds the site as the command line says."""
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    command, out, *done = (Path(argument).resolve() for argument in arguments)
    paths = sorted((done[0] if done else ROOT / NOTEBOOKS).glob("*.ipynb"))
    return build(out, command, {path.name: read(path) if done else executed(path) for path in paths})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
