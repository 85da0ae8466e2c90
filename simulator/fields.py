"""Strict reading of a request: the presence, type and format of each field. Faults are refused in the bank's own
format."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import fromstring

CPF = r"\d{11}"
CNPJ = r"[0-9A-Z]{12}\d{2}"
EMAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
RANDOM_KEY = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # of PIX
STATE = r"[A-Z]{2}"
ISO_DATE = "%Y-%m-%d"
BR_DATE = "%d/%m/%Y"
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
LARGEST_AMOUNT = Decimal(10) ** 12


class Problem(StrEnum):
    """A fault of a field. The value is a sentence that a bank may use in its error."""

    MISSING = "campo obrigatorio nao informado"
    TYPE = "tipo invalido"
    FORMAT = "formato invalido"
    VALUE = "valor nao permitido"


def parse_json(raw: bytes) -> Any:
    """JSON with exact decimals.

    Raises `ValueError` for anything else: NaN, invalid UTF-8, excessive numbers and nesting.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    try:
        return json.loads(raw.decode("utf-8"), parse_float=Decimal, parse_constant=refuse)
    except (ArithmeticError, RecursionError) as error:
        raise ValueError("out of bounds") from error


def parse_xml(raw: bytes) -> dict[str, Any]:
    """XML as nested dicts under the root's name: text for an element without children (None if empty), a list for a
    repeated element. Namespaces and attributes are dropped. Raises `ValueError` for invalid XML, and for a DTD."""
    try:
        root = fromstring(raw, forbid_dtd=True)
    except (ParseError, LookupError, RecursionError) as error:
        raise ValueError("no XML") from error
    return {_local_name(root): _content(root)}


def _content(element: Element) -> Any:
    if not len(element):
        return (element.text or "").strip() or None
    children: dict[str, Any] = {}
    for child in element:
        name, content = _local_name(child), _content(child)
        if name not in children:
            children[name] = content
        elif isinstance(children[name], list):
            children[name].append(content)
        else:
            children[name] = [children[name], content]
    return children


def _local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


