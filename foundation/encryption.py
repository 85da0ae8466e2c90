"""Encrypted model fields for personal data and secrets, and a keyed hash to look up a CPF.

A value is encrypted (AES-256-GCM, foundation/sealing.py) for its table, column and row. A copy in another place cannot
be decrypted. The first key of `FIELD_ENCRYPTION_KEYS` encrypts, all keys decrypt, so keys can be rotated. A value that
no key decrypts raises `WrongKey`, so that ciphertext is never taken for data.
"""

import base64
import binascii
import hmac
import zlib
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from foundation.sealing import Purpose, WrongKey, place, seal, unseal

_BOUND = "s1."
#: A longer text is compressed before it is encrypted, in bytes. Compressed content begins with NUL, as no text does.
_LONG = 1000
_COMPRESSED = b"\0"


def encrypt(text: str, context: bytes, purpose: Purpose = Purpose.PERSONAL) -> str:
    """Encrypt `text`. The token can be decrypted only with the same `context` and `purpose`."""
    content = text.encode()
    if len(content) > _LONG:
        content = _COMPRESSED + zlib.compress(content, level=1)
    return _BOUND + base64.urlsafe_b64encode(seal(content, context, purpose)).decode()


def decrypt(token: str, context: bytes, purpose: Purpose = Purpose.PERSONAL, *, newest_only: bool = False) -> str:
    """Decrypt a token of `encrypt`. Raises `WrongKey`."""
    try:
        content = base64.b64decode(token.removeprefix(_BOUND), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise WrongKey("a stored value is no sealed one") from None
    opened = unseal(content, context, purpose, newest_only=newest_only)
    return (zlib.decompress(opened[1:]) if opened.startswith(_COMPRESSED) else opened).decode()


def blind_index(purpose: str, value: str) -> str:
    """HMAC-SHA256 of `value` in hex, for equality look-ups. A digest without a key would not protect a CPF: all CPFs
    can be hashed in minutes.

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

    field: "EncryptedTextField"

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, Sealed):
            value = instance.__dict__[self.field.attname] = self.field.opened(value.token, instance)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedTextField(models.TextField):
    """Text that is encrypted in the database and bound to its row. It cannot be searched: keep a `blind_index` in
    another column.

    The row is identified by its primary key. If the database assigns that only at the insert, the row is identified by
    the fields in the model's `sealed_by`, which must never change. `update()` does not know the row: pass `sealed(row,
    field, value)`. `values()` yields encrypted values.
    """

    descriptor_class = SealedAttribute

    def place_of(self, row: models.Model) -> bytes:
        """The context that a value of `row` is bound to. Raises ValueError if the row has no identity yet."""
        keys = [getattr(row, name) for name in getattr(row, "sealed_by", ("pk",))]
        if None in keys:
            raise ValueError(f"a value of {self.model._meta.label}.{self.name} needs its row's identity first")
        return place(self.model._meta.db_table, self.column, *keys)

    def sealed(self, value: Any, row: models.Model) -> Sealed | None:
        """`value`, encrypted for `row`."""
        return None if value is None else Sealed(encrypt(self._to_text(value), self.place_of(row)))

    def opened(self, token: str, row: models.Model) -> Any:
        """The decrypted value of `token`, stored in `row`. Raises `WrongKey`."""
        return self._from_text(self.text(token, row))

    def text(self, token: str, row: models.Model) -> str:
        """Like `opened`, but returns the text that was encrypted; for JSON fields, the JSON text."""
        return decrypt(token, self.place_of(row))

    def renewed(self, token: str, row: models.Model) -> str | None:
        """The same value encrypted with the newest key and bound to `row`. None if `token` is that. Raises
        `WrongKey`."""
        context = self.place_of(row)
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
