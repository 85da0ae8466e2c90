"""`originador`: which banks get the portfolio that a partner names."""

import pytest

from consultas.models import Query
from consultas.query import web
from partners.contract import AllowedBank
from tests.factories import PartnerFactory

HOLDER = {
    "cpf": "90000000175",
    "name": "Maria",
    "birth_date": "1985-03-14",
    "phone": "11987654321",
    "email": "maria@example.com",
    "client_ip": "203.0.113.9",
}
CONTRACT = [
    AllowedBank("aroeira", None, True, ("A-1", "A-2")),
    AllowedBank("cedro", "FIXED", True),
    AllowedBank("ipe", None, True, ("A-1",)),
    AllowedBank("jatoba", None, True),
]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("A-1", {"aroeira": "A-1", "cedro": "FIXED", "ipe": "A-1", "jatoba": None}),
        ("A-2", {"aroeira": "A-2", "cedro": "FIXED", "ipe": None, "jatoba": None}),
        ("a-1", {"aroeira": None, "cedro": "FIXED", "ipe": None, "jatoba": None}),
        ("", {"aroeira": None, "cedro": "FIXED", "ipe": None, "jatoba": None}),
        (None, {"aroeira": None, "cedro": "FIXED", "ipe": None, "jatoba": None}),
    ],
)
def test_a_portfolio_reaches_the_banks_that_the_contract_lists_it_for(
    db: None, asked: str | None, sent: dict[str, str | None]
) -> None:
    """Before the fix, every bank for which the contract fixed no portfolio got it."""
    query, _ = web.begin(PartnerFactory(), HOLDER | {"portfolio": asked}, Query.Kind.AGGREGATED, "r-1", CONTRACT)
    assert {bank.name: query.for_bank(bank.name).portfolio for bank in CONTRACT} == sent
    stored = Query.objects.get(pk=query.pk)
    assert {bank.name: stored.for_bank(bank.name).portfolio for bank in CONTRACT} == sent


def test_a_portfolio_that_reaches_no_bank_makes_no_other_query(db: None) -> None:
    """Such a portfolio is ignored like an unknown field: a repeat within 60 s is the same query."""
    partner = PartnerFactory()
    first, ignored, listed = (
        web.begin(partner, HOLDER | {"portfolio": asked}, Query.Kind.AGGREGATED, "r-1", CONTRACT)[0]
        for asked in (None, "OTHER", "A-1")
    )
    assert (ignored.follows, listed.follows) == (first.id, None)
