"""Offers, employments and proposals, read from a bank's answer by the templates in its data file.

A template has the form of the bank's object. In place of each value stands the name of our field: `loan_value` of
`BankOffer`, `native_id` of `BankProposal`; `native.x` and `data.x` are entries of their dicts, as the bank sends them.
A key that ends with `?` may be missing. Values have the bank's notations. A nested object may be null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from providers.errors import ProviderError
from providers.notation import TEXT, Notations, same
from providers.types.answer import BankOffer, Employment
from providers.types.proposal import BankProposal

_READ = {"offer": BankOffer, "employment": Employment, "proposal": BankProposal}
#: Where the values of an object belong. For each: the dict of ours that it is put in (empty if in none), our name, and
#: what reads it, if anything does; or the plan of a nested object.
_Plan = list["tuple[str, str, Callable[[Any], Any] | None] | _Plan"]


class Answers:
    """The templates of one bank's answers. A template or a field that does not exist raises KeyError when it is
    used."""

    def __init__(self, templates: Mapping[str, Any], notations: Notations) -> None:
        self._templates = templates
        self._notations = notations
        self._known: dict[str, tuple[type[Struct], _Plan]] = {}

    def shape(self, template: str) -> type[Struct]:
        """The msgspec Struct that has the form of the template."""
        return self._of(template)[0]

    def read(self, template: str, content: Any) -> dict[str, Any]:
        """The values in `content`, JSON data or a Struct of this template, by our names. Those of an object that is
        null are left out. Raises ProviderError for another form, ValueError for a text that is no such value."""
        shape, plan = self._of(template)
        try:
            found = content if isinstance(content, shape) else msgspec.convert(content, shape)
        except msgspec.ValidationError:
            raise ProviderError from None
        values: dict[str, Any] = {}
        _collect(found, plan, values)
        return values

    def _of(self, template: str) -> tuple[type[Struct], _Plan]:
        if template not in self._known:
            self._known[template] = self._struct(self._templates[template], get_type_hints(_READ[template]))
        return self._known[template]

    def _struct(self, template: Mapping[str, Any], hints: Mapping[str, Any]) -> tuple[type[Struct], _Plan]:
        fields: list[tuple[str, Any, Any]] = []
        plan: _Plan = []
        for number, (key, part) in enumerate(template.items()):
            kind: Any
            if isinstance(part, dict):
                shape, inner = self._struct(part, hints)
                kind = shape | None
                plan.append(inner)
            else:
                kind, read = self._kind(part, hints)
                block, _, name = part.rpartition(".")
                plan.append((block, name, read))
            default = {"default": None} if key.endswith("?") else {}
            fields.append((f"field_{number}", kind, msgspec.field(name=key.removesuffix("?"), **default)))
        return msgspec.defstruct("Answer", fields, kw_only=True), plan

    def _kind(self, name: str, hints: Mapping[str, Any]) -> tuple[Any, Callable[[Any], Any] | None]:
        """The type of a value in the answer, and what reads it."""
        if "." in name:
            return Any, None
        kinds = get_args(hints[name]) or (hints[name],)
        notation = next((each for kind, each in self._notations.of(name).items() if kind in kinds), TEXT)
        wire = notation.wire | None if NoneType in kinds else notation.wire
        return wire, None if notation.read is same else notation.read


def _collect(found: Struct, plan: _Plan, values: dict[str, Any]) -> None:
    for value, place in zip(astuple(found), plan, strict=True):
        if isinstance(place, list):
            if value is not None:
                _collect(value, place, values)
            continue
        block, name, read = place
        into = values.setdefault(block, {}) if block else values
        into[name] = read(value) if read and value is not None else value