class Fields:
    """One object in a request's body. Every reader returns the value or calls `refuse(dotted name, problem)`, which
    raises."""

    def __init__(self, data: Mapping[str, Any], refuse: Callable[[str, Problem], NoReturn], prefix: str = "") -> None:
        self.data = data
        self._refuse = refuse
        self._prefix = prefix

    def refuse(self, name: str, problem: Problem) -> NoReturn:
        """Refuse this field, for a rule that no reader knows."""
        self._refuse(self._prefix + name, problem)

    def has(self, name: str) -> bool:
        """True if the field is present and not null."""
        return self.data.get(name) is not None

    def require_keys(self, *names: str) -> None:
        """Require fields that may be null."""
        for name in names:
            if name not in self.data:
                self.refuse(name, Problem.MISSING)

    def text(
        self,
        name: str,
        pattern: str | None = None,
        *,
        one_of: Collection[str] | None = None,
        longest: int = 255,
    ) -> str:
        """Text that is not blank. It must match `pattern` completely, or be in `one_of`."""
        value = self._value(name, str)
        if not value.strip():
            self.refuse(name, Problem.MISSING)
        if len(value) > longest or _NOT_TEXT.search(value):
            self.refuse(name, Problem.FORMAT)
        if pattern is not None and re.fullmatch(pattern, value, re.ASCII) is None:
            self.refuse(name, Problem.FORMAT)
        if one_of is not None and value not in one_of:
            self.refuse(name, Problem.VALUE)
        return value

    def integer(self, name: str, *, least: int | None = None) -> int:
        value = self._value(name, int)
        if least is not None and value < least:
            self.refuse(name, Problem.VALUE)
        return value

    def number(self, name: str) -> Decimal:
        """A JSON number, with or without a fraction."""
        return Decimal(self._value(name, (int, Decimal)))

    def money(self, name: str) -> Decimal:
        """A JSON number above zero with at most two decimals."""
        return self._positive(name, self.number(name))

    def money_text(self, name: str, pattern: str = r"\d+\.\d{2}") -> Decimal:
        """An amount above zero as text, such as "1234.56"."""
        return self._positive(name, Decimal(self.text(name, pattern)))

    def boolean(self, name: str) -> bool:
        return self._value(name, bool)

    def date(self, name: str, layout: str = ISO_DATE) -> date:
        """A valid date in exactly this `strftime` layout."""
        return self.moment(name, layout).date()

    def moment(self, name: str, layout: str) -> datetime:
        """A valid time in exactly this `strftime` layout; UTC if the layout has no offset.

        Writing the time again in the layout must give the same text, because `strptime` alone would accept "1/1/1980"
        for "%d/%m/%Y".
        """
        value = self.text(name)
        try:
            moment = datetime.strptime(value, layout)  # noqa: DTZ007  (made aware below)
        except ValueError:
            self.refuse(name, Problem.FORMAT)
        if "%z" not in layout and moment.strftime(layout) != value:
            self.refuse(name, Problem.FORMAT)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def object(self, name: str) -> Fields:
        """A nested object, read the same way."""
        return Fields(self._value(name, dict), self._refuse, f"{self._prefix}{name}.")

    def objects(self, name: str) -> list[Fields]:
        """A list of nested objects."""
        items = []
        for index, item in enumerate(self._value(name, list)):
            if not isinstance(item, dict):
                self.refuse(f"{name}.{index}", Problem.TYPE)
            items.append(Fields(item, self._refuse, f"{self._prefix}{name}.{index}."))
        return items

    # --- what every bank asks for, under names of its own

    def has_secrets(self, **expected: str) -> bool:
        """True if the texts with these names equal the expected ones. Compared in constant time."""
        secrets_given = "\n".join(self.text(name) for name in expected)
        return secrets.compare_digest(secrets_given.encode(), "\n".join(expected.values()).encode())

    def optional_texts(self, *names: str, longest: int = 512) -> None:
        """Texts that may be null or left out."""
        for name in names:
            if self.has(name):
                self.text(name, longest=longest)

    def optional_text(self, name: str, pattern: str | None = None, **rules: Any) -> str | None:
        """`text` of a field that may be null or left out."""
        return self.text(name, pattern, **rules) if self.has(name) else None

    def optional_word(self, name: str, words: Mapping[str, str]) -> str | None:
        """What one of the bank's `words` means, in a field that may be null or left out."""
        return words[self.text(name, one_of=words)] if self.has(name) else None

    def optional_money(self, name: str) -> Decimal | None:
        """`money` of a field that may be null or left out."""
        return self.money(name) if self.has(name) else None

    def optional_money_text(self, name: str) -> Decimal | None:
        """`money_text` of a field that may be null or left out."""
        return self.money_text(name) if self.has(name) else None

    def optional_term(self, name: str) -> int | None:
        """A term in months, in a field that may be null or left out."""
        return self.integer(name, least=1) if self.has(name) else None

    def father(self, name: str) -> None:
        """A father's name: two words or more, or none."""
        if self.has(name):
            self.text(name, r"\S+(\s+\S+)+", longest=120)

    def ip(self, name: str) -> None:
        """An IP address, version 4 or 6."""
        try:
            ipaddress.ip_address(self.text(name))
        except ValueError:
            self.refuse(name, Problem.FORMAT)

    def position(self, latitude: str, longitude: str, pattern: str | None = None, *, optional: bool = False) -> None:
        """A place in degrees: JSON numbers, or texts of `pattern`, with a decimal point or comma."""
        for name, limit in ((latitude, 90), (longitude, 180)):
            if optional and not self.has(name):
                continue
            degrees = Decimal(self.text(name, pattern).replace(",", ".")) if pattern else self.number(name)
            if abs(degrees) > limit:
                self.refuse(name, Problem.VALUE)

    def optional_accuracy(self, name: str) -> None:
        """How exact a place is, in metres: a JSON number not below zero, or none."""
        if self.has(name) and self.number(name) < 0:
            self.refuse(name, Problem.VALUE)

    def address(self, postal_code: str, lines: tuple[str, ...], complement: str, state: str) -> None:
        """A postal address under these names; only the complement may be null or left out."""
        self.text(postal_code, r"\d{8}")
        for name in lines:
            self.text(name, longest=120)
        self.optional_texts(complement, longest=120)
        self.text(state, STATE)

    def account(self, bank: str, branch: str, branch_digit: str, number: str, digit: str) -> None:
        """A bank account under these names, without masks; only the branch's digit may be null or left out."""
        self.text(bank, r"\d{3}")
        self.text(branch, r"\d{1,5}")
        if self.has(branch_digit):
            self.text(branch_digit, r"[0-9X]")
        self.text(number, r"\d{1,15}")
        self.text(digit, r"[0-9X]{1,2}")

    def pix_key(self, kind: str, key: str, patterns: Mapping[str, str], cpf: str) -> None:
        """A PIX key: its kind is one of the bank's words in `patterns`; a CPF has to be the holder's own."""
        pattern = patterns[self.text(kind, one_of=patterns)]
        if self.text(key, pattern) != cpf and pattern == CPF:
            self.refuse(key, Problem.VALUE)

    def _positive(self, name: str, value: Decimal) -> Decimal:
        if not 0 < value < LARGEST_AMOUNT:
            self.refuse(name, Problem.VALUE)
        exponent = value.normalize().as_tuple().exponent
        if not isinstance(exponent, int) or exponent < -2:
            self.refuse(name, Problem.FORMAT)
        return value

    def _value(self, name: str, kind: type | tuple[type, ...]) -> Any:
        value = self.data.get(name)
        if value is None:
            self.refuse(name, Problem.MISSING)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(name, Problem.TYPE)
        return value
