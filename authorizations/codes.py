"""Codes sent to holders' phones: requested on the page, sent by a worker, checked with the acceptance and with the
holder's own revocation. A phone, and all phones of a partner, have a number of codes a day over all sessions, because
a new session costs nothing."""

import math
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from authorizations import sessions, texting
from authorizations.models import PhoneUse, Session
from authorizations.phone_code import DIGITS, LEASE, TRIES, PhoneCode, Stage
from foundation import later
from foundation.database import give_back_connection
from foundation.encryption import blind_index
from foundation.errors import ApiError, InvalidInput, NotFound, RateLimited
from foundation.formats import iso_utc, mask_phone, only_digits
from foundation.later import worker_id
from partners.models import Partner

log = structlog.get_logger(__name__)

#: How many due codes are sent at once.
AT_ONCE = 100
#: The name stored for a revocation by the holder, and its reason.
BY_HOLDER = "titular"
BY_HOLDER_REASON = "pedido do titular na página da autorização"
_USES_KEPT = timedelta(days=2)
_NAME_LENGTH = 40
_WHY = {
    Stage.SENDING: "O código ainda está a caminho. Espere o SMS e digite o código que chegar.",
    Stage.EXPIRED: "O código expirou: ele vale por 10 minutos. Peça outro.",
    Stage.USED_UP: f"Foram {TRIES} tentativas com este código. Peça outro.",
    Stage.FAILED: "Não conseguimos enviar o SMS. Peça outro código.",
}


class WrongCode(InvalidInput):
    """The code that came with the acceptance is wrong or cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, field="code")


class TooManyCodes(RateLimited):
    """The phone or the partner has had its codes and wrong answers of the day."""

    default_message = "Este telefone já recebeu todos os códigos de hoje. Tente de novo amanhã."


def state(session: Session, now: datetime) -> dict[str, Any] | None:
    """What the page says of the session's code. None if its partner's registration requires no code.

    `stage` is None without a code to be given: before the first one, and after the acceptance. `another_from` is None
    if no further code is sent, and `wait_s` are the whole seconds until then. `reason_refused` says why the page
    accepts no code (`is_awaited`), although one was requested.
    """
    if not session.partner.sms_code:
        return None
    code = PhoneCode.objects.filter(session=session).first() or PhoneCode(session=session)
    stage = code.stage(now) if code.number and not code.confirmed_at else None
    another_from = code.another_from(now)
    is_awaited = stage in (Stage.SENDING, Stage.LIVE)
    return {
        "phone": mask_phone(session.phone),
        "stage": stage,
        "tries": code.tries,
        "tries_left": TRIES - code.tries,
        "another_from": another_from,
        "wait_s": math.ceil((another_from - now).total_seconds()) if another_from and another_from > now else 0,
        "is_awaited": is_awaited,
        "reason_refused": None if stage is None or is_awaited else _WHY[stage],
    }


def request(authorization_id: str, page_round: int | None) -> None:
    """Have a code sent for a pending session, or for the revocation of an accepted one. Does nothing if the last code
    is too recent, if all codes were sent, or if the page was already answered. `page_round` is that of the page on
    which the holder asked, None without a genuine page. Raises NotFound if the partner's registration requires no code,
    and Gone, NotFromPage and TooManyCodes."""
    now = timezone.now()
    with sessions.refusals_committed():
        session = sessions.locked(authorization_id)
        if not session.partner.sms_code:
            raise NotFound
        if not session.awaits_holder(now):
            if session.status == Session.Status.AUTHORIZED:
                return
            raise sessions.gone(session)
        try:
            sessions.use_page(session, page_round)
        except sessions.PageUsed:
            return
        code = PhoneCode.objects.filter(session=session).first() or PhoneCode(session=session)
        another_from = code.another_from(now)
        if another_from is None or another_from > now:
            return
        count_use(session, now)
        code.request(now)
        later.ring(PhoneCode)


def check(session: Session, code: str, now: datetime) -> dict[str, Any] | None:
    """Check `code` for the locked session, inside `sessions.refusals_committed`. Returns the fact for the evidence,
    `{number, sent_at, confirmed_at}`; None if the partner's registration requires no code. A wrong code is counted, and
    too many end a pending session, or the revocation on the page. Raises WrongCode, TooManyCodes and Gone."""
    if not session.partner.sms_code:
        return None
    row = PhoneCode.objects.filter(session=session).first()
    if row is None or row.confirmed_at is not None:  # each code confirms one act
        raise WrongCode("Peça o código por SMS antes de decidir.")
    stage = row.stage(now)
    if stage is not Stage.LIVE or row.sent_at is None:
        raise WrongCode(_WHY[stage])
    digits = only_digits(code)
    if len(digits) != DIGITS:
        raise WrongCode(f"Digite os {DIGITS} números do código.")
    check_use(session, now)
    if not row.is_right(digits):
        raise _count_wrong(session, row, now)
    row.confirm(now)
    return {"number": mask_phone(session.phone), "sent_at": iso_utc(row.sent_at), "confirmed_at": iso_utc(now)}


def _count_wrong(session: Session, row: PhoneCode, now: datetime) -> ApiError:
    """Count a wrong answer. Returns the error that the holder gets."""
    tries_left = row.count_wrong()
    count_use(session, now, is_answer=True)
    if row.is_over and session.status == Session.Status.PENDING:
        session.expires_at = now
        session.save(update_fields=["expires_at"])
        session.expire()
        return sessions.gone(session)
    if row.is_over:
        return WrongCode("O código não confere, e esta página não aceita outro.")
    rest = f"Tentativas que restam: {tries_left}." if tries_left else "Peça outro."
    return WrongCode(f"O código não confere. {rest}")


def revoke_by_holder(authorization_id: str, page_round: int | None, code: str) -> None:
    """Revoke an accepted session while its page offers that (`Session.holder_may_revoke`); otherwise do nothing. If the
    partner's registration requires codes, so does the revocation: a code sent after the acceptance, and an answered
    page of ours (`page_round`). Raises NotFound, NotFromPage, PageUsed, WrongCode and TooManyCodes."""
    with sessions.refusals_committed():
        session, now = sessions.locked(authorization_id), timezone.now()
        if not session.holder_may_revoke(now):
            return
        if session.partner.sms_code:
            sessions.use_page(session, page_round)
        confirmation = check(session, code, now)
        how = f", confirmado por código enviado a {confirmation['number']}" if confirmation else ""
        session.revoke(BY_HOLDER, BY_HOLDER_REASON + how)


def send_due() -> None:
    """Send the codes that are due, each in a greenlet of its own."""
    later.each(PhoneCode, lambda: PhoneCode.claim(PhoneCode.due(), AT_ONCE, LEASE), send)


def send(claimed: PhoneCode) -> None:
    """Send a session's code, which this worker has claimed. No connection is held meanwhile."""
    taken = _take(claimed.session_id)
    if taken is None:
        return
    code, text = taken
    give_back_connection()
    outcome = texting.send(code.session.phone, text)
    if outcome is texting.Outcome.FAILED:
        code.mark_failed(timezone.now())
    else:
        # Also if its arrival is uncertain: the holder sees whether it came and can request another.
        code.mark_sent(timezone.now())
    log.info("phone_code", outcome=outcome, session=claimed.session_id, number=code.number)


