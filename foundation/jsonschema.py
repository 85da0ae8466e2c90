"""JSON Schema (2020-12) of a serializer with strict fields, generated from the fields that validate."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.openapi import Document, facts_of, merged

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: tuple[tuple[type[Any], str], ...] = (
    (serializers.ListSerializer, "array"),
    (serializers.ListField, "array"),
    (serializers.BaseSerializer, "object"),
    (serializers.BooleanField, "boolean"),
    (serializers.IntegerField, "integer"),
    (serializers.DecimalField, "number"),
    (serializers.FloatField, "number"),
    (serializers.CharField, "string"),
    (serializers.DateField, "string"),
)


def schema_of(field: Any) -> Document:
    """The schema of the input that `field` accepts: a serializer or a field of `foundation.fields`.

    The field's own `json_schema` is merged in. Unknown keys of an object are allowed, because the contract ignores
    them.
    """
    if isinstance(field, serializers.ChoiceField):
        schema: Document = {"enum": [*field.choices, *([None] if field.allow_null else [])]}
    else:
        kind = next(name for each, name in _TYPES if isinstance(field, each))
        schema = {"type": [kind, "null"] if field.allow_null else kind, **_limits(field)}
    if field.help_text:
        schema["description"] = str(field.help_text)
    described = merged(schema, facts_of(field))
    if field.allow_null and None not in described.get("enum", [None]):
        described["enum"] = [*described["enum"], None]
    return described


def _limits(field: Any) -> Document:
    """The keywords for the limits of this kind of `field`."""
    if isinstance(field, serializers.ListSerializer | serializers.ListField):
        limits = {"minItems": getattr(field, "min_length", None), "maxItems": getattr(field, "max_length", None)}
        return {"items": schema_of(field.child), **_set(limits)}
    if isinstance(field, serializers.BaseSerializer):
        fields = field.fields  # type: ignore[attr-defined]  # the contract's lists and blocks consist of fields
        required = [name for name, each in fields.items() if each.required]
        return {
            "properties": {name: schema_of(each) for name, each in fields.items()},
            **({"required": required} if required else {}),
        }
    if isinstance(field, serializers.DateField):
        return {"format": "date"}
    if isinstance(field, serializers.DecimalField):
        below = 10 ** ((field.max_digits or 0) - (field.decimal_places or 0))
        return {**_set({"minimum": field.min_value}), "exclusiveMaximum": below}
    if isinstance(field, serializers.CharField):
        return _set({"maxLength": field.max_length})
    return _set({"minimum": getattr(field, "min_value", None), "maximum": getattr(field, "max_value", None)})


def _set(keywords: dict[str, Any]) -> Document:
    """`keywords` without unset ones."""
    return {name: value for name, value in keywords.items() if value is not None}
