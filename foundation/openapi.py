"""Additions to drf-spectacular's OpenAPI document: facts of strict fields, routes without a key, streams. And JSON
Schema (2020-12) of a serializer with strict fields, generated from the fields that validate.

`OperationSchema` is Django REST framework's `DEFAULT_SCHEMA_CLASS`. The functions are `POSTPROCESSING_HOOKS`.
"""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers
from rest_framework.serializers import BaseSerializer, Field

Document = dict[str, Any]
EVENT_STREAM = "text/event-stream"
_NULL_ENUM = {"$ref": "#/components/schemas/NullEnum"}
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


class OperationSchema(AutoSchema):
    """Adds a field's own `json_schema`. Shows partners no docstrings, which are for developers."""

    def get_description(self) -> str:  # type: ignore[override]  # the signature of drf-spectacular, not of DRF
        return ""

    def _map_serializer_field(
        self, field: Field[Any, Any, Any, Any], direction: str, bypass_extensions: bool = False
    ) -> Document | None:
        schema: Document | None = super()._map_serializer_field(field, direction, bypass_extensions)
        if schema is None or isinstance(field, BaseSerializer):
            return schema
        return merged(schema, facts_of(field))

    def _insert_field_validators(self, field: Field[Any, Any, Any, Any], schema: Document) -> None:
        """For a field that may be blank, drf-spectacular writes a `oneOf` of its form and the empty text. A strict
        field's form already includes the empty text, which would then match both. Skip that."""
        super()._insert_field_validators(field, schema)
        if "oneOf" in schema and facts_of(field):
            form, *_ = schema.pop("oneOf")
            schema.update(form)

    def _map_basic_serializer(self, serializer: BaseSerializer[Any], direction: str) -> Document:
        """The component without the serializer's docstring, which is for developers."""
        schema: Document = super()._map_basic_serializer(serializer, direction)
        schema.pop("description", None)
        facts = facts_of(serializer)
        # Conditions allow other fields in so many words, because Redocly takes each condition for the whole object.
        opened = {key: {**facts[key], "additionalProperties": True} for key in facts.keys() & {"if", "then", "else"}}
        return merged(schema, facts | opened)


def merged(schema: Document, facts: Document) -> Document:
    """`schema` with `facts` added. Objects are merged at any depth; a `description` is appended."""
    result = dict(schema)
    for key, fact in facts.items():
        value = result.get(key)
        if isinstance(value, dict) and isinstance(fact, dict):
            result[key] = merged(value, fact)
        elif key == "description" and value:
            result[key] = f"{value} {fact}"
        else:
            result[key] = fact
    return result


def facts_of(field: Any) -> Document:
    """What a strict field or block says of itself."""
    facts: Document = field.json_schema() if hasattr(field, "json_schema") else {}
    return facts


def complete_operations(result: Document, **_: Any) -> Document:
    """A hook for all routes and webhooks. Those without a key get `security: []`: otherwise a reader cannot tell an
    open route from a forgotten one. An optional parameter of a query string that is empty counts as a missing one."""
    for item in [*result["paths"].values(), *result.get("webhooks", {}).values()]:
        for operation in item.values():
            operation.setdefault("security", [])
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query" and not parameter.get("required"):
                    parameter["allowEmptyValue"] = True
            for response in operation["responses"].values():
                if stream := response.get("content", {}).get(EVENT_STREAM):
                    _wrap(stream, result["components"]["schemas"])
    return result


def _wrap(stream: Document, schemas: Document) -> None:
    """Describe a response of server-sent events. OpenAPI 3.1 does not define whether the schema describes the body (a
    text) or an event (its id, and its data as JSON or as the text that comes), so `Stream` names all."""
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": stream["schema"]}
    data = {"anyOf": [stream["schema"], text], "description": "O `data` do evento, um texto JSON."}
    event_id = {"type": "string", "description": "Para voltar depois deste evento, com `Last-Event-ID`."}
    fields = {"id": event_id, "data": data}
    schemas["StreamMessage"] = {"type": "object", "required": [*fields], "properties": fields}
    schemas["Stream"] = {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/StreamMessage"}]}
    stream["schema"] = {"$ref": "#/components/schemas/Stream"}


def say_null_plainly(result: Document, **_: Any) -> Document:
    """A hook that writes `type: "null"` in place of the component that drf-spectacular uses for null and that
    generators turn into a class."""
    result["components"]["schemas"].pop("NullEnum", None)
    for schema in result["components"]["schemas"].values():
        for prop in schema.get("properties", {}).values():
            if _NULL_ENUM in prop.get("oneOf", []):
                prop["oneOf"] = [{"type": "null"} if each == _NULL_ENUM else each for each in prop["oneOf"]]
    return result


def schema_of(field: Any) -> Document:
    """The schema of the input that `field` accepts: a serializer or a field of `foundation.fields`.

    The field's own `json_schema` is merged in. The contract ignores unknown keys, so they are allowed.
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
