"""canela's peculiarities: an SMS without a link, 500 for a bad token, a limit per token, a desk, signed callbacks."""

import base64
import hashlib
import hmac
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone

import pytest
from requests.structures import CaseInsensitiveDict

from foundation.errors import InvalidState
from providers.banks.canela import Canela
from providers.errors import ProviderError
from providers.http import Reply as BankReply
from providers.operation import BankClient
from providers.types import given
from providers.types.proposal import ProposalStatus, Stage, StageReport
from providers.types.query import QueryStatus, StepOutcome
from simulator.ledger import AVERBATION_PAUSE_S, FIRST_FAILURE_S
from tests.processes import Simulator
from tests.providers.conftest import answering, at
from tests.providers.samples import CALLBACK_SECRETS, FULL_FLOW, HOLDERS, a_query, a_submission
from tests.receiver import Receiver, Reply

SMS_PENDING = HOLDERS["sms_pending"]


# --- authentication, the 500s and the limit of a token


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Internal Server Error",
        b'{"mensagem": "falha interna"}',
        b'{"mensagem": "token invalido na camara de pagamentos"}',
        b'{"mensagem": "Token invalido"}',
        b'{"erro": "token invalido"}',
    ],
)
def test_any_other_500_is_no_refusal(body: bytes) -> None:
    """It is an outage like any other, and the outcome of a submission is unknown."""
    assert Canela.refusal(BankReply(500, {}, body)) is None


def test_queries_at_once_log_in_for_as_many_tokens_as_they_need_and_none_that_the_bank_dropped_is_tried_again(
    bank: BankClient, simulator: Simulator
) -> None:
    with ThreadPoolExecutor(61) as pool:
        results = list(pool.map(lambda _: bank.query(a_query()), range(61)))
    assert {result.status for result in results} == {QueryStatus.OK}
    assert all(call["worked"] for call in simulator.calls("canela"))
    assert len(simulator.calls("canela", "token")) == 3
    simulator.bank("canela", fault="expired_token", operation="query", times=1)
    assert bank.query(a_query()).status is QueryStatus.OK
    assert bank.query(a_query()).status is QueryStatus.OK
    assert len(simulator.calls("canela", "token")) == 4


# --- query


@pytest.mark.parametrize("offset", ["-03:00", "+02:00", "+00:00"])
def test_days_are_read_in_their_own_offset(offset: str) -> None:
    link = dict.fromkeys(("registroEmpregaticio", "cnpjEmpregador", "nomeEmpregador"), "1") | {"cargo": None}
    told = {"vinculo": {**link, "dataAdmissao": f"2019-03-01T00:00:00{offset}"}}
    assert Canela.answers.read("employment", told)["admission_date"] == date(2019, 3, 1)


# --- the SMS


def test_approved_but_nothing_to_offer_ends_the_step() -> None:
    approved = b'{"autorizacaoId": "a1", "situacao": "AUTORIZADA", "validade": "2026-11-24T09:00:00-03:00"}'
    nothing = '{"mensagem": "margem consignável insuficiente", "motivo": "SEM_OFERTA"}'.encode()
    with answering("canela", Reply(200, approved), Reply(400, nothing)) as bank:
        result = bank.check(a_query(SMS_PENDING), "a1")
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.APPROVED)
    assert result.reasons == ("margem consignável insuficiente",)


def test_a_403_that_names_no_authorization_is_an_error() -> None:
    """For example, the account itself is blocked: the holder can do nothing about it."""
    with answering("canela", Reply(403, b'{"mensagem": "acesso negado"}')) as bank, pytest.raises(ProviderError):
        bank.query(a_query())


# --- callbacks


SECRET = CALLBACK_SECRETS["canela"]
ANSWERED = b'{"aviso": "SMS_RESPONDIDO", "autorizacaoId": "a1"}'
HEADER = "Canela-Assinatura"


