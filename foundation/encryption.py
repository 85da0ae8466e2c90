"""Personal data and secrets at rest: encrypted model fields, and a keyed hash to look a CPF up by.

A value is sealed (AES-256-GCM, foundation/sealing.py) for its table, column and row: copied to another place it does
not open. Keys come from `FIELD_ENCRYPTION_KEYS` (the first one encrypts, all decrypt), so they can be rotated. A value
that no key opens raises `WrongKey`. Otherwise ciphertext would be taken for data.

Values that releases before this one wrote are Fernet tokens, bound to no place. They are read until `reencrypt` has
rewritten them; `FIELD_ENCRYPTION_UNBOUND` says when no longer (docs/decisions/0084-bound-ciphertext.md).
"""

from __future__ import annotations

import base64
import binascii
import hmac
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from foundation.sealing import Purpose, WrongKey, place, seal, unseal

__all__ = [
    "EncryptedJSONField",
    "EncryptedTextField",
    "WrongKey",
    "blind_index",
    "decrypt",
    "encrypt",
    "encrypt_unbound",
    "opened",
    "sealed",
]

_BOUND = "s1."


def encrypt(text: str, context: bytes, purpose: Purpose = Purpose.PERSONAL) -> str:
    """`text` as a token that `decrypt` opens with the same `context` only."""
    if settings.FIELD_ENCRYPTION_UNBOUND == "write" and purpose is Purpose.PERSONAL:
        return encrypt_unbound(text)
    return _BOUND + base64.urlsafe_b64encode(seal(text.encode(), context, purpose)).decode()


def encrypt_unbound(text: str) -> str:
    """`text` as a token that processes of earlier releases read too: bound to no context."""
    return _fernet(tuple(settings.FIELD_ENCRYPTION_KEYS)).encrypt(text.encode()).decode()


def decrypt(
    token: str, context: bytes, purpose: Purpose = Purpose.PERSONAL, *, unbound: bool = False, newest_only: bool = False
) -> str:
    """The text behind a token of `encrypt`. Raises `WrongKey`.

    A token of an earlier release, which is bound to no context, is refused where FIELD_ENCRYPTION_UNBOUND says so,
    unless `unbound`.
    """
    if token.startswith(_BOUND):
        try:
            content = base64.urlsafe_b64decode(token[len(_BOUND) :])
        except (ValueError, binascii.Error):
            raise WrongKey("a stored value is no sealed one") from None
        return unseal(content, context, purpose, newest_only=newest_only).decode()
    if settings.FIELD_ENCRYPTION_UNBOUND == "refuse" and not unbound:
        raise WrongKey("a stored value is bound to no row, and FIELD_ENCRYPTION_UNBOUND refuses it")
    keys = tuple(settings.FIELD_ENCRYPTION_KEYS)
    try:
        return _fernet(keys[:1] if newest_only else keys).decrypt(token.encode()).decode()
    except InvalidToken:
        raise WrongKey("a stored value does not open with FIELD_ENCRYPTION_KEYS") from None


@lru_cache(maxsize=4)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def blind_index(purpose: str, value: str) -> str:
    """Hex HMAC-SHA256 of `value` for equality look-ups; a plain digest of a CPF could be reversed in minutes.

    `purpose` separates the domains: the same value under two purposes gives unrelated indexes.
    """
    message = purpose.encode() + b"\0" + value.encode()
    return hmac.digest(settings.BLIND_INDEX_KEY.encode(), message, "sha256").hex()


# --- Fields ---------------------------------------------------------------------------------------------------


class Sealed:
    """A value as the database has it. No text, so that nothing takes it for data."""

    __slots__ = ("token",)

    def __init__(self, token: str) -> None:
        self.token = token

    def __repr__(self) -> str:
        return "<sealed>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sealed) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)


class SealedAttribute(DeferredAttribute):
    """Opens a row's value when it is first asked for: only then is it known whose it is. What nobody asks for is never
    opened."""

    field: EncryptedTextField

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, Sealed):
            value = instance.__dict__[self.field.attname] = self.field.opened(value.token, instance)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(models.TextField):
    """Text, encrypted in the database and bound to its row. It can't be searched: keep a `blind_index` beside it.

    The row is known by its primary key, or, where the database gives that only at the insert, by the fields that the
    model names in `sealed_by`, which never change. `update()` knows no row: give it `sealed(row, field, value)`.
    `values()` yields values that are still sealed.
    """

    descriptor_class = SealedAttribute

    def place_of(self, row: models.Model) -> bytes:
        """What a value of `row` is bound to. Raises ValueError for a row that has no identity yet."""
        keys = [getattr(row, name) for name in getattr(row, "sealed_by", ("pk",))]
        if None in keys:
            raise ValueError(f"a value of {self.model._meta.label}.{self.name} needs its row's identity first")
        return place(self.model._meta.db_table, self.column, *keys)

    def sealed(self, value: Any, row: models.Model) -> Sealed | None:
        """`value` as the database keeps it for `row`."""
        return None if value is None else Sealed(encrypt(self._to_text(value), self.place_of(row)))

    def opened(self, token: str, row: models.Model) -> Any:
        """The value behind a token that the database has for `row`. Raises `WrongKey`."""
        return self._from_text(self.text(token, row))

    def text(self, token: str, row: models.Model) -> str:
        """As `opened`, but the text that was encrypted, of JSON too."""
        return decrypt(token, self.place_of(row), unbound=getattr(row, "written_once", False))

    def is_current(self, token: str, row: models.Model) -> bool:
        """True for a token under the newest key that is bound to `row`."""
        try:
            decrypt(token, self.place_of(row), newest_only=True)
        except WrongKey:
            return False
        return token.startswith(_BOUND)

    def renewed(self, token: str, row: models.Model) -> str:
        """The same text under the newest key, bound to `row`. Raises `WrongKey`."""
        context = self.place_of(row)
        return encrypt(decrypt(token, context, unbound=True), context)

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
    """A JSON value (dicts, lists, text, integers, booleans, None), encrypted in the database as a text is."""

    _pyi_private_set_type: Any  # how django-stubs is told the attribute's type
    _pyi_private_get_type: Any

    def to_python(self, value: Any) -> Any:
        return value

    def _to_text(self, value: Any) -> str:
        return msgspec.json.encode(value).decode()

    def _from_text(self, text: str) -> Any:
        return msgspec.json.decode(text)


def sealed(row: models.Model, name: str, value: Any) -> Any:
    """`value` for the encrypted field `name` of `row`, as `update()` takes it. None stays None."""
    field: Any = row._meta.get_field(name)
    return field.sealed(value, row)


def opened(row: models.Model, name: str, token: str) -> Any:
    """The value of the encrypted field `name` of `row` behind the `token` in the database. Raises `WrongKey`."""
    field: Any = row._meta.get_field(name)
    return field.opened(token, row)


#: The field classes that `reencrypt` looks for in the models.
ENCRYPTED_FIELDS = (EncryptedTextField, EncryptedJSONField)
