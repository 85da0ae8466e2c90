"""The API reference: valid, and in the words that partners read."""

import io
import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from django.urls import URLResolver, get_resolver
from jsonschema import FormatChecker

from consultas.schema import QUERY
from partners.models import WebhookEvent
from proposals.schema import DATASET
from tests import contract

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guia" / "webhooks.md"

# Words of docstrings, which are for developers.
ENGLISH = {"the", "of", "with", "where", "which"}


def read_yaml(text: str | bytes) -> dict[str, Any]:
    """The document. By libyaml, which reads the reference in a tenth of the time."""
    return yaml.load(text, yaml.CSafeLoader)


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    return read_yaml(out.getvalue())


def is_portuguese(*texts: str) -> bool:
    """True if there are all of `texts`, and none has an English word."""
    return all(text and not ENGLISH & set(text.lower().split()) for text in texts)


def test_every_operation_has_a_description_and_an_example_of_each_answer_that_fits(schema: dict[str, Any]) -> None:
    for path, methods in schema["paths"].items():
        for method, told in methods.items():
            assert is_portuguese(told["summary"], told["description"]), path
            contents = {int(status): answer.get("content", {}) for status, answer in told["responses"].items()}
            for status, kinds in contents.items():
                shown = [each["value"] for kind in kinds.values() for each in kind.get("examples", {}).values()]
                assert bool(shown) is bool(kinds and not {"text/html", "application/zip"} & {*kinds}), (path, status)
                for value in shown if contract.JSON in kinds else ():
                    contract.check_answer(method, path, status, contract.JSON, json.dumps(value).encode())


def test_it_is_valid_openapi(schema: dict[str, Any]) -> None:
    """Before the fix, six fields had the type `[number, null, null]`."""
    openapi_spec_validator.validate(schema)


def test_it_says_in_words_how_many_decimals_a_number_may_have(schema: dict[str, Any]) -> None:
    """Before the fix, `multipleOf: 0.01` said it, and validators with binary floats refuse 19.99 by that."""
    fields = schema["components"]["schemas"]["QueryRequest"]["properties"]
    assert fields["loan_value"]["description"].endswith("No máximo 2 casas decimais.")
    for value in (19.99, 0.07, 1234567.89, None):
        jsonschema.validate(value, fields["loan_value"])
    assert "multipleOf" not in json.dumps(schema)


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
    for each in resolver.url_patterns:
        pattern = f"{prefix}{each.pattern}"
        yield from patterns(each, pattern) if isinstance(each, URLResolver) else [pattern]


@pytest.mark.control("API9")
def test_every_route_of_partners_is_told(schema: dict[str, Any]) -> None:
    """Routes that banks call, or that only the holder's page calls, are not among them."""
    routes = {contract.documented_path(each) for each in patterns(get_resolver()) if each.startswith("partners/v1/")}
    assert routes - set(schema["paths"]) == {
        "/partners/v1/bank-callbacks/{name}",
        "/partners/v1/authorizations/public/{authorization_id}/code",
        "/partners/v1/authorizations/public/{authorization_id}/revoke",
    }


@pytest.mark.control("API3")
def test_every_field_is_described(schema: dict[str, Any]) -> None:
    """In Portuguese, for developers at partners, and by no docstring of a serializer. Before the fix, 222 of 325 fields
    had no description."""
    bodies = schema["components"]["schemas"]
    fields = {
        f"{name}.{field}": told.get("description", "")
        for name, body in bodies.items()
        for field, told in body.get("properties", {}).items()
    }
    assert len(fields) > 300
    assert [name for name, description in fields.items() if not is_portuguese(description)] == []
    assert [name for name, body in bodies.items() if body.get("type") == "object" and "description" in body] == []


def test_rules_between_fields_are_told(schema: dict[str, Any]) -> None:
    """ "Required unless" and "exactly one of": null counts as absent, as for the service."""

    def is_told(component: str, body: dict[str, Any]) -> bool:
        told = {"$ref": f"#/components/schemas/{component}", "components": schema["components"]}
        return jsonschema.Draft202012Validator(told).is_valid(body)

    query = {name: value for name, value in QUERY.items() if name not in ("client_ip", "geolocation")}
    for request in ("QueryRequest", "IndividualQueryRequest"):
        assert is_told(request, {**query, "client_ip": "203.0.113.7"})
        assert is_told(request, {**query, "client_ip": "203.0.113.7", "authorization_id": None})
        assert is_told(request, {**query, "authorization_id": "k3"})
        assert not is_told(request, query)
        assert not is_told(request, {**query, "client_ip": None, "authorization_id": None})
    place = {"lat": -23.5, "lng": -46.6}
    assert is_told("Accept", {"geolocation": place, "geolocation_status": "granted"})
    assert is_told("Accept", {"geolocation": None, "geolocation_status": "denied"})
    assert not is_told("Accept", {"geolocation": place, "geolocation_status": "denied"})
    account = DATASET["recebimento"]["conta_bancaria"]
    pix = {"tipo_chave": "email", "chave": "maria@example.com"}
    for taken in ({"conta_bancaria": account}, {"pix": pix}, {"conta_bancaria": account, "pix": None}):
        assert is_told("DisbursementBlock", taken)
    for refused in ({}, {"conta_bancaria": account, "pix": pix}, {"conta_bancaria": None, "pix": None}):
        assert not is_told("DisbursementBlock", refused)


