"""The banks of a partner's contract, each with its requirements as data: its facts, and the dataset's JSON Schema,
generated from the fields that validate a submission. Other banks are treated as unknown.

Some rules cannot be expressed in JSON Schema: check digits (named by `format` `cpf` and `cnpj`), dates not in the
future, a CPF key that must be the holder's, and rules that depend on the offer.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from rest_framework.serializers import BaseSerializer

from foundation.errors import NotFound
from foundation.openapi import DIALECT, Document, schema_of
from foundation.validation import validated
from partners.contract import AllowedBank
from partners.models import Partner
from proposals import compe, dataset, shapes
from proposals.dataset import ACCOUNT_KINDS, PIX_KINDS
from proposals.serializers import PIX_FORMS, CitiesRequest, SubmissionRequest
from providers import registry
from providers.bank import Bank
from providers.health import UNAVAILABLE
from providers.judging import health_of
from providers.types import given
from providers.types.proposal import Disbursement


def banks(partner: Partner) -> list[shapes.Provider]:
    """The banks of the contract, sorted by name."""
    known = [(each, adapter) for each in partner.allowed_banks() if (adapter := registry.get(each.name))]
    return _of_partner(partner, known)


def bank(partner: Partner, name: str) -> shapes.Provider:
    """One bank of the contract. Raises NotFound for any other name."""
    [described] = _of_partner(partner, [_one(partner, name)])
    return described


def options(partner: Partner, name: str, field: str, filters: dict[str, str]) -> list[shapes.FieldOption]:
    """The values that a bank of the contract accepts in `field`, a dotted path, from its own list. `filters` come from
    the query string. Raises NotFound for a bank outside the contract and for a field without such a list, and
    InvalidInput if `filters` are not those of `CitiesRequest`."""
    _, adapter = _one(partner, name)
    if field != "titular.naturalidade_cidade" or not adapter.limits.birth_cities:
        raise NotFound("Este banco não tem uma lista própria para este campo.")
    cities = adapter.limits.birth_cities.get(validated(CitiesRequest, filters)["uf"], {})
    return [shapes.FieldOption(value=city, label=city.title()) for city in sorted(cities)]


def _one(partner: Partner, name: str) -> tuple[AllowedBank, type[Bank]]:
    allowed, adapter = partner.allowed_bank(name), registry.get(name)
    if allowed is None or adapter is None:
        raise NotFound("Banco desconhecido.")
    return allowed, adapter


def _of_partner(partner: Partner, known: list[tuple[AllowedBank, type[Bank]]]) -> list[shapes.Provider]:
    states = health_of([allowed.name for allowed, _ in known])

    def status(bank: AllowedBank) -> str:
        return UNAVAILABLE if bank.is_paused else states[bank.name].for_partner(str(partner.pk))

    return [_described(adapter, status(allowed)) for allowed, adapter in known]


def _described(bank: type[Bank], status: str) -> shapes.Provider:
    """The bank as `GET /providers` shows it. `status` is its current state."""
    accounts, keys = _kinds(bank, "conta_bancaria"), _kinds(bank, "pix")
    return shapes.Provider.of(
        bank,
        cancels=bank.cancels(),
        channels=[*bank.words.channels],
        disbursement=shapes.DisbursementFacts(
            account=bool(accounts),
            account_types=accounts,
            pix=bool(keys),
            pix_keys=keys,
            replacements=_replacements(bank),
            portfolios_without_pix=[*bank.limits.portfolios_without_pix],
        ),
        required=required(bank),
        schema=json_schema(bank.name),
        query=shapes.ProviderQueryFacts(
            geolocation=_evidence_use(bank, "geolocation"),
            app_authorization=_evidence_use(bank, "app_authorization"),
            notifies_holder=bank.notifies_holder,
        ),
        status=status,
    )


def _ways(bank: type[Bank]) -> dict[str, Disbursement]:
    """Where `bank` pays for each account type and PIX key type that it accepts, by their names, such as `pix.cpf`."""
    ways = [{"conta_bancaria": {"tipo_conta": kind}} for kind in ACCOUNT_KINDS]
    ways += [{"pix": {"tipo_chave": kind}} for kind in PIX_KINDS]
    wanted = [dataset.as_submission({"recebimento": way}) for way in ways]
    paid = {_way_paid(each.paid): bank.disbursement(each) for each in wanted}
    taken = [f"conta_bancaria.{kind}" for kind in bank.words.account_types]
    taken += [f"pix.{kind}" for kind in bank.words.pix_keys]
    return {way: each for way, each in paid.items() if _way_paid(each) in taken}


def _way_paid(paid: Disbursement) -> str:
    return f"pix.{paid.pix['tipo_chave']}" if paid.pix else f"conta_bancaria.{given(paid.account)['tipo_conta']}"


def _kinds(bank: type[Bank], block: str) -> list[str]:
    """The kinds of account or of PIX key that a submission to `bank` may use."""
    return [way.removeprefix(f"{block}.") for way in _ways(bank) if way.startswith(f"{block}.")]


def _replacements(bank: type[Bank]) -> list[shapes.DisbursementReplacement]:
    """The accounts and keys that the bank replaces by others."""
    return [
        shapes.DisbursementReplacement(given=way, paid=_way_paid(paid), remark=paid.remark)
        for way, paid in _ways(bank).items()
        if paid.remark
    ]


def _evidence_use(bank: type[Bank], evidence: str) -> str:
    """Whether the bank requires an evidence of the query, accepts it, or has no field for it."""
    if evidence in bank.needed_evidence:
        return "required"
    return "ignored" if evidence in bank.bodies.without_place else "optional"


def required(bank: type[Bank]) -> list[str]:
    """The dotted paths of the fields that a submission to `bank` must contain, in the dataset's order. Account and PIX
    key, of which exactly one is needed, are not listed unless the bank accepts only one of them."""
    return [*_required_of_all(SubmissionRequest()), *bank.required]


def _required_of_all(block: BaseSerializer[Any], path: str = "") -> Iterator[str]:
    for name, field in block.fields.items():  # type: ignore[attr-defined]
        if not field.required:
            continue
        inner = list(_required_of_all(field, f"{path}{name}.")) if isinstance(field, BaseSerializer) else []
        yield from inner or [path + name]


@cache
def json_schema(name: str) -> Document:
    """The dataset's JSON Schema (2020-12) for a bank, with its required fields, forms and words. Made once."""
    bank = given(registry.get(name))
    schema: Document = {"$schema": DIALECT, "title": f"Proposta para {bank.label}", **schema_of(SubmissionRequest())}
    _field_at(schema, "offer_ref.provider")["const"] = bank.name
    _field_at(schema, "recebimento.conta_bancaria.banco")["enum"] = list(compe.banks())
    _restrict(_field_at(schema, "recebimento"), "conta_bancaria", "tipo_conta", _kinds(bank, "conta_bancaria"))
    _restrict(_field_at(schema, "recebimento"), "pix", "tipo_chave", _kinds(bank, "pix"))
    _field_at(schema, "recebimento.pix")["allOf"] = [
        {"if": _equals("tipo_chave", kind), "then": {"properties": {"chave": form.schema}}}
        for kind, form in PIX_FORMS.items()
    ]
    if bank.words.marital_statuses:
        _field_at(schema, "titular.estado_civil")["enum"] = [*bank.words.marital_statuses, None]
    _field_at(schema, "evidencia.ip")["anyOf"] = [{"format": "ipv4"}, {"format": "ipv6"}]
    _field_at(schema, "evidencia.tipo_envio")["enum"] = [*bank.words.channels, None]
    for path, longest in bank.limits.texts.items():
        _field_at(schema, path)["maxLength"] = longest
    for path in bank.required:
        _require(schema, path)
    if bank.limits.references is not None:
        _field_at(schema, "referencias").update(minItems=bank.limits.references, maxItems=bank.limits.references)
    if bank.limits.birth_cities:
        _field_at(schema, "titular")["allOf"] = [
            {
                "if": _equals("naturalidade_uf", state),
                "then": {"properties": {"naturalidade_cidade": {"pattern": _any_spelling(cities)}}},
            }
            for state, cities in bank.limits.birth_cities.items()
        ]
    return schema


