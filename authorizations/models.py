from __future__ import annotations

import re
import secrets
import string
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from authorizations import seal, shapes
from authorizations.phone_code import PhoneCode as PhoneCode
from authorizations.phone_code import PhoneUse as PhoneUse
from foundation.encryption import EncryptedTextField, blind_index
from foundation.formats import iso_utc, mask_cpf
from partners.models import Partner, WebhookEvent
from providers.types.query import Geolocation
from webhooks import outbox

VALIDITY = timedelta(hours=72)

#: The text that replaces a holder's data after an erasure.
ERASED = "***"

# Only letters and digits: chat apps treat `_` as formatting and drop a final `-` from a URL.
_ALPHABET = string.ascii_letters + string.digits
ID_LENGTH = 32

_PART = re.compile(r"^(?=\d+\. )", re.MULTILINE)
_RECEIPT = re.compile(r"([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})", re.IGNORECASE | re.ASCII)
_PIECES = re.compile(r"(\d+\. [^\n]*\n?)?(.*?)(\s*)", re.DOTALL)


def with_receipt(text: str) -> list[models.Q]:
    """The conditions for the session whose receipt has the number `text`. None if it is no such number."""
    match = _RECEIPT.fullmatch(text)
    return [models.Q(evidence__hash__startswith="".join(match.groups()).lower())] if match else []


def new_authorization_id() -> str:
    """A random id of 190 bits. Whoever knows it is treated as the holder."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))


def _clean_text(text: str) -> str:
    """The text with LF line ends and without trailing blanks, so that every copy has the same bytes."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip().split("\n")
    return "\n".join(line.rstrip() for line in lines)


class Terms(models.Model):
    """One version of the terms that holders accept. A draft may change. A published version never does: a database
    trigger refuses."""

    version = models.CharField("versão", max_length=20, unique=True)
    text = models.TextField(
        "texto",
        help_text="Texto simples, mostrado exatamente como está aqui. Linhas como “2. Para quê” saem como títulos.",
    )
    published_at = models.DateTimeField("publicada em", null=True, editable=False)
    created_at = models.DateTimeField("criada em", default=timezone.now, editable=False)

    class Meta:
        verbose_name = "termo"
        verbose_name_plural = "termos"
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"versão {self.version}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.text = _clean_text(self.text)
        super().save(*args, **kwargs)

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the UTF-8 text."""
        return seal.sha256(self.text.encode())

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """The parts of the text: heading (`2. O que você autoriza`), body, and the blank end. All of them in order are
        the text. A heading has its line end; what stands before the first heading is a part with an empty one."""
        pieces = (_PIECES.fullmatch(part) for part in _PART.split(self.text) if part)
        return [(match[1] or "", match[2], match[3]) for match in pieces if match]

    @property
    def headings(self) -> list[str]:
        """The headings. The holder's page folds the terms under them."""
        return [heading.strip() for heading, _, _ in self.parts if heading]

    @classmethod
    def current(cls) -> Terms:
        """The version that new sessions show. Raises Terms.DoesNotExist before the first publication."""
        return cls.objects.filter(published_at__isnull=False).latest("published_at")

    def publish(self) -> None:
        """Make this version the current one, permanently."""
        self.published_at = timezone.now()
        self.save()


