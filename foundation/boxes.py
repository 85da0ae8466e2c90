"""Sealed boxes: secrets that one process encrypts with a public key and another decrypts with the private key.

The credentials of banks are stored in boxes. The back office, in a web process, encrypts them with
`BANK_CREDENTIALS_PUBLIC_KEY` and cannot decrypt them. Workers that call banks decrypt them with
`BANK_CREDENTIALS_KEYS`. A box is HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-256-GCM, bound to its row and name.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from django.conf import settings
from django.db import models

from foundation.encryption import EncryptedTextField, Sealed, WrongKey, context_of

_BOX = "b1."
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def box(text: str, context: bytes) -> str:
    """Encrypt `text` for the holder of the private key. The same `context` is needed to decrypt it."""
    to = X25519PublicKey.from_public_bytes(bytes.fromhex(settings.BANK_CREDENTIALS_PUBLIC_KEY))
    return _BOX + base64.urlsafe_b64encode(_SUITE.encrypt(text.encode(), to, info=context)).decode()


def unbox(token: str, context: bytes, *, newest_only: bool = False) -> str:
    """Decrypt a box. Raises `WrongKey` without the private key, for an altered box, or another key or context."""
    keys = settings.BANK_CREDENTIALS_KEYS[: 1 if newest_only else None]
    if not keys:
        raise WrongKey("this process has no BANK_CREDENTIALS_KEYS: only processes that call banks open credentials")
    try:
        content = base64.urlsafe_b64decode(token.removeprefix(_BOX))
    except ValueError:
        raise WrongKey("a stored value is no box") from None
    for key in keys:
        with suppress(InvalidTag):
            return _SUITE.decrypt(content, _private(key), info=context).decode()
    raise WrongKey("a box does not open here with BANK_CREDENTIALS_KEYS")


@lru_cache(maxsize=8)
def _private(key: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(key))


class Boxes(Mapping[str, str]):
    """Secrets by name. The names are readable; a value is decrypted when it is read, which takes the private key.
    `plain` holds the values that are not in a box yet."""

    def __init__(self, tokens: Mapping[str, str], where: bytes, plain: Mapping[str, str] | None = None) -> None:
        self.tokens = dict(tokens)
        self.where = where
        self.plain = dict(plain or {})
        self._opened: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name in self.plain:
            return self.plain[name]
        if name not in self._opened:
            self._opened[name] = unbox(self.tokens[name], _of(self.where, name))
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens | self.plain)

    def __len__(self) -> int:
        return len(self.tokens | self.plain)

    def __contains__(self, name: object) -> bool:
        """True if there is a secret with this name. Mapping's own method would decrypt it."""
        return name in self.tokens or name in self.plain

    def __eq__(self, other: object) -> bool:
        """True for the same secrets. Boxes, and secrets with other names, are compared undecrypted."""
        if isinstance(other, Boxes):
            return (self.tokens, self.plain) == (other.tokens, other.plain)
        if isinstance(other, Mapping) and set(self) != set(other):
            return False
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<boxes {sorted(self)}>"


def merged(old: Mapping[str, str], new: Mapping[str, str | None]) -> Mapping[str, str]:
    """The secrets `old`, updated by `new`; None removes one. Secrets that stay are not decrypted."""
    if not isinstance(old, Boxes):
        return {name: value for name, value in {**old, **new}.items() if value is not None}
    unchanged = {name: token for name, token in old.tokens.items() if name not in new}
    plain = {name: value for name, value in {**old.plain, **new}.items() if value is not None}
    return Boxes(unchanged, old.where, plain)


def _of(where: bytes, name: str) -> bytes:
    return where + context_of("", name)


class BoxesField(EncryptedTextField):
    """A model field for secrets by name (texts). Each value is in a box bound to the row and the name, and to the texts
    that the row's method `boxes_bound_to`, if any, returns for the field's name: when one of them changes, the boxes do
    not open any more.

    With `shared_with`, the name of another such field of the model, boxes can move between them unopened.
    """

    def __init__(self, *args: Any, shared_with: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self.shared_with = shared_with

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, args, options | ({"shared_with": self.shared_with} if self.shared_with else {})

    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def to_python(self, value: Any) -> Any:
        return value

    def context_of_row(self, row: models.Model) -> bytes:
        if self.shared_with:
            shared: Any = type(row)._meta.get_field(self.shared_with)
            return bytes(shared.context_of_row(row))
        further = row.boxes_bound_to(self.name) if hasattr(row, "boxes_bound_to") else ()
        return super().context_of_row(row) + b"".join(context_of("", each) for each in further)

    def sealed(self, value: Any, row: models.Model) -> Sealed | None:
        if value is None:
            return None
        where, tokens, plain = self.context_of_row(row), {}, value
        if isinstance(value, Boxes) and value.where == where:
            tokens, plain = value.tokens, value.plain
        tokens = tokens | {name: box(text, _of(where, name)) for name, text in plain.items()}
        return Sealed(msgspec.json.encode(tokens).decode())

    def opened(self, token: str, row: models.Model) -> Any:
        return Boxes(_tokens(token), self.context_of_row(row))

    def renewed(self, token: str, row: models.Model) -> str | None:
        where, tokens = self.context_of_row(row), _tokens(token)
        try:
            for name, each in tokens.items():
                unbox(each, _of(where, name), newest_only=True)
        except WrongKey:
            fresh = self.sealed(dict(Boxes(tokens, where)), row)
            return fresh.token if fresh else None
        return None


def _tokens(stored: str) -> dict[str, str]:
    """The boxes by name in a stored value. Raises `WrongKey` for any other text."""
    try:
        return msgspec.json.decode(stored, type=dict[str, str])
    except msgspec.DecodeError:
        raise WrongKey("a stored value holds no boxes") from None
