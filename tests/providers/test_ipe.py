"""ipe's peculiarities: rates as fractions beside percents, microseconds in every date, auctions, cancellation."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.errors import InvalidState, NotFound
from providers import rules
from providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from providers.operation import BankClient
from providers.types.answer import BankOffer, Employment
from providers.types.proposal import ProposalStatus
from providers.types.submission import BankAccount
from tests.processes import Simulator
from tests.providers.conftest import Connect, at, lenient
from tests.providers.manuals import RANDOM_KEY, Words, submission_body
from tests.providers.samples import CREDENTIALS, FULL_FLOW, HOLDERS, a_query, a_submission
from tests.receiver import Received, Receiver, Reply

FOUND, BANK_FAILS = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9", "lk_5Fz8cRw1Lh6yNt3QxV0aMkGp7DsEuBj2"


WORDS = Words(
    sex=("borrower.gender", {"M": "male", "F": "female"}),
    sex_of_query=("borrower.gender", [None, "male", "female"]),
    marital_status=(
        "borrower.marital_status",
        {
            "solteiro": "single",
            "casado": "married",
            "divorciado": "divorced",
            "viuvo": "widowed",
            "separado": "separated",
            "uniao_estavel": "stable_union",
        },
    ),
    account_kind=(
        "disbursement.bank_account.account_type",
        {"corrente": "checking_account", "poupanca": "savings_account", "salario": "salary_account"},
    ),
    pix=(
        "disbursement",
        {
            "cpf": {"method": "pix", "pix": {"key_type": "document_number", "key": FULL_FLOW}},
            "telefone": {"method": "pix", "pix": {"key_type": "phone_number", "key": "+5511987654321"}},
            "email": {"method": "pix", "pix": {"key_type": "email", "key": "maria@example.com"}},
            "aleatoria": {"method": "pix", "pix": {"key_type": "random_key", "key": RANDOM_KEY}},
        },
    ),
)


@pytest.fixture
def ipe(connect: Connect) -> BankClient:
    return connect("ipe")


@pytest.fixture
def offer(ipe: BankClient) -> BankOffer:
    return ipe.query(a_query()).offers[0]


@pytest.fixture
def native_id(ipe: BankClient, offer: BankOffer) -> str:
    """The bank's id of a new debt."""
    return ipe.submit(a_submission(offer)).native_id


def answering(reply: Reply) -> Receiver:
    """A bank that gives a token and then always the same answer."""

    def answer(request: Received) -> Reply:
        if request.path == "/oauth2/token":
            return Reply(200, b'{"access_token": "token-1", "token_type": "Bearer", "expires_in": 1200}')
        return reply

    return Receiver(answer)


def fault(status: int, translation: str) -> Reply:
    """An error as the manual shows it."""
    body = {"code": f"IPE000{status}", "title": "English", "translation": translation}
    return Reply(status, json.dumps(body).encode())


# --- authentication and errors


def test_a_token_is_got_by_client_credentials_as_a_form() -> None:
    with answering(Reply(200, b'{"debts": []}')) as bank:
        assert at("ipe", bank.root).find("reference-1") is None
        login, find = bank.received
    account = CREDENTIALS["ipe"]
    basic = base64.b64encode(f"{account['client_id']}:{account['client_secret']}".encode()).decode()
    assert (login.method, login.path, login.body) == ("POST", "/oauth2/token", b"grant_type=client_credentials")
    assert login.headers["authorization"] == f"Basic {basic}"
    assert login.headers["content-type"] == "application/x-www-form-urlencoded"
    assert find.headers["authorization"] == "Bearer token-1"


@pytest.mark.parametrize("status", [400, 403, 422])
def test_the_portuguese_sentence_of_a_refusal_is_passed_on_and_not_the_english_title(status: int) -> None:
    refused = fault(status, "Cliente não aceito.")
    with answering(refused) as bank, pytest.raises(ProviderRejected, match=r"^Cliente não aceito\.$"):
        at("ipe", bank.root).query(a_query())


def test_a_system_behind_the_bank_that_is_down_is_an_outage() -> None:
    with answering(fault(503, "Falha na API externa.")) as bank, pytest.raises(ProviderUnavailable):
        at("ipe", bank.root).query(a_query())


def test_a_gateways_page_is_no_refusal() -> None:
    page = Reply(404, b"<html>Not Found</html>", {"Content-Type": "text/html"})
    with answering(page) as gateway, pytest.raises(ProviderError):
        at("ipe", gateway.root).status("debt-1")