class Session(models.Model):
    """A partner's request that a holder authorize its queries. At most one is pending per partner and CPF.

    `status` is the stored status. `status_at` is the one that counts, because a session expires without a change of its
    row. After `erased_at`, the holder's data are only in the evidence, and no query can use the session. After
    `revoked_at`, no query can use it, and the URL of a pending one has ended; the evidence stays. A revoked session
    with evidence keeps the stored status `authorized`, because the evidence refers to it. `partner_reference` is the
    partner's own name of the session, or empty. `return_link` is the URL to which the holder's page returns, or None.

    Once the session is accepted, a trigger protects the columns that identify its holder and partner. CPF, name and
    phone cannot be protected that way, because `reencrypt` renews their ciphertext. The evidence is authoritative for
    them, and `verify_evidence` compares.
    """

    #: The holder's data are encrypted for this identity, which is known before the row has a key.
    sealed_by = ("authorization_id",)

    Status = shapes.SessionStatus

    authorization_id = models.CharField(
        "identificador", max_length=ID_LENGTH, unique=True, default=new_authorization_id, editable=False
    )
    partner = models.ForeignKey(Partner, models.PROTECT, related_name="+", verbose_name="parceiro")
    cpf = EncryptedTextField("CPF")
    cpf_index = models.CharField(max_length=64, db_index=True, editable=False)
    name = EncryptedTextField("nome")
    phone = EncryptedTextField("telefone")
    terms = models.ForeignKey(Terms, models.PROTECT, related_name="+", verbose_name="termo")
    status = models.CharField("situação", max_length=10, choices=Status.choices, default=Status.PENDING)
    created_at = models.DateTimeField("criada em", db_index=True)
    expires_at = models.DateTimeField("expira em")
    erased_at = models.DateTimeField("dados apagados em", null=True, editable=False)
    declined_at = models.DateTimeField("recusada em", null=True, editable=False)
    revoked_at = models.DateTimeField("revogada em", null=True, editable=False)
    revoked_by = models.CharField("revogada por", max_length=150, default="")
    revocation_reason = EncryptedTextField("motivo da revogação", null=True)
    partner_reference = models.CharField("referência do parceiro", max_length=64, blank=True, default="", db_default="")
    return_link = EncryptedTextField("link de volta", null=True)
    #: The number of recorded uses of its evidence. It equals the last use's number, so removed uses are noticed.
    use_count = models.PositiveIntegerField(default=0, editable=False)
    #: The number of accepted forms of the page. Each shown page can be answered once.
    page_round = models.PositiveIntegerField(default=0, db_default=0, editable=False)

    class Meta:
        verbose_name = "sessão de autorização"
        verbose_name_plural = "sessões de autorização"
        ordering = ("-created_at",)
        permissions = [("revoke_authorization", "Pode revogar uma autorização")]
        constraints = [
            models.UniqueConstraint(
                fields=("partner", "cpf_index"),
                condition=models.Q(status="pending"),
                name="one_pending_session_per_holder",
            )
        ]
        indexes = [
            models.Index(fields=("expires_at",), name="session_unused", condition=~models.Q(status="authorized")),
            # Few rows among all: the list's filter would read the others.
            models.Index(fields=("-created_at",), name="session_revoked", condition=models.Q(revoked_at__isnull=False)),
            models.Index(
                fields=("partner_reference", "-created_at"),
                name="session_by_own_name",
                condition=models.Q(partner_reference__gt=""),
            ),
        ]

    def __str__(self) -> str:
        return f"sessão {self.pk}"

    @property
    def holder_name(self) -> str:
        """The name for pages: the sealed one if there is evidence, a mask after an erasure."""
        sealed = self._sealed_holder()
        return str(sealed["name"]) if sealed else self.name

    @property
    def masked_cpf(self) -> str:
        """The CPF for pages and lists, masked. Its origin is that of `holder_name`."""
        sealed = self._sealed_holder()
        return mask_cpf(sealed["cpf"] if sealed else self.cpf)

    def _sealed_holder(self) -> dict[str, str] | None:
        """The holder named in the evidence. None without evidence, and after an erasure, unlike in a dossier."""
        if self.erased_at is not None or not hasattr(self, "evidence"):
            return None
        return self.evidence.declared

    @property
    def way_back(self) -> str | None:
        """The URL to which the page returns, if an operator still has its host registered."""
        link = self.return_link
        return link if link and self.partner.leads_back_to(link) else None

    @property
    def declaration(self) -> str:
        """The sentence above the button: what the holder declares by pressing it."""
        return (
            f"Eu, {self.holder_name}, CPF {self.masked_cpf}, li os termos acima e autorizo {self.partner.name} e as "
            "instituições financeiras parceiras a consultar meus dados para simular crédito consignado."
        )

    def status_at(self, now: datetime) -> shapes.SessionStatus:
        """The status that counts at `now`."""
        if self.revoked_at is not None:
            return self.Status.REVOKED
        if self.status == self.Status.PENDING and now >= self.expires_at:
            return self.Status.EXPIRED
        return self.Status(self.status)

    def holder_may_revoke(self, now: datetime) -> bool:
        """True while the page of an accepted session offers its revocation: until the end of the link."""
        is_open = self.erased_at is None and now < self.expires_at
        return is_open and self.status_at(now) == self.Status.AUTHORIZED

    def awaits_holder(self, now: datetime) -> bool:
        """True while a code may be sent to the holder: to accept, or to revoke."""
        return self.holder_may_revoke(now) or (self.erased_at is None and self.status_at(now) == self.Status.PENDING)

    def decline(self) -> None:
        """End a pending session because the holder declined. The row must be locked."""
        self.status, self.declined_at = self.Status.DECLINED, timezone.now()
        self._end(WebhookEvent.AUTHORIZATION_DECLINED, shapes.AuthorizationDeclinedEvent, "declined_at")

    def expire(self) -> None:
        """End a pending session whose time has passed. The row must be locked."""
        self.status, at = self.Status.EXPIRED, iso_utc(self.expires_at)
        self._end(WebhookEvent.AUTHORIZATION_EXPIRED, shapes.AuthorizationExpiredEvent, expired_at=at)

    def revoke(self, by: str, reason: str) -> None:
        """Prevent further queries with the session, or end its URL, and store who did so and why. Only the first
        revocation counts. The row must be locked. Raises ValidationError for a session that is neither pending nor
        authorized, and without `by` or `reason`."""
        if self.revoked_at is not None:
            return
        if self.status_at(timezone.now()) not in (self.Status.PENDING, self.Status.AUTHORIZED):
            raise ValidationError("Só uma sessão pendente ou autorizada pode ser revogada.")
        self.revoked_at, self.revoked_by, self.revocation_reason = timezone.now(), by.strip(), reason.strip()
        written = {"revoked_at", "revoked_by", "revocation_reason"}
        self.clean_fields(exclude={field.name for field in self._meta.fields} - written)
        if self.status == self.Status.PENDING:
            self.status = self.Status.REVOKED  # so that a new session may be opened now
        self._end(WebhookEvent.AUTHORIZATION_REVOKED, shapes.AuthorizationRevokedEvent, *written)

    def authorize(self, at: datetime) -> None:
        """End a pending session whose evidence was recorded at `at`. The row must be locked."""
        self.status, told = self.Status.AUTHORIZED, {"authorized_at": iso_utc(at)}
        self._end(WebhookEvent.AUTHORIZATION_COMPLETED, shapes.AuthorizationCompletedEvent, **told)

    def _end(self, name: str, shape: type[shapes.SessionEnd], *written: str, **ended_at: str) -> None:
        """Store the status and the fields `written`, and send the partner the event about the session's end. `ended_at`
        is its time, if no field has that."""
        self.save(update_fields=["status", *written])
        payload = shape.of(self, status=self.status_at(timezone.now()), **ended_at)
        outbox.send(self.partner, name, self.authorization_id, payload)


