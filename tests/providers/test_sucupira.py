"""sucupira's peculiarities: signed requests, cents, milliseconds, a due date that gets lost, no deduplication."""

from datetime import UTC, date, datetime, timedelta

import jwt
import pytest

from foundation.errors import ApiError
from providers import rules
from providers.banks.sucupira import Sucupira
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from providers.http import Draft
from providers.operation import BankClient
from providers.types import given
from providers.types.proposal import ProposalStatus
from tests.processes import Simulator
from tests.providers.conftest import adapter_of, at, lenient, saying
from tests.providers.samples import CREDENTIALS, HOLDERS, OFFER, a_query, a_submission, pix_key
from tests.receiver import Receiver, Reply

MISSING_DUE_DATE = HOLDERS["missing_due_date"]
SPECIAL = HOLDERS["special_portfolio"]


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


def test_submit_missing_due_date_saves_the_simulation_and_submits_again(bank: BankClient, simulator: Simulator) -> None:
    offer = bank.query(a_query(MISSING_DUE_DATE)).offers[0]
    proposal = bank.submit(a_submission(offer, MISSING_DUE_DATE))
    assert proposal.status is ProposalStatus.CREATED
    arrived = [call["operation"] for call in simulator.calls("sucupira") if call["operation"] != "query"]
    assert arrived == ["submit", "save_simulation", "submit"]
    due = given(offer.first_due_date)
    assert simulator.sent("sucupira", "save_simulation") == {
        "valor-centavos": "910000",
        "parcelas": 48,
        "data-vencimento-inicial": int(datetime(due.year, due.month, due.day, tzinfo=UTC).timestamp() * 1000),
    }
    [contract] = simulator.contracts("sucupira")
    assert (contract["contract"], contract["reference"]) == (proposal.native_id, "reference-1")


LOST_DATE = Reply(422, b'{"errors": {"data-vencimento-inicial": ["data de vencimento inicial ausente"]}}')
SAVED, RESET = Reply(200, b"{}"), Reply(reset=True)


@pytest.mark.parametrize(
    ("answers", "error", "is_sent"),
    [
        ((RESET,), ProviderUnavailable, True),
        ((Reply(500),), ProviderUnavailable, True),
        ((Reply(200, b"garbage"),), ProviderError, True),
        ((LOST_DATE, Reply(503)), ProviderUnavailable, False),
        ((LOST_DATE, SAVED, RESET), ProviderUnavailable, True),
        ((LOST_DATE, SAVED, LOST_DATE), ProviderRejected, None),
    ],
)
def test_only_a_submission_that_lacked_its_date_is_sent_again_and_only_once(
    answers: tuple[Reply, ...], error: type[ApiError], is_sent: bool | None
) -> None:
    with Receiver(saying(*answers)) as receiver, pytest.raises(error) as caught:
        at("sucupira", receiver.root).submit(a_submission(OFFER))
    assert getattr(caught.value, "sent", None) is is_sent
    assert len(receiver.received) == len(answers)


def test_submit_pix_is_refused_for_the_special_portfolio(bank: BankClient, simulator: Simulator) -> None:
    offer = bank.query(a_query(SPECIAL)).offers[0]
    assert offer.native["portfolio"] == "CLT-ESPECIAL"
    by_pix = a_submission(offer, SPECIAL, recebimento=pix_key("cpf", SPECIAL))
    assert [fault.field for fault in rules.submission_faults(bank.adapter, by_pix)] == ["recebimento.pix"]
    with pytest.raises(ProviderRejected, match="pix nao permitido"):
        lenient(bank).submit(by_pix)
    by_account = a_submission(offer, SPECIAL)
    assert rules.submission_faults(bank.adapter, by_account) == []
    assert bank.submit(by_account).data == {"portfolio": "CLT-ESPECIAL"}
