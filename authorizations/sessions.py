"""Opens, finds and ends sessions."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import structlog
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from authorizations.models import ID_LENGTH, VALIDITY, Evidence, PurgedEvidence, Session, Terms
from foundation.encryption import WrongKey, blind_index
from foundation.errors import ApiError, Gone, InvalidInput, InvalidState, NotFound
from foundation.later import lock_free
from partners.models import Partner

log = structlog.get_logger(__name__)

#: The name stored for a revocation by the partner, and the reason if the partner gave none.
BY_PARTNER = "parceiro"
NO_REASON = "sem motivo informado"
#: The message behind the URL of a revoked session.
CANCELLED = "A autorização foi revogada: este link não vale mais."
_WHY_GONE = {
    Session.Status.DECLINED: "O titular respondeu que não autoriza.",
    Session.Status.REVOKED: CANCELLED,
}
_ID_SHAPE = re.compile(rf"[A-Za-z0-9]{{{ID_LENGTH}}}", re.ASCII)


class NotFromPage(InvalidInput):
    """The request did not come from our own page, shown in this browser a short time ago."""

    def __init__(self) -> None:
        super().__init__("O envio não veio da página deste pedido, aberta neste navegador.", field="page")


class PageUsed(InvalidState):
    """The page that the request came from was already answered."""


def open_session(new: Session) -> tuple[Session, bool]:
    """The partner's live pending session for the CPF of `new`, and True if it was created now. `new` says what the
    partner told of the holder: name and phone count only for a new session, of `partner_reference` and `return_link`
    the newest given value. However many calls race, even at the very end of the old session's life, only one session
    results, by a unique index."""
    now = timezone.now()
    new.cpf_index, new.terms = blind_index("cpf", new.cpf), Terms.current()
    new.created_at, new.expires_at = now, now + VALIDITY
    pending = Session.objects.select_related("terms", "partner").filter(
        partner=new.partner, cpf_index=new.cpf_index, status=Session.Status.PENDING
    )
    while True:
        with transaction.atomic():
            for old in pending.filter(expires_at__lte=now).select_for_update(of=("self",)):
                old.expire()
            Session.objects.bulk_create([new], ignore_conflicts=True)
            session = pending.first()
            if session is not None:
                _rename(session, {"partner_reference": new.partner_reference, "return_link": new.return_link})
        if session is not None:
            return session, session.authorization_id == new.authorization_id
        # The session that blocked the insert was accepted meanwhile. The next pass inserts the new one.


def _rename(session: Session, told: dict[str, str | None]) -> None:
    """Store what a repeated request told, if anything."""
    news = {name: value for name, value in told.items() if value and value != getattr(session, name)}
    if news:
        for name, value in news.items():
            setattr(session, name, value)
        session.save(update_fields=list(news))


def find(authorization_id: str, partner: Partner | None = None) -> Session:
    """The session with that id, and of that partner if given. Raises NotFound."""
    sessions = Session.objects.select_related("partner", "terms", "evidence")
    if partner is not None:
        sessions = sessions.filter(partner=partner)
    # The id comes from a URL and may contain NUL, which PostgreSQL refuses.
    if not _ID_SHAPE.fullmatch(authorization_id):
        raise NotFound("Autorização não encontrada.")
    try:
        return sessions.get(authorization_id=authorization_id)
    except Session.DoesNotExist:
        raise NotFound("Autorização não encontrada.") from None


def evidence_of(partner: Partner, authorization_id: str) -> Evidence:
    """The evidence of the partner's session. Raises NotFound, InvalidState for a session that was never accepted, and
    Gone after an erasure and after the evidence's term."""
    try:
        session = find(authorization_id, partner)
    except NotFound:
        index = PurgedEvidence.index_of(partner.pk, authorization_id)
        if PurgedEvidence.objects.filter(session_index=index).exists():
            raise Gone("A evidência foi apagada ao fim do prazo de guarda.") from None
        raise
    if session.erased_at is not None:
        raise Gone("Os dados do titular foram apagados.")
    if session.status != Session.Status.AUTHORIZED:
        raise InvalidState("A sessão não foi aceita: não há evidência.")
    return session.evidence


def locked(authorization_id: str, partner: Partner | None = None) -> Session:
    """Like `find`, but locked until the transaction ends, so that the second of two acceptances sees the first. Read
    again after the lock is granted, because joined rows are as before the wait. Raises NotFound."""
    session = find(authorization_id, partner)
    Session.objects.select_for_update().only("pk").filter(pk=session.pk).first()
    return find(authorization_id)


@contextmanager
def refusals_committed() -> Iterator[None]:
    """A transaction that an ApiError ends without a rollback, so that what led to the refusal stays counted, such as a
    wrong code. Other exceptions roll back."""
    refusal = None
    with transaction.atomic():
        try:
            yield
        except ApiError as error:
            refusal = error
    if refusal:
        raise refusal


def gone(session: Session) -> Gone:
    """The error for the URL of a session that has ended, with the reason. The caller raises it."""
    return Gone(_WHY_GONE.get(session.status_at(timezone.now())))


def check_pending(session: Session, now: datetime) -> None:
    """Raises Gone for a session that is not pending at `now`."""
    if session.status_at(now) != Session.Status.PENDING:
        raise gone(session)


def use_page(session: Session, page_round: int | None) -> None:
    """Accept the answer to a page of a locked session that was shown in the round `page_round`. Raises NotFromPage for
    None (no genuine page), and PageUsed if this page or a later one was already answered."""
    if page_round is None:
        raise NotFromPage
    if page_round != session.page_round:
        raise PageUsed
    session.page_round += 1
    session.save(update_fields=["page_round"])


def decline(authorization_id: str) -> Session:
    """The holder declines: end the pending session. A repeat and an accepted session change nothing. Raises NotFound,
    and Gone for a session that expired or was revoked."""
    with transaction.atomic():
        session = locked(authorization_id)
        match session.status_at(timezone.now()):
            case Session.Status.PENDING:
                session.decline()
            case Session.Status.EXPIRED | Session.Status.REVOKED:
                raise gone(session)
    return session


def revoke(partner: Partner, authorization_id: str, reason: str | None) -> Session:
    """Revoke the partner's session at its request. Raises NotFound, and InvalidState for one that has ended."""
    with transaction.atomic():
        session = locked(authorization_id, partner)
        try:
            session.revoke(BY_PARTNER, reason or NO_REASON)
        except ValidationError:
            raise InvalidState("A sessão já terminou: não está pendente nem autorizada.") from None
    return session


def expire_due() -> int:
    """End every pending session whose time has passed. Returns their number. May run twice at the same time."""
    due = Session.objects.filter(status=Session.Status.PENDING, expires_at__lte=timezone.now())
    expired = sum(_expire_one(due, pk) for pk in list(due.order_by("pk").values_list("pk", flat=True)))
    if expired:
        log.info("sessions_expired", sessions=expired)
    return expired


def _expire_one(due: QuerySet[Session], pk: int) -> bool:
    """End the session `pk`, if it is still `due` and not locked. An unreadable session is logged and skipped."""
    try:
        with transaction.atomic():
            session = lock_free(due.select_related("partner")).filter(pk=pk).first()
            if session is not None:
                session.expire()
    except WrongKey:
        log.exception("session_unreadable", session=pk)
        return False
    return session is not None
