"""What may be stored of a bank's answer. A number or a text beyond these limits makes that bank's answer unreadable,
and not the whole query fail at the database."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

#: Reais of an offer, reais paid and percent a month stay below the first three, months go up to the fourth.
MAX_AMOUNT = 10**12
MAX_PAID = 10**10
MAX_RATE = 10**4
MAX_INSTALLMENTS = 1200
MAX_NATIVE_ID = 200
#: The columns' lengths, by the field of `BankOffer`.
TEXT_LENGTHS = {
    "native_offer_id": MAX_NATIVE_ID,
    "table_code": 60,
    "employer_cnpj": 14,
    "employer_name": 200,
    "registration": 60,
}


def rounded(value: Decimal, decimals: int, below: int) -> Decimal:
    """`value` with at most `decimals` decimals, half up. Raises ValueError unless it is a number of that size."""
    if not value.is_finite() or abs(value) >= below:
        raise ValueError("a bank's number beyond the limits")
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > decimals:
        return value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return value


def check_text(text: str, longest: int | None = None) -> None:
    """Raises ValueError where PostgreSQL would not keep `text` in a column of that length."""
    if "\0" in text or (longest is not None and len(text) > longest):
        raise ValueError("a bank's text beyond the limits")
