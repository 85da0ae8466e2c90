"""Partners, their keys, and the banks that their contracts allow."""

from __future__ import annotations

import base64
import hmac
import secrets
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models, transaction
from django.utils import timezone

from foundation import database
from foundation.client_ip import is_in
from foundation.encryption import EncryptedJSONField, EncryptedTextField
from foundation.formats import to_ip, to_uuid
from partners import contract
from partners.contract import AllowedBank
from partners.validators import (
    PORTFOLIO_LENGTH,
    validate_cnpj,
    validate_hosts,
    validate_networks,
    validate_portfolios,
    validate_webhook_url,
)
from providers.models import Provider

SECRET_OVERLAP = timedelta(hours=24)
MAX_KEY_DAYS = 3650
#: The default limit of a partner's queries in flight.
IN_FLIGHT_LIMIT = 128
NO_LIMIT = "Vazio: sem limite."
#: Fields that are not loaded where only the partner's name is needed.
SECRET_FIELDS = ("webhook_secret", "retired_webhook_secrets")
SECRETS_OF_PARTNER = tuple(f"partner__{name}" for name in SECRET_FIELDS)
# Public by design: anyone may try the sandbox. Production refuses test keys (partners/authentication.py).
SANDBOX_KEY = "cpk_test_sandbox_public_key_not_a_secret_00000000000"
VISIBLE = len("cpk_live_") + 6


class WebhookEvent(models.TextChoices):
    """The events that a registration may ask for. `proposal` means every `proposal.<status>`, and no other event."""

    LEAD = "lead", "lead: consulta que guardou ofertas"
    AUTHORIZATION_RESULT = "authorization_result", "authorization_result: passo do titular encerrado"
    AUTHORIZATION_COMPLETED = "authorization.completed", "authorization.completed: link de autorização aceito"
    AUTHORIZATION_DECLINED = "authorization.declined", "authorization.declined: o titular não autorizou"
    AUTHORIZATION_REVOKED = "authorization.revoked", "authorization.revoked: autorização revogada"
    AUTHORIZATION_EXPIRED = "authorization.expired", "authorization.expired: link vencido sem resposta"
    QUERY_COMPLETED = "query.completed", "query.completed: consulta encerrada"
    PROPOSAL = "proposal", "proposal: cada mudança de situação de uma proposta"
    PROPOSAL_STAGE_CHANGED = (
        "proposal.stage_changed",
        "proposal.stage_changed: nova etapa ou motivo de espera",
    )
    PROPOSAL_WITHDRAWN = "proposal.withdrawn", "proposal.withdrawn: o titular desistiu do contrato pago"


def default_webhook_events() -> list[str]:
    """The events of a registration that names none."""
    return [WebhookEvent.LEAD, WebhookEvent.AUTHORIZATION_RESULT, WebhookEvent.AUTHORIZATION_COMPLETED]


def validate_events(names: list[str]) -> None:
    unknown = [name for name in names if name not in WebhookEvent.values]
    if unknown:
        raise ValidationError(f"Evento desconhecido: {', '.join(unknown)}. Eventos: {', '.join(WebhookEvent.values)}.")


