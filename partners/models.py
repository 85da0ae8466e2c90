from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from providers.encryption import EncryptedTextField
from providers.models import Provider


class Partner(models.Model):
    """A company that originates through the service. Suspended partners are refused on the next request."""

    class Status(models.TextChoices):
        ACTIVE = "active", "ativo"
        SUSPENDED = "suspended", "suspenso"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField("nome", max_length=120)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.ACTIVE)
    rate_limit = models.PositiveIntegerField("limite por minuto (não aplicado)", null=True, blank=True)
    webhook_url = models.URLField("URL do webhook", max_length=500, blank=True)
    webhook_secret = EncryptedTextField("segredo do webhook", null=True, editable=False)
    previous_webhook_secret = EncryptedTextField("segredo anterior", null=True, editable=False)
    previous_secret_until = models.DateTimeField("segredo anterior válido até", null=True, editable=False)
    webhook_events = models.JSONField("eventos", default=list, blank=True)
    created_at = models.DateTimeField("criado em", default=timezone.now, editable=False)

    class Meta:
        verbose_name = "parceiro"
        verbose_name_plural = "parceiros"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """One key of a partner. Only a keyed digest is stored; `prefix` is what an operator may see."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    partner = models.ForeignKey(Partner, models.CASCADE, related_name="api_keys", verbose_name="parceiro")
    label = models.CharField("rótulo", max_length=60, blank=True)
    prefix = models.CharField("prefixo", max_length=20, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField("criada em", default=timezone.now, editable=False)
    expires_at = models.DateTimeField("expira em", null=True, blank=True)
    revoked_at = models.DateTimeField("revogada em", null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField("último uso", null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "chave de API"
        verbose_name_plural = "chaves de API"
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}…"


class Allowance(models.Model):
    """A bank that the partner's contract allows. `portfolio`, where set, fixes the `originador` of every call."""

    partner = models.ForeignKey(Partner, models.CASCADE, related_name="allowances", verbose_name="parceiro")
    provider = models.ForeignKey(Provider, models.PROTECT, related_name="+", verbose_name="banco")
    portfolio = models.CharField("carteira (originador)", max_length=60, blank=True)

    class Meta:
        verbose_name = "banco permitido"
        verbose_name_plural = "bancos permitidos"
        ordering = ("provider_id",)
        constraints = [models.UniqueConstraint(fields=("partner", "provider"), name="one_allowance_per_bank")]

    def __str__(self) -> str:
        return str(self.provider_id)
