"""Hostile and malformed bodies: 413, 415 or 422 with the error object, never a 500."""

import json
import time
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import gevent
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rest_framework.renderers import JSONRenderer

from foundation.errors import InvalidInput
from foundation.json import Response, is_json, parse_json_object
from providers.types.query import QueryStatus
from tests.factories import issue_key

URL = "/partners/v1/probe"
MALFORMED = [
    b" ",
    b"{",
    b"nul",
    b"{'nome': 'x'}",
    b'{"nome": "x",}',
    b'{"nome": "x"} {}',
    b'{"nome": "\xff"}',
    b"\xef\xbb\xbf{}",
    '{"nome": "x"}'.encode("utf-16"),
    b'{"nome": NaN}',
    b'{"nome": Infinity}',
    b'{"nome": -Infinity}',
    b'{"nome": "a\tb"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"a":' * 101 + b"1" + b"}" * 101,
    b'{"nome": ' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"a": "' + b'\\"' * 50_000 + b"[{" * 200,
    b'{"nome": "a", "nome": "b"}',
    b'{"x": {"\\ud800": 1, "\\ud800": 2}}',
    b'{"valor": 1e99999999999999999999}',
    b"[]",
    b'"text"',
    b"1",
    b"null",
    b"true",
    b"9" * 100_000,
]


@pytest.fixture
def post(client, db, settings):
    settings.ROOT_URLCONF = "tests.partners.urls"
    _, secret = issue_key()

    def send(body: bytes, content_type: str = "application/json", url: str = URL, **headers: str):
        headers = {"X-Partner-Api-Key": secret, **headers}
        return client.generic("POST", url, body, content_type, headers=headers)

    return send


def assert_invalid(response, field: str | None, sent: bytes = b"") -> dict:
    body = response.json()
    assert (response.status_code, body["code"], body["field"]) == (422, "invalid_input", field), (sent[:24], body)
    assert body["details"][0]["field"] == field
    assert body["message"] == body["details"][0]["message"] != ""
    assert body["retryable"] is False
    return body


def test_a_good_body_arrives(post):
    response = post('{"nome": "João", "valor": 10.5, "desconhecido": {"x": [1]}}'.encode())
    assert response.status_code == 200
    assert response.json() == {"nome": "João", "valor": 10.5}


@pytest.mark.control("V4")
def test_malformed_bodies_are_one_fault_of_the_whole_body(post):
    for body in MALFORMED:
        assert_invalid(post(body), None, body)
    assert_invalid(post(b"", **{"Content-Type": "application/json"}), None)


REFUSED = [
    (b'{"nome": "a\\u0000b"}', "nome"),
    (b'{"nome": "\\ud800"}', "nome"),
    (b'{"\\ud800": 1, "\\u0000": 2}', "nome"),
    (b'{"nome": 1}', "nome"),
    (b'{"a":' * 100 + b"1" + b"}" * 100, "nome"),  # deep, but ignored
    (b'{"nome": ' + b"[" * 99 + b"]" * 99 + b"}", "nome"),
    (b'{"a": "\\"' + b"[{" * 1000 + b'", "b": [' + b"[]," * 1000 + b"{}]}", "nome"),  # much, but not deep
    (b'{"nome": ' + b"9" * 100_000 + b"}", "nome"),
    (b'{"nome": "x", "valor": ' + b"9" * 100_000 + b"}", "valor"),
    (b'{"nome": "x", "valor": 1e999999}', "valor"),
    (b'{"nome": "x", "valor": -1e-999999}', "valor"),
    (b'{"nome": "x", "valor": 1e999999999999}', "valor"),
    (b'{"nome": "x", "titular": []}', "titular"),
    (b'{"nome": "x", "titular": {}}', "titular.nome"),
    (b'{"nome": "x", "referencias": {}}', "referencias"),
    (b'{"nome": "x", "referencias": [{"nome": "a", "telefone": "11987654321"}, 7]}', "referencias.1"),
    (b'{"nome": "x", "referencias": [{"nome": "a"}]}', "referencias.0.telefone"),
    (b'{"nome": "x", "providers": ["a", 7]}', "providers.1"),
    (b'{"nome": "x", "titular": null}', "titular"),
]


def test_what_a_field_refuses_is_told_on_that_field(post):
    for body, field in REFUSED:
        assert_invalid(post(body), field, body)


