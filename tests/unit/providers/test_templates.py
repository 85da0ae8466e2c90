"""Templates of bodies and answers: what stands where, what is left out, and what each notation writes and reads."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from proposals.serializers import SubmissionRequest
from providers import registry
from providers.answers import Answers
from providers.bodies import Bodies
from providers.errors import ProviderError
from providers.notation import CENTS, DATE_BR, Notations
from providers.types.query import Geolocation
from providers.types.submission import BankAccount
from providers.words import Words
from tests.providers.samples import OFFER, a_query, a_submission

NOTATIONS = Notations(date=DATE_BR, amount=CENTS, phone="+55{}".format)
WORDS = Words(account_types={"corrente": "CC"}, pix_keys={"cpf": "CPF"})
PLACE = {"lat": "geolocation.lat", "metres": "geolocation.accuracy"}
HERE = Geolocation(Decimal("-23.5"), Decimal("-46.6"))


def query_body(template: dict[str, Any], own: dict[str, Any] | None = None, **changes: Any) -> Any:
    return Bodies({"query": template, "place": PLACE}, NOTATIONS, WORDS).body("query", a_query(**changes), own or {})


@pytest.mark.parametrize(
    ("template", "changes", "body"),
    [
        ({"born": "person.birth_date", "tel": "person.phone"}, {}, {"born": "14/03/1985", "tel": "+5511987654321"}),
        ({"ddd": "person.area_code", "n": "person.local_number"}, {}, {"ddd": "11", "n": "987654321"}),
        ({"amount": "loan_value"}, {"loan_value": Decimal("10.5")}, {"amount": 1050}),
        ({"sex": "sex"}, {"sex": 1}, {"sex": "M"}),
        ({"kind": "=opt_in", "code": 3, "is": True}, {}, {"kind": "opt_in", "code": 3, "is": True}),
        ({"agent": "user_agent", "model?": "device_model"}, {}, {"agent": None}),
        ({"at": PLACE}, {"geolocation": HERE}, {"at": {"lat": Decimal("-23.5"), "metres": None}}),
        ({"n": 1, "at": PLACE, "or?": PLACE}, {"geolocation": None}, {"n": 1, "at": None}),
        ({"device": {"agent": "user_agent"}}, {}, {"device": {"agent": None}}),
        ({"device?": {"agent?": "user_agent"}}, {}, {}),
        ({"...": "{place}", "n": 1}, {"geolocation": HERE}, {"lat": Decimal("-23.5"), "metres": None, "n": 1}),
        ({"...": "{place}", "n": 1}, {"geolocation": None}, {"n": 1}),
        ({"n": 1, "at": "{place}"}, {"geolocation": None}, {"n": 1, "at": None}),
    ],
)
def test_a_template_is_filled_in(template: dict[str, Any], changes: dict[str, Any], body: dict[str, Any]) -> None:
    assert query_body(template, **changes) == body


def test_a_value_of_the_adapter_is_sent_as_it_is_and_goes_first() -> None:
    assert query_body({"sex": "sex", "wish": "wish"}, {"sex": 0, "wish": Decimal(1)}) == {"sex": 0, "wish": Decimal(1)}


@pytest.mark.parametrize("unknown", ["hat", "person.hat", "{hat}"])
def test_a_name_that_does_not_exist_is_an_error(unknown: str) -> None:
    with pytest.raises((AttributeError, KeyError)):
        query_body({"x": unknown})


SUBMISSION = {
    "submission": {
        "who": {"ddd": "person.area_code", "n": "person.local_number"},
        "to": "{payment}",
        "id": "reference",
    },
    "account": {"form": "=C", "bank": "account.bank", "kind": "account.kind"},
    "pix": {"form": "=X", "key": "pix.key"},
}


def test_the_payment_is_an_account_or_a_key() -> None:
    bodies = Bodies(SUBMISSION, NOTATIONS, WORDS)
    paid = bodies.body("submission", a_submission(OFFER), {})["to"]
    assert paid == {"form": "C", "bank": "001", "kind": "CC"}
    account = BankAccount(bank="001", branch="1234", number="567890", digit="1", kind="salario")
    with pytest.raises(KeyError):  # the rules refuse such a submission before
        bodies.body("submission", a_submission(OFFER, account=account), {})


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
    assert adapter is not None
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


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ANSWER, {"admission_date": date(2019, 2, 1), "margin": None}),
        ({**ANSWER, "since": None, "left": 150, "more": 1}, {"admission_date": None, "margin": Decimal("1.50")}),
    ],
)
def test_an_answer_is_read_by_our_names(answer: dict[str, Any], told: dict[str, Any]) -> None:
    read = Answers({"employment": EMPLOYMENT}, NOTATIONS).read("employment", answer)
    assert read == {"registration": "1", "employer_cnpj": "11", "employer_name": "Aurora", **told}


@pytest.mark.parametrize("change", [{"id": 1}, {"id": None}, {"firm": "Aurora"}, {"left": "150"}])
def test_an_answer_of_another_form_is_unreadable(change: dict[str, Any]) -> None:
    answers = Answers({"employment": EMPLOYMENT}, NOTATIONS)
    with pytest.raises(ProviderError):
        answers.read("employment", {**ANSWER, **change})
    with pytest.raises(ProviderError):
        answers.read("employment", {key: value for key, value in ANSWER.items() if key not in change} | change)


def test_entries_of_a_dict_are_kept_as_they_are_and_what_a_null_would_hold_is_left_out() -> None:
    answers = Answers({"proposal": {"id": "native_id", "p": "data.p", "link": {"url": "signature_url"}}}, NOTATIONS)
    assert answers.read("proposal", {"id": "1", "p": 7, "link": None}) == {"native_id": "1", "data": {"p": 7}}
