"""Tokens, offers, employments and proposals, read from a bank's answer by the templates in its data file.

A template has the form of the bank's object. In place of each value stands the name of our field: `loan_value` of
`BankOffer`, `native_id` of `BankProposal`, `value` of `Token.lasting`; `native.x` and `data.x` are entries of their
dicts, as the bank sends them. A key that ends with `?` may be missing. Values have the bank's notations. A nested
object may be null.
"""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from providers.errors import ProviderError
from providers.notation import Notations, same
from providers.tokens import Token
from providers.types.proposal import BankProposal
from providers.types.query import BankOffer, Employment

_READ: dict[str, Any] = {
    "token": Token.lasting,
    "offer": BankOffer,
    "employment": Employment,
    "proposal": BankProposal,
}


class _Plan(NamedTuple):
    """What becomes of an object, read as a Struct whose fields have our names, as far as they have one: what reads a
    value; fields that are an entry of a dict of ours, with its name and theirs; and the plans of nested objects."""

    shape: type[Struct]
    reads: dict[str, Callable[[Any], Any]]
    entries: dict[str, tuple[str, str]]
    nested: "dict[str, _Plan]"

    def collect(self, found: Struct, into: dict[str, Any]) -> None:
        values = asdict(found)
        for name, read in self.reads.items():
            if values[name] is not None:
                values[name] = read(values[name])
        for field, (block, name) in self.entries.items():
            into.setdefault(block, {})[name] = values.pop(field)
        for field, plan in self.nested.items():
            if (inner := values.pop(field)) is not None:
                plan.collect(inner, into)
        into.update(values)


class Answers:
    """The templates of one bank's answers. A template or a field that does not exist raises KeyError when it is
    used."""

    def __init__(self, templates: Mapping[str, Any], notations: Notations) -> None:
        self._templates = templates
        self._notations = notations
        self._known: dict[str, _Plan] = {}

    def shape(self, template: str) -> type[Struct]:
        """The msgspec Struct that has the form of the template."""
        return self._plan(template).shape

    def read(self, template: str, content: Any) -> dict[str, Any]:
        """The values in `content`, JSON data or a Struct of this template, by our names. Those of an object that is
        null are left out. Raises ProviderError for another form, ValueError for a text that is no such value."""
        plan = self._plan(template)
        try:
            found = content if isinstance(content, plan.shape) else msgspec.convert(content, plan.shape)
        except msgspec.ValidationError:
            raise ProviderError from None
        values: dict[str, Any] = {}
        plan.collect(found, values)
        return values

    def _plan(self, template: str) -> _Plan:
        if template not in self._known:
            self._known[template] = self._made(self._templates[template], get_type_hints(_READ[template]))
        return self._known[template]

    def _made(self, template: Mapping[str, Any], hints: Mapping[str, Any]) -> _Plan:
        fields: list[tuple[str, Any, Any]] = []
        plan = _Plan(Struct, {}, {}, {})
        for number, (key, part) in enumerate(template.items()):
            kind: Any = Any
            name = f"field_{number}"
            if isinstance(part, dict):
                plan.nested[name] = self._made(part, hints)
                kind = plan.nested[name].shape | None
            elif "." in part:
                block, _, entry = part.partition(".")
                plan.entries[name] = block, entry
            else:
                name = part
                kind, read = self._kind(part, hints)
                if read is not same:
                    plan.reads[name] = read
            default = {"default": None} if key.endswith("?") else {}
            fields.append((name, kind, msgspec.field(name=key.removesuffix("?"), **default)))
        return plan._replace(shape=msgspec.defstruct("Answer", fields, kw_only=True))

    def _kind(self, name: str, hints: Mapping[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
        """The type of a value in the answer, and what reads it."""
        kinds = get_args(hints[name]) or (hints[name],)
        notation = next((each for kind, each in self._notations.of(name).items() if kind in kinds), None)
        if notation is None:
            return hints[name], same
        return notation.wire | None if NoneType in kinds else notation.wire, notation.read