class Chained(models.Model):
    """The columns of one link in the chain of all evidence."""

    number = models.PositiveBigIntegerField("número", primary_key=True)
    record_sha256 = models.CharField("SHA-256 do registro", max_length=64)
    previous_hash = models.CharField("elo anterior", max_length=64, unique=True)
    hash = models.CharField("elo", max_length=64, unique=True)
    public_key = models.CharField("chave pública", max_length=64)
    signature = models.CharField("assinatura", max_length=128)

    class Meta:
        abstract = True

    @property
    def link(self) -> dict[str, Any]:
        """These columns alone."""
        return {name: getattr(self, name) for name in LINK_COLUMNS}


#: The names of a link's columns.
LINK_COLUMNS = tuple(field.name for field in Chained._meta.fields)


class Evidence(Chained):
    """What the service observed, was told and showed when a holder accepted. The database refuses any change.

    `record` is canonical JSON (see `seal`), and `record_sha256` its digest. `accepted_at` and `from_api_address` are
    copies for lists and reports: the record is authoritative, and `verify_evidence` compares. The ciphertext cannot be
    renewed either, so a retired encryption key must stay in FIELD_ENCRYPTION_KEYS as long as evidence under it is kept.
    """

    #: `reencrypt` counts these rows and leaves them unchanged.
    written_once = True

    session = models.OneToOneField(Session, models.PROTECT, related_name="evidence", verbose_name="sessão")
    record = EncryptedTextField("registro")
    accepted_at = models.DateTimeField("aceita em")
    from_api_address = models.BooleanField("aceita de endereço da API", null=True)

    class Meta:
        verbose_name = "evidência"
        verbose_name_plural = "evidências"
        ordering = ("-number",)
        default_permissions = ("view",)
        permissions = [("export_evidence", "Pode exportar o dossiê de uma evidência")]

    def __str__(self) -> str:
        return f"evidência {self.number}"

    @property
    def receipt(self) -> str:
        """The number that the holder reads, `1A2B-3C4D-5E6F`: the begin of the link's hash. Unlike `number` it does not
        tell how many authorizations there were."""
        return "-".join(self.hash[at : at + 4].upper() for at in (0, 4, 8))

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = msgspec.json.decode(self.record)
        return content

    @property
    def facts(self) -> dict[str, Any]:
        """What the record says of the acceptance, by the contract's names. Numbers are text."""
        content = self.content
        return {**content["told_by_browser"], **content["shown_by_session"], **content["observed_by_server"]}

    @property
    def shown(self) -> shapes.Evidence:
        """What the record says, as its partner reads it."""
        facts = self.facts
        told = {
            "geolocation_status": "collected" if facts["geolocation"] else "not_collected",
            "phone_confirmation": self.phone_confirmation,
        }
        return msgspec.convert({**facts, **told}, shapes.Evidence, strict=False)

    @property
    def for_bank(self) -> dict[str, Any]:
        """What a query tells a bank of the acceptance, by the names of `BankQuery`."""
        facts = self.facts
        return {
            "client_ip": facts["ip"],
            "geolocation": msgspec.convert(facts["geolocation"], Geolocation | None),
            "user_agent": facts["user_agent"],
            "device_model": facts["device"].get("deviceModel"),
            "platform": facts["device"].get("platform"),
            "accepted_at": self.sealed_at,
            "authorization_reference": f"evidence-{self.number}",
        }

    @property
    def sealed_at(self) -> datetime:
        """The time of the acceptance in the record."""
        return datetime.fromisoformat(self.facts["accepted_at"])

    @property
    def declared(self) -> dict[str, str]:
        """The holder as the partner declared: `partner_id`, `partner_name`, `cpf`, `name`, `phone`."""
        declared: dict[str, str] = self.content["declared_by_partner"]
        return declared

    @property
    def phone_confirmation(self) -> dict[str, str] | None:
        """The confirmation by a code: `number` (the masked phone), `sent_at`, `confirmed_at`. None without one."""
        confirmation: dict[str, str] | None = self.content["phone_confirmation"]
        return confirmation


