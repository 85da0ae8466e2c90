"""Encryption: of messages and texts, of model fields with personal data or secrets, and a keyed hash to look up a CPF.

A value is encrypted (AES-256-GCM) for a context: a message for its request, a field's value for its table, column and
row. A copy in another place cannot be decrypted. The first key of `FIELD_ENCRYPTION_KEYS` encrypts, all keys decrypt,
so keys can be rotated. From each of them one key per purpose is derived, so a value sealed for one purpose cannot be
opened for another. A value that no key decrypts raises `WrongKey`, so that ciphertext is never taken for data.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import itertools
import os
import zlib
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

_SALT = 16
_NONCE = 12
_BOUND = "s1."
#: A longer text is compressed before it is encrypted, in bytes. Compressed content begins with NUL, as no text does.
_LONG = 1000
_COMPRESSED = b"\0"


class WrongKey(Exception):
    """No configured key opens a sealed value: it was altered or belongs elsewhere, or its key is missing."""


class Purpose(Enum):
    MESSAGE = b"messages"  #: between processes, for seconds
    PERSONAL = b"personal data"  #: in the database, for as long as the row


def seal(content: bytes, context: bytes, purpose: Purpose = Purpose.MESSAGE) -> bytes:
    """Encrypt `content`. Only the same `context` and `purpose` open it."""
    salt, numbers = _own_numbers(os.getpid())
    nonce = next(numbers).to_bytes(_NONCE, "big")
    return salt + nonce + _cipher(settings.FIELD_ENCRYPTION_KEYS[0], purpose, salt).encrypt(nonce, content, context)


def unseal(sealed: bytes, context: bytes, purpose: Purpose = Purpose.MESSAGE, *, newest_only: bool = False) -> bytes:
    """Decrypt what `seal` returned. Raises `WrongKey` if no configured key (with `newest_only`, not the newest one)
    opens it, if it was altered, or if it was sealed for another context."""
    salt, nonce, rest = sealed[:_SALT], sealed[_SALT : _SALT + _NONCE], sealed[_SALT + _NONCE :]
    for key in settings.FIELD_ENCRYPTION_KEYS[: 1 if newest_only else None]:
        try:
            return _cipher(key, purpose, salt).decrypt(nonce, rest, context)
        except (InvalidTag, ValueError):
            continue
    raise WrongKey("a sealed value does not open here with the configured keys")


def context_of(*parts: object) -> bytes:
    """The context made of `parts`. No part contains NUL, because no text in the database does."""
    return b"\0".join(str(part).encode() for part in parts)


@lru_cache(maxsize=4)
def _own_numbers(pid: int) -> tuple[bytes, itertools.count[int]]:
    """The salt of this process and the counter for its nonces. Each process derives its own key from the salt and
    counts its messages, so no nonce is used twice under one key. Random nonces would limit their number."""
    return os.urandom(_SALT), itertools.count()


@lru_cache(maxsize=4096)
def _cipher(key: str, purpose: Purpose, salt: bytes) -> AESGCM:
    """The cipher of the process with `salt`, under one of the configured keys."""
    return AESGCM(hmac.digest(base64.urlsafe_b64decode(key), purpose.value + b"\0" + salt, "sha256"))


# --- Texts ----------------------------------------------------------------------------------------------------


def encrypt(text: str, context: bytes) -> str:
    """Encrypt `text`. The token can be decrypted only with the same `context`."""
    content = text.encode()
    if len(content) > _LONG:
        content = _COMPRESSED + zlib.compress(content, level=1)
    return _BOUND + base64.urlsafe_b64encode(seal(content, context, Purpose.PERSONAL)).decode()


def decrypt(token: str, context: bytes, *, newest_only: bool = False) -> str:
    """Decrypt a token of `encrypt`. Raises `WrongKey`."""
    try:
        content = base64.b64decode(token.removeprefix(_BOUND), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise WrongKey("a stored value is no sealed one") from None
    opened = unseal(content, context, Purpose.PERSONAL, newest_only=newest_only)
    return (zlib.decompress(opened[1:]) if opened.startswith(_COMPRESSED) else opened).decode()


def blind_index(purpose: str, value: str) -> str:
    """HMAC-SHA256 of `value` in hex, for equality look-ups. Without a key, all CPFs could be hashed in minutes.

    The same value under another `purpose` gives an unrelated index.
    """
    message = purpose.encode() + b"\0" + value.encode()
    return hmac.digest(settings.BLIND_INDEX_KEY.encode(), message, "sha256").hex()


# --- Fields ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sealed:
    """A value as stored in the database. The class is not a str, so that nothing takes the token for the value."""

    token: str

    def __repr__(self) -> str:
        return "<sealed>"


class SealedAttribute(DeferredAttribute):
    """Decrypts a row's value when it is first read, because only the complete row has the identity that the value is
    bound to. A value that is never read is never decrypted."""

    field: EncryptedTextField

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, Sealed):
            value = instance.__dict__[self.field.attname] = self.field.opened(value.token, instance)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(models.TextField):
    """Text that is encrypted in the database and bound to its row. To search it, keep a `blind_index` beside it.

    The row is identified by its primary key. If the database assigns that only at the insert, the row is identified by
    the fields in the model's `sealed_by`, which must never change. `update()` does not know the row: pass `sealed(row,
    field, value)`. `values()` yields encrypted values.
    """

    descriptor_class = SealedAttribute

    def context_of_row(self, row: models.Model) -> bytes:
        """The context that a value of `row` is bound to. Raises ValueError if the row has no identity yet."""
        keys = [getattr(row, name) for name in getattr(row, "sealed_by", ("pk",))]
        if None in keys:
            raise ValueError(f"a value of {self.model._meta.label}.{self.name} needs its row's identity first")
        return context_of(self.model._meta.db_table, self.column, *keys)

    def sealed(self, value: Any, row: models.Model) -> Sealed | None:
        return None if value is None else Sealed(encrypt(self._to_text(value), self.context_of_row(row)))

    def opened(self, token: str, row: models.Model) -> Any:
        """The decrypted value of `token`, stored in `row`. Raises `WrongKey`."""
        return self._from_text(self.text(token, row))

    def text(self, token: str, row: models.Model) -> str:
        """Like `opened`, but returns the text that was encrypted; for JSON fields, the JSON text."""
        return decrypt(token, self.context_of_row(row))

    def renewed(self, token: str, row: models.Model) -> str | None:
        """The same value encrypted with the newest key and bound to `row`. None if `token` is that. Raises
        `WrongKey`."""
        context = self.context_of_row(row)
        try:
            decrypt(token, context, newest_only=True)
        except WrongKey:
            return encrypt(decrypt(token, context), context)
        return None

    def pre_save(self, row: models.Model, add: bool) -> Any:
        return self.sealed(super().pre_save(row, add), row)

    def get_prep_value(self, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Sealed):
            raise TypeError(f"give {self.model._meta.label}.{self.name} a value that is sealed for its row")
        return value.token

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else Sealed(value)

    def _to_text(self, value: Any) -> str:
        return str(value)

    def _from_text(self, text: str) -> Any:
        return text


class EncryptedJSONField(EncryptedTextField):
    """A JSON value (dicts, lists, text, integers, booleans, None), encrypted as JSON text."""

    _pyi_private_set_type: Any  # how django-stubs is told the attribute's type
    _pyi_private_get_type: Any

    def to_python(self, value: Any) -> Any:
        return value

    def _to_text(self, value: Any) -> str:
        return msgspec.json.encode(value).decode()

    def _from_text(self, text: str) -> Any:
        return msgspec.json.decode(text)


def sealed(row: models.Model, name: str, value: Any) -> Any:
    """`value` encrypted for the field `name` of `row`, as `update()` takes it. None stays None."""
    field: Any = row._meta.get_field(name)
    return field.sealed(value, row)
