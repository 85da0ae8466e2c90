"""Certificates, and what an operator gives for the way to a bank: client certificate, authorities and proxy."""

import hashlib
import secrets
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from django.core.exceptions import ValidationError
from django.utils import timezone
from redis.exceptions import RedisError

from foundation.encryption import WrongKey
from foundation.http.way import load_identity
from foundation.redis import redis

#: Typed in place of a value, it removes the stored one.
REMOVE = "-"
#: How long it is known that a bank refused a certificate, in seconds.
_REFUSAL_KEPT_S = 30 * 24 * 3600
#: The name of a proxy among the secrets of a way is this and a digest.
_PROXY = "proxy:"


@dataclass(frozen=True)
class Certificates:
    """Certificates (PEM). As text they are their fingerprints and ends, as operators and the audit trail read them."""

    pem: str

    @cached_property
    def _parsed(self) -> list[x509.Certificate]:
        return x509.load_pem_x509_certificates(self.pem.encode())

    @property
    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the first certificate, as `openssl x509 -fingerprint -sha256` prints it."""
        return _fingerprint(self._parsed[0])

    @property
    def ends_at(self) -> datetime:
        """The end of the first certificate. Raises ValueError if the text is no certificate."""
        return self._parsed[0].not_valid_after_utc

    def __str__(self) -> str:
        ends = ((_fingerprint(each), each.not_valid_after_utc) for each in self._parsed)
        return "; ".join(f"SHA-256 {fingerprint}, até {timezone.localtime(end):%d/%m/%Y}" for fingerprint, end in ends)


def described(pem: str) -> str:
    """The certificates `pem` as text without their content. Empty if there is none."""
    return str(Certificates(pem)) if pem else ""


def note_refused(bank: str, pem: str) -> None:
    """Remember that `bank` refused the certificate `pem` now. Without Redis that is not known."""
    with suppress(RedisError):
        redis().set(_refusal(bank, pem), time.time(), ex=_REFUSAL_KEPT_S)


def refused_at(bank: str, pem: str) -> datetime | None:
    """When `bank` last refused the certificate `pem`, if that is known."""
    with suppress(RedisError):
        if at := redis().get(_refusal(bank, pem)):
            return datetime.fromtimestamp(float(at), UTC)
    return None


def _refusal(bank: str, pem: str) -> str:
    return f"bank-certificate-refused:{bank}:{Certificates(pem).fingerprint}"


def identity_of(certificates: str, key: str) -> str:
    """Certificates and private key as `foundation.http.way.Way` takes them."""
    return f"{certificates.strip()}\n{key.strip()}\n"


def proxy_secret(url: str) -> dict[str, str]:
    """The proxy `url` as the secrets of a way hold it. The name is a digest of the value: no other value can take its
    place, and the name stands for it where the value cannot be read. The random part protects a password."""
    value = f"{url}#{secrets.token_hex(16)}"
    return {_name_of_proxy(value): value}


def proxy_names(way_secrets: Iterable[str]) -> list[str]:
    """The names of the proxies among the secrets of a way: one or none."""
    return sorted(name for name in way_secrets if name.startswith(_PROXY))


def proxy_of(way_secrets: Mapping[str, str]) -> str:
    """The proxy's URL among the secrets of a way, or empty. Raises WrongKey if its name does not stand for it."""
    for name in proxy_names(way_secrets):
        value = way_secrets[name]
        if _name_of_proxy(value) != name:
            raise WrongKey("a stored proxy is not the one that its name stands for")
        return value.partition("#")[0]
    return ""


def _name_of_proxy(value: str) -> str:
    return _PROXY + hashlib.sha256(value.encode()).hexdigest()


@dataclass(frozen=True)
class Change:
    """A change of the way to a bank, as an operator typed it. An empty text leaves a value, a hyphen removes it."""

    certificate: str = ""
    private_key: str = field(default="", repr=False)
    authorities: str = ""
    proxy: str = field(default="", repr=False)

    def check(self) -> None:
        """Raises ValidationError, by field. Its texts repeat nothing of a key or of the proxy's URL."""
        if self.certificate not in ("", REMOVE):
            _check_identity(_certificates("certificate", self.certificate), self.private_key)
        elif self.private_key:
            raise ValidationError({"certificate": "Informe o certificado junto com a chave."})
        if self.authorities not in ("", REMOVE):
            _certificates("authorities", self.authorities)
        if self.proxy not in ("", REMOVE) and not _is_proxy(self.proxy):
            raise ValidationError({"proxy": "Informe o proxy como http://usuario:senha@host:porta."})


def _certificates(name: str, pem: str) -> Certificates:
    certificates = Certificates(pem)
    try:
        ends_at = certificates.ends_at
    except ValueError:
        raise ValidationError({name: "Informe certificados em PEM, de -----BEGIN CERTIFICATE----- ao END."}) from None
    if ends_at <= timezone.now():
        raise ValidationError({name: f"O certificado venceu em {timezone.localtime(ends_at):%d/%m/%Y %H:%M}."})
    return certificates


def _check_identity(certificates: Certificates, key: str) -> None:
    try:
        load_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity_of(certificates.pem, key))
    except (ssl.SSLError, ValueError):
        words = "A chave não é a deste certificado, tem senha, ou não está em PEM."
        raise ValidationError({"private_key": words}) from None


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_address = bool(parts.scheme == "http" and parts.hostname and parts.port)
    except ValueError:
        return False
    return has_address and not (parts.path.strip("/") or parts.query or parts.fragment)


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(SHA256()).hex(":").upper()
