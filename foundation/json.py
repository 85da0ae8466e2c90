"""JSON of the API: a strict reader of partners' texts, which never have two possible readings, and replies."""

import json
import re
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from typing import Any, NoReturn

import gevent
import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils.http import parse_header_parameters
from gevent.monkey import is_module_patched

from foundation.errors import InvalidInput, PayloadTooLarge

_BOM = b"\xef\xbb\xbf"
_HARMLESS_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}", re.ASCII)
_LONGEST_INT = 30
_DIGITS_ONLY = bytes(ord("0") if chr(each) in "0123456789" else ord(" ") for each in range(256))
_AT_ONCE = 256
#: The maximum nesting of objects and arrays. No contract needs as much, and Python's stack allows far more.
_DEEPEST = 100
#: A JSON string, complete or broken off. Requiring the closing quote would take quadratic time on a hostile text.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_LINE_SEPARATORS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))


def is_json(content_type: str | None) -> bool:
    """True if a Content-Type is `application/json`, with no parameter except an optional `charset=utf-8`."""
    try:
        media_type, parameters = parse_header_parameters(content_type or "")
    except ValueError:  # the header is longer than Python's parser accepts
        return False
    charset = parameters.pop("charset", "utf-8").lower()
    return media_type == "application/json" and charset in ("utf-8", "utf8") and not parameters


def _refuse_constant(_: str) -> NoReturn:
    raise InvalidInput("O corpo contém NaN ou Infinity, que não são números em JSON.")


def _has_long_digits(raw: bytes) -> bool:
    """True if `raw` contains a run of digits as long as a very long integer, even inside a string."""
    return b"0" * _LONGEST_INT in raw.translate(_DIGITS_ONLY)


class _Objects:
    """Builds the objects of one text. A repeated key is refused, because readers disagree which value counts. After
    every `_AT_ONCE` objects other greenlets get a turn: a body of maximum size can hold 40,000 objects."""

    def __init__(self) -> None:
        self._made = 0

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._made += 1
        if self._made % _AT_ONCE == 0 and is_module_patched("threading"):
            gevent.sleep(0)
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            name = f" “{key}”" if _HARMLESS_KEY.fullmatch(key) else ""
            raise InvalidInput(f"O corpo repete a chave{name} em um mesmo objeto.")
        return result


def _depth(raw: bytes) -> int:
    """The greatest nesting depth of objects and arrays in `raw`."""
    brackets = _STRING.sub(b"", raw).translate(None, delete=_NO_BRACKETS)
    return max(accumulate(1 if each in b"[{" else -1 for each in brackets), default=0)


def parse_json_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw` (UTF-8, no BOM). Fractions and exponents become Decimal, integers int.

    Raises InvalidInput without a field for malformed text, nesting deeper than `_DEEPEST`, NaN and Infinity, a repeated
    key, and anything but an object at the top level.
    """
    if raw.startswith(_BOM):
        raise InvalidInput("O corpo deve estar em UTF-8 sem BOM.")
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST and _depth(raw) > _DEEPEST:
        raise InvalidInput(f"O corpo tem mais de {_DEEPEST} níveis de aninhamento.")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            # A Python call for each of 80,000 integers would take three times as long as everything else. Of a very
            # long one the first digits are enough: its field refuses it.
            parse_int=(lambda digits: int(digits[:_LONGEST_INT])) if _has_long_digits(raw) else None,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_Objects(),
        )
    except InvalidOperation:  # the exponent is beyond Decimal's range
        raise InvalidInput("O corpo contém um número fora de qualquer faixa aceitável.") from None
    except UnicodeDecodeError:
        raise InvalidInput("O corpo não está em UTF-8 válido.") from None
    except ValueError:
        raise InvalidInput("O corpo não é um JSON válido.") from None
    if not isinstance(value, dict):
        raise InvalidInput("O corpo deve ser um objeto JSON.")
    return value


def body_length(request: HttpRequest) -> int:
    """The length of the body that `request` announces, 0 without one. The middleware gives a body in chunks a length,
    and one that broke off a length that it does not have."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return int(length) if length.isdecimal() else 0


def read_body(request: HttpRequest) -> bytes:
    """Read the whole body. Raises PayloadTooLarge before it is read, and InvalidInput if it breaks off."""
    length = body_length(request)
    if length > settings.MAX_BODY_BYTES:
        raise PayloadTooLarge
    try:
        raw: bytes = request.read()
    except UnreadablePostError:
        raw = b""
    if len(raw) < length:
        raise InvalidInput("O corpo da requisição não chegou inteiro.")
    return raw


class Response(HttpResponse):
    """A reply of the API: `data`, anything that msgspec encodes, as JSON with Decimals as numbers; empty for None. REST
    framework's own class would be rendered later, and takes three times as long."""

    def __init__(self, data: Any = None, status: int = 200) -> None:
        text = b"" if data is None else _ENCODER.encode(data)
        for separator, escaped in _LINE_SEPARATORS:  # these characters end a line in JavaScript, but not in JSON
            if separator in text:
                text = text.replace(separator, escaped)
        super().__init__(text, content_type="application/json", status=status)
        self.data = data
        if data is None:
            del self["Content-Type"]
