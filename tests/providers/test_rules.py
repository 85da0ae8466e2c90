"""Rules from a bank's facts, in its operations: texts that are cut, channels, declined insurance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.errors import InvalidInput
from providers import rules
from providers.banks.ipe import Ipe
from providers.errors import ProviderRejected
from providers.types.answer import BankResult, Employment, QueryStatus
from providers.types.query import BankQuery
from tests.processes import Simulator
from tests.providers.conftest import Connect, client_of
from tests.providers.samples import a_query
from tests.unit.providers.test_rules import OFFER, Narrow


def test_in_a_query_descriptions_are_cut_and_names_refused(connect: Connect, simulator: Simulator) -> None:
    bank = client_of(Narrow, connect("ipe").connection)
    assert bank.query(a_query(user_agent="Mozilla/5.0", device_model="Moto G84")).status is QueryStatus.OK
    authenticity = simulator.sent("ipe", "query")["authorization_term"]["signature"]["authenticity"]
    assert (authenticity["user_agent"], authenticity["device_model"]) == ("Mozilla/", "Moto")
    with pytest.raises(ProviderRejected, match=r"^Este banco aceita no máximo 20 caracteres no nome\.$"):
        bank.query(a_query(name="Maria da Silva dos Santos"))
    assert len(simulator.calls("ipe", "query")) == 1


def test_a_channel_that_the_bank_has_not_is_refused_before_the_contract_is_issued(connect: Connect) -> None:
    with pytest.raises(InvalidInput) as caught:
        client_of(Narrow, connect("ipe").connection).formalize("native", "whatsapp")
    assert caught.value.field == "tipo_envio"


@pytest.mark.parametrize(
    ("insured", "status", "shown", "reasons"),
    [
        ([True], QueryStatus.NO_OFFERS, 0, (rules.ONLY_INSURED,)),
        ([True, False], QueryStatus.OK, 1, ()),
        ([False], QueryStatus.OK, 1, ()),
    ],
)
def test_declined_insurance_is_in_no_offer_of_a_bank_that_can_not_be_told_so(
    connect: Connect, insured: list[bool], status: QueryStatus, shown: int, reasons: tuple[str, ...]
) -> None:
    class Insurer(Ipe):
        def query(self, query: BankQuery) -> BankResult:
            offers = [replace(OFFER, with_insurance=each) for each in insured]
            return BankResult.answer(offers, [Employment(OFFER.registration, "11222333000181", "Aurora")])

    bank = client_of(Insurer, connect("ipe").connection)
    result = bank.query(a_query(with_insurance=False))
    assert (result.status, len(result.offers), result.reasons) == (status, shown, reasons)
    assert len(bank.query(a_query(with_insurance=True)).offers) == len(insured)
