"""Configuration of Sphinx for the documentation site (docs/site/build.py)."""

import re

import wearwell
from sphinx.application import Sphinx

project = "Wearwell"
author = "The Wearwell maintainers"
version = release = wearwell.__version__
project_copyright = author

extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "docs/README"
html_theme = "furo"
html_title = f"Wearwell {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_copy_source = html_show_sourcelink = False

# Documents are read as GitHub reads them.
myst_heading_anchors = 4
# The notebooks come with their outputs.
nb_execution_mode = "off"

# Docstrings have names of the package in plain backticks.
default_role = "py:obj"
# The Python reference is found by its sections: its hundreds of names would take a third of the time of the build,
# since the table of contents of every page is made of all entries of all pages.
toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80

GENERATED = {"Reference": ["python-reference", "commands/index", "schema/index"]}
"""Pages that exist on the site only, by the section of the index that they belong to."""
RESULTS_OF_PAPERS = "\n```{toctree}\n:hidden:\n:glob:\n\n/papers/*/RESULTS\n/papers/full/*/RESULTS\n```\n"
"""They stand below the document about them in the table of contents."""
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
DOCUMENT = re.compile(r"\]\(([^)#:\s]+)\.(?:md|ipynb)(?:#[^)]*)?\)")


def contents(index: str) -> str:
    """The tables of contents of the site, from the index of the documents: a section is a caption, and a document belongs to the last
    section that links to it."""
    _, *parts = SECTION.split(index)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    section_of = {name: title for title, text in sections.items() for name in DOCUMENT.findall(text)}
    for title, names in GENERATED.items():
        section_of |= dict.fromkeys(names, title)
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n"
        + "".join(f"{name}\n" for name, of in section_of.items() if of == title)
        + "```\n"
        for title in sections
    )


def add_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Adds the tables of contents to the index, and to the document about papers."""
    if name == root_doc:
        source[0] += contents(source[0])
    elif name == "docs/reproduce":
        source[0] += RESULTS_OF_PAPERS


def setup(app: Sphinx) -> None:
    """Connects this file with Sphinx."""
    app.connect("source-read", add_contents)
