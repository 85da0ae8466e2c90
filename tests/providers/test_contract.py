"""What every bank's adapter has to do, against its simulated bank over HTTP. A bank's peculiarities are in its own
tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from html import unescape
from typing import Any
from urllib.parse import unquote_plus

import pytest

from foundation.errors import InvalidInput, InvalidState, NotFound, NotSupported
from foundation.fields import TEXT_LENGTH
from providers import registry, rules
from providers.breaker import Breaker
from providers.errors import BankFailure, OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.operation import BankClient
from providers.simulator.banks import BANKS as SIMULATED_BANKS
from providers.simulator.catalogue import REFUSALS
from providers.tokens import forget_all
from providers.types.answer import BankOffer, QueryStatus
from providers.types.proposal import BankProposal, ProposalStatus
from providers.types.query import AppAuthorization, Geolocation
from providers.types.steps import StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import Connect, at, between, fail, half_open
from tests.providers.samples import CREDENTIALS, FULL_FLOW, HOLDERS, OWING, STRANGER, a_query, a_submission, ceiling
from tests.receiver import Received, Reply

MESSAGE = re.compile(r'<li class="message (\w+)" data-bank="(\w+)"')
RATES = {bank.name: bank.rate for bank in SIMULATED_BANKS}
TABLES = {bank.name: bank.tables for bank in SIMULATED_BANKS}


@pytest.fixture(params=registry.names())
def name(request: pytest.FixtureRequest) -> str:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def bank(connect: Connect, name: str) -> BankClient:
    return connect(name)


@pytest.fixture
def offer(bank: BankClient) -> BankOffer:
    return bank.query(a_query()).offers[0]


@pytest.fixture
def submitted(bank: BankClient, offer: BankOffer) -> BankProposal:
    return bank.submit(a_submission(offer))


def priced(amount: Decimal, term: int, rate: Decimal, insured: bool) -> dict[str, Any]:
    """The linear model: installment = amount × (1 + rate × n) / n; 2 % more with insurance."""
    factor = (1 + rate / 100 * term) * (Decimal("1.02") if insured else 1)
    installment = (amount * factor / term).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return {
        "loan_value": amount,
        "installment_value": installment,
        "installments": term,
        "total_amount": installment * term,
        "interest_rate": rate,
        "with_insurance": insured,
    }


def numbers_of(offer: BankOffer) -> dict[str, Any]:
    return {key: getattr(offer, key) for key in priced(Decimal(1), 1, Decimal(1), False)}


def keeping(told: list[Reply]) -> Callable[[Received, Reply], Reply]:
    """For `between`: passes every answer on unchanged, and keeps it."""

    def keep(request: Received, reply: Reply) -> Reply:
        told.append(reply)
        return reply

    return keep


# --- query


def test_a_query_gives_the_ceiling_once_per_table(bank: BankClient) -> None:
    result = bank.query(a_query())
    amount, term = ceiling(bank.name)
    assert result.status is QueryStatus.OK
    assert result.action is None
    assert [numbers_of(offer) for offer in result.offers] == [
        priced(amount, term, RATES[bank.name], insured) for insured in (False, True)
    ]
    assert tuple(offer.table_code for offer in result.offers) == TABLES[bank.name]
    assert len({offer.native_offer_id for offer in result.offers}) == 2
    for offer in result.offers:
        assert offer.employer_cnpj == "11222333000181"
        assert offer.employer_name == "Metalúrgica Aurora Ltda"
        assert offer.registration == "100200"
        assert offer.first_due_date is not None
        assert offer.first_due_date > a_query().birth_date


def test_what_an_offer_keeps_of_the_bank_is_plain_json(offer: BankOffer) -> None:
    assert json.loads(json.dumps(offer.native)) == offer.native


def test_a_query_names_the_employment_link(bank: BankClient) -> None:
    [link] = bank.query(a_query()).employments
    assert (link.registration, link.employer_cnpj) == ("100200", "11222333000181")
    assert link.employer_name == "Metalúrgica Aurora Ltda"
    assert link.margin in (None, Decimal("1850.00"))


def test_a_query_is_one_request_and_bears_the_request_id(bank: BankClient, simulator: Simulator) -> None:
    bank.query(a_query())
    [call] = simulator.calls(bank.name, "query")
    assert (call["cpf"], call["request_id"], call["worked"]) == (FULL_FLOW, "request-1", True)


def test_no_offers_says_why(bank: BankClient) -> None:
    result = bank.query(a_query(HOLDERS["no_offers"]))
    assert result.status is QueryStatus.NO_OFFERS
    assert result.offers == ()
    assert result.reasons == ("margem consignavel insuficiente",)


def test_a_stranger_has_no_offers(bank: BankClient) -> None:
    result = bank.query(a_query(STRANGER))
    assert result.status is QueryStatus.NO_OFFERS
    assert result.offers == ()


def test_by_amount(bank: BankClient) -> None:
    offers = bank.query(a_query(loan_value=Decimal("3000.50"), installments=24)).offers
    assert [numbers_of(offer) for offer in offers] == [
        priced(Decimal("3000.50"), 24, RATES[bank.name], insured) for insured in (False, True)
    ]


def test_by_amount_above_the_ceiling_is_clamped(bank: BankClient) -> None:
    amount, _ = ceiling(bank.name)
    offers = bank.query(a_query(loan_value=amount * 2, installments=12)).offers
    assert [numbers_of(offer) for offer in offers] == [
        priced(amount, 12, RATES[bank.name], insured) for insured in (False, True)
    ]


def test_by_installment(bank: BankClient) -> None:
    offers = bank.query(a_query(installment_value=Decimal("200.00"), installments=24)).offers
    assert [offer.with_insurance for offer in offers] == [False, True]
    for offer in offers:
        assert offer.installments == 24
        assert abs(offer.installment_value - 200) <= Decimal("0.01")


def test_a_few_cents_over_many_months_give_no_offer(bank: BankClient) -> None:
    result = bank.query(a_query(loan_value=Decimal("0.05"), installments=60))
    assert (result.status, result.offers) == (QueryStatus.NO_OFFERS, ())
    assert result.reasons


def test_the_amount_goes_before_the_installment(bank: BankClient) -> None:
    wish = a_query(loan_value=Decimal("3000.00"), installment_value=Decimal("999.00"), installments=24)
    assert {offer.loan_value for offer in bank.query(wish).offers} == {Decimal("3000.00")}


@pytest.mark.parametrize(("asked", "given"), [(20, 18), (1, 6), (12, 12)])
def test_by_term(bank: BankClient, asked: int, given: int) -> None:
    amount, _ = ceiling(bank.name)
    offers = bank.query(a_query(installments=asked)).offers
    assert {(offer.loan_value, offer.installments) for offer in offers} == {(amount, given)}


def test_without_insurance(bank: BankClient) -> None:
    [offer] = bank.query(a_query(with_insurance=False)).offers
    assert offer.with_insurance is False


EVIDENCE: dict[str, tuple[Any, str]] = {
    "user_agent": ("Agent-Xq1", "Agent-Xq1"),
    "device_model": ("Model-Xq2", "Model-Xq2"),
    "platform": ("Platform-Xq3", "Platform-Xq3"),
    "authorization_reference": ("Reference-Xq4", "Reference-Xq4"),
    "geolocation": (Geolocation(Decimal("-15.793889"), Decimal("-47.882778")), "-15.793889"),
    "app_authorization": (AppAuthorization("App-Xq5"), "App-Xq5"),
}


def test_every_part_of_the_evidence_reaches_the_bank_unless_it_has_no_place_for_it(
    bank: BankClient, simulator: Simulator
) -> None:
    assert bank.adapter.evidence_without_place <= set(EVIDENCE)
    bank.query(a_query(**{field: value for field, (value, _) in EVIDENCE.items()}))
    raw = simulator.calls(bank.name, "query")[-1]["body"]
    body = f"{raw} {unquote_plus(raw).replace(',', '.')}"  # form data, decimal commas
    missing = {field for field, (_, text) in EVIDENCE.items() if text not in body}
    assert missing == bank.adapter.evidence_without_place


def test_unknown_sex_is_fine(bank: BankClient) -> None:
    assert bank.query(a_query(sex=0)).status is QueryStatus.OK


def test_the_operators_default_portfolio_is_sent_wherever_a_portfolio_of_the_call_would_be(
    connect: Connect, name: str, simulator: Simulator
) -> None:
    bank = connect(name, portfolio="DEFAULT-1")

    def sent(operation: str) -> str:
        return simulator.calls(name, operation)[-1]["body"]  # type: ignore[no-any-return]

    offer = bank.query(a_query(portfolio="CALL-1")).offers[0]
    by_query = "CALL-1" in sent("query")
    bank.submit(a_submission(offer, portfolio="CALL-1"))
    by_submission = "CALL-1" in sent("submit")
    assert "DEFAULT-1" not in "".join(call["body"] or "" for call in simulator.calls(name))
    offer = bank.query(a_query()).offers[0]
    assert ("DEFAULT-1" in sent("query")) is by_query
    bank.submit(a_submission(offer, reference="reference-2"))
    assert ("DEFAULT-1" in sent("submit")) is by_submission


# --- failures


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("http_500", ProviderUnavailable),
        ("http_503", ProviderUnavailable),
        ("half_body", ProviderUnavailable),
        ("reset", ProviderUnavailable),
        ("drop_after_accept", ProviderUnavailable),
        ("garbage", ProviderError),
        ("huge_body", ProviderError),
        ("html", BankFailure),  # one bank's page says "maintenance"; the others' pages are unreadable
    ],
)
@pytest.mark.parametrize("operation", ["query", "submit", "formalize", "status"])
def test_a_bank_that_fails_raises_the_right_error(
    connect: Connect, name: str, simulator: Simulator, operation: str, fault: str, error: type[BankFailure]
) -> None:
    fails(connect, name, simulator, operation, fault, error)


@pytest.mark.parametrize("fault", ["hang", "slow_body"])
@pytest.mark.parametrize("operation", ["query", "submit", "formalize", "status"])
def test_banks_that_come_to_no_end_are_unavailable(
    connect: Connect, simulator: Simulator, operation: str, fault: str
) -> None:
    """Each bank has one second; all are called at once."""
    with ThreadPoolExecutor(len(registry.names())) as pool:
        waiting = [
            pool.submit(fails, connect, name, simulator, operation, fault, ProviderUnavailable)
            for name in registry.names()
        ]
    for each in waiting:
        each.result()


def fails(
    connect: Connect, name: str, simulator: Simulator, operation: str, fault: str, error: type[BankFailure]
) -> None:
    well = connect(name)
    offer = well.query(a_query()).offers[0]
    proposal = well.submit(a_submission(offer))
    simulator.bank(name, fault=fault, operation=operation)
    bank = connect(name, seconds=1)
    calls = {
        "query": lambda: bank.query(a_query()),
        "submit": lambda: bank.submit(a_submission(offer, reference="reference-2")),
        "formalize": lambda: bank.formalize(proposal.native_id, None),
        "status": lambda: bank.status(proposal.native_id),
    }
    with pytest.raises(error) as caught:
        calls[operation]()
    assert caught.value.sent is True


def test_a_bank_that_keeps_failing_is_held_back(bank: BankClient, simulator: Simulator) -> None:
    """What else counts as a failure of a bank: see `test_breaker`."""
    simulator.bank(bank.name, fault="http_500", operation="query")
    fail(bank)
    assert Breaker(bank.name).is_open()
    arrived = len(simulator.calls(bank.name, "query"))
    with pytest.raises(ProviderUnavailable) as caught:
        bank.query(a_query())
    assert (caught.value.held_back, caught.value.sent) == (True, False)
    assert len(simulator.calls(bank.name, "query")) == arrived


def test_a_probe_that_fails_holds_the_bank_back_again(connect: Connect, name: str, simulator: Simulator) -> None:
    simulator.bank(name, fault="http_500", operation="query")
    fail(connect(name))
    half_open(name)
    fail(connect(name), times=1)
    assert Breaker(name).is_open()


def test_a_probe_that_is_answered_lets_the_bank_work_again(connect: Connect, name: str, simulator: Simulator) -> None:
    """Also if the adapter has to log in first, and needs several requests."""
    simulator.bank(name, fault="http_500", operation="query")
    fail(connect(name))
    half_open(name)
    forget_all()
    simulator.bank(name)
    assert connect(name).query(a_query()).status is QueryStatus.OK
    assert connect(name).query(a_query()).status is QueryStatus.OK


def test_a_refusal_is_an_answer_for_the_breaker(bank: BankClient, simulator: Simulator) -> None:
    for _ in range(11):
        with pytest.raises(NotFound):
            bank.status("no-such")
    simulator.bank(bank.name, fault="garbage", operation="query")
    fail(bank, times=10)
    assert not Breaker(bank.name).is_open()
    fail(bank, times=1)
    assert Breaker(bank.name).is_open()


def test_an_operation_counts_once_however_many_requests_it_takes(bank: BankClient, simulator: Simulator) -> None:
    for _ in range(5):
        bank.query(a_query())
    simulator.bank(bank.name, fault="garbage", operation="query")
    fail(bank, times=4)
    assert not Breaker(bank.name).is_open()
    fail(bank, times=1)
    assert Breaker(bank.name).is_open()


def test_a_bank_that_can_not_be_reached_was_not_sent_anything(name: str) -> None:
    with pytest.raises(ProviderUnavailable) as caught:
        at(name, "http://127.0.0.1:9", seconds=2).query(a_query())
    assert caught.value.sent is False


def test_wrong_credentials_are_a_failure_and_no_holder_is_asked_for(
    name: str, connect: Connect, simulator: Simulator
) -> None:
    credentials = dict.fromkeys(CREDENTIALS[name], "wrong" * 8)
    with pytest.raises(BankFailure):
        connect(name, credentials=credentials).query(a_query())
    assert not any(call["worked"] for call in simulator.calls(name))


@pytest.mark.parametrize("operation", ["query", "submit"])
def test_a_token_that_the_bank_dropped_is_renewed_once(bank: BankClient, simulator: Simulator, operation: str) -> None:
    offer = bank.query(a_query()).offers[0]
    simulator.bank(bank.name, fault="expired_token", operation=operation, times=1)
    assert bank.query(a_query()).status is QueryStatus.OK
    assert bank.submit(a_submission(offer)).native_id
    assert len(simulator.contracts(bank.name)) == 1


def test_a_token_that_the_bank_drops_again_and_again_is_an_error(bank: BankClient, simulator: Simulator) -> None:
    bank.query(a_query())
    simulator.bank(bank.name, fault="expired_token", operation="query")
    with pytest.raises(ProviderError) as caught:
        bank.query(a_query())
    assert caught.value.sent is False
    assert [call["worked"] for call in simulator.calls(bank.name, "query")] == [True, False, False]


def test_a_token_survives_from_call_to_call(bank: BankClient, simulator: Simulator) -> None:
    for _ in range(3):
        bank.query(a_query())
    assert len(simulator.calls(bank.name, "token")) <= 1


def test_an_ended_token_is_replaced_before_it_is_used(bank: BankClient, simulator: Simulator) -> None:
    bank.query(a_query())
    simulator.advance(31 * 24 * 3600)
    assert bank.query(a_query()).status is QueryStatus.OK


# --- proposals


def test_a_proposal_from_submission_to_disbursement(bank: BankClient, offer: BankOffer, simulator: Simulator) -> None:
    submitted = bank.submit(a_submission(offer))
    assert submitted.status in (
        ProposalStatus.CREATED,
        ProposalStatus.IN_ANALYSIS,
        ProposalStatus.AWAITING_SIGNATURE,
    )
    found = bank.find("reference-1")
    assert found is not None
    assert found.native_id == submitted.native_id
    if submitted.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, bank.name, "desk")
    formalized = bank.formalize(submitted.native_id, None)
    assert formalized.status is ProposalStatus.AWAITING_SIGNATURE
    assert str(formalized.signature_url).startswith(simulator.url)
    assert bank.formalize(submitted.native_id, None).signature_url == formalized.signature_url
    assert bank.status(submitted.native_id).status is ProposalStatus.AWAITING_SIGNATURE
    simulator.complete(FULL_FLOW, bank.name, "signature")
    assert bank.status(submitted.native_id).status is ProposalStatus.SIGNED
    simulator.advance(6)
    assert bank.status(submitted.native_id).status is ProposalStatus.DISBURSED
    with pytest.raises((InvalidState, ProviderRejected)):  # a manual may lack a word for a state that forbids a call
        bank.formalize(submitted.native_id, None)


def test_a_refused_signature_rejects_the_proposal(
    bank: BankClient, submitted: BankProposal, simulator: Simulator
) -> None:
    if submitted.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, bank.name, "desk")
    bank.formalize(submitted.native_id, None)
    simulator.complete(FULL_FLOW, bank.name, "signature", "refused")
    assert bank.status(submitted.native_id).status is ProposalStatus.REJECTED


@pytest.mark.parametrize("name", REFUSALS)
def test_a_bank_that_refuses_after_the_submission_says_why_in_its_own_words(
    bank: BankClient, submitted: BankProposal, simulator: Simulator
) -> None:
    """The laboratory makes it refuse. The state in which a proposal waited says less."""
    assert submitted.reason is None
    code, words = next(iter(REFUSALS[bank.name].items()))
    simulator.lab(FULL_FLOW, "proposals/advance", status="rejected", provider=bank.name, reason=code)
    found = bank.status(submitted.native_id)
    assert (found.status, found.reason) == (ProposalStatus.REJECTED, words)
    assert bank.adapter.reason(words).code == code


@pytest.mark.parametrize(("channel", "told_by"), [("sms", "sms"), ("whatsapp", "chat")])
def test_the_signature_link_is_delivered_to_the_phone_once(
    bank: BankClient, submitted: BankProposal, simulator: Simulator, channel: str, told_by: str
) -> None:
    if submitted.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, bank.name, "desk")
    if channel not in bank.adapter.channels:
        with pytest.raises(InvalidInput, match="não entrega o link"):
            bank.formalize(submitted.native_id, channel)
        return
    url = bank.formalize(submitted.native_id, channel).signature_url
    bank.formalize(submitted.native_id, channel)
    phone = simulator.phone(FULL_FLOW)
    assert MESSAGE.findall(phone) == [(told_by, bank.name)]
    assert phone.count(f'href="{url}"') == 2  # in the message and beside the button


def test_the_channel_of_a_submission_is_kept_in_the_contracts_word(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for channel in bank.adapter.channels:
        bank.submit(a_submission(offer, reference=f"reference-{channel}", channel=channel))
    kept = {contract["channel"] for contract in simulator.contracts(bank.name)}
    assert kept in (set(bank.adapter.channels), {None})  # a manual may ask for the channel at formalize only


def test_the_submission_bears_our_reference(bank: BankClient, submitted: BankProposal, simulator: Simulator) -> None:
    [contract] = simulator.contracts(bank.name)
    assert (contract["contract"], contract["reference"], contract["cpf"]) == (
        submitted.native_id,
        "reference-1",
        FULL_FLOW,
    )


def test_a_submission_whose_connection_broke_is_found_by_its_reference(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    simulator.bank(bank.name, fault="drop_after_accept", operation="submit")
    with pytest.raises(ProviderUnavailable) as caught:
        bank.submit(a_submission(offer))
    assert caught.value.sent is True
    [contract] = simulator.contracts(bank.name)
    found = bank.find("reference-1")
    assert found is not None
    assert found.native_id == contract["contract"]


def test_a_submission_that_never_arrived_is_not_found_nor_sent_again(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    simulator.bank(bank.name, fault="reset", operation="submit")
    with pytest.raises(ProviderUnavailable):
        bank.submit(a_submission(offer))
    assert len(simulator.calls(bank.name, "submit")) == 1
    assert bank.find("reference-1") is None


def test_a_submission_answered_with_what_can_not_be_kept_has_an_unknown_outcome(
    bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    def unkeepable(request: Received, reply: Reply) -> Reply:
        """Replaces the proposal's status word by NUL, which the database refuses. XML can't contain NUL: there the id
        gets too long."""
        if reply.body.startswith((b"{", b"[")):
            word = submitted.native_status.encode()
            return replace(reply, body=reply.body.replace(b'"' + word + b'"', b'"\\u0000"'))
        [*_, contract] = simulator.contracts(bank.name)
        return replace(reply, body=reply.body.replace(contract["contract"].encode(), b"9" * 201))

    with between(simulator, bank.name, unkeepable) as url, pytest.raises(ProviderError) as caught:
        at(bank.name, url).submit(a_submission(offer, reference="reference-2"))
    assert caught.value.sent is True
    with between(simulator, bank.name, unkeepable) as url, pytest.raises(ProviderError):
        at(bank.name, url).find("reference-2")


def test_a_proposal_whose_identifier_can_not_be_kept_is_unreadable(
    bank: BankClient, submitted: BankProposal, simulator: Simulator
) -> None:
    def longer(request: Received, reply: Reply) -> Reply:
        return replace(reply, body=reply.body.replace(submitted.native_id.encode(), b"9" * 201))

    with between(simulator, bank.name, longer) as url, pytest.raises(ProviderError):
        at(bank.name, url).find("reference-1")


def test_a_refused_submission_passes_on_the_banks_own_message(bank: BankClient, simulator: Simulator) -> None:
    cpf = HOLDERS["contract_in_progress"]
    offer = bank.query(a_query(cpf)).offers[0]
    with pytest.raises(ProviderRejected, match=r"^Ja existe contrato em andamento para este cliente\.$"):
        bank.submit(a_submission(offer, cpf))
    assert simulator.contracts(bank.name) == []


def test_what_forbids_a_call_on_a_proposal_refuses_a_submission_in_the_banks_own_words(
    bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    if submitted.status is ProposalStatus.IN_ANALYSIS:
        simulator.complete(FULL_FLOW, bank.name, "desk")
    bank.formalize(submitted.native_id, None)
    simulator.complete(FULL_FLOW, bank.name, "signature", "refused")
    told: list[Reply] = []
    refusals = (InvalidState, ProviderRejected)  # a manual may lack a word for a state that forbids a call
    with between(simulator, bank.name, keeping(told)) as url, pytest.raises(refusals) as caught:
        at(bank.name, url).formalize(submitted.native_id, None)
    assert not isinstance(caught.value, InvalidState) or caught.value.message == InvalidState.default_message
    conflict = told[-1]

    def instead(request: Received, reply: Reply) -> Reply:
        return conflict if simulator.calls(bank.name, "submit")[-1]["reference"] == "reference-2" else reply

    with between(simulator, bank.name, instead) as url, pytest.raises(ProviderRejected) as refused:
        at(bank.name, url).submit(a_submission(offer, reference="reference-2"))
    assert refused.value.message != ProviderRejected.default_message
    assert refused.value.message in unescape(conflict.body.decode())


@pytest.mark.parametrize("name", OWING)
def test_a_step_that_is_owed_is_a_matter_of_the_offer_at_submit_only(
    name: str, bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    bank.query(a_query(OWING[name]))
    told: list[Reply] = []
    with between(simulator, name, keeping(told)) as url, pytest.raises(InvalidInput) as caught:
        at(name, url).submit(a_submission(offer, OWING[name], reference="reference-2"))
    assert caught.value.field == "offer_ref.offer_id"
    owed = told[-1]

    def instead(request: Received, reply: Reply) -> Reply:
        return owed if simulator.calls(name, "formalize") else reply

    with between(simulator, name, instead) as url, pytest.raises((InvalidInput, ProviderError)) as caught:
        at(name, url).formalize(submitted.native_id, None)
    assert caught.value.field is None


@pytest.mark.parametrize("name", OWING)
def test_a_step_that_the_bank_holds_for_not_done_is_not_refused(
    name: str, bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    action = bank.query(a_query(OWING[name])).action
    assert action is not None
    told: list[Reply] = []
    with between(simulator, name, keeping(told)) as url, pytest.raises(InvalidInput):
        at(name, url).submit(a_submission(offer, OWING[name]))
    owed = told[-1]

    def instead(request: Received, reply: Reply) -> Reply:
        return reply if simulator.calls(name)[-1]["operation"] == "token" else owed

    with between(simulator, name, instead) as url:
        try:
            step = at(name, url).check(a_query(OWING[name]), action.reference).step
        except (InvalidInput, BankFailure):  # then nothing is known about the step: it is checked again
            step = StepOutcome.OPEN
    assert step is StepOutcome.OPEN


def test_an_offer_that_expired_stays_expired_after_a_newer_query(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    """Before the fix, a newer query made the simulated aroeira accept the old offer's terms again."""
    [old, _] = bank.query(a_query(loan_value=Decimal(5000), installments=24)).offers
    simulator.lab(FULL_FLOW, "faults", provider=bank.name, fault="expired_offer")
    [new, _] = bank.query(a_query(loan_value=Decimal(4000), installments=24)).offers
    for expired in (offer, old):
        with pytest.raises(OfferExpired):
            bank.submit(a_submission(expired))
    assert bank.submit(a_submission(new)).native_id
    assert len(simulator.contracts(bank.name)) == 1


