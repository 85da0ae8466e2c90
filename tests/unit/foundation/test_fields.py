"""The strict fields: what each accepts, what it refuses, and that no input raises another error; and the one serializer
of all requests."""

import contextlib
import datetime
import gc
import time
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rest_framework.exceptions import ValidationError

from consultas.serializers import QueryRequest
from foundation import fields as f
from foundation import format_fields as ff
from foundation import validation
from foundation.errors import Detail, InvalidInput
from foundation.json import parse_json_object
from foundation.validation import validated

LONE = "\ud800"
NOT_TEXT = [1, 1.5, Decimal("1.5"), True, None, [], {}, ["x"], [[["x"]]]]
NOT_NUMBER = ["1", "", "1.5", True, False, None, [], {}, "NaN"]
UUID = "123e4567-e89b-12d3-a456-426614174000"


def degrees() -> f.NumberField:
    return f.NumberField(min_value=-90, max_value=90)


#: For each field, what it takes, and what it makes of that.
GOOD: list[tuple[f.serializers.Field, dict[Any, Any]]] = [
    (f.TextField(), {" Ana ": "Ana", "x" * 120: "x" * 120, "😀" * 120: "😀" * 120}),
    (f.TextField(max_length=f.USER_AGENT_LENGTH), {"x" * 512: "x" * 512}),
    (f.TextField(allow_blank=True), {"": ""}),
    (ff.CPFField(), {"52998224725": "52998224725", "00000000191": "00000000191"}),
    (ff.CNPJField(), {"11222333000181": "11222333000181", "11.222.333/0001-81": "11222333000181"}),
    (ff.CNPJField(), dict.fromkeys(("12ABC34501DE35", "12.ABC.345/01DE-35", "12abc34501de35"), "12ABC34501DE35")),
    (ff.PhoneField(), {"11987654321": "11987654321", "5511987654321": "11987654321", "5533334444": "5533334444"}),
    (ff.PhoneField(), {"1133334444": "1133334444", "551133334444": "1133334444"}),
    (ff.PhoneField(), dict.fromkeys(("55987654321", "5555987654321"), "55987654321")),  # Rio Grande do Sul's area code
    (ff.EmailField(), {"ana@exemplo.com.br": "ana@exemplo.com.br"}),
    (
        ff.IPField(),
        {"203.0.113.7": "203.0.113.7", "2001:DB8::0001": "2001:db8::1", "::ffff:203.0.113.7": "203.0.113.7"},
    ),
    (ff.UFField(), {"SP": "SP"}),
    (ff.ReferenceField(), {name: name for name in ("order:7", "order-8._x", "order:52998224725", "loja-1764115247")}),
    (ff.CEPField(), dict.fromkeys(("01310100", "01310-100", "01.310-100"), "01310100")),
    (ff.DigitsField(longest=12), {"12.345-6": "123456"}),
    (ff.UUIDField(), {UUID.upper(): uuid.UUID(UUID)}),
    (f.DateField(), {"2024-02-29": datetime.date(2024, 2, 29)}),
    (f.DateField(not_future=True), {day: datetime.date.fromisoformat(day) for day in ("1990-05-17", "1900-01-01")}),
    (f.BooleanField(), {True: True, False: False}),
    (f.IntegerField(), {2**31 - 1: 2**31 - 1}),
    (f.IntegerField(min_value=1, max_value=420), {420: 420}),
    (f.DecimalField(), {1000: Decimal("1000.00"), Decimal("0.1"): Decimal("0.10")}),
    (f.DecimalField(), {Decimal("1.5E+3"): Decimal("1500.00"), Decimal("0e999999999"): Decimal("0.00")}),
    (f.DecimalField(), {Decimal("10.5000"): Decimal("10.50")}),  # the same number as 10.5
    (f.DecimalField(), {Decimal("9999999999.99"): Decimal("9999999999.99")}),
    (f.DecimalField(decimal_places=6), {Decimal("1.990001"): Decimal("1.990001")}),
    (degrees(), {-90: Decimal(-90), Decimal("-23.50"): Decimal("-23.5"), Decimal("1e1"): Decimal(10)}),
    (degrees(), {Decimal("-90.0"): Decimal(-90), Decimal("-0.00"): Decimal(0)}),
    (degrees(), {Decimal("-23.550519876543219"): Decimal("-23.55051988")}),
    (f.ChoiceField(["M", "F"]), {"M": "M"}),
    (f.ChoiceField([0, 1, 2]), {0: 0}),
    (f.ListField(child=f.TextField(), max_length=2), {("a", "b"): ["a", "b"]}),
    (f.ListField(child=f.TextField()), {(): []}),
]

