"""Makes the clients' types from the service's OpenAPI document: `generate.py python|typescript < openapi.json`.

A reply is the JSON as it came: the types describe it, and nothing checks it against them. Unknown fields are therefore
kept, and each enumeration also takes the values that a later release may add.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]
EVENTS = "WebhookEvent"


class Python:
    """TypedDicts. NotRequired came with Python 3.11, so optional fields stand in a second class."""

    head = (
        '"""Made from the service\'s OpenAPI document by `make clients`."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Any, Literal, TypedDict"
    )
    names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
    anything, array, mapping = "Any", "list[{}]", "dict[str, {}]"

    def enum(self, values: list[Any]) -> str:
        return f"Literal[{', '.join(json.dumps(each) for each in values)}] | {'str' if _are_text(values) else 'int'}"

    def alias(self, name: str, kind: str) -> str:
        return f"{name} = {kind}\n"

    def shape(self, name: str, required: dict[str, str], optional: dict[str, str]) -> str:
        if not optional:
            return self._class(name, "TypedDict", required)
        base = f"_{name}" if required else "TypedDict"
        text = self._class(base, "TypedDict", required) + "\n\n" if required else ""
        return text + self._class(name, f"{base}, total=False", optional)

    def _class(self, name: str, bases: str, fields: dict[str, str]) -> str:
        lines = [f"    {field}: {kind}\n" for field, kind in fields.items()]
        return f"class {name}({bases}):\n{''.join(lines)}"


class TypeScript:
    """Interfaces."""

    head = "// Made from the service's OpenAPI document by `make clients`."
    names = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
    anything, array, mapping = "unknown", "Array<{}>", "Record<string, {}>"

    def enum(self, values: list[Any]) -> str:
        # `string & {}` keeps an editor's suggestions, which `string` alone would swallow.
        later = "(string & {})" if _are_text(values) else "(number & {})"
        return " | ".join([*(json.dumps(each) for each in values), later])

    def alias(self, name: str, kind: str) -> str:
        return f"export type {name} = {kind};\n"

    def shape(self, name: str, required: dict[str, str], optional: dict[str, str]) -> str:
        lines = [f"  {field}: {kind};" for field, kind in required.items()]
        lines += [f"  {field}?: {kind};" for field, kind in optional.items()]
        return f"export interface {name} {{\n" + "\n".join(lines) + "\n}\n"


LANGUAGES = {"python": Python(), "typescript": TypeScript()}


def generate(document: Schema, language: Python | TypeScript) -> str:
    """The types of all the document's schemas. Aliases of schemas come last, because Python evaluates them."""
    schemas = dict(document["components"]["schemas"])
    bodies = [
        each["post"]["requestBody"]["content"]["application/json"]["schema"] for each in document["webhooks"].values()
    ]
    schemas[EVENTS] = {"oneOf": bodies}
    parts: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for name, schema in sorted(schemas.items()):
        if "enum" in schema:
            parts[0].append(language.alias(name, language.enum(schema["enum"])))
        elif "properties" in schema:
            parts[1].append(_shape(name, schema, language))
        else:
            parts[2].append(language.alias(name, _kind(schema, language)))
    return "\n\n".join([language.head, *parts[0], *parts[1], *parts[2]])


def _shape(name: str, schema: Schema, language: Python | TypeScript) -> str:
    kinds = {field: _kind(each, language) for field, each in schema["properties"].items()}
    required = set(schema.get("required", ()))
    return language.shape(
        name,
        {field: kind for field, kind in kinds.items() if field in required},
        {field: kind for field, kind in kinds.items() if field not in required},
    )


def _kind(schema: Schema, language: Python | TypeScript) -> str:
    """The schema's type as the language writes it."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("allOf", "oneOf", "anyOf"):
        if several in schema:
            return _union(_kind(each, language) for each in schema[several])
    if "enum" in schema:
        return language.enum(schema["enum"])
    kinds = schema.get("type", [])
    return (
        _union(_simple(each, schema, language) for each in ([kinds] if isinstance(kinds, str) else kinds))
        or language.anything
    )


def _simple(kind: str, schema: Schema, language: Python | TypeScript) -> str:
    if kind == "array":
        return language.array.format(_kind(schema.get("items", {}), language))
    if kind == "object":
        values = schema.get("additionalProperties", {})
        return language.mapping.format(_kind(values if isinstance(values, dict) else {}, language))
    return language.names[kind]


def _union(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds))


def _are_text(values: list[Any]) -> bool:
    return any(isinstance(each, str) for each in values)


if __name__ == "__main__":
    sys.stdout.write(generate(json.load(sys.stdin), LANGUAGES[sys.argv[1]]))