class Partner(models.Model):
    """A company that originates credit through the service. A suspended partner is refused from its next request on."""

    class Status(models.TextChoices):
        ACTIVE = "active", "ativo"
        SUSPENDED = "suspended", "suspenso"

    #: Relations that the audit trail records besides the columns.
    audited_relations = ("allowances",)
    #: The contract's banks, if they were loaded together with the partner.
    contract: list[AllowedBank] | None = None

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField("nome", max_length=120)
    status = models.CharField("situação", max_length=10, choices=Status.choices, default=Status.ACTIVE, editable=False)
    cnpj = models.CharField("CNPJ", max_length=14, blank=True, default="", db_default="", validators=[validate_cnpj])
    privacy_contact = models.CharField(
        "contato de privacidade",
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="E-mail, telefone ou endereço que o titular lê na página de autorização.",
    )
    return_hosts = ArrayField(
        models.TextField(),
        verbose_name="domínios de volta",
        default=list,
        db_default=[],
        blank=True,
        validators=[validate_hosts],
        help_text="Domínios a que a página de autorização pode levar o titular de volta (return_url).",
    )
    json_acceptance = models.BooleanField(
        "aceite por JSON",
        default=False,
        db_default=False,
        help_text="Em produção o titular só autoriza pela página do serviço. Marcado, o aceite enviado em JSON também "
        "vale, e que o titular viu os termos fica por conta do parceiro.",
    )
    sms_code = models.BooleanField(
        "código por SMS antes do aceite",
        default=False,
        db_default=False,
        help_text="O titular só autoriza com um código de seis dígitos enviado ao telefone declarado na abertura. "
        "Exclui o aceite por JSON.",
    )
    dossier_by_api = models.BooleanField(
        "dossiê pela API",
        default=True,
        db_default=True,
        help_text="O parceiro exporta pela API o dossiê das suas sessões aceitas.",
    )
    # Applied by partners/limits.py. None means no limit.
    rate_limit = models.PositiveIntegerField(
        "chamadas por minuto", null=True, blank=True, validators=[MinValueValidator(1)], help_text=NO_LIMIT
    )
    in_flight_limit = models.PositiveIntegerField(
        "consultas simultâneas",
        null=True,
        blank=True,
        default=IN_FLIGHT_LIMIT,
        db_default=IN_FLIGHT_LIMIT,
        validators=[MinValueValidator(1)],
        help_text=NO_LIMIT,
    )
    daily_cpf_limit = models.PositiveIntegerField(
        "CPFs distintos por dia", null=True, blank=True, validators=[MinValueValidator(1)], help_text=NO_LIMIT
    )
    deliveries_held = models.BooleanField("entregas retidas", default=False, db_default=False, editable=False)
    webhook_url = models.CharField("URL do webhook", max_length=500, blank=True, validators=[validate_webhook_url])
    webhook_secret = EncryptedTextField("segredo do webhook", null=True, editable=False)
    #: The replaced secrets that still sign, newest first: `[secret, until]`, with ISO 8601 times.
    retired_webhook_secrets = EncryptedJSONField("segredos anteriores", null=True, editable=False)
    webhook_events = ArrayField(
        models.TextField(),
        verbose_name="eventos",
        default=default_webhook_events,
        blank=True,
        validators=[validate_events],
    )
    created_at = models.DateTimeField("criado em", default=timezone.now, editable=False)

    class Meta:
        verbose_name = "parceiro"
        verbose_name_plural = "parceiros"
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.sms_code and self.json_acceptance:
            raise ValidationError({"json_acceptance": "Quem pede o código por SMS não aceita por JSON."})
        if self.sms_code and not settings.SMS_GATEWAY_URL:
            raise ValidationError({"sms_code": "Este serviço não tem gateway de SMS (SMS_GATEWAY_URL)."})

    def suspend(self, *, hold_deliveries: bool = False) -> None:
        """Refuse the partner's calls from now on. With `hold_deliveries`, no webhook is sent either: events wait."""
        self.status = self.Status.SUSPENDED
        self.deliveries_held = self.deliveries_held or hold_deliveries
        self.save(update_fields=["status", "deliveries_held"])

    def resume(self) -> None:
        """Accept the partner's calls again and deliver the held events."""
        self.status = self.Status.ACTIVE
        self.deliveries_held = False
        self.save(update_fields=["status", "deliveries_held"])

    def allowed_banks(self) -> list[AllowedBank]:
        """The contract's banks, sorted by name, including disabled ones. At most one query. No secret is read."""
        return contract.of(self.pk) if self.contract is None else list(self.contract)

    def allowed_bank(self, name: str) -> AllowedBank | None:
        """The contract's bank `name`. None outside the contract."""
        return next((bank for bank in self.allowed_banks() if bank.name == name), None)

    def allow_only(self, names: list[str]) -> None:
        """Set the allowlist to exactly `names`. Banks that stay keep their portfolio."""
        with transaction.atomic():
            self.allowances.exclude(provider_id__in=names).delete()
            Allowance.objects.bulk_create(
                [Allowance(partner=self, provider_id=name) for name in names], ignore_conflicts=True
            )

    @property
    def masked_cnpj(self) -> str:
        """The CNPJ in readable form, `12.ABC.345/01DE-35`. Empty if none is registered."""
        c = self.cnpj
        return f"{c[:2]}.{c[2:5]}.{c[5:8]}/{c[8:12]}-{c[12:]}" if c else ""

    @property
    def missing_on_page(self) -> dict[str, str]:
        """The fields that the registration lacks and that the holder's page has to show in production, each with its
        name in Portuguese. Holders must know who asks, and whom to ask about their data (Lei 13.709/2018, art. 9)."""
        needed = {"cnpj": "CNPJ", "privacy_contact": "contato de privacidade"} if settings.PRODUCTION else {}
        return {field: words for field, words in needed.items() if not getattr(self, field)}

    def leads_back_to(self, url: str) -> bool:
        """True if an operator registered the host of `url`. The URL must use https, without user and port."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return False
        sound = parts.scheme == "https" and parts.username is None and port in (None, 443)
        plain = url.isascii() and url.isprintable() and not set(url) & set(' "<>\\')
        return sound and plain and parts.hostname in self.return_hosts

    @property
    def takes_acceptance_without_page(self) -> bool:
        """True if an acceptance may come from elsewhere than the service's page: outside production, or if the
        registration allows it. Always False with a phone code, which only the page can ask for."""
        return not self.sms_code and (self.json_acceptance or not settings.PRODUCTION)

    def wants_event(self, event: str) -> bool:
        """True if the registration asks for `event`, named as in the payload (`proposal.signed`)."""
        is_status = event.startswith(f"{WebhookEvent.PROPOSAL}.") and event not in WebhookEvent.values
        return (WebhookEvent.PROPOSAL if is_status else event) in self.webhook_events

    def rotate_webhook_secret(self) -> str:
        """Give the partner a new webhook secret and return it: it is never shown again. A replaced secret stays valid
        for `SECRET_OVERLAP`, however many rotations follow, because it is unknown which secret the partner uses."""
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        with transaction.atomic():
            current = Partner.objects.select_for_update().get(pk=self.pk)
            retired = current.retiring_secrets()
            if current.webhook_secret:
                retired.insert(0, (current.webhook_secret, timezone.now() + SECRET_OVERLAP))
            self.webhook_secret = secret
            self.retired_webhook_secrets = [[old, until.isoformat()] for old, until in retired] or None
            self.save(update_fields=SECRET_FIELDS)
        return secret

    def retiring_secrets(self) -> list[tuple[str, datetime]]:
        """The replaced secrets that still sign, newest first, each with its end."""
        retired = [(old, datetime.fromisoformat(until)) for old, until in self.retired_webhook_secrets or ()]
        return [(old, until) for old, until in retired if timezone.now() < until]

    def webhook_secrets(self) -> list[str]:
        """All secrets that sign now: the current one, then the replaced ones, newest first."""
        current = [self.webhook_secret] if self.webhook_secret else []
        return current + [old for old, _ in self.retiring_secrets()]


def names_of(ids: Iterable[str]) -> dict[str, str]:
    """The partners' names by id. One statement. Texts that are no ids have no name."""
    keys = [key for each in ids if (key := to_uuid(each))]
    return {str(pk): name for pk, name in Partner.objects.filter(pk__in=keys).values_list("pk", "name")}