def _field_at(schema: Document, path: str) -> Document:
    """The schema of the field with this dotted path."""
    for name in path.split("."):
        schema = schema["properties"][name]
    return schema


def _equals(name: str, value: str) -> Document:
    return {"required": [name], "properties": {name: {"const": value}}}


def _restrict(block: Document, way: str, kind: str, words: list[str]) -> None:
    """Restrict the field `way` of `block` to the kinds in `words`. Without any word the field must be null."""
    if words:
        block["properties"][way]["properties"][kind]["enum"] = words
    else:
        block["properties"][way] = {"type": "null", "description": "Este banco não paga assim."}


def _require(schema: Document, path: str) -> None:
    """Make the field with this dotted path required, with every block above it, and neither null nor empty."""
    for name in path.split("."):
        schema["required"] = [*dict.fromkeys([*schema.get("required", []), name])]
        schema = schema["properties"][name]
        if isinstance(schema.get("type"), list):
            schema["type"] = next(each for each in schema["type"] if each != "null")
        if "enum" in schema:
            schema["enum"] = [each for each in schema["enum"] if each is not None]
    if schema.get("type") == "array":
        schema.setdefault("minItems", 1)
    elif schema.get("type") == "string":
        schema.setdefault("minLength", 1)


#: The accented forms of letters in Portuguese.
_ACCENTED = {"A": "AÁÀÂÃ", "C": "CÇ", "E": "EÉÊ", "I": "IÍ", "O": "OÓÔÕ", "U": "UÚÜ"}


def _any_spelling(cities: Any) -> str:
    """A pattern for any of these names, in any case, with or without accents."""
    return rf"^\s*({'|'.join(''.join(map(_letter_pattern, city)) for city in sorted(cities))})\s*$"


def _letter_pattern(letter: str) -> str:
    if letter == " ":
        return r"\s+"
    if not letter.isalpha():
        return f"\\{letter}" if letter in ".-()" else letter
    spellings = _ACCENTED.get(letter, letter)
    return f"[{spellings}{spellings.lower()}]"
