"""Writes python/wearwell/_records.py, the fields of records for editors and type checkers, from docs/schema.

python python/records.py            # renews it; a test tells when it is out of date
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDS = {"runs": "RunRecord", "lives": "LifeRecord", "profile": "Profile", "ablations": "Ablation"}
"""Schemas in docs/schema, and the record that each describes."""
TARGET = ROOT / "python/wearwell/_records.py"

HEAD = '''"""Fields of records. Made by python/records.py from docs/schema: change that, and run it again."""

from __future__ import annotations

from ._section import Section
'''

SCALARS = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}


class Classes:
    """The classes that a schema asks for, each behind those that it refers to."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self.written: dict[str, str] = {}

    def kind_of(self, schema: dict[str, Any]) -> tuple[str, str | None]:
        """The type of a field, and the class of the section or sections in it."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if "properties" not in self.definitions[name]:
                return self.kind_of(self.definitions[name])
            self.write(name)
            return name, name
        if "oneOf" in schema:
            return "str", None
        if "anyOf" in schema:
            kind, section = self.kind_of(next(one for one in schema["anyOf"] if one.get("type") != "null"))
            return f"{kind} | None", section
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        optional = " | None" if "null" in kinds else ""
        (kind,) = [kind for kind in kinds if kind != "null"]
        if kind == "array":
            item, section = self.kind_of(schema["items"])
            return f"list[{item}]{optional}", section
        if kind == "object":
            item, section = self.kind_of(schema["additionalProperties"])
            return f"dict[str, {item}]{optional}", section
        return SCALARS[kind] + optional, None

    def write(self, name: str) -> None:
        if name in self.written:
            return
        definition = self.definitions[name]
        sections: dict[str, list[str]] = {"_sections": [], "_tables": []}
        lines, optional = [], []
        for field, schema in definition["properties"].items():
            kind, section = self.kind_of(schema)
            if kind.endswith("| None") and field not in definition.get("required", []):
                optional.append(f'"{field}"')
            lines.append(f"    {field}: {kind}")
            lines.extend(documentation(schema.get("description", "")))
            if section is not None:
                way = "_tables" if kind.startswith("dict") else "_sections"
                sections[way].append(f'        "{field}": {section},')
        head = [f"class {name}(Section):", *documentation(definition.get("description", "")), ""]
        ways = [
            line
            for way, fields in sections.items()
            if fields
            for line in (f"    {way} = {{", *fields, "    }", "")
        ]
        if optional:
            ways += ["    _optional = frozenset({", *(f"        {field}," for field in optional), "    })", ""]
        self.written[name] = "\n".join(head + ways + lines) + "\n"


def documentation(text: str) -> list[str]:
    """A docstring, in lines of 110 columns; links of Rust lose their brackets."""
    plain = text.replace("[`", "`").replace("`]", "`").replace("\n", " ").replace("\\", "")
    wrapped = textwrap.wrap(f'"""{plain}"""', 106)
    return textwrap.indent("\n".join(wrapped), "    ").split("\n")


def text() -> str:
    """The whole module."""
    schemas = {name: json.loads((ROOT / f"docs/schema/{name}.json").read_text())["$defs"] for name in RECORDS}
    definitions: dict[str, Any] = {}
    for one in schemas.values():
        for name, definition in one.items():
            assert definitions.setdefault(name, definition) == definition, f"{name} has two definitions"
    classes = Classes(definitions)
    for record in RECORDS.values():
        classes.write(record)
    return "\n\n".join([HEAD, *classes.written.values()])


if __name__ == "__main__":
    TARGET.write_text(text())
