"""The templates in a bank's data file (`templates` of `providers/banks/<bank>.json`).

A template of a request has the form of the bank's body. In place of each value stands its name:

- `titular.nome_mae`: the field of the `BankQuery` or `BankSubmission`, in the bank's word if it has one (`Words`) and
  in its notation; or a value that the adapter gives under this name, which is sent as it is;
- `=opt_in`: the text itself, without the sign. Numbers and booleans stand for themselves, too;
- `{wish}`: what the template `wish` makes. `{payment}` is the template `account` or `pix`.

A value that nobody gave is null, and left out if its key ends with `?`. So is an object if none of its values can be
there, such as those of a location that was not collected. A key that begins with `...` puts the fields of its object in
its own place.

A template of an answer (a token, an offer, an employment or a proposal) has the form of the bank's object. In place of
each value stands the name of our field: `loan_value` of `BankOffer`, `native_id` of `BankProposal`, `value` of
`Token.lasting`; `native.x` and `data.x` are entries of their dicts, as the bank sends them. A key that ends with `?`
may be missing. Values have the bank's notations. A nested object may be null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from providers.errors import ProviderError
from providers.notation import Notations, same
from providers.tokens import Token
from providers.types.proposal import BankProposal, BankSubmission, contract_name
from providers.types.query import EVIDENCE, BankOffer, BankQuery, Employment
from providers.words import Words

Request = BankQuery | BankSubmission
#: Makes a value from a request and the adapter's own values.
_Make = Callable[[Request, Mapping[str, Any]], Any]

_ABSENT = object()
_MERGED = "..."
_ALTERNATIVES = {"payment": ("account", "pix")}


class Bodies:
    """The templates of one bank's request bodies. A template or a field that does not exist raises KeyError or
    AttributeError when it is used. That the dataset has each name that begins with one of its blocks, a test says."""

    def __init__(self, templates: Mapping[str, Any], notations: Notations, words: Words) -> None:
        self._templates = templates
        self._notations = notations
        self._writers: dict[str, Callable[[Any], Any]] = {
            "person.phone": notations.phone,
            "sex": words.sex,
            "titular.sexo": words.sex,
            "titular.estado_civil": words.marital_statuses.get,
            "evidencia.tipo_envio": words.channels.get,
            "wish": words.wishes.__getitem__,
            "recebimento.conta_bancaria.tipo_conta": words.account_types.__getitem__,
            "recebimento.pix.tipo_chave": words.pix_keys.__getitem__,
        }
        self._makers: dict[str, _Make] = {"payment": self._payment}

    def body(self, template: str, request: Request, own: Mapping[str, Any]) -> Any:
        """What the template makes of `request`. `own` are the adapter's own values."""
        made = self._included(template)(request, own)
        return {} if made is _ABSENT else made

    @cached_property
    def without_place(self) -> frozenset[str]:
        """The evidence of a query for which the bank's body has no field."""
        placed = {name.partition(".")[0] for _, name in self._leaves("query")} or EVIDENCE
        return frozenset(EVIDENCE) - frozenset(placed)

    @cached_property
    def contract_names(self) -> dict[str, str]:
        """The contract's name of each field of a submission, by the bank's dotted name. An object has a name if all its
        values have the same."""
        found: dict[str, set[str]] = {}
        for path, name in self._leaves("submission"):
            parts = path.split(".")
            for length in range(1, len(parts) + 1):
                found.setdefault(".".join(parts[:length]), set()).add(contract_name(name))
        return {path: names.pop() for path, names in found.items() if len(names) == 1 and "" not in names}

    def _leaves(self, template: str) -> Iterator[tuple[str, str]]:
        """Each dotted path of the bank's body with the name of its value."""
        for each in _ALTERNATIVES.get(template, (template,)):
            yield from self._leaves_of(self._templates.get(each))

    def _leaves_of(self, shape: Any, path: str = "") -> Iterator[tuple[str, str]]:
        if isinstance(shape, dict):
            for key, part in shape.items():
                inner = path if key.startswith(_MERGED) else f"{path}.{key.removesuffix('?')}".lstrip(".")
                yield from self._leaves_of(part, inner)
        elif isinstance(shape, str) and shape.startswith("{"):
            for inner, name in self._leaves(shape[1:-1]):
                yield f"{path}.{inner}".strip("."), name
        elif isinstance(shape, str) and not shape.startswith("="):
            yield path, shape

    # --- what a template makes

    def _included(self, template: str) -> _Make:
        if template not in self._makers:
            self._makers[template] = self._maker(self._templates[template])
        return self._makers[template]

    def _payment(self, request: Request, own: Mapping[str, Any]) -> Any:
        is_pix = isinstance(request, BankSubmission) and request.paid.pix is not None
        return self._included("pix" if is_pix else "account")(request, own)

    def _maker(self, shape: Any) -> _Make:
        match shape:
            case dict():
                return self._object({key: self._maker(part) for key, part in shape.items()})
            case str() if shape.startswith("{"):
                return self._included(shape[1:-1])
            case str() if not shape.startswith("="):
                return self._field(shape)
        constant = shape[1:] if isinstance(shape, str) else shape
        return lambda request, own: constant

    def _object(self, parts: Mapping[str, _Make]) -> _Make:
        plan = [
            (key.removesuffix("?"), key.endswith("?"), key.startswith(_MERGED), part) for key, part in parts.items()
        ]

        def make(request: Request, own: Mapping[str, Any]) -> Any:
            body: dict[str, Any] = {}
            is_there = False
            for key, may_lack, is_merged, part in plan:
                value = part(request, own)
                if value is _ABSENT:
                    value = {} if is_merged else None
                else:
                    is_there = True
                if is_merged:
                    body |= value
                elif not may_lack or value not in (None, {}):
                    body[key] = value
            return body if is_there else _ABSENT

        return make

    def _field(self, name: str) -> _Make:
        """Makes the value of a field; `_ABSENT` if what has the field is None."""
        *parents, last = name.split(".")
        write, by_type = self._writers.get(name), self._notations.writers(last)

        def make(request: Request, own: Mapping[str, Any]) -> Any:
            if name in own:
                return own[name]
            place: Any = request
            for parent in parents:
                place = place.get(parent) if isinstance(place, dict) else getattr(place, parent)
                if place is None:
                    return _ABSENT
            value = place.get(last) if isinstance(place, dict) else getattr(place, last)
            written = write or by_type.get(type(value))
            return written(value) if written and value is not None else value

        return make


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
    nested: dict[str, _Plan]

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
    """The templates of one bank's answers. A template or a field that does not exist raises KeyError."""

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
