"""Shapes: what a reply or an event looks like, in one place. The JSON is encoded from a shape as it is; the API
reference and its examples come from the same class.

A field is `name: Annotated[type, description, example]`. The description is in Portuguese, for partners. Without an
example it is null where the field may be null, else the nested shape's. A field that may be missing has the type
`… | UnsetType` and the default `UNSET`. Any other default only spares the code that builds the shape from naming it.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
from msgspec import UNSET, structs
from rest_framework import serializers as drf

from foundation.formats import iso_utc

#: Text whose form the reference names. In place of a field's class, an enumeration or a tuple names the values.
Moment = Annotated[str, drf.DateTimeField]
Link = Annotated[str, drf.URLField]
_FIELDS: dict[Any, type[drf.Field]] = {
    str: drf.CharField,
    int: drf.IntegerField,
    float: drf.FloatField,
    bool: drf.BooleanField,
    UUID: drf.UUIDField,
    date: drf.DateField,
}


class Shape(msgspec.Struct, kw_only=True):
    @classmethod
    def of(cls, source: object, **given: Any) -> Self:
        """The shape with the attributes of `source` that have its fields' names; those `given` are not looked up. Times
        become text, Decimals numbers, and an empty text null where the field may be null. None leaves defaults."""
        for name, (may_be_null, may_lack) in _emptiness(cls).items():
            if name not in given and (value := getattr(source, name, UNSET)) is not UNSET:
                if plain := _PLAIN.get(type(value)):
                    value = plain(value)
                elif may_be_null and value == "":
                    value = None
                if value is not None or not may_lack:
                    given[name] = value
        return cls(**given)

    @classmethod
    def example(cls, **changes: Any) -> Self:
        """The example of the reference, with other values in some fields."""
        fields = {name: _Fact.of(hint) for name, hint in _hints(cls).items() if name not in changes}
        return cls(**{name: fact.example() for name, fact in fields.items()}, **changes)


@cache
def _emptiness(shape: type[Shape]) -> dict[str, tuple[bool, bool]]:
    """By field: whether it may be null, and whether it has a default."""
    hints = _hints(shape)
    return {
        field.name: (NoneType in _kinds(get_args(hints[field.name])[0]), not field.required)
        for field in structs.fields(shape)
    }


#: What makes JSON's values of others, by their types.
_PLAIN: dict[type, Callable[[Any], Any]] = {datetime: iso_utc, Decimal: float}


@cache
def _hints(shape: type[Shape]) -> dict[str, Any]:
    return get_type_hints(shape, include_extras=True)


def variant(
    name: str,
    shape: type[Shape],
    *,
    base: type[Shape] = Shape,
    first: Mapping[str, Any] | None = None,
    rename: Literal["camel"] | None = None,
) -> type[Shape]:
    """A shape `name` with the fields of `base` and of `shape`. `first` are the annotations of fields that it adds
    before those of `shape`, or replaces; None leaves a field out."""
    told, hints = dict(first or {}), _hints(shape)
    fields = {**{field: told[field] for field in told if field not in hints}, **hints, **told}
    kept = [(field, annotation) for field, annotation in fields.items() if annotation]
    made = msgspec.defstruct(name, kept, bases=(base,), module=shape.__module__, rename=rename, kw_only=True)
    return cast("type[Shape]", made)


class _Fact(msgspec.Struct):
    """What the annotation of a field says."""

    kind: Any
    description: str
    examples: list[Any]

    @classmethod
    def of(cls, hint: Any) -> Self:
        kind, *facts = get_args(hint)
        if not isinstance(facts[0], str):
            kind = Annotated[kind, facts.pop(0)]
        return cls(kind, facts[0], facts[1:])

    def example(self) -> Any:
        if self.examples:
            return self.examples[0]
        kinds = _kinds(self.kind)
        if msgspec.UnsetType in kinds:
            return UNSET
        if NoneType in kinds:
            return None
        [kind] = kinds
        if get_origin(kind) is list:
            return [get_args(kind)[0].example()]
        return kind.example()


def _kinds(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


@cache
def described(shape: type[Shape]) -> type[drf.Serializer[Any]]:
    """`shape` as a serializer without behaviour, which drf-spectacular describes under the name of the shape."""
    fields = {}
    for name, key in zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True):
        fact = _Fact.of(_hints(shape)[name])
        fields[key] = _field(fact.kind, help_text=fact.description)
    return type(shape.__name__, (drf.Serializer,), fields)


def _field(kind: Any, **options: Any) -> drf.Field:
    kinds = _kinds(kind)
    if NoneType in kinds:
        options["allow_null"] = True
    if msgspec.UnsetType in kinds:
        options["required"] = False
    [kind] = [each for each in kinds if each not in (NoneType, msgspec.UnsetType)]
    marker = get_args(kind)[1] if get_origin(kind) is Annotated else kind
    if get_origin(kind) in (list, dict):
        return _collection(kind, options)
    if choices := _choices(marker):
        return drf.ChoiceField(choices, **options)
    if issubclass(marker, Shape):
        return described(marker)(**options)
    return _FIELDS.get(marker, marker)(**options)


def _collection(kind: Any, options: dict[str, Any]) -> drf.Field:
    *_, item = get_args(kind)
    if get_origin(kind) is dict:
        return drf.DictField(**options) if item is Any else drf.DictField(child=_field(item), **options)
    if isinstance(item, type) and issubclass(item, Shape):
        return described(item)(many=True, **options)
    return drf.ListField(child=_field(item), **options)


def _choices(marker: Any) -> list[Any]:
    """The values that `marker` names: a Literal's, an enumeration's or its own."""
    if get_origin(marker) is Literal:
        return [*get_args(marker)]
    if isinstance(marker, type):
        return [each.value for each in marker] if issubclass(marker, Enum) else []
    return [*marker] if isinstance(marker, Iterable) else []
