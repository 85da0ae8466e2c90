"""Offers that partners may submit: their identity, their storage, and what replaces an expired one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from consultas import offer_json, shapes
from consultas.models import Offer, Query
from foundation import statements
from foundation.database import outlasts_restart
from foundation.encryption import blind_index
from partners.models import Partner
from providers.types.answer import BankOffer

OffersByBank = Mapping[str, Sequence[BankOffer]]
IdsByBank = dict[str, list[UUID]]

# One statement for all offers of one or several queries: with 40 rows several times faster than an INSERT built row by
# row. Sorted, so that two queries for one holder can't lock each other's rows crosswise.
# Of an offer's earlier identifiers the newest 1000 are kept, so that a holder who is queried all day can't make the row
# grow without end. PostgreSQL reads the row of a conflict under its lock, so that two queries at once lose none.
_UPSERT = """
INSERT INTO consultas_offer (
    id, partner_id, query_id, provider, cpf_index, identity, native_offer_id, loan_value, installment_value,
    installments, interest_rate, total_amount, table_code, with_insurance, first_due_date, employer_cnpj,
    employer_name, registration, native, cet_monthly, cet_annual, cet_source, iof, insurance_value, quoted_at,
    valid_until, created_at, refreshed_at)
SELECT
    gen_random_uuid(), r.partner_id, r.query_id, r.provider, r.cpf_index, r.identity, r.native_offer_id,
    r.loan_value, r.installment_value, r.installments, r.interest_rate, r.total_amount, r.table_code,
    r.with_insurance, r.first_due_date, r.employer_cnpj, r.employer_name, r.registration, r.native, r.cet_monthly,
    r.cet_annual, r.cet_source, r.iof, r.insurance_value, r.quoted_at, r.valid_until, %(now)s, %(now)s
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (
    partner_id uuid, query_id uuid, cpf_index text, provider text, identity text, native_offer_id text,
    loan_value numeric, installment_value numeric, installments smallint, interest_rate numeric,
    total_amount numeric, table_code text, with_insurance boolean, first_due_date date, employer_cnpj text,
    employer_name text, registration text, native jsonb, cet_monthly numeric, cet_annual numeric, cet_source text,
    iof numeric, insurance_value numeric, quoted_at timestamptz, valid_until timestamptz)
ORDER BY r.identity
ON CONFLICT (partner_id, identity) DO UPDATE SET
    query_id = EXCLUDED.query_id, native_offer_id = EXCLUDED.native_offer_id, native = EXCLUDED.native,
    first_due_date = EXCLUDED.first_due_date, employer_name = EXCLUDED.employer_name,
    cet_monthly = EXCLUDED.cet_monthly, cet_annual = EXCLUDED.cet_annual, cet_source = EXCLUDED.cet_source,
    iof = EXCLUDED.iof, insurance_value = EXCLUDED.insurance_value, quoted_at = EXCLUDED.quoted_at,
    valid_until = EXCLUDED.valid_until, refreshed_at = EXCLUDED.refreshed_at, expired_at = NULL,
    earlier_native_ids = CASE WHEN consultas_offer.native_offer_id = EXCLUDED.native_offer_id
        THEN consultas_offer.earlier_native_ids
        ELSE (array_append(array_remove(consultas_offer.earlier_native_ids, consultas_offer.native_offer_id),
            consultas_offer.native_offer_id))[greatest(1, cardinality(consultas_offer.earlier_native_ids)
            - 998):] END
RETURNING partner_id, identity, id
"""

#: No `offerId`s by identity.
NONE_READ: Mapping[str, UUID] = MappingProxyType({})
_KNOWN = "SELECT identity, id, query_id FROM consultas_offer WHERE partner_id = %s AND identity = ANY(%s)"


def identity(query: Query, provider: str, offer: BankOffer) -> str:
    """The identity of an offer across one partner's queries: CPF, bank, employment, table, term, amounts, rate and
    insurance. A keyed hash, because it includes the CPF."""
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


def persist(query: Query, by_bank: OffersByBank) -> IdsByBank:
    """Store the offers that each bank gave for `query`. Returns their `offerId`s by bank, in the same order.

    A known offer keeps its id and gets the bank's newest identifiers; its earlier identifiers stay known.
    """
    return persist_all({query: by_bank})[query.pk]


def persist_all(quoted: Mapping[Query, OffersByBank]) -> dict[UUID, IdsByBank]:
    """Like `persist`, for several queries in one statement. Returns the `offerId`s by the query's id."""
    keys = {query.pk: _keys(query, by_bank) for query, by_bank in quoted.items()}
    of_query = {
        query: {"partner_id": query.partner_id, "query_id": query.pk, "cpf_index": query.cpf_index} for query in quoted
    }
    # A dict, because a bank may send the same offer twice, and one statement cannot write a row twice.
    rows = {
        (query.partner_id, key): {**of_query[query], "provider": provider, "identity": key, **vars(offer)}
        for query, by_bank in quoted.items()
        for provider, offers in by_bank.items()
        for key, offer in zip(keys[query.pk][provider], offers, strict=True)
    }
    ids = _upsert(list(rows.values())) if rows else {}
    return {
        query.pk: {bank: [ids[query.partner_id, key] for key in each] for bank, each in keys[query.pk].items()}
        for query in quoted
    }


