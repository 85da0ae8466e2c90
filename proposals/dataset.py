"""From a validated dataset to a bank's submission: the offer, the remaining faults, the dataclass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from consultas import offers
from consultas.models import Offer, Step
from foundation.encryption import blind_index
from foundation.errors import Detail, InvalidInput
from foundation.formats import is_one_word
from partners.models import Partner
from providers import rules
from providers.bank import Bank
from providers.types.answer import BankOffer
from providers.types.submission import (
    Address,
    BankAccount,
    BankSubmission,
    DeclaredEmployment,
    Disbursement,
    Holder,
    IdentityDocument,
    PersonalReference,
    PixKey,
)

OFFER = "offer_ref.offer_id"
UNKNOWN_OFFER = "Oferta não encontrada para este banco. Faça uma nova consulta."
DEFAULT_DEGREE = 1  # a relative
#: The channels by which a bank may deliver the signature URL.
CHANNELS = ("sms", "whatsapp")
ACCOUNT_KINDS = ("corrente", "poupanca", "salario")
PIX_KINDS = ("cpf", "telefone", "email", "aleatoria")
#: Replaces an unknown offer, so that rules which do not depend on the offer are still checked.
NO_OFFER = BankOffer(
    native_offer_id="",
    loan_value=Decimal(0),
    installment_value=Decimal(0),
    installments=1,
    interest_rate=Decimal(0),
    total_amount=Decimal(0),
    table_code="",
    with_insurance=False,
    first_due_date=None,
    employer_cnpj="",
    employer_name="",
    registration="",
)

#: Replaces missing required fields, so that rules on the other fields are still checked.
_STAND_INS: dict[str, dict[str, Any]] = {
    "titular": {"nome": "", "cpf": "", "data_nascimento": date(1970, 1, 1), "sexo": "F", "nome_mae": ""},
    "contato": {"telefone": "", "email": ""},
    "endereco": dict.fromkeys(("cep", "logradouro", "numero", "bairro", "cidade", "uf"), ""),
    "recebimento": {},
    "evidencia": {"ip": ""},
}
_DISBURSEMENT_STAND_INS: dict[str, dict[str, str]] = {
    "conta_bancaria": dict.fromkeys(("banco", "agencia", "conta", "digito_conta", "tipo_conta"), ""),
    "pix": {"tipo_chave": "", "chave": ""},
}

#: The fields of a dataclass and, for each, the field of the dataset's block.
_HOLDER = {
    "name": "nome",
    "cpf": "cpf",
    "birth_date": "data_nascimento",
    "sex": "sexo",
    "mother_name": "nome_mae",
    "father_name": "nome_pai",
    "nationality": "nacionalidade",
    "marital_status": "estado_civil",
    "birth_city": "naturalidade_cidade",
    "birth_state": "naturalidade_uf",
    "politically_exposed": "exposicao_politica",
}
_DOCUMENT = {
    "number": "numero",
    "issuer": "orgao_emissor",
    "issuer_state": "uf_emissor",
    "issued_on": "data_emissao",
}
_EMPLOYMENT = {
    "employer_cnpj": "cnpj_empregador",
    "employer_name": "nome_empregador",
    "job_title": "cargo",
    "salary": "salario",
    "margin": "margem",
    "admission_date": "data_admissao",
    "registration": "matricula",
}
T = TypeVar("T")


def check(bank: type[Bank], data: dict[str, Any], offer: Offer | None) -> None:
    """Raises InvalidInput that names every fault, before any call: an unknown offer, the bank's own rules, and missing
    fields that this bank needs."""
    details = _first_of_each_field(_faults(bank, data, offer))
    if details:
        raise InvalidInput(details=details)


def faults_of_part(
    partner: Partner, bank: type[Bank], part: dict[str, Any], reported: Sequence[Detail]
) -> list[Detail]:
    """The faults that offer and bank find in `part`, the valid part of a dataset whose form has the faults `reported`.

    A fault is left out if its field equals, contains or lies inside a field in `reported`, because it may only be a
    consequence.
    """
    offer_ref = part["offer_ref"]
    offer = offers.named(partner, bank.name, offer_ref["offer_id"]) if "offer_id" in offer_ref else None
    fields = [detail.field for detail in reported]
    faults = _first_of_each_field(_faults(bank, _completed(part), offer))
    return [detail for detail in faults if not any(_overlap(detail.field, field) for field in fields)]


def _overlap(one: str | None, other: str | None) -> bool:
    """True if the fields are equal, or one is a block that contains the other. None is the whole body."""
    if one is None or other is None:
        return True
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _completed(part: dict[str, Any]) -> dict[str, Any]:
    """The valid part of a dataset, with replacements for missing fields that `_submission` needs."""
    whole = {**part, **{name: {**stand_in, **(part.get(name) or {})} for name, stand_in in _STAND_INS.items()}}
    for name, stand_in in _DISBURSEMENT_STAND_INS.items():
        if given := whole["recebimento"].get(name):
            whole["recebimento"] = {**whole["recebimento"], name: {**stand_in, **given}}
    return whole


def _first_of_each_field(faults: Iterable[Detail]) -> list[Detail]:
    details: dict[str | None, Detail] = {}
    for detail in faults:
        details.setdefault(detail.field, detail)
    return list(details.values())


def _faults(bank: type[Bank], data: dict[str, Any], offer: Offer | None) -> Iterator[Detail]:
    cpf, pix = data["titular"]["cpf"], data["recebimento"].get("pix")
    if offer is None:
        yield Detail(OFFER, UNKNOWN_OFFER)
    elif offer.cpf_index != blind_index("cpf", cpf):
        yield Detail("titular.cpf", "O CPF não é o da oferta.")
    if pix and pix["tipo_chave"] == "cpf" and pix["chave"] != cpf:
        yield Detail("recebimento.pix.chave", "A chave CPF deve ser a do próprio titular.")
    yield from rules.submission_faults(
        bank, to_bank(data, offer, reference="") if offer else _submission(data, NO_OFFER, "")
    )
    for field in bank.required:
        if _value(data, field) in (None, "", []):
            yield Detail(field, f"Campo obrigatório para o banco {bank.label}.")


def _value(data: Any, field: str) -> Any:
    for key in field.split("."):
        data = (data or {}).get(key)
    return data


def check_authorized(offer: Offer) -> None:
    """Raises InvalidInput on the offer while a step of the holder is open that the bank opened after it last gave this
    offer. The authorization for that offer no longer holds."""
    owed = Step.objects.filter(
        opened_at__gt=offer.refreshed_at,
        partner_id=offer.partner_id,
        provider=offer.provider,
        cpf_index=offer.cpf_index,
        state=Step.State.OPEN,
    )
    if owed.exists():
        message = "A autorização do titular neste banco ainda não foi concluída. Aguarde e use o novo offerId."
        raise InvalidInput(message, field=OFFER)


def to_bank(data: dict[str, Any], offer: Offer, *, reference: str) -> BankSubmission:
    """The submission for an adapter. `data` comes from the body, or from a row, where dates and money are text."""
    query = offer.query.for_bank(offer.provider)
    submission = _submission(data, offer.as_bank_offer(), reference)
    return replace(submission, portfolio=query.portfolio, query=query)


def disbursement(bank: type[Bank], data: dict[str, Any]) -> Disbursement:
    """Where `bank` pays the money of the submission `data` from a row."""
    return bank.disbursement(_submission(data, NO_OFFER, ""))


def _submission(data: dict[str, Any], offer: BankOffer, reference: str) -> BankSubmission:
    """The dataclass of a submission. A father's name of one word is left out, because banks refuse it."""
    holder, contact, address = data["titular"], data["contato"], data["endereco"]
    father = holder.get("nome_pai")
    account, pix = data["recebimento"].get("conta_bancaria"), data["recebimento"].get("pix")
    return BankSubmission(
        reference=reference,
        offer=offer,
        holder=_declared(
            {**holder, "nome_pai": father if father and not is_one_word(father) else None}, _HOLDER, Holder
        ),
        phone=contact["telefone"],
        email=contact["email"],
        address=Address(
            postal_code=address["cep"],
            street=address["logradouro"],
            number=address["numero"],
            district=address["bairro"],
            city=address["cidade"],
            state=address["uf"],
            complement=address.get("complemento") or None,
        ),
        ip=data["evidencia"]["ip"],
        document=_declared(data.get("documento") or {}, _DOCUMENT, IdentityDocument),
        employment=_declared(data.get("vinculo") or {}, _EMPLOYMENT, DeclaredEmployment),
        account=_account(account) if account else None,
        pix=PixKey(pix["tipo_chave"], pix["chave"]) if pix else None,
        references=tuple(_reference(person) for person in data.get("referencias") or ()),
        channel=data["evidencia"].get("tipo_envio"),
    )


def _declared(block: dict[str, Any], fields: Mapping[str, str], kind: type[T]) -> T:
    """The dataclass `kind` from a block of the dataset. `fields` maps each field of `kind` to one of the block. A field
    that the partner left out is None."""
    return msgspec.convert({name: block.get(field) for name, field in fields.items()}, kind)


def _account(block: dict[str, Any]) -> BankAccount:
    return BankAccount(
        bank=block["banco"],
        branch=block["agencia"],
        number=block["conta"],
        digit=block["digito_conta"],
        kind=block["tipo_conta"],
        branch_digit=block.get("digito_agencia") or None,
    )


def _reference(person: dict[str, Any]) -> PersonalReference:
    degree = person.get("grau")
    return PersonalReference(person["nome"], person["telefone"], DEFAULT_DEGREE if degree is None else degree)
