"""The history of a proposal: every move of its status, and every call to its bank."""

import uuid

from django.db import models
from django.utils import timezone

from foundation.encryption import EncryptedJSONField


class Cause(models.TextChoices):
    SUBMIT = "submit", "envio"
    RECONCILE = "reconcile", "conciliação"
    FORMALIZE = "formalize", "formalização"
    STATUS = "status", "consulta de situação"
    REFRESH = "refresh", "atualização automática"
    CANCEL = "cancel", "cancelamento"


class Move(models.Model):
    """One change of a proposal's status, or the holder's withdrawal after the payment (`statuses.WITHDRAWN`).
    `from_status` is empty for the first one. `reason` is set for an end without payment, and for a withdrawal."""

    sealed_by = ("proposal_id", "from_status", "to_status")

    proposal = models.ForeignKey("proposals.Proposal", models.CASCADE, related_name="moves", verbose_name="proposta")
    from_status = models.CharField("de", max_length=20, blank=True)
    to_status = models.CharField("para", max_length=20)
    cause = models.CharField("causa", max_length=10, choices=Cause.choices)
    native_word = models.CharField("palavra do banco", max_length=60, blank=True)
    reason = EncryptedJSONField("motivo", null=True)
    at = models.DateTimeField("quando", default=timezone.now)

    class Meta:
        verbose_name = "mudança"
        verbose_name_plural = "mudanças"
        ordering = ("at", "pk")
        indexes = [models.Index(fields=("at",), name="move_at")]

    def __str__(self) -> str:
        return f"{self.from_status} → {self.to_status}"


class BankCall(models.Model):
    """One call to the bank about a proposal; of status checks, only the first that did not find it. The operator's
    timeline shows it. `outcome` is `ok`, `not_found`, an error's code, or empty while it is unknown."""

    class Operation(models.TextChoices):
        SUBMIT = "submit", "envio"
        FIND = "find", "busca pela referência"
        FORMALIZE = "formalize", "formalização"
        STATUS = "status", "consulta de situação"
        CANCEL = "cancel", "cancelamento"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    proposal = models.ForeignKey("proposals.Proposal", models.CASCADE, related_name="calls", verbose_name="proposta")
    operation = models.CharField("operação", max_length=10, choices=Operation.choices)
    outcome = models.CharField("resultado", max_length=40, blank=True)
    ms = models.PositiveIntegerField("duração (ms)", null=True)
    request_id = models.CharField("id da requisição", max_length=128)
    at = models.DateTimeField("quando", default=timezone.now)

    class Meta:
        verbose_name = "chamada ao banco"
        verbose_name_plural = "chamadas ao banco"
        ordering = ("at",)
        indexes = [
            models.Index(fields=("request_id",), name="bankcall_request"),
            models.Index(fields=("at",), name="bankcall_at"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.outcome or 'sem resposta'}"