def test_a_field_that_the_bank_refuses_is_named_in_its_own_words(ipe: BankClient) -> None:
    with pytest.raises(ProviderRejected, match=r"ip_address: formato invalido$"):
        ipe.query(a_query(client_ip="none"))


# --- query


def test_a_wish_is_sent_in_reais(ipe: BankClient, simulator: Simulator) -> None:
    ipe.query(a_query(loan_value=Decimal("3000.5"), installments=24, with_insurance=False))
    assert simulator.sent("ipe", "query")["simulation"] == {
        "disbursed_amount": 3000.5,
        "installment_face_value": None,
        "number_of_installments": 24,
        "with_insurance": False,
    }


def test_a_rate_is_a_fraction_beside_a_cost_in_percent(offer: BankOffer) -> None:
    assert offer == BankOffer(
        native_offer_id=offer.native_offer_id,
        loan_value=Decimal("12000.00"),
        installment_value=Decimal("488.80"),
        installments=48,
        interest_rate=Decimal("1.99"),
        total_amount=Decimal("23462.40"),
        table_code="IPE-CLT-STD",
        with_insurance=False,
        first_due_date=offer.first_due_date,
        employer_cnpj="11222333000181",
        employer_name="Metalúrgica Aurora Ltda",
        registration="100200",
        native={"cetMonthlyPercent": "1.99"},
        cet_monthly=Decimal("1.99"),
        cet_annual=Decimal("23.88"),
        iof=Decimal("404.76"),
        insurance_value=Decimal(0),
        valid_until=offer.valid_until,
    )
    assert offer.valid_until is not None
    assert offer.quoted_at is not None
    assert timedelta(hours=23) < offer.valid_until - offer.quoted_at <= timedelta(hours=24)
    assert offer.first_due_date is not None
    assert offer.first_due_date.day == 10


def test_the_margin_of_each_employment_link_is_reported(ipe: BankClient) -> None:
    first, second = ipe.query(a_query(HOLDERS["two_employers"])).employments
    job = ("Operador de Produção", date(2019, 3, 11))
    assert first == Employment("100200", "11222333000181", "Metalúrgica Aurora Ltda", *job, Decimal("1850.00"))
    assert (second.registration, second.employer_cnpj, second.margin) == ("B-778", "12ABC34501DE35", Decimal("920.50"))


def test_each_offer_belongs_to_the_link_that_it_names(ipe: BankClient) -> None:
    offers = ipe.query(a_query(HOLDERS["two_employers"])).offers
    assert [(offer.registration, offer.employer_cnpj, offer.table_code) for offer in offers] == [
        ("100200", "11222333000181", "IPE-CLT-STD"),
        ("100200", "11222333000181", "IPE-CLT-INS"),
        ("B-778", "12ABC34501DE35", "IPE-CLT-STD"),
        ("B-778", "12ABC34501DE35", "IPE-CLT-INS"),
    ]


# --- auction


def test_an_auctions_record_is_passed_through_as_it_is(ipe: BankClient, simulator: Simulator) -> None:
    record = ipe.auction_proposal(FOUND)
    assert record == ipe.auction_proposal(FOUND) | {
        name: record[name] for name in ("event_datetime", "expiration_datetime", "inclusion_limit_datetime")
    }
    assert (record["proposal_key"], record["rank_position"], record["alerts"]) == (FOUND, None, [])
    assert (record["disbursed_issue_amount"], record["consigned_credit_balance"]) == (10000, 1850)
    assert record["proposal"]["proposal_data"]["disbursed_issue_amount"] == 9000
    assert {call["operation"] for call in simulator.calls("ipe")} <= {"token", "auction"}


@pytest.mark.parametrize("key", ["lk_unknown", "../debts", "a b?c=d&e", "ç"])
def test_an_unknown_auction_key_is_not_found_whatever_it_looks_like(ipe: BankClient, key: str) -> None:
    with pytest.raises(NotFound):
        ipe.auction_proposal(key)


def test_an_auction_whose_institution_fails_is_an_outage(ipe: BankClient) -> None:
    with pytest.raises(ProviderUnavailable):
        ipe.auction_proposal(BANK_FAILS)


# --- submit


