import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
from django.conf import settings
from django.db import models, transaction

from foundation import audit, database
from foundation.boxes import BoxesField, merged
from foundation.encryption import EncryptedTextField
from foundation.formats import sentence
from foundation.http.way import Rules, origin_of
from providers.bank import Connection
from providers.breaker import Breaker
from providers.certificates import REMOVE, Certificates, Change, described, proxy_names, proxy_secret, refused_at
from providers.maintenance import Maintenance, out_of_service, window_sql

__all__ = ["Circuit", "Maintenance", "Provider"]


class Circuit(models.TextChoices):
    AUTO = "auto", "automático: com pausa quando falha"
    OPEN = "open", "nunca: o banco fica fora do ar"
    CLOSED = "closed", "sempre, mesmo que falhe"


class Provider(models.Model):
    """A bank as an operator configures it. `name` is the identifier of its adapter in `providers.registry`."""

    name = models.SlugField("identificador", primary_key=True, max_length=40)
    enabled = models.BooleanField("habilitado", default=True)
    base_url = models.CharField("endereço base", max_length=200)
    credentials = BoxesField("credenciais", default=dict, blank=True)
    #: Those before them, until the bank accepts the present ones. An operator can go back to them.
    former_credentials = BoxesField(
        "credenciais anteriores", default=dict, blank=True, editable=False, shared_with="credentials"
    )
    #: The key with which the bank signs its callbacks. Stored apart from the credentials, because the process that
    #: receives callbacks must not have those.
    callback_secret = EncryptedTextField("segredo dos avisos", null=True, blank=True)
    #: Our client certificate, with those of its issuers, and the one before it, which serves until the bank accepts the
    #: new one. The authorities that may issue the bank's certificate; if empty, those that the machine trusts. PEM.
    certificate = models.TextField("certificado de cliente", blank=True)
    former_certificate = models.TextField("certificado anterior", blank=True, editable=False)
    authorities = models.TextField("autoridades do banco", blank=True)
    #: The private keys by their certificate's fingerprint, and the proxy's URL with user and password (`proxy_secret`).
    way_secrets = BoxesField("segredos do caminho", default=dict, blank=True)
    portfolio = models.CharField("carteira padrão", max_length=60, blank=True)
    timeout_s = models.PositiveIntegerField("tempo limite (s)", null=True, blank=True)
    max_in_flight = models.PositiveIntegerField("chamadas simultâneas", default=512)
    circuit = models.CharField("chamar o banco", max_length=10, choices=Circuit.choices, default=Circuit.AUTO)
    updated_at = models.DateTimeField("atualizado em", auto_now=True)

    #: How the audit trail shows these fields.
    audited_as: ClassVar = dict.fromkeys(("certificate", "former_certificate", "authorities"), described)

    class Meta:
        verbose_name = "banco"
        verbose_name_plural = "bancos"
        ordering = ("name",)
        permissions = (("change_account", "Pode mudar endereço e credenciais de bancos"),)

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """From when a change of the settings is committed, the breaker is closed, and counts no earlier call."""
        super().save(*args, **kwargs)
        if "updated_at" in (kwargs.get("update_fields") or ("updated_at",)):
            transaction.on_commit(lambda: Breaker.begin_anew(self.name))

    def boxes_bound_to(self, field: str) -> tuple[str, ...]:
        """All secrets are for one origin, and the credentials for one proxy and one set of authorities too: whoever
        changes one of these cannot have them sent there."""
        origin = origin_of(self.base_url)
        if field == "way_secrets":
            return (origin,)
        authorities = hashlib.sha256(self.authorities.encode()).hexdigest()
        return (origin, authorities, *proxy_names(self.way_secrets))

    def is_led_elsewhere_by(self, change: Change) -> bool:
        """True if the stored credentials do not open any more after `change`, which `Change.check` accepted."""
        changed = copy(self)
        changed.change_way(change)
        return changed.boxes_bound_to("credentials") != self.boxes_bound_to("credentials")

    def connection(self, closed: str | None = None) -> Connection:
        """These settings as a `Connection`. `closed` says why and until when the bank is out of service now."""
        return Connection(
            base_url=self.base_url,
            credentials=self.credentials,
            timeout_s=self.timeout_s or settings.BANK_TIMEOUT_S,
            max_in_flight=self.max_in_flight,
            portfolio=self.portfolio or None,
            circuit=self.circuit,
            closed=closed,
            rules=rules_of_addresses(),
            certificates=tuple(filter(None, (self.certificate, self.former_certificate))),
            authorities=self.authorities,
            way_secrets=self.way_secrets,
            is_renewed=bool(self.former_credentials),
        )

    def renew_credentials(self, new: Mapping[str, str | None]) -> None:
        """Update the credentials by `new`; None removes one. Those that the bank knows are kept."""
        self.former_credentials = self.former_credentials or self.credentials
        self.credentials = merged(self.credentials, new)

    def restore_credentials(self) -> None:
        """Go back to the credentials that the bank accepted last."""
        self.credentials, self.former_credentials = self.former_credentials, {}

    def open_credentials(self) -> None:
        """Open the credentials, so that they are sealed again for another way when the row is saved. Raises WrongKey in
        a process that calls no banks."""
        self.credentials, self.former_credentials = dict(self.credentials), dict(self.former_credentials)

    def forget_credentials(self) -> None:
        """Remove the credentials that were sealed for one way to the bank."""
        self.credentials, self.former_credentials = {}, {}

    def forget_secrets(self) -> None:
        """Remove all that was sealed for the bank's address."""
        self.forget_credentials()
        self.way_secrets = {}
        self.certificate = self.former_certificate = ""

    def change_way(self, change: Change) -> None:
        """Apply `change`, which `Change.check` accepted. A new certificate stands beside the one before it."""
        if change.certificate == REMOVE:
            self.certificate = self.former_certificate = ""
        elif change.certificate and change.certificate != self.certificate:
            self.former_certificate = self.former_certificate or self.certificate
            self.certificate = change.certificate
        secrets: dict[str, str | None] = {}
        if change.certificate not in ("", REMOVE):
            secrets[Certificates(change.certificate).fingerprint] = change.private_key
        if change.authorities:
            self.authorities = "" if change.authorities == REMOVE else change.authorities
        if change.proxy:
            secrets |= dict.fromkeys(proxy_names(self.way_secrets))
            secrets |= {} if change.proxy == REMOVE else proxy_secret(change.proxy)
        self.way_secrets = merged(self.way_secrets, secrets)
        self._drop_keys()

    def drop_former_certificate(self) -> None:
        """Remove the certificate before the present one, with its key."""
        self.former_certificate = ""
        self._drop_keys()

    def _drop_keys(self) -> None:
        """Remove the keys of certificates that are gone."""
        kept = [Certificates(pem).fingerprint for pem in (self.certificate, self.former_certificate) if pem]
        kept += proxy_names(self.way_secrets)
        gone = [name for name in self.way_secrets if name not in kept]
        self.way_secrets = merged(self.way_secrets, dict.fromkeys(gone))


