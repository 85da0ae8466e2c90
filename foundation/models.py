"""The audit trail's entries, and operators' phones: the second factor of a login (TOTP, RFC 6238)."""

import base64
import secrets
import time
from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone
from django_otp.models import Device, ThrottlingMixin
from django_otp.oath import TOTP

from foundation.encryption import EncryptedTextField, blind_index

#: How many recovery codes a registration gives. Each passes once, without the phone.
RECOVERY_CODES = 10
_KEY_BYTES = 20
_RECOVERY_BYTES = 10


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


class RegisteredPhone(ThrottlingMixin, Device):
    """The phone whose codes an operator's logins need. An operator has at most one.

    `key` is the secret that the phone has too, in base32. `last_step` is the time step of the last accepted code, so
    that a code passes once. `recovery_digests` are keyed hashes of the recovery codes that are left.
    """

    sealed_by = ("user_id",)

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="registered_phone")
    key = EncryptedTextField()
    last_step = models.BigIntegerField(default=-1)
    recovery_digests = models.JSONField(default=list)

    class Meta:
        verbose_name = "telefone registrado"
        verbose_name_plural = "telefones registrados"
        default_permissions = ()

    def get_throttle_factor(self) -> int:
        """Seconds to wait after the first wrong code. Each further one doubles the wait."""
        return 1

    def verify_token(self, token: str) -> bool:
        """True for the phone's current code or a recovery code that is left; both pass once. Anything else counts as
        wrong, malformed codes too. Nothing passes during the wait after wrong codes. The row must be locked."""
        if not self.verify_is_allowed()[0]:
            return False
        is_right = self.accepts(token) or self._uses_up(token)
        if is_right:
            self.throttle_reset(commit=False)
        else:
            self.throttle_increment(commit=False)
        self.save()
        return is_right

    def accepts(self, code: str) -> bool:
        """True for a code of the phone that has not passed yet, from 30 s ago to in 30 s. The caller saves the row."""
        totp = TOTP(base64.b32decode(self.key))
        totp.time = time.time()
        is_right = code.isascii() and code.isdigit() and len(code) == totp.digits
        if not (is_right and totp.verify(int(code), tolerance=1, min_t=self.last_step + 1)):
            return False
        self.last_step = totp.t()
        return True

    def issue_recovery_codes(self) -> list[str]:
        """New recovery codes, which replace the earlier ones. Only digests are kept. The caller saves the row."""
        codes = [_in_base32(_RECOVERY_BYTES) for _ in range(RECOVERY_CODES)]
        self.recovery_digests = [self._digest(code) for code in codes]
        return [in_groups(code) for code in codes]

    def address(self, account: str) -> str:
        """The address from which an authenticator app reads the key of `account`."""
        issuer = settings.OTP_TOTP_ISSUER
        parameters = urlencode({"secret": self.key, "issuer": issuer}, quote_via=quote)
        return f"otpauth://totp/{quote(f'{issuer}:{account}')}?{parameters}"

    def _uses_up(self, code: str) -> bool:
        digest = self._digest("".join(code.split()).upper())
        if digest not in self.recovery_digests:
            return False
        self.recovery_digests.remove(digest)
        return True

    def _digest(self, code: str) -> str:
        return blind_index("recovery-code", f"{self.user_id}:{code}")


def new_key() -> str:
    return _in_base32(_KEY_BYTES)


def in_groups(text: str) -> str:
    """`text` in groups of four, as a person copies it."""
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def _in_base32(length: int) -> str:
    return base64.b32encode(secrets.token_bytes(length)).decode()