def test_defaults_are_told(schema: dict[str, Any]) -> None:
    components = schema["components"]["schemas"]
    defaults = {
        (name, field): told["default"]
        for name, body in components.items()
        for field, told in body.get("properties", {}).items()
        if "default" in told
    }
    assert defaults == {
        ("QueryRequest", "sexo"): 0,
        ("SearchRequest", "limit"): 100,
        ("RegistrationRequest", "rotate_secret"): False,
        ("QueryRequest", "with_insurance"): True,
        ("AggregatedQueryRequest", "sexo"): 0,
        ("AggregatedQueryRequest", "with_insurance"): True,
        ("IndividualQueryRequest", "sexo"): 0,
        ("IndividualQueryRequest", "with_insurance"): True,
        ("ReferenceBlock", "grau"): 1,
    }


def test_routes_without_a_key_say_so(schema: dict[str, Any]) -> None:
    """Before the fix, the three public routes and the webhooks said nothing of security."""
    paths = {(p, m): operation["security"] for p, item in schema["paths"].items() for m, operation in item.items()}
    assert {path for (path, _), security in paths.items() if security == []} == {
        "/partners/v1/authorizations/public/{authorization_id}",
        "/partners/v1/authorizations/public/{authorization_id}/accept",
        "/partners/v1/authorizations/public/{authorization_id}/decline",
        "/partners/v1/authorizations/public/{authorization_id}/terms",
    }
    assert {path for (path, _), security in paths.items() if security not in ([], [{"ApiKey": []}])} == set()
    assert all(item["post"]["security"] == [] for item in schema["webhooks"].values())


def test_refusals_of_a_submission_are_shown_with_their_proposal_and_reason(schema: dict[str, Any]) -> None:
    """Before the fix, the example of `provider_rejected` had neither."""
    answers = schema["paths"]["/partners/v1/proposals"]["post"]["responses"]
    shown = {
        example["value"]["code"]: example["value"]
        for status in ("409", "422")
        for example in answers[status]["content"]["application/json"]["examples"].values()
    }
    reasons = {code: shown[code]["reason"]["code"] for code in ("provider_rejected", "offer_expired")}
    assert reasons == {"provider_rejected": "existing_contract", "offer_expired": "offer_expired"}
    assert all(shown[code]["proposal_id"] for code in reasons)


def test_forms_are_told_as_patterns(schema: dict[str, Any]) -> None:
    """Values that the strict fields accept match the document. Values that they refuse for their form do not."""
    takes = {
        ("HolderBlock", "cpf"): (["90000000175"], ["900.000.001-75", "9000000017"]),
        ("HolderBlock", "nome"): (["Ana", " Ana Lima "], ["", " ", "A\0"]),
        ("ContactBlock", "telefone"): (["1187654321", "5511987654321"], ["987654321", "(11) 98765-4321"]),
        ("ContactBlock", "email"): (["a@b.co"], ["a@b", "maria"]),
        ("AddressBlock", "cep"): (["01310-100", "01310100", "01.310-100"], ["0131010", "013-10100"]),
        ("AddressBlock", "uf"): (["SP"], ["sp", "XX"]),
        ("EmploymentBlock", "cnpj_empregador"): (["11.222.333/0001-81", "12ABC34501DE35"], ["1122233300018"]),
        ("AccountBlock", "agencia"): (["0001", "12-3.4"], ["", "123456", "x"]),
        ("AccountBlock", "digito_agencia"): (["", "1", "X", None], ["y", "12"]),
        ("AddressBlock", "complemento"): (["", "apto 12", None], ["a\0"]),
        ("AccountBlock", "digito_conta"): (["1", "-1", "x"], ["", "y"]),
        ("EvidenceBlock", "ip"): (["203.0.113.7", "2001:db8::1"], ["localhost", ""]),
    }
    forms = FormatChecker(["email"])
    forms.checks("email")(lambda text: re.fullmatch(r"[^@]+@[^@]+\.[^@]+", text) is not None)
    for (block, field), (taken, refused) in takes.items():
        told = {**schema["components"]["schemas"][block]["properties"][field], "components": schema["components"]}
        checker = jsonschema.Draft202012Validator(told, format_checker=forms)
        assert [each for each in taken if not checker.is_valid(each)] == [], field
        assert [each for each in refused if checker.is_valid(each)] == [], field


