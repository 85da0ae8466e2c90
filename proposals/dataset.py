"""From a validated dataset to a bank's submission: the offer, the remaining faults, the dataclass, the comparison."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from rest_framework.serializers import BaseSerializer, ListSerializer

from consultas import offers
from consultas.models import Offer, Step
from foundation.errors import Detail, InvalidInput
from foundation.formats import is_one_word
from partners.models import Partner
from providers import rules
from providers.bank import Bank
from providers.types.proposal import BLOCKS, BankSubmission, Disbursement
from providers.types.query import BankOffer

OFFER = "offer_ref.offer_id"
UNKNOWN_OFFER = "Oferta não encontrada para este banco. Faça uma nova consulta."
#: The channels by which a bank may deliver the signature URL.
CHANNELS = ("sms", "whatsapp")
ACCOUNT_KINDS = ("corrente", "poupanca", "salario")
PIX_KINDS = ("cpf", "telefone", "email", "aleatoria")
#: What reads the fields that rows keep as texts.
_AS_TEXT: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("data_nascimento", "data_emissao", "data_admissao"), date.fromisoformat),
    **dict.fromkeys(("salario", "margem"), Decimal),
}
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
    registration="",
)


def check(bank: type[Bank], data: dict[str, Any], offer: Offer | None) -> Offer:
    """The `offer`. Raises InvalidInput that names every fault, before any call: an unknown offer, the bank's own rules,
    and missing fields that this bank needs."""
    details = _first_of_each_field(_faults(bank, data, offer))
    if details or offer is None:
        raise InvalidInput(details=details)
    return offer


def faults_of_part(
    partner: Partner, bank: type[Bank], part: dict[str, Any], reported: Sequence[Detail]
) -> list[Detail]:
    """The faults that offer and bank find in `part`, the valid part of a dataset whose form has the faults `reported`.
    A fault whose field equals, contains or lies inside a field in `reported` is left out, as a consequence."""
    offer_ref = part["offer_ref"]
    offer = offers.named(partner, bank.name, offer_ref["offer_id"]) if "offer_id" in offer_ref else None
    fields = [detail.field for detail in reported]
    faults = _first_of_each_field(_faults(bank, part, offer))
    return [detail for detail in faults if not any(_overlap(detail.field, field) for field in fields)]


def _overlap(one: str | None, other: str | None) -> bool:
    """True if the fields are equal, or one is a block that contains the other. None is the whole body."""
    if one is None or other is None:
        return True
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _first_of_each_field(faults: Iterable[Detail]) -> list[Detail]:
    details: dict[str | None, Detail] = {}
    for detail in faults:
        details.setdefault(detail.field, detail)
    return list(details.values())


def _faults(bank: type[Bank], data: dict[str, Any], offer: Offer | None) -> Iterator[Detail]:
    submission = to_bank(data, offer, reference="") if offer else as_submission(data)
    missing = [field for field in bank.required if _value(data, field) in (None, "", [])]
    cpf, pix = submission.titular.get("cpf"), submission.paid.pix or {}
    holder = offer.query.holder.cpf if offer else cpf
    if offer is None:
        yield Detail(OFFER, UNKNOWN_OFFER)
    elif holder != cpf:
        yield Detail("titular.cpf", "O CPF não é o da oferta.")
    if holder and pix.get("tipo_chave") == "cpf" and pix.get("chave") != holder:
        yield Detail("recebimento.pix.chave", "A chave CPF deve ser a do próprio titular.")
    yield from rules.submission_faults(bank, submission)
    for field in missing:
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
    submission = as_submission(data, offer.as_bank_offer(), reference)
    return replace(submission, portfolio=query.portfolio, query=query)


def disbursement(bank: type[Bank], data: dict[str, Any]) -> Disbursement:
    """Where `bank` pays the money of the submission `data` from a row."""
    return bank.disbursement(as_submission(data))


def as_submission(data: dict[str, Any], offer: BankOffer = NO_OFFER, reference: str = "") -> BankSubmission:
    """The submission with `data`, which is as in `to_bank`, or the valid part of a dataset with faults."""
    return BankSubmission(reference=reference, offer=offer, **declared(data))


def declared(data: dict[str, Any]) -> dict[str, Any]:
    """The blocks of the dataset `data` with what was declared: without null and empty fields, and without a father's
    name of one word, because banks refuse it."""
    blocks: dict[str, Any] = _declared({name: data[name] for name in BLOCKS if name in data})
    father = blocks.get("titular", {}).pop("nome_pai", None)
    if father and not is_one_word(father):
        blocks["titular"]["nome_pai"] = father
    for each in blocks.get("referencias", ()):
        each.setdefault("grau", 1)
    return blocks


def _declared(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        told = {key: _declared(each, key) for key, each in value.items()}
        return {key: each for key, each in told.items() if each not in (None, "", [], {})}
    if isinstance(value, list):
        return [_declared(each) for each in value]
    if isinstance(value, str) and name in _AS_TEXT:  # as rows keep it
        return _AS_TEXT[name](value)
    return value


def first_difference(form: BaseSerializer[Any], stored: dict[str, Any], submitted: dict[str, Any]) -> str | None:
    """The first field, in the order of `form`, in which banks would receive something else for the datasets `stored`
    and `submitted`: dotted, or the name of a block that only one of the two has. None if both are the same submission:
    the offer, whichever id the body used, and the evidence of one call do not distinguish submissions."""
    one, other = declared(stored), declared(submitted)
    fields = (field for field in _differences(form, one, other) if not field.startswith("evidencia."))
    return next(fields, None)


def _differences(block: BaseSerializer[Any], one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    for name, field in block.fields.items():  # type: ignore[attr-defined]  # a block's
        mine, theirs = one.get(name), other.get(name)
        if mine == theirs:
            continue
        if not (mine and theirs and isinstance(field, BaseSerializer)):
            yield name
        elif isinstance(field, ListSerializer):
            if len(mine) != len(theirs):
                yield name
            item: Any = field.child
            for index, pair in enumerate(zip(mine, theirs, strict=False)):
                yield from (f"{name}.{index}.{inner}" for inner in _differences(item, *pair))
        else:
            yield from (f"{name}.{inner}" for inner in _differences(field, mine, theirs))
