"""The entries of the audit trail, written by `foundation/audit.py`, and operators' phones (`foundation/phones.py`)."""

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from foundation.phones import RegisteredPhone

__all__ = ["Action", "AuditEntry", "Channel", "RegisteredPhone"]


class Action(models.TextChoices):
    """What was done or attempted. The entry's object says to which row."""

    LOGGED_IN = "logged_in", "entrada"
    LOG_IN_FAILED = "log_in_failed", "entrada recusada"
    LOCKED_OUT = "locked_out", "entrada bloqueada"
    LOGGED_OUT = "logged_out", "saída"
    SECOND_FACTOR_PASSED = "second_factor_passed", "segundo fator aceito"
    SECOND_FACTOR_FAILED = "second_factor_failed", "segundo fator recusado"
    SECOND_FACTOR_SET_UP = "second_factor_set_up", "segundo fator registrado"
    DENIED = "denied", "acesso negado"
    CREATED = "created", "criação"
    CHANGED = "changed", "alteração"
    DELETED = "deleted", "exclusão"
    ISSUED = "issued", "emissão de chave ou segredo"
    REVOKED = "revoked", "revogação"
    SUSPENDED = "suspended", "suspensão"
    RESUMED = "resumed", "reativação"
    PUBLISHED = "published", "publicação"
    SEARCHED = "searched", "busca de uma pessoa"
    VIEWED = "viewed", "leitura de dados protegidos"
    EXPORTED = "exported", "exportação"
    RESENT = "resent", "reenvio"
    ERASED = "erased", "exclusão de dados pessoais"
    PUSHED = "pushed", "ação pedida ao serviço"
    TRIED = "tried", "teste de conexão"
    COMMAND = "command", "comando"


class Channel(models.TextChoices):
    BACK_OFFICE = "back_office", "administração"
    COMMAND = "command", "comando"
    API = "api", "API"
    SERVICE = "service", "serviço"


class AuditEntry(models.Model):
    """One security event, or one change by an operator or a command.

    The database refuses to change an entry, and to delete one that is younger than 180 days. No column holds a secret
    or personal data. A person is identified by the keyed hash of the CPF.
    """

    at = models.DateTimeField("quando", default=timezone.now, db_default=Now(), editable=False)
    who = models.CharField("quem", max_length=150, blank=True, editable=False)
    channel = models.CharField("por onde", max_length=12, choices=Channel.choices, editable=False)
    address = models.CharField("endereço", max_length=45, blank=True, editable=False)
    #: An `Action`. The field has no choices, so that a new action needs no migration.
    action = models.CharField("o quê", max_length=24, editable=False)
    #: As in `partners.partner`. Empty if the entry concerns no row.
    model = models.CharField("tipo", max_length=80, blank=True, editable=False)
    object_id = models.CharField("id", max_length=100, blank=True, editable=False)
    object_name = models.CharField("objeto", max_length=200, blank=True, editable=False)
    #: By field, the old and the new value: `{"status": ["active", "suspended"]}`.
    changes = models.JSONField("mudanças", default=dict, editable=False)
    detail = models.CharField("detalhe", max_length=500, blank=True, editable=False)
    request_id = models.CharField("X-Request-Id", max_length=128, blank=True, editable=False)

    class Meta:
        verbose_name = "registro de auditoria"
        verbose_name_plural = "registros de auditoria"
        ordering = ("-at", "-pk")
        default_permissions = ("view",)
        # Exporting lists concerns no single model, so the permission is declared here.
        permissions = (("export_lists", "Pode exportar listas em CSV"),)
        indexes = (
            models.Index(fields=("at",), name="audit_by_time"),
            models.Index(fields=("who", "at"), name="audit_by_person"),
            models.Index(fields=("action", "at"), name="audit_by_action"),
            models.Index(fields=("model", "object_id", "at"), name="audit_by_object"),
            models.Index(fields=("request_id",), name="audit_by_request", condition=~models.Q(request_id="")),
        )

    def __str__(self) -> str:
        return f"{self.action_in_words} {self.object_name}".strip()

    @property
    def action_in_words(self) -> str:
        return dict(Action.choices).get(self.action, self.action)
