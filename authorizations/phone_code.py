"""The code by which a holder proves access to the declared phone, and the counts of a day. `codes` uses both."""

import hmac
import secrets
from datetime import datetime, timedelta
from typing import Self

from django.db import models

from foundation.encryption import blind_index
from foundation.later import Leased, released

DIGITS = 6
VALIDITY = timedelta(minutes=10)
#: The number of wrong answers after which a code is no longer accepted.
TRIES = 5
#: The number of wrong answers, to all codes of a session, that end a pending session, or its revocation by the holder.
SESSION_TRIES = 10
#: The time after a code's request before another may be requested.
PAUSE = timedelta(seconds=30)
#: The maximum number of codes of one session, so that the URL cannot be used to flood a phone.
CODES = 10
#: After this time, another worker may send the code of a worker that died.
LEASE = timedelta(seconds=45)


class Stage(models.TextChoices):
    SENDING = "sending", "a enviar"
    LIVE = "live", "enviado"
    EXPIRED = "expired", "vencido"
    USED_UP = "used_up", "tentativas esgotadas"
    FAILED = "failed", "recusado pelo gateway"


class PhoneCode(Leased):
    """The newest code of a session. A further code replaces it, and `number` counts them.

    `tries` counts the wrong answers to the newest code, `wrong_answers` those to all codes of the session. `digest` is
    a keyed hash, empty until a worker has generated the code. Only the sending worker and the phone ever have the
    digits. The row is due while the code must still be sent. `sent_at` is when the code was given to the gateway.
    """

    task = "authorizations.codes.send_due"

    session = models.OneToOneField(
        "authorizations.Session", models.CASCADE, primary_key=True, related_name="phone_code", verbose_name="sessão"
    )
    number = models.PositiveSmallIntegerField(default=0)
    digest = models.CharField(max_length=64, default="", blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    wrong_answers = models.PositiveSmallIntegerField(default=0)
    requested_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "código por SMS"
        verbose_name_plural = "códigos por SMS"
        default_permissions = ()
        indexes = [models.Index(fields=("due_at",), name="codes_to_send", condition=models.Q(due_at__isnull=False))]

    def __str__(self) -> str:
        return f"código {self.number} da sessão {self.session_id}"

    def stage(self, now: datetime) -> Stage:
        begun = self.sent_at or self.requested_at
        if self.failed_at is not None:
            return Stage.FAILED
        if begun is None or now >= begun + VALIDITY:
            return Stage.EXPIRED
        if not self.digest:
            return Stage.SENDING
        return Stage.USED_UP if self.tries >= TRIES or self.is_over else Stage.LIVE

    def another_from(self, now: datetime) -> datetime | None:
        """The time from which another code may be requested: `now` for the first. None if the session gets no more."""
        if self.number >= CODES or self.is_over:
            return None
        return self.requested_at + PAUSE if self.requested_at else now

    def request(self, now: datetime) -> None:
        """Request a code, which replaces the previous one. The session must be locked."""
        self.number += 1
        self.digest, self.tries, self.requested_at, self.due_at = "", 0, now, now
        self.lease_until, self.worker = None, ""
        self.sent_at = self.failed_at = self.confirmed_at = None
        self.save()

    def take(self, now: datetime) -> str:
        """Generate the digits to send now, and store their digest. Returns the digits. The row must be locked."""
        digits = "".join(secrets.choice("0123456789") for _ in range(DIGITS))
        self.digest, self.sent_at = self._digest(digits), now
        self.save(update_fields=["digest", "sent_at"])
        return digits

    def mark_sent(self, now: datetime) -> None:
        """Record that the gateway has the code, or may have it, since `now`. Nothing if another was taken meanwhile."""
        self._taken().update(**released(None), sent_at=now)

    def mark_failed(self, now: datetime) -> None:
        """Record that the gateway does not have the code. Does nothing if another code was taken meanwhile."""
        self._taken().update(**released(None), digest="", sent_at=None, failed_at=now)

    def is_right(self, digits: str) -> bool:
        return hmac.compare_digest(self._digest(digits), self.digest)

    def count_wrong(self) -> int:
        """Count a wrong answer. Returns the number of answers that are left. The session must be locked."""
        self.tries, self.wrong_answers = self.tries + 1, self.wrong_answers + 1
        self.save(update_fields=["tries", "wrong_answers"])
        return TRIES - self.tries

    @property
    def is_over(self) -> bool:
        """True if the session had too many wrong answers: it takes no further one."""
        return self.wrong_answers >= SESSION_TRIES

    def confirm(self, now: datetime) -> None:
        """Record that the holder gave the right code. The session must be locked."""
        self.confirmed_at, self.due_at = now, None
        self.save(update_fields=["confirmed_at", "due_at"])

    def _taken(self) -> models.QuerySet[Self]:
        """This row, while it has the digest that this process stored."""
        return type(self).objects.filter(pk=self.pk, digest=self.digest)

    def _digest(self, digits: str) -> str:
        return blind_index("phone-code", f"{self.session_id}:{self.number}:{digits}")


class PhoneUse(models.Model):
    """The codes and wrong answers of one day in Brasília's time. `of` is the keyed hash of a phone, or a partner's id.
    `refused` counts a partner's requests for a code that a limit refused, its own or a phone's."""

    of = models.CharField(max_length=64)
    day = models.DateField()
    count = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=("of", "day"), name="one_phone_use_a_day"),)

    def __str__(self) -> str:
        return f"{self.of[:6]}… {self.day}"
