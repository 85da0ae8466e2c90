"""What the readers refuse from which the simulated banks make their requests' rules."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from simulator.fields import BR_DATE, CNPJ, CPF, EMAIL, ISO_DATE, RANDOM_KEY, Fields, Problem

MISSING, TYPE, FORMAT, VALUE = Problem
HOLDER = "90000000175"
Read = Callable[[Fields], object]


def refuse(name: str, problem: Problem) -> Any:
    raise ValueError(name, problem)


def text(pattern: str | None = None, **rules: Any) -> Read:
    return lambda fields: fields.text("x", pattern, **rules)


def moment(layout: str) -> Read:
    return lambda fields: fields.moment("x", layout)


def place(pattern: str | None = None) -> Read:
    return lambda fields: fields.position("x", "y", pattern)


#: A reader of the field `x`; values that it takes; values that it refuses, by fault.
READERS: dict[str, tuple[Read, list[Any], dict[Problem, list[Any]]]] = {
    "text": (text(longest=9), ["a b", "é"], {MISSING: [None, "", " "], TYPE: [7, True, {}], FORMAT: ["x" * 10]}),
    "no text": (text(), ["\ud7ff"], {FORMAT: ["a\0", "a\ud800"]}),
    "word": (text(one_of=("M", "F")), ["M"], {VALUE: ["m", "outro"], MISSING: [""], TYPE: [1]}),
    "cpf": (text(CPF), [HOLDER], {FORMAT: ["900.000.001-75", "9000000017", "９0000000175"]}),
    "cnpj": (text(CNPJ), ["12ABC34501DE35"], {FORMAT: ["12.ABC.345/01DE-35", "12abc34501de35"]}),
    "email": (text(EMAIL), ["maria@example.com"], {FORMAT: ["maria", "maria@example", "a b@c.d"]}),
    "random key": (text(RANDOM_KEY), ["8d6a6f0e-2f6e-4f5b-9a59-1c1f1f0f4c11"], {FORMAT: ["123e4567"]}),
    "integer": (lambda fields: fields.integer("x", least=1), [1], {VALUE: [0, -1], TYPE: ["1", Decimal("1.0"), True]}),
    "money": (
        lambda fields: fields.money("x"),
        [5000, Decimal("0.01")],
        {VALUE: [0, -1, 10**12], TYPE: ["1.00"], FORMAT: [Decimal("5000.001")]},
    ),
    "boolean": (lambda fields: fields.boolean("x"), [False], {MISSING: [None], TYPE: [0, "true"]}),
    "money in text": (
        lambda fields: fields.money_text("x"),
        ["1234.56"],
        {FORMAT: ["1234", "1234,56", "1.234.56", "-1.00", "R$ 1.00"], VALUE: ["0.00"], TYPE: [1234]},
    ),
    "ISO date": (
        lambda fields: fields.date("x", ISO_DATE),
        ["1985-03-14"],
        {FORMAT: ["14/03/1985", "1985-02-30", "1985-3-14", "1985-03-14T00:00:00Z"]},
    ),
    "Brazilian date": (
        lambda fields: fields.date("x", BR_DATE),
        ["14/03/1985"],
        {FORMAT: ["1985-03-14", "31/02/1985", "1/3/1985"]},
    ),
    "time": (moment("%H:%M:%S"), ["09:00:00"], {FORMAT: ["9:00", "9:00:00"]}),
    "UTC": (moment("%Y-%m-%dT%H:%M:%SZ"), ["2026-11-21T12:00:00Z"], {FORMAT: ["2026-11-21T12:00:00.000Z"]}),
    "offset": (moment("%Y-%m-%dT%H:%M:%S%z"), ["2026-11-21T09:00:00-03:00"], {FORMAT: ["2026-11-21T12:00:00"]}),
    "object": (lambda fields: fields.object("x"), [{}], {MISSING: [None], TYPE: [[], "x"]}),
    "objects": (lambda fields: fields.objects("x"), [[{}]], {MISSING: [None], TYPE: [{}, "x"]}),
    "father": (lambda fields: fields.father("x"), [None, "João da Silva"], {FORMAT: ["João"], TYPE: [7]}),
    "address": (lambda fields: fields.ip("x"), ["203.0.113.7", "2001:db8::1"], {FORMAT: ["localhost", "300.1.1.1"]}),
    "accuracy": (lambda fields: fields.optional_accuracy("x"), [None, 0, Decimal("12.5")], {VALUE: [-1], TYPE: ["10"]}),
    "term": (lambda fields: fields.optional_term("x"), [None, 1], {VALUE: [0], TYPE: ["24"]}),
    "optional word": (
        lambda fields: fields.optional_word("x", {"M": "m"}),
        [None, "M"],
        {VALUE: ["X"], TYPE: [8], MISSING: [""]},
    ),
    "place": (place(), [Decimal("-23.55"), 90], {VALUE: [91, -91], MISSING: [None], TYPE: ["-23.55"]}),
    "place in text": (place(r"-?\d+,\d+"), ["-23,55"], {VALUE: ["-91,0"], FORMAT: ["-23.55"], TYPE: [-23]}),
    "key that may be null": (lambda fields: fields.require_keys("x"), [None, 1], {MISSING: [...]}),
}


def test_a_reader_takes_what_is_right_and_names_what_is_wrong() -> None:
    for name in READERS:
        read, right, wrong = READERS[name]
        for value in right:
            read(Fields({"x": value, "y": "0,0" if isinstance(value, str) else 0}, refuse))
        found = {}
        for problem, values in wrong.items():
            for value in values:
                with pytest.raises(ValueError) as refused:
                    read(Fields({} if value is ... else {"x": value}, refuse, "outer."))
                found[str(value)] = refused.value.args == ("outer.x", problem)
        assert [value for value, is_told in found.items() if not is_told] == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kind": "CPF", "key": HOLDER}, None),
        ({"kind": "CPF", "key": "90000000256"}, ("key", VALUE)),
        ({"kind": "EMAIL", "key": "maria"}, ("key", FORMAT)),
        ({"kind": "outro", "key": HOLDER}, ("kind", VALUE)),
        ({"kind": "CPF"}, ("key", MISSING)),
    ],
)
def test_a_pix_key_is_of_its_kind_and_the_holders_own(given: dict[str, Any], told: tuple[str, Problem] | None) -> None:
    faults: list[tuple[str, Problem]] = []

    def note(name: str, problem: Problem) -> Any:
        faults.append((name, problem))
        raise ValueError(name)

    with suppress(ValueError):
        Fields(given, note).pix_key("kind", "key", {"CPF": CPF, "EMAIL": EMAIL}, HOLDER)
    assert faults == ([told] if told else [])


ACCOUNT = {"bank": "001", "branch": "1234", "branch_digit": None, "number": "567890", "digit": "X"}
ADDRESS = {"code": "01310100", "street": "Rua", "complement": None, "state": "SP"}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("bank", "1", FORMAT),
        ("branch", "1234-5", FORMAT),
        ("branch_digit", "x", FORMAT),
        ("number", "56.789-0", FORMAT),
        ("digit", None, MISSING),
        ("code", "01310-100", FORMAT),
        ("street", "", MISSING),
        ("complement", "", MISSING),
        ("state", "sp", FORMAT),
        ("state", "São Paulo", FORMAT),
    ],
)
def test_an_account_and_an_address_have_no_masks(name: str, value: str | None, problem: Problem) -> None:
    def read(given: dict[str, Any]) -> None:
        fields = Fields(given, refuse)
        fields.account("bank", "branch", "branch_digit", "number", "digit")
        fields.address("code", ("street",), "complement", "state")

    whole = {**ACCOUNT, **ADDRESS}
    read(whole)
    with pytest.raises(ValueError) as refused:
        read({**whole, name: value})
    assert refused.value.args == (name, problem)
