"""Validation of bodies and query strings. Serializers are built once, and their errors become the API's errors."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from rest_framework.exceptions import ValidationError
from rest_framework.fields import SkipField, empty
from rest_framework.settings import api_settings

from foundation.errors import Detail, InvalidInput
from foundation.fields import Block


def validated(block: type[Block], data: Mapping[str, Any]) -> dict[str, Any]:
    """`data` as validated by `block`. Raises InvalidInput that names every fault.

    Django REST framework copies all fields for each new serializer, which takes ten times as long as the validation.
    Therefore one serializer per block and variant serves all requests; it never stores the data.
    """
    try:
        values: dict[str, Any] = _built(block, block.variant_for(data)).run_validation(data)
    except ValidationError as fault:
        raise InvalidInput(details=list(field_faults(fault.detail))) from None
    return values


def valid_part(block: type[Block], data: Mapping[str, Any]) -> dict[str, Any]:
    """The valid parts of `data`, validated, for further rules after `validated` raised. A block with faults is reduced
    to its valid fields. A list with faults is left out."""
    return _valid_fields(_built(block, block.variant_for(data)), data)


def ignored(block: type[Block], data: Mapping[str, Any]) -> list[str]:
    """The fields of `data` that `block` does not know and therefore ignores, as dotted names without indexes, each
    once. An unknown block has its own name. A name is percent-encoded, as far as it is no plain text."""
    names = _unknown(_built(block, block.variant_for(data)), data)
    return list(dict.fromkeys(quote(name, safe=".", errors="replace") for name in names))


def _unknown(block: Block, data: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in data.items():
        field = block.fields.get(name)
        inner = getattr(field, "child", field)
        if field is None:
            yield f"{path}{name}"
        elif isinstance(inner, Block):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Mapping):
                    yield from _unknown(inner, each, f"{path}{name}.")


def _valid_fields(block: Block, data: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, field in block.fields.items():
        value = data.get(name, empty)
        try:
            values[name] = field.run_validation(value)
        except SkipField:
            continue
        except ValidationError:
            if isinstance(field, Block) and isinstance(value, Mapping):
                values[name] = _valid_fields(field, value)
    return values


@lru_cache(maxsize=128)
def _built(block: type[Block], variant: str) -> Block:
    serializer = block(context={"variant": variant})
    serializer.fields  # noqa: B018 - a property that copies them, here rather than in the first request
    return serializer


def field_faults(errors: Any, path: str | None = None) -> Iterator[Detail]:
    """The leaves of DRF's nested errors in order, each with its dotted name.

    `{"titular": {"nome": ["x"]}, "referencias": [{}, {"nome": ["y"]}]}` gives `titular.nome` and `referencias.1.nome`.
    A fault of a whole block has the block's name, a fault of the body None.
    """
    if isinstance(errors, dict):
        for key, inner in errors.items():
            whole = key == api_settings.NON_FIELD_ERRORS_KEY
            yield from field_faults(inner, path if whole else f"{path}.{key}" if path else str(key))
    elif isinstance(errors, list):
        for index, inner in enumerate(errors):
            nested = isinstance(inner, (dict, list))
            yield from field_faults(inner, f"{path}.{index}" if nested and path else path)
    else:
        yield Detail(path, str(errors))