def test_a_submission_is_refused_for_the_reason_that_the_laboratory_ordered(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for code in ("invalid_account", "data_mismatch", "existing_contract"):
        simulator.lab(FULL_FLOW, "faults", provider=bank.name, fault="reject_submit", reason=code)
        with pytest.raises(ProviderRejected) as refused:
            bank.submit(a_submission(offer))
        assert bank.adapter.reason(str(refused.value)).code == code
    assert simulator.contracts(bank.name) == []
    assert bank.submit(a_submission(offer)).native_id


def test_a_complete_submission_breaks_no_rule_of_the_bank(bank: BankClient, offer: BankOffer) -> None:
    assert rules.submission_faults(bank.adapter, a_submission(offer)) == []


@pytest.mark.parametrize("kind", ["corrente", "poupanca", "salario"])
@pytest.mark.parametrize("marital_status", ["solteiro", "casado", "divorciado", "viuvo", "separado", "uniao_estavel"])
def test_every_word_of_the_contract_has_a_code_at_the_bank_or_is_refused_by_its_field(
    bank: BankClient, offer: BankOffer, simulator: Simulator, kind: str, marital_status: str
) -> None:
    adapter, whole = bank.adapter, a_submission(offer)
    assert whole.account is not None
    paid = adapter.disbursement(replace(whole, account=replace(whole.account, kind=kind))).account
    assert paid is not None
    missing = [
        field
        for field, word, words in (
            ("recebimento.conta_bancaria.tipo_conta", paid.kind, adapter.account_types),
            ("titular.estado_civil", marital_status, adapter.marital_statuses),
        )
        if words and word not in words
    ]
    for sex in ("M", "F"):
        submission = replace(
            whole,
            reference=f"reference-{sex}",
            holder=replace(whole.holder, sex=sex, marital_status=marital_status),
            account=replace(whole.account, kind=kind, branch_digit="X"),
        )
        if missing:
            with pytest.raises(InvalidInput) as caught:
                bank.submit(submission)
            assert [detail.field for detail in caught.value.details] == missing
            assert simulator.calls(bank.name, "submit") == []
        else:
            assert bank.submit(submission).native_id


def test_a_text_as_long_as_the_contract_lets_it_be_is_taken_or_named(bank: BankClient, offer: BankOffer) -> None:
    whole = a_submission(offer)
    texts = {field: place for field, place in rules.SUBMISSION_TEXTS.items() if "." in place}
    for number, (field, place) in enumerate(texts.items()):
        block, _, name = place.partition(".")
        text = f"Maria {'x' * TEXT_LENGTH}"[:TEXT_LENGTH]  # two words, because a father's name needs two
        changed = replace(getattr(whole, block), **{name: text})
        submission = replace(whole, reference=f"reference-{number}", **{block: changed})
        faults = [fault.field for fault in rules.submission_faults(bank.adapter, submission)]
        if faults:
            assert faults == [field]
        else:
            assert bank.submit(submission).native_id, field


def test_a_text_of_a_query_as_long_as_the_contract_lets_it_be_is_taken_or_refused_by_name(bank: BankClient) -> None:
    for field in ("name", "portfolio", "user_agent", "device_model", "platform"):
        query = a_query(**{field: f"Maria {'x' * TEXT_LENGTH}"[:TEXT_LENGTH]})
        if bank.adapter.longest_in_query.get(field, TEXT_LENGTH) < TEXT_LENGTH and field in rules.QUERY_NAMES:
            with pytest.raises(ProviderRejected, match=rules.QUERY_NAMES[field]):
                bank.query(query)
        else:
            assert bank.query(query).status is QueryStatus.OK, field


def test_an_unknown_reference_is_none(bank: BankClient) -> None:
    assert bank.find("no-such/reference?x=1&y=ç") is None


@pytest.mark.parametrize("call", ["status", "formalize"])
def test_an_unknown_proposal_is_not_found(bank: BankClient, call: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"status": ("no-such",), "formalize": ("no-such", None)}
    with pytest.raises(NotFound):
        getattr(bank, call)(*arguments[call])


def test_cancel_works_where_it_is_supported(bank: BankClient, submitted: BankProposal) -> None:
    if not bank.adapter.cancels():
        with pytest.raises(NotSupported):
            bank.cancel(submitted.native_id, None)
    else:
        assert bank.cancel(submitted.native_id, "Desistiu.").status is ProposalStatus.CANCELLED


# --- what must never happen


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("DEBUG")
    return caplog


def test_no_personal_data_in_a_url_or_a_log_line(
    bank: BankClient, simulator: Simulator, logged: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    offer = bank.query(a_query()).offers[0]
    proposal = bank.submit(a_submission(offer))
    bank.find("reference-1")
    bank.status(proposal.native_id)
    simulator.bank(bank.name, fault="garbage")
    with pytest.raises(BankFailure):
        bank.query(a_query())
    written = capsys.readouterr()
    lines = logged.text + written.out + written.err
    for secret in (FULL_FLOW, "11987654321", "maria@example.com", "Maria da Silva", "567890"):
        assert secret not in lines
