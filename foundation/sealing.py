"""Short-lived messages between the service's processes, sealed: AES-256-GCM under keys derived from
`FIELD_ENCRYPTION_KEYS`.

For what is kept there is `foundation.encryption`, whose tokens cost seven times as much.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import os
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from foundation.encryption import WrongKey

_SALT = 16
_NONCE = 12


def seal(content: bytes, context: bytes) -> bytes:
    """`content`, readable and alterable by nobody else, and only together with the same `context`."""
    salt, numbers = _own_numbers(os.getpid())
    nonce = next(numbers).to_bytes(_NONCE, "big")
    return salt + nonce + _cipher(settings.FIELD_ENCRYPTION_KEYS[0], salt).encrypt(nonce, content, context)


def unseal(sealed: bytes, context: bytes) -> bytes:
    """What `seal` was given. Raises `WrongKey` where no configured key opens it, or it was altered."""
    salt, nonce, rest = sealed[:_SALT], sealed[_SALT : _SALT + _NONCE], sealed[_SALT + _NONCE :]
    for key in settings.FIELD_ENCRYPTION_KEYS:
        try:
            return _cipher(key, salt).decrypt(nonce, rest, context)
        except (InvalidTag, ValueError):
            continue
    raise WrongKey("a message does not open with FIELD_ENCRYPTION_KEYS")


@lru_cache(maxsize=4)
def _own_numbers(pid: int) -> tuple[bytes, itertools.count[int]]:
    """The salt of this process, and the numbers of its messages. No nonce is ever used twice under one key, since each
    process has a key of its own and counts; random nonces would have to be watched beyond some billion messages."""
    return os.urandom(_SALT), itertools.count()


@lru_cache(maxsize=1024)
def _cipher(key: str, salt: bytes) -> AESGCM:
    """The cipher of the process that has `salt`, under one of `FIELD_ENCRYPTION_KEYS`."""
    return AESGCM(hmac.digest(base64.urlsafe_b64decode(key), b"messages\0" + salt, "sha256"))
