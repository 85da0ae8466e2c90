"""Shapes: what a reply or an event looks like, said once. The JSON, its OpenAPI schema and its examples come from it.

A shape is a `msgspec.Struct` each of whose fields has a sentence and an example (`said`). It is encoded as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal, cast, get_type_hints

import msgspec
from msgspec import inspect
from rest_framework import serializers as drf


class Shape(msgspec.Struct):
    """The base class of shapes."""


#: A time as the contract writes it (`foundation.formats.iso_utc`).
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
Link = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})]

_FIELDS: dict[type[inspect.Type], type[drf.Field[Any, Any, Any, Any]]] = {
    inspect.BoolType: drf.BooleanField,
    inspect.IntType: drf.IntegerField,
    inspect.FloatType: drf.FloatField,
    inspect.StrType: drf.CharField,
    inspect.UUIDType: drf.UUIDField,
    inspect.DateType: drf.DateField,
}
_FORMATS: dict[str, type[drf.Field[Any, Any, Any, Any]]] = {"date-time": drf.DateTimeField, "uri": drf.URLField}
_described: dict[type, type[drf.Serializer[Any]]] = {}


def said(text: str, example: Any = msgspec.UNSET) -> msgspec.Meta:
    """For a field's annotation: the sentence that describes it, and its example. A field that is a shape, or a list of
    one, needs no example of its own."""
    return msgspec.Meta(description=text, examples=None if example is msgspec.UNSET else [example])


def one_of(values: Collection[str]) -> msgspec.Meta:
    """For the annotation of a text: its values, where they are no enumeration of the code's."""
    return msgspec.Meta(extra_json_schema={"enum": [*values]})


def describe(kind: type, serializer: type[drf.Serializer[Any]]) -> None:
    """Have the schema describe fields of the class `kind`, which is no shape, by `serializer`."""
    _described[kind] = serializer


def variant(
    shape: type[Shape],
    name: str,
    *,
    without: Collection[str] = (),
    first: Mapping[str, Any] | None = None,
    rename: Literal["camel"] | None = None,
) -> type[Shape]:
    """A shape `name` with the fields of `shape`, except those in `without`. `first` are the annotations of fields that
    it adds or replaces; added ones come first."""
    hints = get_type_hints(shape, include_extras=True)
    told = dict(first or {})
    annotations = {**{field: told[field] for field in told if field not in hints}, **hints, **told}
    fields = [(field, annotation) for field, annotation in annotations.items() if field not in without]
    made = msgspec.defstruct(name, fields, bases=(Shape,), module=shape.__module__, rename=rename)
    return cast("type[Shape]", made)


def as_variant(item: Shape, shape: type[Shape]) -> Shape:
    """`item` as a `shape` that `variant` made from its class."""
    return shape(*(getattr(item, name) for name in shape.__struct_fields__))


def example(shape: type[Shape], **changes: Any) -> dict[str, Any]:
    """The example of `shape` as JSON data, of its fields' examples. `changes` replaces some, by the JSON's names."""
    shown: dict[str, Any] = {}
    for field in _fields_of(shape):
        examples = _extra(field.type).get("examples")
        if field.encode_name in changes:
            shown[field.encode_name] = changes[field.encode_name]
        elif examples is not None:
            shown[field.encode_name] = msgspec.to_builtins(examples[0])
        else:
            shown[field.encode_name] = _derived(_bare(field.type))
    return shown


@cache  # one for each shape
def serializer(shape: type[Shape]) -> type[drf.Serializer[Any]]:
    """The serializer class from which drf-spectacular describes `shape`."""
    fields = {field.encode_name: _field(field.type, {}) for field in _fields_of(shape)}
    return type(shape.__name__, (drf.Serializer,), {**fields, "__module__": shape.__module__})


def _fields_of(shape: type[Shape]) -> tuple[inspect.Field, ...]:
    return cast("inspect.StructType", inspect.type_info(shape)).fields


def _extra(kind: inspect.Type) -> dict[str, Any]:
    return (kind.extra_json_schema or {}) if isinstance(kind, inspect.Metadata) else {}


def _bare(kind: inspect.Type) -> inspect.Type:
    """`kind` without what is said of it, and without null."""
    if isinstance(kind, inspect.Metadata):
        return _bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        [other] = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _bare(other)
    return kind


def _derived(kind: inspect.Type) -> Any:
    if isinstance(kind, inspect.ListType):
        return [_derived(_bare(kind.item_type))]
    return example(cast("type[Shape]", cast("inspect.StructType", kind).cls))


def _field(kind: inspect.Type, options: dict[str, Any]) -> drf.Field[Any, Any, Any, Any]:
    """The serializer's field of `kind`."""
    if isinstance(kind, inspect.Metadata):
        extra = _extra(kind)
        if "description" in extra:
            options = {**options, "help_text": extra["description"]}
        if "format" in extra:
            return _FORMATS[extra["format"]](**options)
        if "enum" in extra:
            return drf.ChoiceField(extra["enum"], **options)
        return _field(kind.type, options)
    if isinstance(kind, inspect.UnionType):
        [other] = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _field(other, {**options, "allow_null": True})
    if isinstance(kind, inspect.StructType):
        return serializer(kind.cls)(**options)
    if isinstance(kind, inspect.DataclassType):
        return _described[kind.cls](**options)
    if isinstance(kind, inspect.ListType):
        item = _bare(kind.item_type)
        if isinstance(item, inspect.StructType | inspect.DataclassType):
            return _field(item, {**options, "many": True})
        return drf.ListField(child=_field(kind.item_type, {}), **options)
    if isinstance(kind, inspect.DictType):
        is_open = isinstance(kind.value_type, inspect.AnyType)
        return drf.DictField(**options) if is_open else drf.DictField(child=_field(kind.value_type, {}), **options)
    if isinstance(kind, inspect.EnumType):
        return drf.ChoiceField([each.value for each in kind.cls], **options)
    if isinstance(kind, inspect.LiteralType):
        return drf.ChoiceField([*kind.values], **options)
    return _FIELDS[type(kind)](**options)
