"""How many codes and wrong answers one phone, and all phones of one partner, may have on a day.

The limits hold over all sessions, because a new session costs nothing. A code and a wrong answer count alike.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from authorizations.models import PhoneUse, Session
from foundation.encryption import blind_index
from foundation.errors import RateLimited
from partners.models import Partner

_KEPT = timedelta(days=2)


class TooManyCodes(RateLimited):
    """The phone or the partner has had its codes and wrong answers of the day."""

    default_message = "Este telefone já recebeu todos os códigos de hoje. Tente de novo amanhã."


def count(session: Session, now: datetime, *, is_answer: bool = False) -> None:
    """Count a code that is about to be sent, or a wrong answer. Raises TooManyCodes for a code beyond a limit, and
    counts the refusal instead. Inside `sessions.refusals_committed`, which keeps both rows locked until its end."""
    limits, day = _limits(session), timezone.localdate(now)
    PhoneUse.objects.bulk_create([PhoneUse(of=of, day=day) for of in limits], ignore_conflicts=True)
    rows = PhoneUse.objects.filter(of__in=limits, day=day)
    used = dict(rows.order_by("of").select_for_update().values_list("of", "count"))
    if not is_answer and any(used[of] >= limit for of, limit in limits.items()):
        rows.filter(of=str(session.partner_id)).update(refused=F("refused") + 1)
        raise _too_many(now)
    rows.update(count=F("count") + 1)


def check(session: Session, now: datetime) -> None:
    """Raises TooManyCodes for an answer that must not be looked at, because wrong answers went beyond a limit."""
    limits, day = _limits(session), timezone.localdate(now)
    used = PhoneUse.objects.filter(of__in=limits, day=day).values_list("of", "count")
    if any(number > limits[of] for of, number in used):
        raise _too_many(now)


def of_partner(partner: Partner) -> PhoneUse | None:
    """The use of a partner today."""
    return PhoneUse.objects.filter(of=str(partner.pk), day=timezone.localdate()).first()


def purge() -> None:
    """Delete the counts of past days."""
    PhoneUse.objects.filter(day__lt=timezone.localdate() - _KEPT).delete()


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
