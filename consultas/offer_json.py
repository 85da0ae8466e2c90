"""Offers as they are shown, with their differences from the request."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from consultas.models import ASSUMED_TERM
from consultas.shapes import Offer
from foundation.formats import iso_utc, to_reais_text
from providers import price
from providers.types.answer import BankOffer
from providers.types.query import BankQuery


def offer(provider: str, item: BankOffer, request: BankQuery, offer_id: UUID | None) -> Offer:
    """An offer as shown by the aggregated routes, the stream, the proposals and the webhooks."""
    notes = adjustments(request, item)
    comparable_monthly, comparable_annual = price.comparable_cet(item)
    native = {**item.native, "nativeOfferId": item.native_offer_id, "withInsurance": item.with_insurance}
    return Offer(
        provider=provider,
        offer_id=offer_id,
        loan_value=float(item.loan_value),
        installment_value=float(item.installment_value),
        installments=item.installments,
        interest_rate=float(item.interest_rate),
        total_amount=float(item.total_amount),
        cet_monthly=_number(item.cet_monthly),
        cet_annual=_number(item.cet_annual),
        cet_source=item.cet_source,
        cet_comparable_monthly=_number(comparable_monthly),
        cet_comparable_annual=_number(comparable_annual),
        iof=_number(item.iof),
        insurance_value=_number(item.insurance_value),
        with_insurance=item.with_insurance,
        table_code=item.table_code,
        first_due_date=item.first_due_date,
        quoted_at=_moment(item.quoted_at),
        valid_until=_moment(item.valid_until),
        employer_name=item.employer_name,
        employer_cnpj=item.employer_cnpj,
        matricula=item.registration,
        provider_data=native,
        adjusted=bool(notes),
        adjustments=notes,
    )


def sort_offers(items: Iterable[Offer]) -> list[Offer]:
    """Highest amount first, then lowest rate, then by bank."""
    return sorted(items, key=lambda item: (-item.loan_value, item.interest_rate, item.provider))


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
