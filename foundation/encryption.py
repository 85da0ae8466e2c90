"""Personal data and secrets at rest: encrypted model fields, and a keyed hash to look a CPF up by.

Keys come from `FIELD_ENCRYPTION_KEYS` (Fernet keys; the first one encrypts, all decrypt), so they can be
rotated. A value that no key opens raises `WrongKey`. Otherwise ciphertext would be taken for data.
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models


class WrongKey(Exception):
    """A stored value can't be opened with any configured key."""


@lru_cache(maxsize=4)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def encrypt(text: str) -> str:
    """`text` as a Fernet token under the first key."""
    return _fernet(tuple(settings.FIELD_ENCRYPTION_KEYS)).encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    """The text behind a token of `encrypt`. Raises `WrongKey`."""
    try:
        return _fernet(tuple(settings.FIELD_ENCRYPTION_KEYS)).decrypt(token.encode()).decode()
    except InvalidToken:
        raise WrongKey("a stored value does not open with FIELD_ENCRYPTION_KEYS") from None


def is_current(token: str) -> bool:
    """Whether a token of `encrypt` is under the first key."""
    try:
        _fernet((settings.FIELD_ENCRYPTION_KEYS[0],)).decrypt(token.encode())
    except InvalidToken:
        return False
    return True


def renew(token: str) -> str:
    """The same text under the first key. Raises `WrongKey`."""
    try:
        return _fernet(tuple(settings.FIELD_ENCRYPTION_KEYS)).rotate(token.encode()).decode()
    except InvalidToken:
        raise WrongKey("a stored value does not open with FIELD_ENCRYPTION_KEYS") from None


def blind_index(purpose: str, value: str) -> str:
    """Hex HMAC-SHA256 of `value` for equality look-ups; a plain digest of a CPF could be reversed in minutes.

    `purpose` separates the domains: the same value under two purposes gives unrelated indexes.
    """
    message = purpose.encode() + b"\0" + value.encode()
    return hmac.digest(settings.BLIND_INDEX_KEY.encode(), message, "sha256").hex()


class EncryptedTextField(models.TextField):
    """Text, encrypted in the database. It can't be searched: keep a `blind_index` beside it for that."""

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return None if value is None else encrypt(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else decrypt(value)


class EncryptedJSONField(models.TextField):
    """A JSON value (dicts, lists, text, integers, booleans, None), encrypted in the database."""

    _pyi_private_set_type: Any  # how django-stubs is told the attribute's type
    _pyi_private_get_type: Any

    def get_prep_value(self, value: Any) -> Any:
        return None if value is None else encrypt(msgspec.json.encode(value).decode())

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else msgspec.json.decode(decrypt(value))

    def to_python(self, value: Any) -> Any:
        return value


#: The field classes that `reencrypt` looks for in the models.
ENCRYPTED_FIELDS = (EncryptedTextField, EncryptedJSONField)
