"""Sealed boxes: secrets that one process encrypts with a public key and another decrypts with the private key.

The credentials of banks are stored in boxes. The back office, in a web process, encrypts them with
`BANK_CREDENTIALS_PUBLIC_KEY` and cannot decrypt them. Workers that call banks decrypt them with
`BANK_CREDENTIALS_KEYS`. A box uses X25519 with an ephemeral key pair, HKDF-SHA256 and AES-256-GCM, and is bound to its
row and name.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import models

from foundation.encryption import EncryptedTextField, Sealed
from foundation.sealing import WrongKey, place

_BOX = "b1."
_PUBLIC = 32
#: Each box has a key of its own, so the constant nonce is used once per key.
_NONCE = bytes(12)


def box(text: str, context: bytes) -> str:
    """Encrypt `text` for the holder of the private key. The same `context` is needed to decrypt it."""
    own = X25519PrivateKey.generate()
    to = X25519PublicKey.from_public_bytes(bytes.fromhex(settings.BANK_CREDENTIALS_PUBLIC_KEY))
    mark = own.public_key().public_bytes_raw()
    content = _cipher(own.exchange(to), mark, to).encrypt(_NONCE, text.encode(), context)
    return _BOX + base64.urlsafe_b64encode(mark + content).decode()


def unbox(token: str, context: bytes, *, newest_only: bool = False) -> str:
    """Decrypt a box. Raises `WrongKey` without the private key, for a box of another key or context, and for an altered
    box."""
    keys = settings.BANK_CREDENTIALS_KEYS[: 1 if newest_only else None]
    if not keys:
        raise WrongKey("this process has no BANK_CREDENTIALS_KEYS: only processes that call banks open credentials")
    try:
        raw = base64.urlsafe_b64decode(token.removeprefix(_BOX))
        mark = X25519PublicKey.from_public_bytes(raw[:_PUBLIC])
    except ValueError:
        raise WrongKey("a stored value is no box") from None
    for key in keys:
        private = _private(key)
        try:
            cipher = _cipher(private.exchange(mark), raw[:_PUBLIC], private.public_key())
            return cipher.decrypt(_NONCE, raw[_PUBLIC:], context).decode()
        except (InvalidTag, ValueError):
            continue
    raise WrongKey("a box does not open here with BANK_CREDENTIALS_KEYS")


def public_key(private: str) -> str:
    """The public key, in hex, of the private key `private`."""
    return _private(private).public_key().public_bytes_raw().hex()


@lru_cache(maxsize=8)
def _private(key: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(key))


def _cipher(shared: bytes, mark: bytes, to: X25519PublicKey) -> AESGCM:
    info = b"sealed box\0" + mark + to.public_bytes_raw()
    return AESGCM(HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(shared))


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

    def __eq__(self, other: object) -> bool:
        """True for the same secrets. Other boxes are compared without being decrypted."""
        if isinstance(other, Boxes):
            return (self.tokens, self.plain) == (other.tokens, other.plain)
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
    return where + place("", name)


class BoxesField(EncryptedTextField):
    """A model field for secrets by name (texts). Each value is in a box bound to the row and the name, and to the texts
    that the row's method `boxes_bound_to`, if any, returns: when one of them changes, the boxes do not open any more.

    With `shared_with`, the name of another such field of the model, boxes can move between the two without being
    opened.
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

    def place_of(self, row: models.Model) -> bytes:
        if self.shared_with:
            shared: Any = type(row)._meta.get_field(self.shared_with)
            return bytes(shared.place_of(row))
        further = row.boxes_bound_to() if hasattr(row, "boxes_bound_to") else ()
        return super().place_of(row) + b"".join(place("", each) for each in further)

    def sealed(self, value: Any, row: models.Model) -> Sealed | None:
        if value is None:
            return None
        where, tokens, plain = self.place_of(row), {}, value
        if isinstance(value, Boxes) and value.where == where:
            tokens, plain = value.tokens, value.plain
        tokens = tokens | {name: box(text, _of(where, name)) for name, text in plain.items()}
        return Sealed(msgspec.json.encode(tokens).decode())

    def opened(self, token: str, row: models.Model) -> Any:
        return Boxes(_tokens(token), self.place_of(row))

    def is_current(self, token: str, row: models.Model) -> bool:
        where = self.place_of(row)
        try:
            for name, each in _tokens(token).items():
                unbox(each, _of(where, name), newest_only=True)
        except WrongKey:
            return False
        return True

    def renewed(self, token: str, row: models.Model) -> str:
        fresh = self.sealed(dict(self.opened(token, row)), row)
        assert fresh is not None  # noqa: S101 - for the type checker: there is a value
        return fresh.token


def _tokens(stored: str) -> dict[str, str]:
    """The boxes by name in a stored value. Raises `WrongKey` for any other text."""
    try:
        return msgspec.json.decode(stored, type=dict[str, str])
    except msgspec.DecodeError:
        raise WrongKey("a stored value holds no boxes") from None