def test_a_submission_is_sent_as_the_manual_shows_it(ipe: BankClient, offer: BankOffer, simulator: Simulator) -> None:
    account = BankAccount("237", "123", "45678", "X", "corrente", branch_digit="9")
    submission = a_submission(offer, channel="sms", account=account)
    ipe.submit(replace(submission, address=replace(submission.address, complement="Sala 1")))
    assert simulator.sent("ipe", "submit") == submission_body(
        "ipe",
        {
            "simulation_key": offer.native_offer_id,
            "borrower.father_name": "João da Silva",
            "borrower.address.complement": "Sala 1",
            "disbursement.bank_account": {
                "bank_code": "237",
                "branch_number": "123",
                "branch_digit": "9",
                "account_number": "45678",
                "account_digit": "X",
                "account_type": "checking_account",
            },
            "signature_delivery": "sms",
        },
    )


def test_submit_leaves_out_what_is_optional_and_not_told(
    ipe: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    submission = a_submission(offer)
    ipe.submit(replace(submission, holder=replace(submission.holder, father_name=None)))
    body = simulator.sent("ipe", "submit")
    assert "father_name" not in body["borrower"]
    assert "complement" not in body["borrower"]["address"]
    assert "signature_delivery" not in body
    assert "branch_digit" not in body["disbursement"]["bank_account"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("documento.numero", {"number": "1" * 21}), ("documento.orgao_emissor", {"issuer": "x" * 21})],
)
def test_submit_names_a_text_of_the_document_that_is_too_long(
    ipe: BankClient, offer: BankOffer, field: str, value: dict[str, Any]
) -> None:
    submission = a_submission(offer)
    too_long = replace(submission, document=replace(submission.document, **value))
    assert [found.field for found in rules.submission_faults(ipe.adapter, too_long)] == [field]
    with pytest.raises(ProviderRejected, match="formato invalido"):
        lenient(ipe).submit(too_long)


def test_submit_that_meets_a_conflict_is_a_refusal_with_the_banks_sentence(ipe: BankClient, offer: BankOffer) -> None:
    with answering(fault(409, "Já existe operação em averbação para este vínculo.")) as bank:
        with pytest.raises(ProviderRejected, match=r"^Já existe operação em averbação para este vínculo\.$"):
            at("ipe", bank.root).submit(a_submission(offer))
        with pytest.raises(InvalidState) as caught:
            at("ipe", bank.root).formalize("debt-1", None)
    assert caught.value.message == InvalidState.default_message


# --- the debt


def test_a_debt_that_nobody_signs_expires(ipe: BankClient, simulator: Simulator) -> None:
    cpf = HOLDERS["unsigned"]
    debt = ipe.submit(a_submission(ipe.query(a_query(cpf)).offers[0], cpf)).native_id
    ipe.formalize(debt, None)
    simulator.advance(31 * 24 * 3600)
    ended = ipe.status(debt)
    assert (ended.native_status, ended.status) == ("signature_expired", ProposalStatus.EXPIRED)


@pytest.mark.parametrize(("reason", "sent"), [("Desistiu.", "Desistiu."), (None, "Cancelamento a pedido do titular.")])
def test_cancel_gives_a_reason_and_may_be_repeated(
    ipe: BankClient, native_id: str, simulator: Simulator, reason: str | None, sent: str
) -> None:
    for _ in range(2):
        cancelled = ipe.cancel(native_id, reason)
        assert (cancelled.native_status, cancelled.status) == ("canceled", ProposalStatus.CANCELLED)
    assert simulator.sent("ipe", "cancel") == {"reason": sent}


def test_a_signed_debt_can_be_cancelled_and_a_paid_one_not(
    ipe: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for advance, forbidden in ((0, False), (6, True)):
        debt = ipe.submit(a_submission(offer, reference=f"reference-{advance}")).native_id
        ipe.formalize(debt, None)
        simulator.complete(FULL_FLOW, "ipe", "signature")
        simulator.advance(advance)
        if forbidden:
            with pytest.raises(InvalidState):
                ipe.cancel(debt, None)
        else:
            assert ipe.cancel(debt, None).status is ProposalStatus.CANCELLED


def test_a_word_that_the_manual_does_not_know_moves_nothing(ipe: BankClient) -> None:
    cpf = HOLDERS["strange_status"]
    [offer, _] = ipe.query(a_query(cpf)).offers
    submitted = ipe.submit(a_submission(offer, cpf))
    assert (submitted.native_status, submitted.status) == ("em_orbita", None)
