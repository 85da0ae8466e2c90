"""sucupira's peculiarities: signed requests, cents, milliseconds, a due date that gets lost, no deduplication."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import jwt
import pytest

from providers import rules
from providers.banks.sucupira import Sucupira
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Draft, Reply
from providers.operation import BankClient
from providers.types import given
from providers.types.answer import BankOffer
from providers.types.proposal import ProposalStatus
from providers.types.submission import PixKey
from tests.processes import Simulator
from tests.providers.conftest import Connect, adapter_of, client_of, lenient
from tests.providers.samples import CREDENTIALS, HOLDERS, a_query, a_submission

MISSING_DUE_DATE = HOLDERS["missing_due_date"]
SPECIAL = HOLDERS["special_portfolio"]


@pytest.fixture
def incomplete_offer(bank: BankClient) -> BankOffer:
    """An offer whose first submission the bank refuses for its missing due date."""
    return bank.query(a_query(MISSING_DUE_DATE)).offers[0]


def operations(simulator: Simulator) -> list[str]:
    """The operations that arrived after the queries."""
    return [call["operation"] for call in simulator.calls("sucupira") if call["operation"] != "query"]


# --- signature


@pytest.mark.control("V9")
def test_a_request_is_signed_over_method_path_body_and_time(bank: BankClient) -> None:
    draft = Draft("POST", "/credito/operacoes?x=%20", {"json": {"a": 1}}, {})
    headers = adapter_of(bank).authorize(None, draft).headers
    signed = jwt.decode_complete(headers["X-Assinatura"], CREDENTIALS["sucupira"]["signing_key"], ["HS256"])
    made_at = datetime.fromtimestamp(signed["payload"].pop("emitido-em") / 1000, UTC)
    assert abs(datetime.now(UTC) - made_at) < timedelta(seconds=30)
    assert signed["header"] == {"alg": "HS256", "typ": "JWT", "kid": "sandbox-1"}
    assert signed["payload"] == {
        "iss": "sandbox-originator",
        "metodo": "POST",
        "caminho": "/credito/operacoes?x=%20",
        "resumo-corpo": "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862",
    }


@pytest.mark.parametrize(
    ("day", "ms"),
    [(date(1985, 3, 14), 479606400000), (date(1970, 1, 1), 0), (date(1958, 2, 28), -373680000000)],
)
def test_a_date_is_its_midnight_in_utc(day: date, ms: int) -> None:
    assert Sucupira.notations.date.write(day) == ms
    assert Sucupira.notations.date.read(ms) == day


# --- submit


Save = Callable[[], Reply]


def saving(connect: Connect, save: Callable[[Save], Reply]) -> BankClient:
    """A sucupira at which `save` stands in place of the saving of a simulation, which it is given."""

    class Saving(Sucupira):
        def call(self, method: str, *path: str, **sent: Any) -> Reply:
            ask = partial(super().call, method, *path, **sent)
            return save(ask) if method == "PUT" else ask()

    return client_of(Saving, connect("sucupira").connection)


def test_submit_missing_due_date_saves_the_simulation_and_submits_again(
    bank: BankClient, incomplete_offer: BankOffer, simulator: Simulator
) -> None:
    proposal = bank.submit(a_submission(incomplete_offer, MISSING_DUE_DATE))
    assert proposal.status is ProposalStatus.CREATED
    assert operations(simulator) == ["submit", "save_simulation", "submit"]
    due = given(incomplete_offer.first_due_date)
    assert simulator.sent("sucupira", "save_simulation") == {
        "valor-centavos": "910000",
        "parcelas": 48,
        "data-vencimento-inicial": int(datetime(due.year, due.month, due.day, tzinfo=UTC).timestamp() * 1000),
    }
    [contract] = simulator.contracts("sucupira")
    assert (contract["contract"], contract["reference"]) == (proposal.native_id, "reference-1")


def test_submit_missing_due_date_again_after_saving_is_a_refusal(
    connect: Connect, incomplete_offer: BankOffer, simulator: Simulator
) -> None:
    bank = saving(connect, lambda save: Reply(200, {}, b"{}"))  # which is not saved
    with pytest.raises(ProviderRejected, match="data de vencimento inicial ausente"):
        bank.submit(a_submission(incomplete_offer, MISSING_DUE_DATE))
    assert operations(simulator) == ["submit", "submit"]


@pytest.mark.parametrize("fault", ["reset", "half_body", "garbage", "html", "http_500"])
def test_submit_whose_first_answer_was_lost_is_not_sent_again(
    bank: BankClient, incomplete_offer: BankOffer, simulator: Simulator, fault: str
) -> None:
    simulator.bank("sucupira", fault=fault, operation="submit", times=1)
    with pytest.raises((ProviderUnavailable, ProviderError)) as caught:
        bank.submit(a_submission(incomplete_offer, MISSING_DUE_DATE))
    assert caught.value.sent is True
    assert operations(simulator) == ["submit"]


def test_submit_whose_second_answer_was_lost_is_found_by_its_reference(
    connect: Connect, incomplete_offer: BankOffer, simulator: Simulator
) -> None:
    def save_and_break(save: Save) -> Reply:
        reply = save()
        simulator.bank("sucupira", fault="drop_after_accept", operation="submit")
        return reply

    bank = saving(connect, save_and_break)
    with pytest.raises(ProviderUnavailable) as caught:
        bank.submit(a_submission(incomplete_offer, MISSING_DUE_DATE))
    assert caught.value.sent is True
    [contract] = simulator.contracts("sucupira")
    assert given(bank.find("reference-1")).native_id == contract["contract"]


def test_submit_whose_save_failed_has_certainly_created_nothing(
    connect: Connect, incomplete_offer: BankOffer, simulator: Simulator
) -> None:
    def break_and_save(save: Save) -> Reply:
        simulator.bank("sucupira", fault="http_503")
        return save()

    bank = saving(connect, break_and_save)
    with pytest.raises(ProviderUnavailable) as caught:
        bank.submit(a_submission(incomplete_offer, MISSING_DUE_DATE))
    assert caught.value.sent is False
    assert simulator.contracts("sucupira") == []


def test_submit_pix_is_refused_for_the_special_portfolio(bank: BankClient, simulator: Simulator) -> None:
    offer = bank.query(a_query(SPECIAL)).offers[0]
    assert offer.native["portfolio"] == "CLT-ESPECIAL"
    by_pix = a_submission(offer, SPECIAL, account=None, pix=PixKey("cpf", SPECIAL))
    assert [fault.field for fault in rules.submission_faults(bank.adapter, by_pix)] == ["recebimento.pix"]
    with pytest.raises(ProviderRejected, match="pix nao permitido"):
        lenient(bank).submit(by_pix)
    by_account = a_submission(offer, SPECIAL)
    assert rules.submission_faults(bank.adapter, by_account) == []
    assert bank.submit(by_account).data == {"portfolio": "CLT-ESPECIAL"}
