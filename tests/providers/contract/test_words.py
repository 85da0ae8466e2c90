"""Every word of the contract in a submission, in each bank's own words."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from importlib import import_module
from typing import Any

import pytest
from structlog.testing import capture_logs

from providers import rules
from providers.operation import BankClient
from providers.types import given
from providers.types.proposal import BankSubmission
from providers.types.query import BankOffer, QueryStatus, StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import answering
from tests.providers.manuals import RANDOM_KEY, Words, manual_of, submission_body
from tests.providers.samples import (
    BANK_ACCOUNT,
    FULL_FLOW,
    OWING,
    a_query,
    a_submission,
    a_whole_submission,
    changed_submission,
    pix_key,
)
from tests.simulator.dialect import leaves

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


def test_sex_and_marital_status(bank: BankClient, offer: BankOffer, simulator: Simulator, words: Words) -> None:
    whole = a_submission(offer)
    assert set(words.marital_status[1]) - {""} == bank.adapter.words.marital_statuses.keys()
    for field, (path, told) in (("sexo", words.sex), ("estado_civil", words.marital_status)):
        found = {
            word: sent(bank, simulator, changed_submission(whole, titular={field: word or None}), path) for word in told
        }
        assert found == told


def test_the_sex_of_a_query(bank: BankClient, simulator: Simulator, words: Words) -> None:
    path, told = words.sex_of_query
    *parents, last = path.split(".")
    found = []
    for sex in (0, 1, 2):
        bank.query(a_query(sex=sex))
        found.append(reduce(lambda part, key: part[key], parents, simulator.sent(bank.name, "query")).get(last))
    assert found == told


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
