"""Submissions to every bank: each word of the contract in the bank's own words, and what bank and rules refuse."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from html import unescape
from importlib import import_module
from typing import Any

import pytest
from structlog.testing import capture_logs

from foundation.errors import ApiError, InvalidInput, InvalidState
from foundation.fields import TEXT_LENGTH
from proposals.serializers import SubmissionRequest
from providers import rules
from providers.errors import BankFailure, OfferExpired, ProviderError, ProviderRejected
from providers.operation import BankClient
from providers.types import given
from providers.types.proposal import BankProposal, BankSubmission
from providers.types.query import BankOffer, QueryStatus, StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import answering, at, between, lenient
from tests.providers.manuals import RANDOM_KEY, Words, manual_of, submission_body
from tests.providers.samples import (
    BANK_ACCOUNT,
    FULL_FLOW,
    OWING,
    SIMULATED,
    a_query,
    a_submission,
    a_whole_submission,
    changed_submission,
    pix_key,
)
from tests.receiver import Received, Reply
from tests.simulator.dialect import leaves
from tests.unit.providers.test_rules import TEXTS

ACCOUNT = "recebimento.conta_bancaria"
PIX = {"cpf": FULL_FLOW, "telefone": "11987654321", "email": "maria@example.com", "aleatoria": RANDOM_KEY}


@pytest.fixture
def words(name: str) -> Words:
    return manual_of(name).words


def sent(bank: BankClient, simulator: Simulator, submission: BankSubmission, path: str) -> Any:
    """What stands at a dotted path of the body with which the bank got this submission."""
    number = len(simulator.calls(bank.name, "submit"))
    assert bank.submit(replace(submission, reference=f"reference-{number}")).native_id
    return reduce(lambda found, key: found[key], path.split(".") if path else [], simulator.sent(bank.name, "submit"))


def test_sex_of_submission_and_query_and_marital_status(
    bank: BankClient, offer: BankOffer, simulator: Simulator, words: Words
) -> None:
    whole = a_submission(offer)
    assert set(words.marital_status[1]) - {""} == bank.adapter.words.marital_statuses.keys()
    for field, (path, told) in (("sexo", words.sex), ("estado_civil", words.marital_status)):
        found = {
            word: sent(bank, simulator, changed_submission(whole, titular={field: word or None}), path) for word in told
        }
        assert found == told
    path, told = words.sex_of_query
    *parents, last = path.split(".")
    of_query = []
    for sex in (0, 1, 2):
        bank.query(a_query(sex=sex))
        of_query.append(reduce(lambda part, key: part[key], parents, simulator.sent(bank.name, "query")).get(last))
    assert of_query == told


def test_a_father_who_is_not_told_is_not_sent_and_references_are_where_the_bank_requires_them(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    whole = a_submission(offer)
    fatherless = changed_submission(whole, titular={"nome_pai": None})
    told, bare = (str(sent(bank, simulator, each, "")) for each in (whole, fatherless))
    assert ("João da Silva" in told, "João da Silva" in bare) == (True, False)
    assert ("Rita Lima" in told) is ("referencias" in bank.adapter.required)


def test_the_kind_of_an_account(bank: BankClient, offer: BankOffer, simulator: Simulator, words: Words) -> None:
    path, told = words.account_kind
    paid_to = {
        kind: a_submission(offer, recebimento={"conta_bancaria": {**BANK_ACCOUNT, "tipo_conta": kind}})
        for kind in ("corrente", "poupanca", "salario")
    }
    found = {kind: sent(bank, simulator, paid_to[kind], path) for kind in told}
    assert found == told
    for kind, submission in paid_to.items():
        faults = rules.submission_faults(bank.adapter, submission)
        assert [fault.field for fault in faults] == ([] if kind in told else [f"{ACCOUNT}.tipo_conta"])


def test_a_whole_submission_is_sent_as_the_manual_shows_it(
    bank: BankClient, offer: BankOffer, simulator: Simulator, words: Words
) -> None:
    dialect = import_module(f"tests.simulator.test_{bank.name}").DIALECT
    bank.submit(a_whole_submission(offer))
    sent = simulator.sent(bank.name, "submit")
    simulation = dict(leaves(sent))[dialect.simulation]
    # A bank that was asked for a second simulation gets its id.
    assert (simulation == offer.native_offer_id) is (len(simulator.calls(bank.name, "query")) == 1)
    body = submission_body(bank.name, {**words.whole, dialect.simulation: simulation})
    assert sent == dialect.complete_submission(body)


def test_pix_keys(bank: BankClient, offer: BankOffer, simulator: Simulator, words: Words) -> None:
    path, told = words.pix
    assert set(told) == (set(PIX) if bank.adapter.words.pix_keys else set())
    for kind, part in told.items():
        submission = a_submission(offer, recebimento=pix_key(kind, PIX[kind]))
        assert rules.submission_faults(bank.adapter, submission) == []
        found = sent(bank, simulator, submission, path)
        assert (found if path else {name: found[name] for name in part}) == part
        assert "567890" not in simulator.calls(bank.name, "submit")[-1]["body"], "the account is not sent, too"


@pytest.mark.parametrize("name", [name for name in OWING if given(manual_of(name).step).look])
def test_an_unknown_word_leaves_a_step_open_and_is_logged(name: str) -> None:
    step = given(manual_of(name).step)
    with capture_logs() as logs, answering(name, step.look_at("EM_ORBITA")) as bank:
        result = bank.check(a_query(OWING[name]), "s1")
    assert (result.status, result.step) == (step.status, StepOutcome.OPEN)
    assert result.action is None or result.action.expires_at == datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert [line["word"] for line in logs if line["event"] == "bank_step_unknown"] == ["EM_ORBITA"]
    expired = next(word for word, state in bank.adapter.words.steps.items() if state is StepOutcome.EXPIRED)
    with answering(name, step.look_at(expired)) as bank:
        result = bank.check(a_query(OWING[name]), "s1")
    assert (result.status, result.step) == (QueryStatus.NO_OFFERS, StepOutcome.EXPIRED)


# --- Refusals, and how the partner reads them -----------------------------------------------------------------------


def refused(simulator: Simulator, name: str, call: Callable[[BankClient], object]) -> tuple[ApiError, Reply]:
    """The error of a `call` that the bank refuses, and the answer by which it does so."""
    told: list[Reply] = []

    def keep(request: Received, reply: Reply) -> Reply:
        told.append(reply)
        return reply

    with between(simulator, name, keep) as url, pytest.raises(ApiError) as caught:
        call(at(name, url))
    return caught.value, told[-1]


def answered(simulator: Simulator, name: str, operation: str, reply: Reply) -> AbstractContextManager[str]:
    """The address of the bank that gives this answer to its newest call if that is this operation."""
    return between(
        simulator, name, lambda _, own: reply if simulator.calls(name)[-1]["operation"] == operation else own
    )


def test_what_forbids_a_call_on_a_proposal_refuses_a_submission_in_the_banks_own_words(
    bank: BankClient, offer: BankOffer, approved: BankProposal, simulator: Simulator
) -> None:
    bank.formalize(approved.native_id, None)
    simulator.complete(FULL_FLOW, bank.name, "signature", "refused")
    error, conflict = refused(simulator, bank.name, lambda asked: asked.formalize(approved.native_id, None))
    assert isinstance(error, InvalidState | ProviderRejected), "a manual may lack a word for such a state"
    assert not isinstance(error, InvalidState) or error.message == InvalidState.default_message
    with answered(simulator, bank.name, "submit", conflict) as url, pytest.raises(ProviderRejected) as caught:
        at(bank.name, url).submit(a_submission(offer, reference="reference-2"))
    assert caught.value.message != ProviderRejected.default_message
    assert caught.value.message in unescape(conflict.body.decode())


@pytest.mark.parametrize("name", OWING)
def test_a_step_that_is_owed_is_a_matter_of_the_offer_at_submit_only_and_not_refused(
    name: str, bank: BankClient, offer: BankOffer, submitted: BankProposal, simulator: Simulator
) -> None:
    query = a_query(OWING[name])
    action = given(bank.query(query).action)
    submission = a_submission(offer, OWING[name], reference="reference-2")
    error, owed = refused(simulator, name, lambda asked: asked.submit(submission))
    assert (type(error), error.field) == (InvalidInput, "offer_ref.offer_id")
    assert given(manual_of(name).step).unauthorized in error.message
    assert len(simulator.contracts(name)) == 1
    with answered(simulator, name, "formalize", owed) as url, pytest.raises((InvalidInput, ProviderError)) as caught:
        at(name, url).formalize(submitted.native_id, None)
    assert caught.value.field is None
    with answered(simulator, name, "poll", owed) as url:
        try:
            step = at(name, url).check(query, action.reference).step
        except (InvalidInput, BankFailure):  # then nothing is known about the step: it is checked again
            step = StepOutcome.OPEN
    assert step is StepOutcome.OPEN


def test_the_bank_refuses_a_submission_without_a_field_that_it_requires(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    for field in bank.adapter.required:
        whole, (block, _, part) = a_submission(offer), field.partition(".")
        without = changed_submission(whole, **{block: {part: None}}) if part else replace(whole, **{block: ()})
        with pytest.raises((ProviderRejected, ProviderError)):
            lenient(bank).submit(without)
    assert simulator.contracts(bank.name) == []


def test_the_bank_takes_a_submission_without_what_it_does_not_require(bank: BankClient, offer: BankOffer) -> None:
    required = bank.adapter.required
    bare = a_submission(offer)
    for block in ("titular", "documento", "endereco", "vinculo"):
        fields = SubmissionRequest().fields[block].fields.values()
        absent = [
            each.field_name for each in fields if not each.required and f"{block}.{each.field_name}" not in required
        ]
        bare = changed_submission(bare, **{block: dict.fromkeys(absent)})
    assert bank.submit(bare if "referencias" in required else replace(bare, referencias=())).native_id


def test_an_offer_that_is_unknown_or_expired_stays_expired_after_a_newer_query(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    """Before the fix, a newer query made the simulated aroeira accept the old offer's terms again."""
    unknown = replace(offer, native_offer_id="forgotten", table_code="99999")
    [old, _] = bank.query(a_query(loan_value=Decimal(5000), installments=24)).offers
    simulator.lab(FULL_FLOW, "faults", provider=bank.name, fault="expired_offer")
    [new, _] = bank.query(a_query(loan_value=Decimal(4000), installments=24)).offers
    for expired in (unknown, offer, old):
        with pytest.raises(OfferExpired):
            bank.submit(a_submission(expired))
    assert bank.submit(a_submission(new)).native_id
    assert len(simulator.contracts(bank.name)) == 1