def known(
    query: Query,
    by_bank: OffersByBank,
    refreshed_by: Query | None = None,
    read: Mapping[str, UUID] = NONE_READ,
) -> IdsByBank:
    """The `offerId`s of offers stored before, in the form of `persist`. Writes nothing. A bank is left out if one of
    its offers was deleted meanwhile, or was not stored or refreshed by the query `refreshed_by`.

    `read` are ids by identity that were just read. If one is missing there, all are read.
    """
    keys = _keys(query, by_bank)
    all_keys = {key for each in keys.values() for key in each}
    ids = read
    if not all_keys <= read.keys():
        with statements.cursor() as cursor:
            cursor.execute(_KNOWN, [query.partner_id, list(all_keys)])
            by = refreshed_by.pk if refreshed_by else None
            ids = {key: pk for key, pk, last in cursor.fetchall() if by is None or last == by}
    return {provider: [ids[key] for key in each] for provider, each in keys.items() if ids.keys() >= set(each)}


def _keys(query: Query, by_bank: OffersByBank) -> dict[str, list[str]]:
    return {provider: [identity(query, provider, offer) for offer in offers] for provider, offers in by_bank.items()}


def _upsert(rows: list[dict[str, Any]]) -> dict[tuple[UUID, str], UUID]:
    params: dict[str, Any] = {"rows": msgspec.json.encode(rows).decode(), "now": timezone.now()}
    with statements.cursor() as cursor:
        cursor.execute(_UPSERT, params)
        return {(partner, key): pk for partner, key, pk in cursor.fetchall()}


def named(partner: Partner, provider: str, name: str) -> Offer | None:
    """The offer of `partner` at that bank with this `name`: an `offerId`, or a native identifier from any time. None if
    there is none, or if two offers have that native identifier."""
    offers = Offer.objects.select_related("query").filter(partner=partner, provider=provider)
    try:
        offer = offers.filter(pk=UUID(name)).first() if len(name) == 36 else None
    except ValueError:
        offer = None
    if offer is not None:
        return offer
    # Two statements, each with its own index.
    matching = {each.pk: each for each in offers.filter(native_offer_id=name)[:2]}
    matching |= {each.pk: each for each in offers.filter(earlier_native_ids__contains=[name])[:2]}
    return next(iter(matching.values())) if len(matching) == 1 else None


def replacement(expired: Offer) -> shapes.Offer | None:
    """A replacement for `expired` as JSON: the most similar other offer of the same bank in the partner's newest query
    for the holder. None if there is none that the bank quoted later than `expired`: what it quoted with an expired
    offer is expired, too."""
    mine = Query.objects.filter(partner=expired.partner_id, cpf_index=expired.cpf_index)
    newest = mine.filter(kind=Query.Kind.AGGREGATED).order_by("-created_at").first()
    # A repeated query shows the offers of the query whose group it shares.
    group = newest.simulation_group if newest else None
    shown: dict[str, Any] = {"query__simulation_group": group} if group else {"query": newest}
    others = Offer.objects.filter(**shown, partner=expired.partner_id, provider=expired.provider, expired_at=None)
    # The offers of one answer have times that differ by microseconds, so the query is compared as well.
    others = others.filter(quoted_at__gt=expired.quoted_at).exclude(query=expired.query_id)
    nearest = min(others, key=lambda other: _distance(expired, other), default=None)
    if newest is None or nearest is None:
        return None
    return offer_json.offer(nearest.provider, nearest.as_bank_offer(), newest.holder, nearest.pk)


def _distance(one: Offer, other: Offer) -> tuple[object, ...]:
    """The distance between two offers, the most important difference for a holder first."""
    return (
        (one.employer_cnpj, one.registration) != (other.employer_cnpj, other.registration),
        one.with_insurance != other.with_insurance,
        abs(one.loan_value - other.loan_value),
        abs(one.installments - other.installments),
        other.interest_rate,
        str(other.pk),
    )


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
