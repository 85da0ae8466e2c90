"""AES-256-GCM encryption of texts and messages that only the service's processes read, bound to a context.

A value sealed for one `context` cannot be opened with another: a message for another request, a value in another row.
The configured keys are used to derive one key per purpose, so a value sealed for one purpose cannot be opened for
another.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import os
from enum import Enum
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

_SALT = 16
_NONCE = 12


class WrongKey(Exception):
    """No configured key opens a sealed value: the value was altered, belongs to another context, or its key is
    missing."""


class Purpose(Enum):
    """The purposes for which keys are derived."""

    MESSAGE = b"messages"  #: between processes, for seconds
    PERSONAL = b"personal data"  #: in the database, for as long as the row
    BANK_TOKEN = b"bank tokens"  # only for processes that call banks


def seal(content: bytes, context: bytes, purpose: Purpose = Purpose.MESSAGE) -> bytes:
    """Encrypt `content`. Only the same `context` and `purpose` open it."""
    salt, numbers = _own_numbers(os.getpid())
    nonce = next(numbers).to_bytes(_NONCE, "big")
    return salt + nonce + _cipher(_keys(purpose)[0], purpose, salt).encrypt(nonce, content, context)


def unseal(sealed: bytes, context: bytes, purpose: Purpose = Purpose.MESSAGE, *, newest_only: bool = False) -> bytes:
    """Decrypt what `seal` returned. Raises `WrongKey` if no configured key (with `newest_only`, not the newest one)
    opens it, if it was altered, or if it was sealed for another context."""
    salt, nonce, rest = sealed[:_SALT], sealed[_SALT : _SALT + _NONCE], sealed[_SALT + _NONCE :]
    for key in _keys(purpose)[: 1 if newest_only else None]:
        try:
            return _cipher(key, purpose, salt).decrypt(nonce, rest, context)
        except (InvalidTag, ValueError):
            continue
    raise WrongKey("a sealed value does not open here with the configured keys")


def place(*parts: object) -> bytes:
    """The context made of `parts`. No part contains NUL, because no text in the database does."""
    return b"\0".join(str(part).encode() for part in parts)


def _keys(purpose: Purpose) -> tuple[str, ...]:
    """The configured keys, newest first. Raises `WrongKey` in a process that has none for `purpose`."""
    keys = settings.BANK_CREDENTIALS_KEYS if purpose is Purpose.BANK_TOKEN else settings.FIELD_ENCRYPTION_KEYS
    if not keys:
        raise WrongKey("this process has no key for it: only processes that call banks have BANK_CREDENTIALS_KEYS")
    return tuple(keys)


@lru_cache(maxsize=4)
def _own_numbers(pid: int) -> tuple[bytes, itertools.count[int]]:
    """The salt of this process and the counter for its nonces. Each process derives its own key from the salt and
    counts its messages, so no nonce is used twice under one key. Random nonces would limit the number of messages per
    key to some billions."""
    return os.urandom(_SALT), itertools.count()


@lru_cache(maxsize=4096)
def _cipher(key: str, purpose: Purpose, salt: bytes) -> AESGCM:
    """The cipher of the process with `salt`, under one of the configured keys."""
    root = bytes.fromhex(key) if purpose is Purpose.BANK_TOKEN else base64.urlsafe_b64decode(key)
    return AESGCM(hmac.digest(root, purpose.value + b"\0" + salt, "sha256"))