def test_every_fault_is_told_in_the_order_of_the_contract(post):
    body = assert_invalid(
        post(b'{"referencias": [{"telefone": "1"}], "titular": {"telefone": 1}, "valor": "1"}'), "nome"
    )
    assert body["details"] == [
        {"field": "nome", "message": "Campo obrigatório."},
        {"field": "valor", "message": "Deve ser um número."},
        {"field": "titular.nome", "message": "Campo obrigatório."},
        {"field": "titular.telefone", "message": "Deve ser um texto."},
        {"field": "referencias.0.nome", "message": "Campo obrigatório."},
        {
            "field": "referencias.0.telefone",
            "message": "Informe DDD e número: 10 ou 11 dígitos, sem máscara.",
        },
    ]


def test_a_repeated_key_is_named_where_it_is_harmless_to_repeat():
    with pytest.raises(InvalidInput, match="“cpf”"):
        parse_json_object(b'{"a": {"cpf": 1, "cpf": 1}}')
    with pytest.raises(InvalidInput) as caught:
        parse_json_object(b'{"<b>": 1, "<b>": 2}')
    assert "<b>" not in caught.value.message


JSON = [
    "application/json",
    "application/json; charset=utf-8",
    'Application/JSON;charset="UTF-8"',
    "application/json ; charset=utf8",
]
NO_JSON = [
    "",
    "text/plain",
    "application/json; charset=latin-1",
    "application/json; version=2",
    "application/jsonp",
    "application/vnd.api+json",
    "application/*",
    "*/*",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json, text/plain",
    "application/json;" + "a=b;" * 5_000,
]


def test_only_json_in_utf8_is_taken_with_or_without_a_body(post):
    assert [content_type for content_type in JSON if not is_json(content_type)] == []
    assert [content_type for content_type in NO_JSON if is_json(content_type)] == []
    assert post(b'{"nome": "x"}', JSON[1]).status_code == 200
    for body in (b'{"nome": "x"}', b""):
        response = post(body, "application/jsonp")
        assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_an_optional_body_may_be_absent_and_must_be_right_if_it_is_there(post):
    url = "/partners/v1/authorizations/unknown/revoke"
    for content_type in ("", "text/plain", "application/json"):
        assert post(b"", content_type, url).status_code == 404
    assert post(b"{}", "text/plain", url).status_code == 415
    assert_invalid(post(b"[]", url=url), None)
    assert_invalid(post(b'{"motivo": 1}', url=url), "motivo")


def test_the_limit_is_256_kib_to_the_byte(post):
    limit = 256 * 1024
    body = b'{"nome": "x", "y": "%s"}' % (b"z" * (limit - 22))
    assert len(body) == limit
    assert post(body).status_code == 200
    response = post(body + b" ")
    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")


def test_exact_decimals_without_binary_artefacts():
    assert parse_json_object(b'{"a": 0.1, "b": 12345678901234567890.01, "c": 7}') == {
        "a": Decimal("0.1"),
        "b": Decimal("12345678901234567890.01"),
        "c": 7,
    }
    assert Response({"a": Decimal("0.10")}).content == b'{"a":0.10}'


@given(st.binary(max_size=200))
@example(b"{" * 20)
def test_no_bytes_raise_anything_but_invalid_input(raw):
    try:
        assert isinstance(parse_json_object(raw), dict)
    except InvalidInput as error:
        error.as_dict()["message"].encode()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), anything, max_size=4))
def test_what_json_can_say_is_read_as_it_was_meant(value):
    assert parse_json_object(json.dumps(value).encode()) == value


@given(st.text())
def test_no_content_type_raises(content_type):
    assert is_json(content_type) in (True, False)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {"a": [1, -2.5, 0.1, 1000.0, 1.99, 123456789.01, True, False, None], "b": {"c": {}}},
        {"nome": 'São João \u2028 \u2029 "\\ \n \x7f </script> \U0001f600'},
        {"id": uuid.UUID(int=7), "day": date(2026, 1, 2), "status": QueryStatus.OK},
        {"at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), "sharp": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)},
        ({"tuple": (1, 2)},),
    ],
)
def test_replies_are_written_byte_for_byte_as_by_djangos_renderer(data):
    assert Response(data).content == JSONRenderer().render(data)


def test_other_requests_have_their_turn_while_a_long_text_is_read(monkeypatch):
    """Before the fix, 250 KB of small objects held the process's event loop for 28 ms."""
    monkeypatch.setattr("foundation.json.is_module_patched", lambda name: True)  # as in the service's processes
    turns = []

    def other() -> None:
        while True:
            turns.append(time.monotonic())
            gevent.sleep(0)

    beside = gevent.spawn(other)
    parse_json_object(json.dumps({"a": [{"b": 1}] * 10_000}).encode())
    beside.kill()
    assert len(turns) >= 10_000 // 256
