"""Offers that partners may submit: when two are the same, how they are stored, how they differ from the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from consultas.models import ASSUMED_TERM, Offer, Query
from foundation import statements
from foundation.database import outlasts_restart
from foundation.encryption import blind_index
from foundation.formats import to_reais_text
from partners.models import Partner
from providers.types import BankOffer, BankQuery

# One statement for all offers of a query: with 40 rows several times faster than an INSERT built row by row.
# Sorted, so that two queries for one holder can't lock each other's rows crosswise.
# Of an offer's earlier identifiers the newest 1000 are kept, so that a holder who is queried all day can't make the row
# grow without end. PostgreSQL reads the row of a conflict under its lock, so that two queries at once lose none.
_UPSERT = """
INSERT INTO consultas_offer (
    id, partner_id, query_id, provider, cpf_index, identity, native_offer_id, loan_value, installment_value,
    installments, interest_rate, total_amount, table_code, with_insurance, first_due_date, employer_cnpj,
    employer_name, registration, native, created_at, refreshed_at)
SELECT
    gen_random_uuid(), %(partner)s, %(query)s, r.provider, %(cpf_index)s::text, r.identity, r.native_offer_id,
    r.loan_value, r.installment_value, r.installments, r.interest_rate, r.total_amount, r.table_code,
    r.with_insurance, r.first_due_date, r.employer_cnpj, r.employer_name, r.registration, r.native,
    %(now)s, %(now)s
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (
    provider text, identity text, native_offer_id text, loan_value numeric, installment_value numeric,
    installments smallint, interest_rate numeric, total_amount numeric, table_code text, with_insurance boolean,
    first_due_date date, employer_cnpj text, employer_name text, registration text, native jsonb)
ORDER BY r.identity
ON CONFLICT (partner_id, identity) DO UPDATE SET
    query_id = EXCLUDED.query_id, native_offer_id = EXCLUDED.native_offer_id, native = EXCLUDED.native,
    first_due_date = EXCLUDED.first_due_date, employer_name = EXCLUDED.employer_name,
    refreshed_at = EXCLUDED.refreshed_at,
    earlier_native_ids = CASE WHEN consultas_offer.native_offer_id = EXCLUDED.native_offer_id
        THEN consultas_offer.earlier_native_ids
        ELSE (array_append(array_remove(consultas_offer.earlier_native_ids, consultas_offer.native_offer_id),
            consultas_offer.native_offer_id))[greatest(1, cardinality(consultas_offer.earlier_native_ids)
            - 998):] END
RETURNING identity, id
"""

_KNOWN = "SELECT identity, id FROM consultas_offer WHERE partner_id = %s AND identity = ANY(%s)"


def identity(query: Query, provider: str, offer: BankOffer) -> str:
    """What makes an offer the same one across queries of one partner: CPF, bank, employment link, table, term,
    amounts, rate and insurance. A keyed hash, as the CPF is part of it."""
    numbers = (offer.loan_value, offer.installment_value, offer.total_amount, offer.interest_rate)
    parts = (
        query.cpf_index,
        provider,
        offer.employer_cnpj,
        offer.registration,
        offer.table_code,
        str(offer.installments),
        str(offer.with_insurance),
        *(f"{number:.6f}" for number in numbers),
    )
    return blind_index("offer", "\0".join(parts))


def persist(query: Query, found: Mapping[str, Sequence[BankOffer]]) -> dict[str, list[UUID]]:
    """Keep the offers that each bank gave for `query`; returns their `offerId`s, bank by bank in the same order.

    An offer seen before keeps its id and gets the bank's newest native identifiers; the ones before stay known.
    """
    keys = _keys(query, found)
    # A dict, because a bank might send the same offer twice and one statement can't write a row two times.
    rows = {
        key: {"identity": key, "provider": provider, **vars(offer)}
        for provider, offers in found.items()
        for key, offer in zip(keys[provider], offers, strict=True)
    }
    ids = _upsert(query, list(rows.values())) if rows else {}
    return {provider: [ids[key] for key in each] for provider, each in keys.items()}


def known(query: Query, found: Mapping[str, Sequence[BankOffer]]) -> dict[str, list[UUID]]:
    """The `offerId`s of offers that were stored before, in the form of `persist`; nothing is written. A bank is left
    out if one of its offers was deleted meanwhile."""
    keys = _keys(query, found)
    wanted = {key for each in keys.values() for key in each}
    ids: dict[str, UUID] = {}
    if wanted:
        with statements.cursor() as cursor:
            cursor.execute(_KNOWN, [query.partner_id, list(wanted)])
            ids = dict(cursor.fetchall())
    return {provider: [ids[key] for key in each] for provider, each in keys.items() if ids.keys() >= set(each)}


def _keys(query: Query, found: Mapping[str, Sequence[BankOffer]]) -> dict[str, list[str]]:
    return {provider: [identity(query, provider, offer) for offer in offers] for provider, offers in found.items()}


def _upsert(query: Query, rows: list[dict[str, Any]]) -> dict[str, UUID]:
    parameters: dict[str, Any] = {
        "partner": query.partner_id,
        "query": query.id,
        "cpf_index": query.cpf_index,
        "rows": msgspec.json.encode(rows).decode(),
        "now": timezone.now(),
    }
    with statements.cursor() as cursor:
        cursor.execute(_UPSERT, parameters)
        return dict(cursor.fetchall())


def named(partner: Partner, provider: str, name: str) -> Offer | None:
    """The offer of `partner` at that bank that `name` names: an `offerId`, or a native identifier that the bank gave it
    at any time. None where there is none, or where the native identifier is that of two offers."""
    offers = Offer.objects.select_related("query").filter(partner=partner, provider=provider)
    try:
        offer = offers.filter(pk=UUID(name)).first() if len(name) == 36 else None
    except ValueError:
        offer = None
    if offer is not None:
        return offer
    # Two statements, each with an index of its own.
    found = {each.pk: each for each in offers.filter(native_offer_id=name)[:2]}
    found |= {each.pk: each for each in offers.filter(earlier_native_ids__contains=[name])[:2]}
    return next(iter(found.values())) if len(found) == 1 else None


@outlasts_restart
def live_proposal(query: Query, provider: str) -> str | None:
    """The id of the holder's newest live proposal at `provider` for this partner."""
    rows = Offer.objects.filter(
        partner=query.partner_id,
        provider=provider,
        cpf_index=query.cpf_index,
        live_proposal_id__isnull=False,
    )
    newest = rows.order_by("-live_proposal_since").values_list("live_proposal_id", flat=True).first()
    return str(newest) if newest else None


def adjustments(request: BankQuery, offer: BankOffer) -> list[str]:
    """Where `offer` differs from what was asked for, in words for the partner's operator. Empty: it does not.

    The service compares; a bank's own remarks are not relied on.
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


def _moved(what: str, asked: Decimal, given: Decimal) -> str:
    why = "acima do máximo" if given < asked else "abaixo do mínimo"
    return f"{what} de R$ {to_reais_text(asked)} {why} disponível; a melhor oferta é de R$ {to_reais_text(given)}."
