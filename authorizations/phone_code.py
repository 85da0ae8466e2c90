"""The code by which a holder shows that the declared phone is at hand. `codes` makes, sends and checks it."""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime, timedelta

from django.db import models

from foundation.encryption import blind_index

DIGITS = 6
VALIDITY = timedelta(minutes=10)
#: Wrong answers that one code bears.
TRIES = 5
#: So long after a code was asked for, another may be.
PAUSE = timedelta(seconds=30)
#: Codes that one session sends at most: the link must not become a way to flood a phone.
CODES = 10
#: A worker that died while it sent a code is not waited for longer than this.
LEASE = timedelta(seconds=45)


class Stage(models.TextChoices):
    """How a code stands."""

    SENDING = "sending", "a enviar"
    LIVE = "live", "enviado"
    EXPIRED = "expired", "vencido"
    USED_UP = "used_up", "tentativas esgotadas"
    FAILED = "failed", "recusado pelo gateway"


class PhoneCode(models.Model):
    """The newest code of a session; a further one takes its place, and `number` counts them.

    `digest` is a keyed hash, empty until a worker has made the code: nobody but the worker that sends it and the phone
    ever has the digits. `next_attempt_at` is set while the code is still to be sent; a worker that sends it moves it
    behind its lease. `sent_at` is when the code was handed to the gateway.
    """

    session = models.OneToOneField(
        "authorizations.Session", models.CASCADE, primary_key=True, related_name="phone_code", verbose_name="sessão"
    )
    number = models.PositiveSmallIntegerField(default=0)
    digest = models.CharField(max_length=64, default="", blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    requested_at = models.DateTimeField(null=True)
    next_attempt_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "código por SMS"
        verbose_name_plural = "códigos por SMS"
        default_permissions = ()
        indexes = [
            models.Index(
                fields=("next_attempt_at",), name="codes_to_send", condition=models.Q(next_attempt_at__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return f"código {self.number} da sessão {self.session_id}"

    def stage(self, now: datetime) -> Stage:
        """How the code stands at `now`."""
        begun = self.sent_at or self.requested_at
        if self.failed_at is not None:
            return Stage.FAILED
        if begun is None or now >= begun + VALIDITY:
            return Stage.EXPIRED
        if not self.digest:
            return Stage.SENDING
        return Stage.USED_UP if self.tries >= TRIES else Stage.LIVE

    def another_from(self) -> datetime | None:
        """From when on another code may be asked for. None where the session has had all its codes."""
        if self.number >= CODES or self.requested_at is None:
            return None
        return self.requested_at + PAUSE

    def request(self, now: datetime) -> None:
        """Ask for a code, which takes the place of the one before. Of a locked session."""
        self.number += 1
        self.digest, self.tries, self.requested_at, self.next_attempt_at = "", 0, now, now
        self.sent_at = self.failed_at = self.confirmed_at = None
        self.save()

    def take(self, now: datetime) -> str:
        """Make the code's digits to send them now, and keep their digest. Of a locked row."""
        digits = "".join(secrets.choice("0123456789") for _ in range(DIGITS))
        self.digest, self.sent_at, self.next_attempt_at = self._digest(digits), now, now + LEASE
        self.save(update_fields=["digest", "sent_at", "next_attempt_at"])
        return digits

    def mark_sent(self) -> None:
        """The gateway has the code, or may have it. Changes nothing where another code was taken meanwhile."""
        self._taken().update(next_attempt_at=None)

    def mark_failed(self, now: datetime) -> None:
        """The gateway does not have the code. Changes nothing where another code was taken meanwhile."""
        self._taken().update(next_attempt_at=None, digest="", sent_at=None, failed_at=now)

    def is_right(self, digits: str) -> bool:
        """True for the code's digits."""
        return hmac.compare_digest(self._digest(digits), self.digest)

    def count_wrong(self) -> int:
        """Note a wrong answer; returns how many are left. Of a locked session."""
        self.tries += 1
        self.save(update_fields=["tries"])
        return TRIES - self.tries

    def confirm(self, now: datetime) -> None:
        """Note that the holder gave the code. Of a locked session."""
        self.confirmed_at, self.next_attempt_at = now, None
        self.save(update_fields=["confirmed_at", "next_attempt_at"])

    def _taken(self) -> models.QuerySet[PhoneCode]:
        """This row, as long as it has the digest that this process gave it."""
        return PhoneCode.objects.filter(pk=self.pk, digest=self.digest)

    def _digest(self, digits: str) -> str:
        return blind_index("phone-code", f"{self.session_id}:{self.number}:{digits}")
