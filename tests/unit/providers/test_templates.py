"""Templates of bodies and answers: the contract's names of a bank's fields, and what is no template or no answer. What
templates make and read at each bank: tests/providers/contract/test_queries.py and test_submissions.py."""

from typing import Any

import pytest

from proposals.serializers import SubmissionRequest
from providers import registry
from providers.errors import ProviderError
from providers.notation import CENTS, DATE_BR, Notations
from providers.templates import Answers, Bodies
from providers.words import Words
from tests.providers.samples import BANK_ACCOUNT, OFFER, a_query, a_submission

NOTATIONS = Notations(date=DATE_BR, amount=CENTS, phone="+55{}".format)
WORDS = Words(account_types={"corrente": "CC"}, pix_keys={"cpf": "CPF"})


@pytest.mark.parametrize("unknown", ["hat", "person.hat", "{hat}"])
def test_a_name_that_does_not_exist_is_an_error(unknown: str) -> None:
    with pytest.raises((AttributeError, KeyError)):
        Bodies({"query": {"x": unknown}}, NOTATIONS, WORDS).body("query", a_query(), {})


SUBMISSION = {
    "submission": {
        "who": {"ddd": "person.area_code", "n": "person.local_number"},
        "to": "{payment}",
        "id": "reference",
    },
    "account": {
        "form": "=C",
        "bank": "recebimento.conta_bancaria.banco",
        "kind": "recebimento.conta_bancaria.tipo_conta",
    },
    "pix": {"form": "=X", "key": "recebimento.pix.chave"},
}


def test_a_kind_of_account_that_the_bank_has_not_is_an_error() -> None:
    """The rules refuse such a submission before."""
    paid_to = {"conta_bancaria": {**BANK_ACCOUNT, "tipo_conta": "salario"}}
    with pytest.raises(KeyError):
        Bodies(SUBMISSION, NOTATIONS, WORDS).body("submission", a_submission(OFFER, recebimento=paid_to), {})


def test_the_banks_name_of_a_field_is_found_with_that_of_the_object_around_it() -> None:
    assert Bodies(SUBMISSION, NOTATIONS, WORDS).contract_names == {
        "who": "contato.telefone",
        "who.ddd": "contato.telefone",
        "who.n": "contato.telefone",
        "to.bank": "recebimento.conta_bancaria.banco",
        "to.kind": "recebimento.conta_bancaria.tipo_conta",
        "to.key": "recebimento.pix.chave",
    }


@pytest.mark.parametrize("name", registry.names())
def test_a_banks_fields_have_names_of_the_contract(name: str) -> None:
    adapter, contract = registry.get(name), SubmissionRequest()
    assert len(adapter.bodies.contract_names) > 20
    for ours in adapter.bodies.contract_names.values():
        block: Any = contract
        for key in ours.split("."):
            block = block.fields[key]


EMPLOYMENT = {
    "id": "registration",
    "firm": {"cnpj": "employer_cnpj", "name": "employer_name"},
    "since": "admission_date",
    "left?": "margin",
}
ANSWER = {"id": "1", "firm": {"cnpj": "11", "name": "Aurora"}, "since": "01/02/2019"}


@pytest.mark.parametrize("change", [{"id": 1}, {"id": None}, {"firm": "Aurora"}, {"left": "150"}])
def test_an_answer_of_another_form_is_unreadable(change: dict[str, Any]) -> None:
    answers = Answers({"employment": EMPLOYMENT}, NOTATIONS)
    with pytest.raises(ProviderError):
        answers.read("employment", {**ANSWER, **change})
    with pytest.raises(ProviderError):
        answers.read("employment", {key: value for key, value in ANSWER.items() if key not in change} | change)
