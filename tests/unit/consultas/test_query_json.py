"""What a reply tells of offers and employments, whatever the bank; and what a stream's reader already has."""

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from consultas.models import Answer, Query
from consultas.query.stream import _COMPLETE, Position, _opening, _position_id, position
from consultas.query_json import adjustments, employers, offer, sort_offers
from providers.types.query import Employment, QueryStatus
from tests.providers.samples import OFFER, a_query

TERM = "Prazo de {} parcelas indisponível; a melhor oferta tem {} parcelas."


@pytest.mark.parametrize(
    ("wish", "given", "notes"),
    [
        (
            {"loan_value": "50000", "installments": 60},
            {"loan_value": "12000", "installments": 48},
            [
                TERM.format(60, 48),
                "Valor de R$ 50.000,00 acima do máximo disponível; a melhor oferta é de R$ 12.000,00.",
            ],
        ),
        (
            {"loan_value": "50", "installments": 48},
            {"loan_value": "100", "installments": 48},
            ["Valor de R$ 50,00 abaixo do mínimo disponível; a melhor oferta é de R$ 100,00."],
        ),
        # The term that the service assumed for an amount alone.
        ({"loan_value": "5000"}, {"loan_value": "5000", "installments": 36}, [TERM.format(48, 36)]),
        ({"loan_value": "5000"}, {"loan_value": "5000", "installments": 48}, []),
        # Before the fix, an installment above the ceiling was taken for a rounding difference.
        (
            {"installment_value": "488.81", "installments": 48},
            {"installment_value": "488.80", "installments": 48},
            ["Parcela de R$ 488,81 acima do máximo disponível; a melhor oferta é de R$ 488,80."],
        ),
        ({"installment_value": "300", "installments": 24}, {"installment_value": "300", "installments": 24}, []),
        # The amount goes before the installment.
        (
            {"loan_value": "5000", "installment_value": "1", "installments": 24},
            {"loan_value": "5000", "installments": 24},
            [],
        ),
        ({"installments": 24}, {"installments": 24}, []),
        ({"installments": 3}, {"installments": 6}, [TERM.format(3, 6)]),
        ({}, {"installments": 6}, []),
    ],
)
def test_an_offer_says_what_differs_from_the_request(
    wish: dict[str, Any], given: dict[str, Any], notes: list[str]
) -> None:
    def decimals(values: dict[str, Any]) -> dict[str, Any]:
        return {name: Decimal(value) if isinstance(value, str) else value for name, value in values.items()}

    request, item = a_query(**decimals(wish)), replace(OFFER, **decimals(given))
    assert adjustments(request, item) == notes
    shown = offer("ipe", item, request, None)
    assert (shown.adjusted, shown.adjustments) == (bool(notes), notes)


def test_offers_come_by_amount_then_rate_then_bank() -> None:
    def shown(bank: str, amount: int, rate: str) -> Any:
        return offer(bank, replace(OFFER, loan_value=Decimal(amount), interest_rate=Decimal(rate)), a_query(), None)

    order = [
        shown("ipe", 9000, "2"),
        shown("cedro", 5000, "1.8"),
        shown("cedro", 5000, "1.9"),
        shown("ipe", 5000, "1.9"),
    ]
    assert sort_offers(reversed(order)) == order


def test_an_employer_is_told_once_from_the_first_bank_that_reports_a_margin() -> None:
    def answer(bank: str, *margins: str | None) -> Answer:
        links = [
            Employment("100200", cnpj, "Metalúrgica", margin=Decimal(margin) if margin else None)
            for cnpj, margin in zip(("11222333000181", "12ABC34501DE35"), margins, strict=False)
        ]
        return Answer(bank, QueryStatus.OK, 10, 0.0, employments=tuple(links))

    told = employers([answer("jatoba", "1850"), answer("ipe", "1700", None), answer("cedro", None)])
    assert [(each.cnpj, each.provider, each.margin) for each in told] == [
        ("11222333000181", "ipe", 1700.0),
        ("12ABC34501DE35", "ipe", None),
    ]


# --- Streams, judged by the id of the last event --------------------------------------------------------------------

QUERY = Query(banks=["aroeira", "cedro", "ipe"])


def opening_ids(beginning: int) -> list[str]:
    """The ids of the opening events, which come in one piece."""
    return re.findall(r"^id: (.*)$", _opening(QUERY, beginning).decode(), re.MULTILINE)


def test_each_id_tells_what_came_until_then() -> None:
    opening = opening_ids(0)
    assert [position(QUERY, each).opening for each in opening] == [1, 2, 3, 4]
    assert not any(position(QUERY, each).banks for each in opening)
    for had in ({"ipe"}, {"ipe", "aroeira"}, {"ipe", "aroeira", "cedro"}):
        assert position(QUERY, _position_id(QUERY, had)) == Position(opening=4, banks=frozenset(had))
    assert position(QUERY, _COMPLETE) == Position(is_complete=True)


def test_who_comes_back_gets_what_is_missing_and_the_same_ids() -> None:
    assert opening_ids(2) == ["o2", "o3"]
    assert _position_id(QUERY, {"cedro", "ipe"}) == "b6"


@pytest.mark.parametrize("unknown", ["", "o", "o-1", "bxyz", "b", "C", "c ", "0", "b" + "f" * 40])
def test_an_unknown_id_begins_anew(unknown: str) -> None:
    assert position(QUERY, unknown) == Position()
