"""The market's formats: PIX keys, amounts, dates, and what may not reach a log line. CPF, CNPJ and phones stand
in test_fields.py, with their fields."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation import formats
from foundation.formats import (
    counted,
    from_br_date,
    from_br_moment,
    from_cents,
    from_reais_text,
    is_one_word,
    iso_utc,
    mask_cpf,
    mask_phone,
    money,
    sentence,
    to_br_date,
    to_br_time,
    to_cents,
    to_decimal,
    to_reais_text,
    to_uuid,
    without_personal_data,
)

KEY = "123e4567-e89b-42d3-a456-426614174000"
MOMENT = datetime(2027, 1, 1, 2, 30, tzinfo=UTC)
amounts = st.decimals("-1000000000", "1000000000", places=2)


MADE: list[tuple[Any, ...]] = [
    (mask_cpf, "12345678901", "***.456.789-**"),
    (mask_cpf, "1234", "***"),
    (mask_phone, "11987654321", "(11) *****-4321"),
    (mask_phone, "1132654321", "(11) *****-4321"),
    (mask_phone, "", "***"),
    (to_uuid, KEY.upper(), UUID(KEY)),
    (to_uuid, KEY.replace("-", ""), None),
    (to_uuid, "x" * 36, None),
    *(
        (is_one_word, name, single)
        for name, single in {"João": True, " João ": True, "João Lima": False, "": True}.items()
    ),
    (from_reais_text, "1.234,56", Decimal("1234.56")),
    (from_reais_text, "R$ 1.234,56", Decimal("1234.56")),
    (from_reais_text, "1234,56", Decimal("1234.56")),
    (from_reais_text, "-1,50", Decimal("-1.50")),
    (from_reais_text, "0,00", Decimal("0.00")),
    (sentence, "Margem  insuficiente\r\n", "Margem insuficiente"),
    (sentence, "R$ 0,00 < R$ 50,00", "R$ 0,00 < R$ 50,00"),
    (sentence, "<b>Recusado</b><!-- x --> hoje", "Recusado hoje"),
    (sentence, "a\x00b\u202ec", "a b c"),
    # Half a cent is rounded up.
    *(
        (money, Decimal(value), Decimal(rounded))
        for value, rounded in (
            ("0.005", "0.01"),
            ("2.675", "2.68"),
            ("-0.005", "-0.01"),
            ("1", "1.00"),
            ("0.0049", "0.00"),
        )
    ),
    # Dates and times of banks are Brasília's.
    (from_br_date, "31/01/2026", date(2026, 1, 31)),
    (to_br_date, date(2026, 1, 3), "03/01/2026"),
    (from_br_moment, "31/12/2026 23:30:00", MOMENT),
    (to_br_time, MOMENT, ("31/12/2026", "23:30:00")),
    # A moment is written in UTC, with milliseconds.
    (iso_utc, datetime(2026, 1, 31, 9, 0, 0, 123456, timezone(timedelta(hours=-3))), "2026-01-31T12:00:00.123Z"),
    # Personal data and secrets are blackened. The audit trail names a key by its visible prefix; with one character
    # more it is blackened.
    *(
        (without_personal_data, f"no such row: {secret}, sorry", "no such row: [oculto], sorry")
        for secret in (
            "52998224725",
            "529.982.247-25",
            "11987654321",
            "+5511987654321",
            "maria@example.com",
            "cpk_live_0123456789abcdef",
            "cpk_test_sandbox-key_1",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        )
    ),
    (without_personal_data, "Authorization: Bearer abc.DEF-1~/+= x", "Authorization: Bearer [oculto] x"),
    (without_personal_data, "Chave cpk_live_x_-Y9zA… emitida.", "Chave [oculto]… emitida."),
    *(
        (without_personal_data, harmless, harmless)
        for harmless in (
            "Chave cpk_live_x_-Y9z… emitida.",
            "HTTP 503 after 1200 ms at 2026-01-31, id 0123-4567890123-9",
        )
    ),
]


def test_what_is_made_of_a_value() -> None:
    for change, value, result in MADE:
        made = change(value)
        assert (made, str(made)) == (result, str(result)), (change.__name__, value)


@pytest.mark.parametrize(
    ("read", "words", "texts"),
    [
        (from_reais_text, "not an amount", ["1,234.56", "1234.56", "12.34,56", "1,5", "1,505", "", "R$", "١,٥٠"]),
        (to_decimal, "decimal", ["NaN", "Infinity", "-inf", "1,5", "", "um"]),
        (from_br_date, "day is out of range|does not match|unconverted", ["31/02/2026", "2026-01-31", "", "1/1/26x"]),
    ],
)
def test_other_amounts_and_dates_are_not_guessed_at(read: Callable[[str], Any], words: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=words):
            read(text)


@given(amounts)
def test_an_amount_survives_each_notation(amount: Decimal) -> None:
    assert from_cents(to_cents(amount)) == amount
    assert from_reais_text(to_reais_text(amount)) == amount
    assert to_decimal(f"{amount:f}") == amount


def test_a_banks_sentence_has_an_end() -> None:
    long = sentence("palavra " * 100)
    assert len(long) <= formats.SENTENCE_LENGTH
    assert long.endswith("…")


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "nenhum CPF"), (1, "1 CPF"), (2, "2 CPFs"), (1200, "1.200 CPFs"), (1_000_000, "1.000.000 CPFs")],
)
def test_a_count_is_written_in_the_singular_the_plural_or_as_none(number: int, told: str) -> None:
    """Before the fix, a partner's page said "1 CPFs hoje"."""
    assert counted(number, "CPF", "CPFs", "nenhum CPF") == told
