"""How banks write amounts, rates, dates and the like: the notations that several banks have, and those of one bank."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from foundation import formats


def same(value: Any) -> Any:
    """A value that is written and read as it is."""
    return value


class Notation(NamedTuple):
    """How one kind of value is written in a body and read from an answer. `wire` is its type in JSON. `read` raises
    ValueError for a text that is no such value."""

    wire: Any
    write: Callable[[Any], Any] = same
    read: Callable[[Any], Any] = same


#: Decimals, as JSON numbers or as text, and reais as whole cents or as `1.234,50`.
NUMBER = Notation(Decimal)
NUMBER_TEXT = Notation(str, "{:f}".format, formats.to_decimal)
REAIS = Notation(str, "{:.2f}".format, formats.to_decimal)
REAIS_BR = Notation(str, formats.to_reais_text, formats.from_reais_text)
CENTS = Notation(int, formats.to_cents, formats.from_cents)
CENTS_TEXT = Notation(str, lambda amount: str(formats.to_cents(amount)), lambda text: formats.from_cents(int(text)))
#: Whole numbers and booleans.
COUNT = Notation(int)
COUNT_TEXT = Notation(str, str, int)
FLAG = Notation(bool)
#: `2026-01-31` and `2026-01-31T12:00:00Z`; `31/01/2026` and `31/01/2026 09:00:00`, Brasília time.
DATE = Notation(date, date.isoformat)
DATE_BR = Notation(str, formats.to_br_date, formats.from_br_date)
MOMENT = Notation(str, formats.iso_utc_seconds, formats.from_iso_utc)
MOMENT_BR = Notation(str, lambda moment: " ".join(formats.to_br_time(moment)), formats.from_br_moment)


@dataclass(frozen=True)
class Notations:
    """One bank's notations. `rate` is that of an offer's interest in percent a month, `cost` that of its CET, `measure`
    that of degrees and metres, `count` that of a number of months. `phone` writes 10-11 digits."""

    date: Notation = DATE
    moment: Notation = MOMENT
    amount: Notation = NUMBER
    rate: Notation = NUMBER
    cost: Notation = NUMBER
    measure: Notation = NUMBER
    count: Notation = COUNT
    flag: Notation = FLAG
    phone: Callable[[str], Any] = same

    def of(self, name: str) -> dict[type, Notation]:
        """The notations of the field `name`, by the type of its values. Text has none."""
        decimal: Notation = getattr(self, _DECIMALS.get(name, "amount"))
        return {bool: self.flag, int: self.count, datetime: self.moment, date: self.date, Decimal: decimal}

    def writers(self, name: str) -> dict[type, Callable[[Any], Any]]:
        """What writes the field `name`, by the type of its values. What is sent as it is has no writer."""
        return {kind: each.write for kind, each in self.of(name).items() if each.write is not same}


_DECIMALS = {
    **dict.fromkeys(("lat", "lng", "accuracy"), "measure"),
    **dict.fromkeys(("cet_monthly", "cet_annual"), "cost"),
    "interest_rate": "rate",
}