def _take(session_pk: int) -> tuple[PhoneCode, str] | None:
    now = timezone.now()
    with transaction.atomic():
        claimed = PhoneCode.objects.select_for_update(of=("self",)).select_related("session__partner")
        code = claimed.filter(pk=session_pk, worker=worker_id()).first()
        if code is None:
            return None  # the holder asked for another code meanwhile
        session = code.session
        if not session.awaits_holder(now) or code.stage(now) is Stage.EXPIRED:
            code.mark_failed(now)
            return None
        digits = code.take(now)
    who = session.partner.name[:_NAME_LENGTH].strip()
    is_accepted = session.status == Session.Status.AUTHORIZED
    act = f"revogar a autorização dada a {who}" if is_accepted else f"autorizar {who} a consultar seus dados"
    return code, f"{digits} é o seu código para {act}. Vale por 10 minutos. Não o passe a ninguém."


# --- Codes and wrong answers of a day ------------------------------------------------------------------------------


def count_use(session: Session, now: datetime, *, is_answer: bool = False) -> None:
    """Count a code that is about to be sent, or a wrong answer, for the phone and for its partner: both count alike.
    Raises TooManyCodes for a code beyond a limit, and counts the refusal instead. Inside
    `sessions.refusals_committed`, which keeps both rows locked until its end."""
    limits, day = _limits(session), timezone.localdate(now)
    PhoneUse.objects.bulk_create([PhoneUse(of=of, day=day) for of in limits], ignore_conflicts=True)
    rows = PhoneUse.objects.filter(of__in=limits, day=day)
    used = dict(rows.order_by("of").select_for_update().values_list("of", "count"))
    if not is_answer and any(used[of] >= limit for of, limit in limits.items()):
        rows.filter(of=str(session.partner_id)).update(refused=F("refused") + 1)
        raise _too_many(now)
    rows.update(count=F("count") + 1)


def check_use(session: Session, now: datetime) -> None:
    """Raises TooManyCodes for an answer that must not be looked at, because wrong answers went beyond a limit."""
    limits, day = _limits(session), timezone.localdate(now)
    used = PhoneUse.objects.filter(of__in=limits, day=day).values_list("of", "count")
    if any(number > limits[of] for of, number in used):
        raise _too_many(now)


def use_of(partner: Partner) -> PhoneUse | None:
    return PhoneUse.objects.filter(of=str(partner.pk), day=timezone.localdate()).first()


def purge_uses() -> None:
    PhoneUse.objects.filter(day__lt=timezone.localdate() - _USES_KEPT).delete()


def _limits(session: Session) -> dict[str, int]:
    return {
        blind_index("phone", session.phone): settings.SMS_PER_PHONE_A_DAY,
        str(session.partner_id): settings.SMS_PER_PARTNER_A_DAY,
    }


def _too_many(now: datetime) -> TooManyCodes:
    """The error, which holds until midnight in Brasília."""
    local = timezone.localtime(now)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return TooManyCodes(retry_after_s=int((midnight - local).total_seconds()) + 1)