def callback(
    body: bytes = ANSWERED, *, age_s: float = 0, secret: str = SECRET, moment: str | None = None
) -> tuple[dict[str, str], bytes]:
    """A callback as the manual shows it, signed so many seconds ago."""
    if moment is None:
        signed_at = datetime.now(timezone(timedelta(hours=-3))) - timedelta(seconds=age_s)
        moment = signed_at.isoformat(timespec="seconds")
    digest = hmac.new(secret.encode(), f"{moment}\n".encode() + body, hashlib.sha512).digest()
    return {HEADER: f"t={moment}, v={base64.b64encode(digest).decode()}"}, body


def altered_callbacks() -> list[tuple[dict[str, str], bytes]]:
    """Those that tests/providers/contract/test_callbacks.py does not know."""
    headers, body = callback()
    moment, signature = headers[HEADER].split(", ")
    return [
        callback(moment="yesterday"),
        callback(moment="2026-11-21T09:00:00"),  # no offset
        ({HEADER: moment}, body),
        ({HEADER: signature}, body),
        ({HEADER: f"{moment}, v="}, body),
        ({HEADER: f"{moment}, v=ç"}, body),
        ({HEADER: f"t=2026-11-21T00:00:00-03:00, {signature}"}, body),
        ({HEADER: f"{moment}, v={base64.b64encode(hashlib.sha512(body).digest()).decode()}"}, body),
    ]


def test_the_banks_callback_about_an_operation_names_it(calling: tuple[Simulator, Receiver]) -> None:
    simulator, service = calling
    bank = at("canela", f"{simulator.url}/canela")
    submitted = bank.submit(a_submission(bank.query(a_query()).offers[0]))
    simulator.lab(FULL_FLOW, "proposals/advance", status="signed", provider="canela")
    [request] = service.wait_for(1)
    told = Canela.verify_callback(SECRET, CaseInsensitiveDict(request.headers), request.body)
    assert told == submitted.native_id


# --- the desk


def test_before_the_desk_approved_there_is_no_link(bank: BankClient, simulator: Simulator) -> None:
    submitted = bank.submit(a_submission(bank.query(a_query()).offers[0]))
    assert (submitted.status, submitted.native_status) == (ProposalStatus.IN_ANALYSIS, "Em mesa de crédito")
    with pytest.raises(InvalidState):
        bank.formalize(submitted.native_id, None)
    simulator.advance(3.1)
    approved = bank.status(submitted.native_id)
    assert (approved.status, approved.signature_url) == (ProposalStatus.AWAITING_SIGNATURE, None)
    assert bank.formalize(submitted.native_id, "sms").signature_url


def test_averbation_that_fails_is_told_with_the_banks_words(bank: BankClient, simulator: Simulator) -> None:
    cpf = HOLDERS["averbation_retried"]
    native_id = bank.submit(a_submission(bank.query(a_query(cpf)).offers[0], cpf)).native_id
    simulator.lab(cpf, "proposals/advance", status="signed", provider="canela")
    since = given(bank.status(native_id).stage).since
    for after, words in (
        (FIRST_FAILURE_S + 1, "averbacao nao processada pela dataprev"),
        (AVERBATION_PAUSE_S, "margem em atualizacao na dataprev"),
    ):
        simulator.advance(after)
        assert bank.status(native_id).stage == StageReport(Stage.AVERBATION, since, words, is_retried=True)
        assert bank.adapter.reason(words).code == "averbation_refused"
    simulator.advance(AVERBATION_PAUSE_S)
    succeeded = given(bank.status(native_id).stage)
    assert (succeeded.stage, succeeded.reason) == (Stage.DISBURSEMENT, None)
    assert given(succeeded.since) > given(since)
    simulator.advance(6)
    paid = bank.status(native_id)
    assert (paid.status, paid.stage) == (ProposalStatus.DISBURSED, None)


def test_a_desk_that_refuses_rejects_the_proposal(bank: BankClient, simulator: Simulator) -> None:
    cpf = HOLDERS["desk_refused"]
    submitted = bank.submit(a_submission(bank.query(a_query(cpf)).offers[0], cpf))
    simulator.advance(3.1)
    assert bank.status(submitted.native_id).status is ProposalStatus.REJECTED