class PurgedEvidence(Chained):
    """The link of an evidence whose retention time was over: what verifies the chain without the record. `uses` is the
    number of its uses, which were deleted with it. By the keyed hash `session_index` its partner is told that it was
    deleted. The database refuses any change, and it deletes an evidence only if its link stands here."""

    uses = models.PositiveIntegerField()
    session_index = models.CharField(max_length=64, db_index=True)
    purged_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "evidência apagada por prazo"
        verbose_name_plural = "evidências apagadas por prazo"
        ordering = ("-number",)
        default_permissions = ()

    def __str__(self) -> str:
        return f"evidência {self.number}, apagada"

    @staticmethod
    def index_of(partner_id: UUID, authorization_id: str) -> str:
        return blind_index("session", f"{partner_id} {authorization_id}")


class EvidenceUse(models.Model):
    """A call to a bank that relied on an evidence. Rows are only added; the database refuses any change. The uses of an
    evidence are numbered from 1 without a gap. `seal` is the signature of the other fields."""

    evidence = models.ForeignKey(Evidence, models.PROTECT, related_name="uses", verbose_name="evidência")
    number = models.PositiveIntegerField("número")
    provider = models.CharField("banco", max_length=40)
    call = models.CharField("chamada", max_length=40)
    reference = models.CharField("referência", max_length=64)
    used_at = models.DateTimeField("usada em")
    seal = models.CharField("selo", max_length=128)

    class Meta:
        verbose_name = "uso da evidência"
        verbose_name_plural = "usos da evidência"
        ordering = ("evidence_id", "number")
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=("evidence", "number"), name="uses_are_numbered")]

    def __str__(self) -> str:
        return f"{self.provider}, {self.call}"

    @property
    def sealed(self) -> dict[str, Any]:
        """The signed fields, without the evidence's link and `seal`. Times are in microseconds, as stored."""
        return {
            "number": self.number,
            "used_at": self.used_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "provider": self.provider,
            "call": self.call,
            "reference": self.reference,
            "seal": self.seal,
        }