#: For each field, what it refuses. `refused` adds the values of other JSON types.
BAD: list[tuple[f.serializers.Field, list[Any]]] = [
    (f.TextField(), ["  ", "x" * 121, "a\0", LONE]),
    (f.TextField(max_length=None, min_length=2), ["a"]),
    (ff.DigitsField(longest=1), ["12"]),
    (ff.CPFField(), [" 52998224725", "٥" * 11, "5299822472５"]),
    (ff.CPFField(), ["529.982.247-25", "52998224724", "11111111111", "5299822472", "052998224725"]),
    (ff.CNPJField(), ["\0" * 14, "ß" * 14, LONE]),
    (ff.ReferenceField(), ["", " ", "a b", "x" * 65, "é", 7, "order/7"]),
    (ff.ReferenceField(), ["52998224725", "529.982.247-25", "11.222.333:0001-81", "12abc34501de35"]),
    (ff.CNPJField(), ["11222333000180", "12ABC34501DE3X", "12ABC34501DEA5", "00000000000000", "1122233300018"]),
    (
        ff.PhoneField(),
        ["(11) 98765-4321", "11 987654321", "١١٩٨٧٦٥٤٣٢١", "１１９８７６５４３２１", "11987654321\n"],
    ),
    (
        ff.PhoneField(),
        ["987654321", "1198765432100", "54119876543210", "4411987654321", "+5511987654321", "55119876543210"],
    ),
    (ff.EmailField(), ['"ana maria"@exemplo.com', "a b@exemplo.com", "ana@exemplo.com\n", "ana\x00@exemplo.com"]),
    (ff.EmailField(), ["ana", "ana@", "@exemplo.com", "ana@exemplo", "ana@localhost", "ana@[127.0.0.1]"]),
    (ff.EmailField(), ["a" * 64 + "@" + ".".join(["b" * 60] * 4) + ".com", LONE + "@exemplo.com"]),
    (ff.IPField(), ["203.0.113.7 ", "1" * 5000]),
    (
        ff.IPField(),
        ["203.0.113", "203.0.113.256", "203.0.113.07", "fe80::1%eth0", "::1%", "203.0.113.7/32", "localhost"],
    ),
    (ff.UFField(), ["sp", "XX", "SPA", "S"]),
    (ff.CEPField(), ["0131010", "013101000", "0131a100", "01310--100"]),
    (ff.DigitsField(longest=4), ["-", "12345", "12x", "١٢"]),
    (ff.UUIDField(), [UUID.replace("-", ""), "{123e4567-e89b-12d3-a456-4266141740}"]),
    (f.DateField(), ["09/02/2024", "２０２４-02-09", " 2024-02-09", "2024-02-09\n"]),
    (f.DateField(), ["2023-02-29", "2024-2-9", "20240209", "2024-02-09T00:00:00Z", "0000-01-01", "2024-W06-5"]),
    (f.DateField(not_future=True), ["9999-12-31", "1899-12-31", "0001-01-01"]),
    (f.BooleanField(), ["true", "", 0, 1, "yes", None, [], {}]),
    (f.IntegerField(), [2**31, -(2**31) - 1, Decimal("1.0"), 1.0, Decimal("9" * 50)]),
    (f.IntegerField(min_value=1, max_value=420), [0, 421, -1]),
    (f.DecimalField(), [*map(Decimal, ("0.001", "1E-400", "10000000000", "1e999999", "-1e99999999999", "9" * 5000))]),
    (f.DecimalField(), [10**29, 1.5]),
    (f.DecimalField(min_value=Decimal("0.01")), [0, -1, Decimal("-0.0"), Decimal("0.00")]),
    (f.DecimalField(allow_null=True), ["", " ", "1"]),
    (degrees(), [91, Decimal("-90.0000001"), Decimal("1e999999999"), 1.5]),
    (f.ChoiceField(["M", "F"]), ["m", "", "X", LONE, 0, *NOT_TEXT]),
    (f.ChoiceField([0, 1, 2]), [3, "0", True, False, Decimal(1), None]),
    (f.ListField(child=f.TextField(), max_length=2), ["a", {}, None, 1, ["a", "b", "c"], [1], [None], [LONE]]),
]


