"""Text and messages that only the service's processes read and write: AES-256-GCM, bound to where they belong.

What is sealed for one place (`context`) opens at no other: a message for another request, a value in another row.
Keys are derived from the configured ones, one for each purpose, so that what is sealed for one opens for no other.
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
    """A sealed value opens with no configured key: it was altered, belongs elsewhere, or its key is gone."""


class Purpose(Enum):
    """What a key is derived for."""

    MESSAGE = b"messages"  #: between processes, for seconds
    PERSONAL = b"personal data"  #: in the database, for as long as the row
    BANK_TOKEN = b"bank tokens"  #: for processes that call banks, and no others


def seal(content: bytes, context: bytes, purpose: Purpose = Purpose.MESSAGE) -> bytes:
    """`content`, readable and alterable by nobody else, and only together with the same `context` and `purpose`."""
    salt, numbers = _own_numbers(os.getpid())
    nonce = next(numbers).to_bytes(_NONCE, "big")
    return salt + nonce + _cipher(_keys(purpose)[0], purpose, salt).encrypt(nonce, content, context)


def unseal(sealed: bytes, context: bytes, purpose: Purpose = Purpose.MESSAGE, *, newest_only: bool = False) -> bytes:
    """What `seal` was given. Raises `WrongKey` where no configured key opens it (of several only the newest, if so
    wished), or it was altered or made for another context."""
    salt, nonce, rest = sealed[:_SALT], sealed[_SALT : _SALT + _NONCE], sealed[_SALT + _NONCE :]
    for key in _keys(purpose)[: 1 if newest_only else None]:
        try:
            return _cipher(key, purpose, salt).decrypt(nonce, rest, context)
        except (InvalidTag, ValueError):
            continue
    raise WrongKey("a sealed value does not open here with the configured keys")


def place(*parts: object) -> bytes:
    """The context made of these parts. None of them contains NUL, as no text in the database does."""
    return b"\0".join(str(part).encode() for part in parts)


def _keys(purpose: Purpose) -> tuple[str, ...]:
    """The configured keys, the newest first. Raises `WrongKey` in a process that has none for `purpose`."""
    keys = settings.BANK_CREDENTIALS_KEYS if purpose is Purpose.BANK_TOKEN else settings.FIELD_ENCRYPTION_KEYS
    if not keys:
        raise WrongKey("this process has no key for it: only processes that call banks have BANK_CREDENTIALS_KEYS")
    return tuple(keys)


@lru_cache(maxsize=4)
def _own_numbers(pid: int) -> tuple[bytes, itertools.count[int]]:
    """The salt of this process, and the numbers of its messages. No nonce is ever used twice under one key, since each
    process has a key of its own and counts; random nonces would have to be watched beyond some billion messages."""
    return os.urandom(_SALT), itertools.count()


@lru_cache(maxsize=4096)
def _cipher(key: str, purpose: Purpose, salt: bytes) -> AESGCM:
    """The cipher of the process that has `salt`, under one of the configured keys."""
    root = bytes.fromhex(key) if purpose is Purpose.BANK_TOKEN else base64.urlsafe_b64decode(key)
    return AESGCM(hmac.digest(root, purpose.value + b"\0" + salt, "sha256"))
