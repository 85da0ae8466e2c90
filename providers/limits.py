"""Limits for what a bank's answer may store. A number or text beyond them makes that bank's answer unreadable; without
the check, PostgreSQL would reject the whole query."""

from decimal import ROUND_HALF_UP, Decimal

from foundation.formats import CENT

#: Amounts of an offer (reais), amounts paid (reais) and monthly rates (percent) must be below the first three; months
#: may not exceed the fourth.
MAX_AMOUNT = 10**12
MAX_PAID = 10**10
MAX_RATE = 10**4
MAX_INSTALLMENTS = 1200
MAX_NATIVE_ID = 200
#: The columns' lengths, by field of `BankOffer`.
TEXT_LENGTHS = {
    "native_offer_id": MAX_NATIVE_ID,
    "table_code": 60,
    "employer_cnpj": 14,
    "employer_name": 200,
    "registration": 60,
}


def rounded(value: Decimal, decimals: int, below: int) -> Decimal:
    """`value` rounded half up to `decimals` decimals. Raises ValueError if it is not a number, or not below `below`,
    before or after that."""
    if value.is_finite() and abs(value) < below:
        if value.same_quantum(CENT):  # most are, and this look is the cheapest
            return value
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > decimals:
            value = value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
        if abs(value) < below:
            return value
    raise ValueError("a bank's number beyond the limits")


def check_text(text: str, longest: int | None = None) -> None:
    """Raises ValueError if PostgreSQL could not store `text` in a column of length `longest`."""
    if "\0" in text or (longest is not None and len(text) > longest):
        raise ValueError("a bank's text beyond the limits")
