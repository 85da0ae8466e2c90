"""Offers as JSON: in camelCase, in the snake_case of the individual route, and with their differences from the
request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from consultas.models import ASSUMED_TERM
from foundation.formats import iso_utc, to_reais_text
from providers import price
from providers.types.answer import BankOffer
from providers.types.query import BankQuery

_CAPITAL = re.compile("[A-Z]")
#: What the individual route leaves out.
NOT_INDIVIDUAL = ("offerId", "providerData")


def offer(provider: str, item: BankOffer, request: BankQuery, offer_id: UUID | None) -> dict[str, Any]:
    """An offer as shown by the aggregated routes, the stream, the proposals and the webhooks."""
    notes = adjustments(request, item)
    comparable_monthly, comparable_annual = price.comparable_cet(item)
    return {
        "provider": provider,
        "offerId": str(offer_id) if offer_id else None,
        "loanValue": float(item.loan_value),
        "installmentValue": float(item.installment_value),
        "installments": item.installments,
        "interestRate": float(item.interest_rate),
        "totalAmount": float(item.total_amount),
        "cetMonthly": _number(item.cet_monthly),
        "cetAnnual": _number(item.cet_annual),
        "cetSource": item.cet_source,
        "cetComparableMonthly": _number(comparable_monthly),
        "cetComparableAnnual": _number(comparable_annual),
        "iof": _number(item.iof),
        "insuranceValue": _number(item.insurance_value),
        "withInsurance": item.with_insurance,
        "tableCode": item.table_code,
        "firstDueDate": item.first_due_date.isoformat() if item.first_due_date else None,
        "quotedAt": _moment(item.quoted_at),
        "validUntil": _moment(item.valid_until),
        "employerName": item.employer_name,
        "employerCnpj": item.employer_cnpj,
        "matricula": item.registration,
        "providerData": {
            **item.native,
            "nativeOfferId": item.native_offer_id,
            "withInsurance": item.with_insurance,
        },
        "adjusted": bool(notes),
        "adjustments": notes,
    }


def snake_offer(provider: str, item: BankOffer, request: BankQuery) -> dict[str, Any]:
    """An offer as shown by the individual route, which stores no offers: without `offerId`."""
    shown = offer(provider, item, request, None)
    return {in_snake_case(name): value for name, value in shown.items() if name not in NOT_INDIVIDUAL}


@lru_cache(maxsize=128)
def in_snake_case(name: str) -> str:
    """`loanValue` as `loan_value`."""
    return _CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name)


def sort_offers(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Highest amount first, then lowest rate, then by bank."""
    return sorted(items, key=lambda item: (-item["loanValue"], item["interestRate"], item["provider"]))


def adjustments(request: BankQuery, offer: BankOffer) -> list[str]:
    """The differences between `offer` and the request, in Portuguese sentences. Empty if there are none.

    The service compares the values itself and does not rely on the bank's remarks.
    """
    notes: list[str] = []
    by_amount, by_installment = request.loan_value, request.installment_value
    term = request.installments
    if term is None and (by_amount or by_installment):
        term = ASSUMED_TERM
    if term is not None and offer.installments != term:
        notes.append(f"Prazo de {term} parcelas indisponível; a melhor oferta tem {offer.installments} parcelas.")
    if by_amount is not None:
        if offer.loan_value != by_amount:
            notes.append(_moved("Valor", by_amount, offer.loan_value))
    elif by_installment is not None and offer.installment_value != by_installment:
        notes.append(_moved("Parcela", by_installment, offer.installment_value))
    return notes


def _moved(what: str, requested: Decimal, offered: Decimal) -> str:
    why = "acima do máximo" if offered < requested else "abaixo do mínimo"
    return (
        f"{what} de R$ {to_reais_text(requested)} {why} disponível; a melhor oferta é de R$ {to_reais_text(offered)}."
    )


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _moment(value: datetime | None) -> str | None:
    return None if value is None else iso_utc(value)
