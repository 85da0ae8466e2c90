"""Evidence: recorded once when the holder accepts, given to queries, with a record of each use."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from authorizations import chain, codes, seal, sessions
from authorizations.marks import Shown
from authorizations.models import Evidence, EvidenceUse, Session
from foundation import database
from foundation.errors import InvalidInput, NotFound
from foundation.formats import iso_utc
from partners.models import Partner

log = structlog.get_logger(__name__)

FORMAT = "evidence/1"

# An arbitrary constant that no other advisory lock of this database uses.
_CHAIN_LOCK = 0x65766964656E6365


@dataclass(frozen=True)
class Observed:
    """What the server observed of the accepting request.

    `x_forwarded_for` is that header as received (only the end of a very long one), and `x_forwarded_for_sha256` the
    digest of all of it. `peer` is the address of the connection. These only document how `ip` was determined.
    `from_api_address` is True if the partner also calls the API from `ip`, None if that is unknown. All of these stand
    in the record under the same names.
    `shown` is None without our own page's token, because it is unknown what a JSON caller showed the holder.
    """

    ip: str
    peer: str
    x_forwarded_for: str | None
    user_agent: str | None
    request_id: str
    sent_as: Literal["form", "json"]
    shown: Shown | None = None
    x_forwarded_for_sha256: str | None = None
    from_api_address: bool | None = None


@dataclass(frozen=True)
class BrowserReport:
    """What the holder's browser reported, under the names of the record, which has numbers as text. Nothing in it is
    verified, and nothing is filled in. `invalid` names the values from our page's script that were dropped because they
    make no sense. They must not prevent the acceptance. `terms_unfolded` are the positions, from 1, of the headings
    that the holder opened. None if no script told them."""

    geolocation: dict[str, str | None] | None = None
    geolocation_status: Literal["granted", "denied", "unavailable"] | None = None
    device: dict[str, str] = field(default_factory=dict)
    terms_unfolded: list[int] | None = None
    invalid: list[str] = field(default_factory=list)


def accept(
    authorization_id: str, observed: Observed, browser: BrowserReport, terms_version: str | None = None, code: str = ""
) -> Evidence:
    """Record the holder's acceptance and send the event to the partner. Only the first acceptance counts; a repeat
    returns its evidence, even if it was revoked. `code` is what the holder typed, if the registration requires a code.
    Raises NotFound, Gone (expired, declined, revoked), InvalidInput if `terms_version` is not the one that the session
    shows, NotFromPage if the registration requires our own page, PageUsed, WrongCode and TooManyCodes."""
    with sessions.refusals_committed():
        session = sessions.locked(authorization_id)
        if terms_version not in (None, session.terms.version):
            raise InvalidInput("Não é a versão dos termos mostrada nesta sessão.", field="terms_version")
        now = timezone.now()
        if session.status == Session.Status.AUTHORIZED:
            return session.evidence
        sessions.check_pending(session, now)
        if observed.shown is not None or not session.partner.takes_acceptance_without_page:
            sessions.use_page(session, observed.shown.round if observed.shown else None)
        confirmation = codes.check(session, code, now)
        evidence = _append(session, _record(session, observed, browser, confirmation, now), now)
        session.authorize(now)
        if observed.from_api_address:
            log.warning("accepted_from_api_address", session=session.pk, partner=str(session.partner_id))
        return evidence


def _record(
    session: Session, observed: Observed, browser: BrowserReport, confirmation: dict[str, Any] | None, now: datetime
) -> dict[str, Any]:
    """The record: every fact, grouped by its origin."""
    seen = asdict(observed)
    shown = seen.pop("shown") or {}
    return {
        "format": FORMAT,
        "authorization_id": session.authorization_id,
        "observed_by_server": {
            "accepted_at": iso_utc(now),
            "session_created_at": iso_utc(session.created_at),
            **seen,
        },
        "told_by_browser": {**asdict(browser), "geolocation_reason": _why_not_collected(observed, browser)},
        "declared_by_partner": {
            "partner_id": str(session.partner_id),
            "partner_name": session.partner.name,
            "cpf": session.cpf,
            "name": session.name,
            "phone": session.phone,
        },
        "shown_by_session": {
            "page_rendered_at": shown.get("at"),
            "declaration": shown.get("declaration"),
            "terms_layout": shown.get("layout"),
            "holder_name": session.name,
            "masked_cpf": session.masked_cpf,
            "language": "pt-BR",
            "terms_version": session.terms.version,
            "terms_sha256": session.terms.sha256,
        },
        "phone_confirmation": confirmation,
    }


def _why_not_collected(observed: Observed, browser: BrowserReport) -> str | None:
    """None if there is a location. Otherwise `invalid`, `denied`, `unavailable`, `not_shared` (the holder did not
    answer the page's question), `no_script` (the page could not ask) or `not_told` (not from our page)."""
    if browser.geolocation is not None:
        return None
    if any(name.startswith(("geolocation", "browser")) for name in browser.invalid):
        return "invalid"
    if browser.geolocation_status in ("denied", "unavailable"):
        return browser.geolocation_status
    if observed.shown is None:
        return "not_told"
    return "not_shared" if browser.device or browser.invalid else "no_script"


def _append(session: Session, record: dict[str, Any], now: datetime) -> Evidence:
    """Append a record to the chain. Other writers wait until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CHAIN_LOCK])
    number, last_hash = chain.last_link()
    content = seal.canonical(record)
    digest = seal.sha256(content)
    link_hash = seal.link_hash(number + 1, last_hash, digest)
    return Evidence.objects.create(
        number=number + 1,
        session=session,
        record=content.decode(),
        record_sha256=digest,
        previous_hash=last_hash,
        hash=link_hash,
        public_key=seal.public_key(),
        signature=seal.sign(seal.LINK, link_hash.encode()),
        accepted_at=now,
        from_api_address=record["observed_by_server"]["from_api_address"],
    )


def for_query(partner: Partner, cpf: str, authorization_id: str) -> Evidence:
    """The evidence that replaces `client_ip` and `geolocation` of a query.

    Raises InvalidInput on `authorization_id`, always with the same message, for a session that is unknown, another
    partner's, another CPF's, erased or not authorized; with messages of their own for one that was revoked, and for one
    older than `AUTHORIZATION_MAX_AGE_DAYS`. Partner and CPF are those of the sealed record: columns could be altered.
    """
    refusal = InvalidInput("Autorização inexistente ou ainda não concluída para este CPF.", field="authorization_id")
    try:
        session = sessions.find(authorization_id, partner)
    except NotFound:
        raise refusal from None
    if session.revoked_at is not None and session.erased_at is None and session.cpf == cpf:
        raise InvalidInput("A autorização foi revogada. Peça outra ao titular.", field="authorization_id")
    if not hasattr(session, "evidence") or session.erased_at is not None or session.revoked_at is not None:
        raise refusal
    evidence = session.evidence
    content = evidence.content
    declared = content["declared_by_partner"]
    whose = (content["authorization_id"], declared["partner_id"], declared["cpf"])
    if whose != (authorization_id, str(partner.pk), cpf):
        raise refusal
    if timezone.now() - evidence.sealed_at > timedelta(days=settings.AUTHORIZATION_MAX_AGE_DAYS):
        days = settings.AUTHORIZATION_MAX_AGE_DAYS
        raise InvalidInput(f"A autorização tem mais de {days} dias. Peça outra ao titular.", field="authorization_id")
    return evidence


def record_use(number: int, providers: Iterable[str], *, call: str, reference: str) -> None:
    """Record that calls to these banks relied on evidence `number` just now. `call` is the operation (`query`, `submit`
    …), `reference` our own id of that query or proposal. Only uses of the same evidence wait for one another."""
    names = list(providers)
    now = timezone.now()
    with transaction.atomic():
        last, link_hash = _count_uses(number, len(names))
        uses = [
            EvidenceUse(evidence_id=number, number=n, provider=name, call=call, reference=reference, used_at=now)
            for n, name in enumerate(names, last - len(names) + 1)
        ]
        for use in uses:
            use.seal = seal.sign_use(link_hash, use.sealed)
        EvidenceUse.objects.bulk_create(uses)


def _count_uses(number: int, more: int) -> tuple[int, str]:
    """Reserve `more` numbers for uses of an evidence. Returns the last one and the hash of its link. The session stays
    locked until the transaction ends, so that numbers are committed in order. Raises Evidence.DoesNotExist."""
    row = database.fetch_one(
        "UPDATE authorizations_session SET use_count = use_count + %s FROM authorizations_evidence"
        " WHERE number = %s AND session_id = authorizations_session.id RETURNING use_count, hash",
        [more, number],
    )
    if row is None:
        raise Evidence.DoesNotExist
    return row[0], row[1]