def refused() -> list[tuple[f.serializers.Field, list[Any]]]:
    found = []
    for field, values in BAD:
        is_number = isinstance(field, f.IntegerField | f.DecimalField | f.NumberField)
        others = NOT_NUMBER if is_number else ["", *NOT_TEXT] if isinstance(field, f.TextField | f.DateField) else []
        found.append((field, [each for each in (*values, *others) if not (each is None and field.allow_null)]))
    return found


def test_takes():
    for field, sent, kept in [(field, *pair) for field, pairs in GOOD for pair in pairs.items()]:
        value = field.run_validation(list(sent) if isinstance(sent, tuple) else sent)
        assert (value, type(value), str(value)) == (kept, type(kept), str(kept)), sent
    assert len(set(ff.STATES)) == 27


def test_refuses_in_one_clear_sentence_that_does_not_repeat_it():
    for field, values in refused():
        for sent in values:
            with pytest.raises(ValidationError) as caught:
                pytest.fail(f"taken: {sent!r:.100} as {field.run_validation(sent)!r:.100}")
            [message] = f_leaves(caught.value.detail)
            assert (message[0].isupper(), message[-1]) == (True, "."), repr(sent)
            message.encode()
            assert not (isinstance(sent, str) and len(sent) > 4 and sent in message)


def f_leaves(detail):
    if isinstance(detail, dict):
        for inner in detail.values():
            yield from f_leaves(inner)
    elif isinstance(detail, list):
        for inner in detail:
            yield from f_leaves(inner)
    else:
        yield str(detail)


def test_today_in_brasilia_is_not_in_the_future_and_tomorrow_is(monkeypatch):
    """At 22:30 on the 10th in Brasília, which is already the 11th in UTC."""
    now = datetime.datetime(2026, 3, 11, 1, 30, tzinfo=datetime.UTC)
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    field = f.DateField(not_future=True)
    assert field.run_validation("2026-03-10") == datetime.date(2026, 3, 10)
    with pytest.raises(ValidationError, match="futuro"):
        field.run_validation("2026-03-11")


