"""From what a serializer says of its input to the API's errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework.serializers import BaseSerializer
from rest_framework.settings import api_settings

from foundation.errors import Detail, InvalidInput


def validated(serializer: BaseSerializer) -> dict[str, Any]:
    """The validated data of `serializer`. Raises InvalidInput that names every fault."""
    if not serializer.is_valid():
        raise InvalidInput(details=list(field_faults(serializer.errors)))
    data: dict[str, Any] = serializer.validated_data
    return data


def field_faults(errors: Any, path: str | None = None) -> Iterator[Detail]:
    """The leaves of DRF's nested errors, in their order, each under its dotted name.

    `{"titular": {"nome": ["x"]}, "referencias": [{}, {"nome": ["y"]}]}` gives `titular.nome` and
    `referencias.1.nome`. Faults of a block as a whole have the block's name, faults of the body as a whole None.
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
