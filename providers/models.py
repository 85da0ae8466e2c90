from __future__ import annotations

from django.conf import settings
from django.db import models

from foundation.encryption import EncryptedJSONField, EncryptedTextField
from providers.bank import Connection


class Circuit(models.TextChoices):
    AUTO = "auto", "automático"
    OPEN = "open", "forçado aberto (ninguém chama)"
    CLOSED = "closed", "forçado fechado (sempre chama)"


class Provider(models.Model):
    """A bank as an operator configures it. `name` is the identifier of its adapter in `providers.registry`."""

    name = models.SlugField("identificador", primary_key=True, max_length=40)
    enabled = models.BooleanField("habilitado", default=True)
    base_url = models.URLField("endereço base")
    credentials = EncryptedJSONField("credenciais", default=dict, blank=True)
    #: What the bank signs its callbacks with: apart from the credentials, which whoever takes callbacks never needs.
    callback_secret = EncryptedTextField("segredo dos avisos", null=True, blank=True)
    portfolio = models.CharField("carteira padrão", max_length=60, blank=True)
    timeout_s = models.PositiveIntegerField("tempo limite (s)", null=True, blank=True)
    max_in_flight = models.PositiveIntegerField("chamadas simultâneas", default=512)
    circuit = models.CharField("disjuntor", max_length=10, choices=Circuit.choices, default=Circuit.AUTO)
    updated_at = models.DateTimeField("atualizado em", auto_now=True)

    class Meta:
        verbose_name = "banco"
        verbose_name_plural = "bancos"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def connection(self) -> Connection:
        """These settings as the adapter takes them."""
        return Connection(
            base_url=self.base_url,
            credentials=self.credentials,
            timeout_s=self.timeout_s or settings.BANK_TIMEOUT_S,
            max_in_flight=self.max_in_flight,
            portfolio=self.portfolio or None,
            circuit=self.circuit,
        )