@dataclass(frozen=True)
class ClientCertificate:
    """The end of a bank's client certificate; and the end of the one before it, which serves until the bank accepts the
    new one, and when the bank last refused the new one."""

    bank: str
    ends_at: datetime
    former_ends_at: datetime | None = None
    refused_at: datetime | None = None


def client_certificates() -> Iterator[ClientCertificate]:
    """Those of all banks that have one."""
    rows = Provider.objects.exclude(certificate="").values_list("name", "certificate", "former_certificate")
    for name, pem, former in rows:
        ends_at = Certificates(pem).ends_at
        if former:
            yield ClientCertificate(name, ends_at, Certificates(former).ends_at, refused_at(name, pem))
        else:
            yield ClientCertificate(name, ends_at)


def account_accepted(name: str, *, certificate: str = "", fingerprint: str = "") -> None:
    """The bank `name` accepted `certificate`, or the credentials with `fingerprint`: those before them go, unless the
    bank has others now."""
    with transaction.atomic():
        provider = Provider.objects.select_for_update().filter(pk=name).first()
        if provider is None:
            return
        if certificate and provider.former_certificate and provider.certificate == certificate:
            changes = {"former_certificate": [described(provider.former_certificate), None]}
            provider.drop_former_certificate()
            provider.save(update_fields=["former_certificate", "way_secrets"])
            detail = "O banco aceitou o certificado novo; o anterior foi apagado."
            audit.record(audit.Action.CHANGED, obj=provider, changes=changes, detail=detail)
        if fingerprint and provider.former_credentials and provider.connection().fingerprint == fingerprint:
            provider.former_credentials = {}
            provider.save(update_fields=["former_credentials"])
            detail = "O banco aceitou as credenciais novas; as anteriores foram apagadas."
            audit.record(audit.Action.CHANGED, obj=provider, detail=detail)


def rules_of_addresses() -> Rules:
    """Which addresses banks may have: in production https and public ones, except for hosts in BANK_PRIVATE_HOSTS."""
    return Rules(private_hosts=settings.BANK_PRIVATE_HOSTS)


def enabled_connections(names: Sequence[str]) -> dict[str, Connection]:
    """The connections of those banks of `names` that are enabled, by bank name."""
    row = database.fetch_one(f"SELECT {connections_sql('b.name = ANY(%s)')}", [list(names)])
    return read_connections(row[0] if row else ())


def connections_sql(which: str) -> str:
    """An SQL expression for `read_connections`: the enabled banks that meet `which`, a condition on `b.name`."""
    columns = f"{_connection_columns().sql}, {window_sql('b.name')}"
    return (
        f"ARRAY(SELECT json_build_array({columns})::text FROM providers_provider b"  # noqa: S608 - names of ours
        f" WHERE b.enabled AND {which})"
    )


def read_connections(names: Iterable[str]) -> dict[str, Connection]:
    return dict(_connection(each, settings.BANK_TIMEOUT_S) for each in names)


@lru_cache(maxsize=256)
def _connection(columns: str, default_timeout_s: int) -> tuple[str, Connection]:
    """The bank's name and its connection. The cache key holds every column that the connection is made of, the
    encrypted credentials included. A cached connection is never older than its row."""
    *values, window = msgspec.json.decode(columns)
    row = _connection_columns().row(values)
    closed = None
    if window is not None:
        until, reason = window
        closed = sentence(f"O banco está {out_of_service(datetime.fromisoformat(until), reason)}")
    return row.name, row.connection(closed)


@lru_cache(maxsize=1)
def _connection_columns() -> database.Columns[Provider]:
    # Calling the bank does not need the callback secret.
    return database.Columns(Provider, "b", without=("callback_secret", "updated_at"))