class ApiKey(models.Model):
    """One key of a partner. Only a keyed digest is stored. `prefix` is the part that operators may see."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    partner = models.ForeignKey(Partner, models.CASCADE, related_name="api_keys", verbose_name="parceiro")
    label = models.CharField("rótulo", max_length=60, blank=True)
    prefix = models.CharField("prefixo", max_length=20, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField("criada em", default=timezone.now, editable=False)
    expires_at = models.DateTimeField("expira em", null=True, blank=True)
    networks = models.JSONField(
        "endereços permitidos", default=list, db_default=[], blank=True, validators=[validate_networks]
    )
    revoked_at = models.DateTimeField("revogada em", null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField("último uso", null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "chave de API"
        verbose_name_plural = "chaves de API"
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}…"

    @staticmethod
    def digest_of(secret: str) -> str:
        """HMAC-SHA256 under `API_KEY_PEPPER`, in hex: without the pepper the table's digests are useless."""
        return hmac.digest(settings.API_KEY_PEPPER.encode(), secret.encode(), "sha256").hex()

    @classmethod
    def issue(
        cls,
        partner: Partner,
        label: str = "",
        expires_in: timedelta | None = None,
        *,
        secret: str | None = None,
        **fields: Any,
    ) -> tuple[ApiKey, str]:
        """Create a key of `partner`. Returns the key and its text, which is not stored and never shown again.

        `secret` sets the text of a key that is public by design (the sandbox's); other texts are random. `fields` are
        further columns: `networks`, and as `pk` an id that the caller chose before, so that a repeated request creates
        no second key. Raises ValidationError for a label that is too long and for an invalid network.
        """
        if secret is None:
            kind = "live" if settings.PRODUCTION else "test"
            secret = f"cpk_{kind}_{secrets.token_urlsafe(32)}"
        key = cls(
            partner=partner,
            label=label,
            prefix=secret[:VISIBLE],
            digest=cls.digest_of(secret),
            expires_at=None if expires_in is None else timezone.now() + expires_in,
            **fields,
        )
        key.full_clean()
        key.save()
        return key, secret

    @classmethod
    def find(cls, secret: str) -> ApiKey | None:
        """The key with the text `secret`, with its partner and contract, in one query. No webhook secret is read."""
        sql, keys, partners = _finding()
        row = database.fetch_one(sql, [cls.digest_of(secret)])
        if row is None:
            return None
        key, partner = keys.row(row[: len(keys)]), partners.row(row[len(keys) : -1])
        partner.contract = contract.read(row[-1])
        key.partner = partner
        return key

    @staticmethod
    def live(now: datetime) -> models.Q:
        """The condition for keys that `is_live`."""
        return models.Q(revoked_at=None) & (models.Q(expires_at=None) | models.Q(expires_at__gt=now))

    def is_live(self, now: datetime) -> bool:
        """True if the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may_come_from(self, address: str) -> bool:
        """True if the key may be used from `address`, a value of `foundation.client_ip`."""
        return not self.networks or is_in(to_ip(address), self.networks)

    def revoke(self) -> None:
        """End the key from the next request on. A second call keeps the time of the first."""
        ApiKey.objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=timezone.now())
        self.refresh_from_db(fields=["revoked_at"])


class Allowance(models.Model):
    """A bank that the partner's contract allows. If `portfolio` is set, it is the `originador` of each call. Otherwise
    a call may choose one of `portfolios`, and no other. Until `paused_until`, no query of the partner asks the bank."""

    partner = models.ForeignKey(Partner, models.CASCADE, related_name="allowances", verbose_name="parceiro")
    provider = models.ForeignKey(Provider, models.PROTECT, related_name="+", verbose_name="banco")
    portfolio = models.CharField("carteira (originador)", max_length=PORTFOLIO_LENGTH, blank=True)
    portfolios = ArrayField(
        models.TextField(),
        verbose_name="carteiras que pode pedir",
        default=list,
        db_default=[],
        blank=True,
        validators=[validate_portfolios],
        help_text="Separadas por vírgula. Sem carteira fixa, o originador da chamada vale só se estiver aqui.",
    )
    paused_until = models.DateTimeField("pausado até", null=True, blank=True)
    pause_reason = models.CharField("motivo da pausa", max_length=200, blank=True, default="")

    class Meta:
        verbose_name = "banco permitido"
        verbose_name_plural = "bancos permitidos"
        ordering = ("provider_id",)
        constraints = [models.UniqueConstraint(fields=("partner", "provider"), name="one_allowance_per_bank")]

    def __str__(self) -> str:
        return str(self.provider_id)

    @property
    def pause(self) -> str:
        """The present pause in words for operators. Empty if there is none."""
        if self.paused_until is None or self.paused_until <= timezone.now():
            return ""
        return contract.pause_in_words(self.paused_until, self.pause_reason)

    def clean(self) -> None:
        if self.paused_until and not self.pause_reason:
            raise ValidationError({"pause_reason": "Uma pausa precisa de um motivo."})
        if self.pause_reason and not self.paused_until:
            raise ValidationError({"paused_until": "Escreva até quando é a pausa, ou apague o motivo."})


@lru_cache(maxsize=1)
def _finding() -> tuple[str, database.Columns[ApiKey], database.Columns[Partner]]:
    """The statement of `ApiKey.find`, and the columns of its row: key, partner, contract as JSON."""
    keys, partners = database.Columns(ApiKey, "k"), database.Columns(Partner, "p", without=SECRET_FIELDS)
    sql = f"""
SELECT {keys.sql}, {partners.sql}, {contract.contract_sql("p.id")}
FROM partners_apikey k JOIN partners_partner p ON p.id = k.partner_id
WHERE k.digest = %s
"""  # noqa: S608 - names of ours
    return sql, keys, partners