def test_a_limit_is_written_with_a_comma():
    with pytest.raises(ValidationError) as caught:
        f.DecimalField(min_value=Decimal("0.01")).run_validation(0)
    assert caught.value.detail == ["Deve ser no mínimo 0,01."]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(st.characters())
    | st.from_regex(r"\A[0-9./-]{8,18}\Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ALL_FIELDS = [field for field, _ in BAD]


@given(field=st.sampled_from(ALL_FIELDS), value=json_values)
@example(field=f.DecimalField(), value=Decimal("1e999999999999999999"))
@example(field=f.DecimalField(), value=Decimal("1e-999999999999999999"))
@example(field=f.NumberField(min_value=-90, max_value=90), value=Decimal("1e-999999999999999999"))
@example(field=f.NumberField(min_value=-90, max_value=90), value=Decimal("0e999999999999999999"))
@example(field=f.DecimalField(), value=Decimal("-0e-999999999999999999"))
@example(field=ff.IPField(), value="::ffff:1.2.3.4%\0")
def test_no_value_raises_anything_but_a_validation_error(field, value):
    try:
        field.run_validation(value)
    except ValidationError as error:
        for message in f_leaves(error.detail):
            message.encode()


@given(
    field=st.sampled_from(ALL_FIELDS),
    number=st.from_regex(r"\A-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,22})?\Z"),
)
def test_no_json_number_breaks_reader_and_field_together(field, number):
    with contextlib.suppress(ValidationError, InvalidInput):
        field.run_validation(parse_json_object(f'{{"x": {number}}}'.encode())["x"])


class Whole(f.Block):
    """A block with one field of each kind, as a contract's object would have."""

    text = f.TextField()
    cpf = ff.CPFField()
    amount = f.DecimalField()
    names = f.ListField(child=f.TextField())


class Nested(f.Block):
    whole = Whole()
    several = Whole(many=True)
    none = Whole(many=True, required=False, allow_null=True)


def test_a_list_that_may_be_null_has_no_item_that_is():
    serializer = Nested(data={"none": [None]}, partial=True)
    assert not serializer.is_valid()
    assert serializer.errors == {"none": {0: ["O campo não pode ser nulo."]}}


@given(
    st.dictionaries(
        st.sampled_from(["whole", "several", "x"]),
        json_values | st.lists(st.dictionaries(st.sampled_from(["text", "cpf", "names"]), json_values)),
    )
)
def test_no_body_breaks_a_serializer(body):
    serializer = Nested(data=body)
    if not serializer.is_valid():
        for message in f_leaves(serializer.errors):
            message.encode()


def test_a_list_that_is_too_long_is_refused_before_its_items() -> None:
    """Before the fix, each item was validated first: 250 KB of wrong items cost 3.2 s."""

    class Body(f.Block):
        names = f.ListField(child=f.TextField(), max_length=64)

    body = Body(data={"names": [1] * 100_000})
    began = time.monotonic()
    assert not body.is_valid()
    assert body.errors == {"names": ["Deve ter no máximo 64 itens."]}
    assert time.monotonic() - began < 0.2


def test_a_reply_names_at_most_100_faults() -> None:
    told = InvalidInput(details=[Detail(f"campo.{number}", "errado") for number in range(5_000)]).as_dict()
    assert ([each["field"] for each in told["details"]], told["field"]) == (
        [f"campo.{number}" for number in range(100)],
        "campo.0",
    )


# --- One serializer serves all requests, and keeps no data of any request -------------------------------------------


class Inner(f.Block):
    word = f.TextField()


class Body(f.Block):
    name = f.TextField()
    inner = Inner(required=False)
    many = Inner(many=True, required=False)
    yes = f.BooleanField(required=False)


def reachable(start: Any) -> set[str]:
    """The texts reachable from `start` by references, except through modules and classes."""
    texts: set[str] = set()
    seen: set[int] = set()
    todo = [start]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or type(each).__name__ in ("module", "function"):
            continue
        seen.add(id(each))
        if isinstance(each, str):
            texts.add(each)
        todo.extend(gc.get_referents(each))
    return texts


def test_a_serializer_keeps_nothing_of_a_body_right_or_wrong():
    secret = "only-in-this-body"
    validated(Body, {"name": secret, "inner": {"word": secret}, "many": [{"word": secret}], "yes": True})
    with pytest.raises(InvalidInput):
        validated(Body, {"name": secret, "inner": {"word": 1}, "many": [{"word": secret}, {}], "yes": secret})
    serializer = validation._built(Body, "")
    assert "name" in reachable(serializer)
    assert not [text for text in reachable(serializer) if secret in text]


def test_faults_of_one_body_are_not_those_of_the_next():
    with pytest.raises(InvalidInput) as fault:
        validated(Body, {"inner": {}, "many": [{"word": "a"}, {"word": 1}]})
    assert [detail.field for detail in fault.value.details] == ["name", "inner.word", "many.1.word"]
    assert validated(Body, {"name": "a"}) == {"name": "a"}
    assert validated(Body, {"name": "b", "yes": False}) == {"name": "b", "yes": False}


def test_it_is_built_once_for_each_variant():
    own, session = (validation._built(QueryRequest, variant) for variant in ("own evidence", "session"))
    assert own is validation._built(QueryRequest, QueryRequest.variant_for({"cpf": "1"}))
    assert session is validation._built(QueryRequest, QueryRequest.variant_for({"authorization_id": "a"}))
    assert own.fields["client_ip"].required
    assert "client_ip" not in session.fields
    assert not QueryRequest().fields["client_ip"].required, "what the API's schema shows"
