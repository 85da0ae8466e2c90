"""What a reply tells of offers and employments, whatever the bank."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from consultas.models import Answer
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
