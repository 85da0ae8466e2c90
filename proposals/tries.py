"""What is submitted to a bank, and how the tries to send it stand.

docs/decisions/0030-exactly-once-submission.md has the states, a diagram of them and the reasons.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db import models
from django.utils import timezone

from consultas.models import Offer
from foundation.encryption import EncryptedJSONField
from partners.models import Partner

#: `Submittable.submission` where the bank has nothing, for certain.
NEVER_ACCEPTED = ("not_sent", "refused")


def new_reference() -> str:
    """A reference of our own for a submission, the same at every try."""
    return uuid.uuid4().hex


class Submittable(models.Model):
    """The submission of one offer to its bank. The row is committed before the bank is called.

    `submission` says how the sending stands. `reference` is what the bank can be asked by, whatever became of a try.
    `attempts` numbers the tries: a worker that an other try overtook changes nothing, unless the bank accepted.
    `taken_at` is when a worker took the current try, and `lease_until` when another may. `sent_until` is the last
    moment at which something that was sent can still arrive at the bank, None where nothing was ever sent. `dataset`
    and `terms` are the body and the offer as they were sent; `next_dataset` is the body of a retry while an earlier try
    may still be at the bank.
    """

    class Submission(models.TextChoices):
        SENDING = "sending", "em envio"
        UNKNOWN = "unknown", "resultado desconhecido"
        NOT_SENT = "not_sent", "não chegou ao banco"
        ACCEPTED = "accepted", "aceita"
        REFUSED = "refused", "recusada"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="proposals", verbose_name="parceiro")
    offer = models.ForeignKey(Offer, models.PROTECT, related_name="proposals", verbose_name="oferta")
    provider = models.CharField("banco", max_length=40)
    cpf_index = models.CharField(max_length=64)
    reference = models.CharField("nossa referência", max_length=64, unique=True, default=new_reference)
    dataset = EncryptedJSONField("dados enviados")
    next_dataset = EncryptedJSONField(null=True)
    terms = EncryptedJSONField("oferta")
    channel = models.CharField("envio do link", max_length=10, blank=True)
    submission = models.CharField("envio", max_length=10, choices=Submission.choices, default=Submission.SENDING)
    error = EncryptedJSONField("erro", null=True)
    attempts = models.PositiveIntegerField("tentativas", default=1)
    taken_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    sent_until = models.DateTimeField(null=True)
    reconciles = models.PositiveSmallIntegerField("conciliações", default=0)
    next_reconcile_at = models.DateTimeField("próxima conciliação", null=True)
    request_id = models.CharField("id da requisição", max_length=128)
    created_at = models.DateTimeField("criada em", default=timezone.now)
    updated_at = models.DateTimeField("atualizada em", auto_now=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.id)

    @staticmethod
    def columns_to_send(told: dict[str, Any]) -> dict[str, Any]:
        """The columns that say what is sent to the bank: the dataset `told`, and no other after it."""
        return {"dataset": told, "channel": told["evidencia"].get("tipo_envio") or "", "next_dataset": None}

    def is_held(self, now: datetime) -> bool:
        """True while a request or a worker is at the current try. Then nobody else may begin another one."""
        return self.submission == self.Submission.SENDING and self.lease_until is not None and self.lease_until > now
