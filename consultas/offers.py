"""Offers that partners may submit: their identity, their storage, and what replaces an expired one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django.core.exceptions import ValidationError
from django.utils import timezone

from consultas import query_json, shapes
from consultas.models import Offer, Query
from foundation import database
from foundation.database import outlasts_restart
from foundation.encryption import blind_index
from partners.models import Partner
from providers.types.query import BankOffer

OffersByBank = Mapping[str, Sequence[BankOffer]]
IdsByBank = dict[str, list[UUID]]

#: The columns of a known offer that a bank's newer quote changes.
_RENEWED = (
    *("query_id", "native_offer_id", "native", "first_due_date", "employer_name", "cet_monthly", "cet_annual"),
    *("cet_source", "iof", "insurance_value", "quoted_at", "valid_until", "refreshed_at"),
)
# One statement for all offers of one or several queries: with 40 rows several times faster than an INSERT built row by
# row. Sorted, so that two queries for one holder can't lock each other's rows crosswise.
# Of an offer's earlier identifiers the newest 1000 are kept, so that a holder who is queried all day can't make the row
# grow without end. PostgreSQL reads the row of a conflict under its lock, so that two queries at once lose none. A slow
# query that ends after a faster one brings the older quote: only its identifier is kept (not if one sweep ends both).
_IS_NEWER = "EXCLUDED.quoted_at >= consultas_offer.quoted_at"
_EARLIER_ID = f"CASE WHEN {_IS_NEWER} THEN consultas_offer.native_offer_id ELSE EXCLUDED.native_offer_id END"
_UPSERT = f"""
INSERT INTO consultas_offer ({{columns}})
SELECT {{columns}} FROM jsonb_populate_recordset(NULL::consultas_offer, %s::jsonb) ORDER BY identity
ON CONFLICT (partner_id, identity) DO UPDATE SET {
    ", ".join(
        f"{name} = CASE WHEN {_IS_NEWER} THEN EXCLUDED.{name} ELSE consultas_offer.{name} END" for name in _RENEWED
    )
},
    expired_at = CASE WHEN EXCLUDED.quoted_at > consultas_offer.quoted_at THEN NULL ELSE consultas_offer.expired_at END,
    earlier_native_ids = CASE WHEN consultas_offer.native_offer_id = EXCLUDED.native_offer_id
        THEN consultas_offer.earlier_native_ids
        ELSE (array_append(array_remove(consultas_offer.earlier_native_ids, {_EARLIER_ID}), {_EARLIER_ID}))[greatest(
            1, cardinality(consultas_offer.earlier_native_ids) - 998):] END
RETURNING partner_id, identity, id
"""  # noqa: S608 - names of ours

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
    """Store the offers that each bank gave for `query`. Returns their `offerId`s by bank, in the same order. A known
    offer keeps its id and gets the bank's newest identifiers."""
    return persist_all({query: by_bank})[query.pk]


def persist_all(quoted: Mapping[Query, OffersByBank]) -> dict[UUID, IdsByBank]:
    """Like `persist`, for several queries in one statement. Returns the `offerId`s by the query's id."""
    keys = {query.pk: _keys(query, by_bank) for query, by_bank in quoted.items()}
    now = timezone.now()
    told = (
        (query, provider, key, offer)
        for query, by_bank in quoted.items()
        for provider, offers in by_bank.items()
        for key, offer in zip(keys[query.pk][provider], offers, strict=True)
    )
    # A dict, because one statement cannot write a row twice: of an offer that was told twice, the newer quote stays.
    rows = {
        (query.partner_id, key): {
            "id": uuid4(),
            "partner_id": query.partner_id,
            "query_id": query.pk,
            "cpf_index": query.cpf_index,
            "created_at": now,
            "refreshed_at": now,
            "provider": provider,
            "identity": key,
            **vars(offer),
        }
        for query, provider, key, offer in sorted(told, key=lambda each: each[3].quoted_at)
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
    its offers was deleted meanwhile, or was not stored or refreshed by the query `refreshed_by`. `read` are ids by
    identity that were just read. If one is missing there, all are read."""
    keys = _keys(query, by_bank)
    all_keys = {key for each in keys.values() for key in each}
    ids = read
    if not all_keys <= read.keys():
        found = database.fetch_all(_KNOWN, [query.partner_id, list(all_keys)])
        by = refreshed_by.pk if refreshed_by else None
        ids = {key: pk for key, pk, last in found if by is None or last == by}
    return {provider: [ids[key] for key in each] for provider, each in keys.items() if ids.keys() >= set(each)}


def _keys(query: Query, by_bank: OffersByBank) -> dict[str, list[str]]:
    return {provider: [identity(query, provider, offer) for offer in offers] for provider, offers in by_bank.items()}


def _upsert(rows: list[dict[str, Any]]) -> dict[tuple[UUID, str], UUID]:
    stored = database.fetch_all(_UPSERT.format(columns=", ".join(rows[0])), [msgspec.json.encode(rows).decode()])
    return {(partner, key): pk for partner, key, pk in stored}


def named(partner: Partner, provider: str, name: str) -> Offer | None:
    """The offer of `partner` at that bank with this `name`: an `offerId`, or a native identifier from any time. None if
    there is none, or if two offers have that native identifier."""
    offers = Offer.objects.select_related("query").filter(partner=partner, provider=provider)
    with suppress(ValidationError):  # not every native identifier reads as a UUID
        if offer := offers.filter(pk=name).first():
            return offer
    # Two statements, each with its own index.
    matching = {each.pk: each for each in offers.filter(native_offer_id=name)[:2]}
    renamed = offers.exclude(earlier_native_ids=[]).filter(earlier_native_ids__contains=[name])
    matching |= {each.pk: each for each in renamed[:2]}
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
    return query_json.offer(nearest.provider, nearest.as_bank_offer(), newest.holder, nearest.pk)


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
