"""Makes a page of a JSON Schema: one list of fields for each object that it describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Schema = dict[str, Any]


def schema_page(path: Path) -> str:
    """Returns the page of a schema as Markdown."""
    schema: Schema = json.loads(path.read_text())
    parts = [
        f"# Schema of {path.stem}",
        f"{{download}}`{path.name}`; `wearwell schema {path.stem}` prints it.",
        plain(schema.get("description", "")),
        *fields(schema),
    ]
    for name, definition in schema.get("$defs", {}).items():
        parts += [f"## {name}", plain(definition.get("description", "")), *fields(definition), *values(definition)]
    return "\n\n".join(part for part in parts if part) + "\n"


def fields(schema: Schema) -> list[str]:
    """The list of an object's fields; the type of another schema."""
    required = schema.get("required", [])
    lines = [
        f"- `{name}`: {kind(field)}{', required' if name in required else ''}. {plain(field.get('description', ''))}"
        for name, field in schema.get("properties", {}).items()
    ]
    if lines:
        return ["\n".join(lines)]
    return [f"Type: {kind(schema)}"] if "type" in schema else []


def values(schema: Schema) -> list[str]:
    """The list of the values that a schema of alternatives allows."""
    lines = []
    for one in schema.get("oneOf", []):
        allowed = [one["const"]] if "const" in one else one.get("enum", [])
        name = ", ".join(f"`{value}`" for value in allowed) or kind(one)
        lines.append(f"- {name}" + (f": {plain(one['description'])}" if "description" in one else ""))
    return ["\n".join(lines)] if lines else []


def kind(schema: Schema) -> str:
    """The type of a field, with a link to the object that it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", ["any"])
    return " or ".join(_kind_of_one(one, schema) for one in kinds)


def _kind_of_one(name: str, schema: Schema) -> str:
    if name == "array" and "items" in schema:
        return f"array of {kind(schema['items'])}"
    if name == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return name


def plain(text: str) -> str:
    """A description in one line; links of Rust lose their brackets."""
    return text.replace("[`", "`").replace("`]", "`").replace("<", "&lt;").replace("\n", " ")