def test_a_submission_is_refused_for_the_reason_that_the_laboratory_ordered(
    bank: BankClient, offer: BankOffer, simulator: Simulator
) -> None:
    ordered = {"invalid_account", "data_mismatch", "existing_contract"} & SIMULATED[bank.name].refusals.keys()
    assert "existing_contract" in ordered
    for code in sorted(ordered):
        simulator.lab(FULL_FLOW, "faults", provider=bank.name, fault="reject_submit", reason=code)
        with pytest.raises(ProviderRejected) as refused:
            bank.submit(a_submission(offer))
        assert str(refused.value) == SIMULATED[bank.name].refusals[code], "the bank's own words"
        assert bank.adapter.reason(str(refused.value)).code == code
    assert simulator.contracts(bank.name) == []
    assert bank.submit(a_submission(offer)).native_id


def test_a_text_is_taken_up_to_the_banks_length_and_beyond_it_named_and_refused(
    bank: BankClient, offer: BankOffer
) -> None:
    whole, limits = a_submission(offer), bank.adapter.limits.texts

    def with_text(submission: BankSubmission, field: str, length: int) -> BankSubmission:
        block, _, name = field.partition(".")
        text = f"Maria {'x' * TEXT_LENGTH}"[:length]  # two words, because a father's name needs two
        return changed_submission(submission, **{block: {name: text}})

    def faults(submission: BankSubmission) -> list[str | None]:
        return [fault.field for fault in rules.submission_faults(bank.adapter, submission)]

    longest = whole
    for field in TEXTS:
        length = limits.get(field, TEXT_LENGTH)
        named = faults(with_text(whole, field, length))
        assert named == [] or (named == [field] and field not in limits), "a list of its own has no such text"
        if not named:
            longest = with_text(longest, field, length)
        if length < TEXT_LENGTH:
            beyond = with_text(whole, field, length + 1)
            assert faults(beyond) == [field]
            with pytest.raises((ProviderRejected, ProviderError)):
                lenient(bank).submit(beyond)
    assert bank.submit(longest).native_id
    text = f"Maria {'x' * TEXT_LENGTH}"[:TEXT_LENGTH]  # which is all that limits a query
    query = a_query(**dict.fromkeys(("name", "portfolio", "user_agent", "device_model", "platform"), text))
    assert bank.query(query).status is QueryStatus.OK