def test_every_event_of_the_stream_is_told(schema: dict[str, Any]) -> None:
    answer = schema["paths"]["/partners/v1/consultas/stream"]["post"]["responses"]["200"]["content"][
        "text/event-stream"
    ]
    event = {**contract.event_schema(answer), "components": schema["components"]}
    [example] = answer["examples"].values()
    blocks = [block.split("\n") for block in example["value"].split("\n\n") if block]
    assert all(len(block) == 2 and block[0].startswith("id: ") for block in blocks)
    shown = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    for each in shown:
        jsonschema.validate(each, event)
    told = schema["components"]["schemas"]["StreamEvent"]["discriminator"]["mapping"]
    assert {each["event"] for each in shown} == set(told)


def test_a_streams_event_fits_as_each_tool_reads_it(schema: dict[str, Any]) -> None:
    """Before the fix, a tool that leaves an event's `data` as the text that comes found no event as told."""
    told = {"$ref": "#/components/schemas/Stream", "components": schema["components"]}
    event = {"event": "start", "queryId": str(uuid.uuid4()), "partnerReference": None, "message": "Consulta iniciada."}
    text = json.dumps(event)
    for read in (f"id: o0\ndata: {text}\n\n", {"id": "o0", "data": event}, {"id": "o0", "data": text}):
        jsonschema.validate(read, told)


def test_an_empty_filter_is_told(schema: dict[str, Any]) -> None:
    """Before the fix, the lists took an empty filter, which the reference excluded by its length."""
    filters = [
        each
        for item in schema["paths"].values()
        for each in item.get("get", {}).get("parameters", ())
        if each["in"] == "query"
    ]
    assert {each["name"]: each.get("allowEmptyValue", False) for each in filters} == {
        each["name"]: not each.get("required") for each in filters
    }
    assert [each["name"] for each in filters if each.get("required")] == ["uf"]


def test_the_name_of_a_generated_package_is_readable(schema: dict[str, Any]) -> None:
    """Before the fix, the Portuguese title made packages named `api_de_origina_çã_o…`, and a tag `leil_ã_o`."""
    assert all(name.isascii() for name in [schema["info"]["title"], *(tag["name"] for tag in schema["tags"])])


def test_it_is_served_once_made(client: Client, schema: dict[str, Any]) -> None:
    response = client.get("/schema/")
    assert read_yaml(response.content) == schema
    assert response["Content-Type"] == "application/vnd.oai.openapi; charset=utf-8"
    assert response["Content-Disposition"] == 'inline; filename="openapi.yaml"'
    assert response["Vary"] == "Accept, Accept-Encoding"
    began = time.process_time()
    for _ in range(20):
        client.get("/schema/")
    assert time.process_time() - began < 1  # if it were made each time, this would take ten


@pytest.mark.parametrize(
    ("query", "accept", "is_json"),
    [
        ("", "application/json", True),
        ("", "application/json, application/yaml;q=0.5", True),
        ("?format=json", "*/*", True),
        ("?format=yaml", "application/json", False),
        ("", "text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("", "application/yaml", False),
        ("", "image/png", False),
    ],
)
def test_it_is_json_where_that_is_asked_for(
    client: Client, schema: dict[str, Any], query: str, accept: str, is_json: bool
) -> None:
    response = client.get(f"/schema/{query}", headers={"accept": accept})
    assert response.status_code == 200
    assert (json.loads if is_json else read_yaml)(response.content) == schema
    assert response["Content-Type"].startswith("application/json" if is_json else "application/vnd.oai.openapi")
    assert response["Content-Disposition"].endswith('.json"' if is_json else '.yaml"')


def test_every_event_is_told_with_an_example_that_fits(schema: dict[str, Any]) -> None:
    asked_for = {"proposal.<status>" if name == WebhookEvent.PROPOSAL else name for name in WebhookEvent.values}
    assert set(schema["webhooks"]) == {*asked_for, "webhook.test"}
    for methods in schema["webhooks"].values():
        operation = methods["post"]
        [example] = operation["requestBody"]["content"]["application/json"]["examples"].values()
        contract.check_event(json.dumps(example["value"]))
        headers = {each["name"] for each in operation["parameters"]}
        assert headers == {"X-Service-Signature", "webhook-id", "webhook-timestamp", "webhook-signature"}
        assert is_portuguese(operation["summary"], operation["description"])


def test_the_guide_lists_each_event_and_its_bodies_fit(schema: dict[str, Any]) -> None:
    """The bodies of events that a test sends are checked where they are stored (tests/conftest.py)."""
    text = GUIDE.read_text()
    cells = re.findall(r"^\| (`[^|]*) \|", text.partition("\nTodo corpo")[0], re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", " ".join(cells))) == sorted(schema["webhooks"])
    for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        contract.check_event(block)
