"""The names that the contract has for the fields of a dataclass. They stand beside each field's type."""

from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class NamedField:
    """A field of a dataclass that has a name in the contract. `block` is the dataclass of a block, or of each item of a
    list. `blank` stands for a missing required field; None for a field with a default."""

    path: str
    block: type | None
    blank: Any


@cache
def named_fields(kind: type) -> dict[str, NamedField]:
    """The fields of the dataclass `kind` that the contract names, by attribute."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        each.name: _field(hints[each.name], is_required=each.default is MISSING)
        for each in fields(kind)
        if get_origin(hints[each.name]) is Annotated
    }


def _field(hint: Any, *, is_required: bool) -> NamedField:
    told, path = get_args(hint)
    block = next((each for each in (told, *get_args(told)) if is_dataclass(each)), None)
    blank: Any = {} if block else date(1970, 1, 1) if told is date else ""
    return NamedField(path, block, blank if is_required else None)  # type: ignore[arg-type]
