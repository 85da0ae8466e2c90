"""The Python client, from its wheel, against the service over a network that loses calls."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.db import transaction
from django.test import Client as DjangoClient

from clients import build as clients
from consultas.models import Query
from partners.models import SANDBOX_KEY, Partner
from proposals.models import Proposal
from tests.client import query_body
from tests.clients.network import FAULTS, RETRY_AFTER_S, Network, once
from tests.processes import LiveService, Simulator, wait_until
from tests.proposals.datasets import dataset
from webhooks import outbox, signing
from webhooks.models import Event

BANK = "ipe"
CPF = "52998224725"
SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_plJ3nmyCDGBKInavdOK15jsl+xu1XqaV"]
BODY = '{"event": "lead", "external_reference": "x", "field_of_next_year": {"é": 1}}'.encode()
Make = Callable[..., Any]


def send(partner: Partner) -> Event:
    with transaction.atomic():
        return outbox.store(partner, "webhook.test", str(uuid4()), {})


@pytest.fixture
def sdk(origination: ModuleType, live_service: LiveService) -> Make:
    """A client of the service, or of `url`. Its pauses are short."""

    def make(url: str = live_service.url, key: str = SANDBOX_KEY, **options: Any) -> Any:
        return origination.Client(url, key, **{"pause_s": 0.05, "patience_s": 60, **options})

    return make


def submission(client: Any, amount: int = 3000) -> dict[str, Any]:
    """A submission of an offer of its own for each amount."""
    found = client.query(query_body(providers=[BANK], loan_value=amount, prazo=24))
    return dataset({"provider": BANK, "offerId": found["proposals"][0]["offerId"]})


def test_the_package_is_typed_and_needs_requests_only(wheel: Path, tmp_path: Path) -> None:
    """mypy --strict, for the oldest Python that it names. A partner's program is checked with it: the types are of the
    schema, and a code that a later release adds is no error."""
    clients.with_types(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(
        "from origination import Client\n"
        "def run(client: Client) -> str:\n"
        "    offer = client.query({'cpf': '1', 'nome': 'x', 'data_nascimento': '1985-03-14', 'telefone': '1',"
        " 'email': 'x', 'client_ip': '203.0.113.7'})['proposals'][0]\n"
        "    if offer['cetSource'] == 'of_next_year':\n"
        "        return 'x'\n"
        "    offer['nothing']\n    return offer['provider']\n"
    )
    sources = str(tmp_path / "python" / "src")
    check = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10", "--config-file="]
    told = subprocess.run(
        [*check, "--cache-dir", str(tmp_path / "cache"), sources, str(program)], capture_output=True, text=True
    )
    faults = [line for line in told.stdout.splitlines() if ": error:" in line]
    assert [line.partition("error: ")[2] for line in faults] == [
        'TypedDict "Offer" has no key "nothing"  [typeddict-item]'
    ]
    with zipfile.ZipFile(wheel) as archive:
        assert "origination/py.typed" in archive.namelist()
        [metadata] = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    assert re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE) == ["requests>=2.31"]


def test_the_service_serves_what_was_built(packages: Path, client: DjangoClient, settings: Any) -> None:
    page = (clients.ROOT / "docs" / "guia" / "clientes.md").read_text()
    built = [file.name for file in packages.iterdir() if not file.name.startswith(".")]
    assert built
    for name in built:
        assert f'href="/docs/clientes/{name}"' in page
        response = client.get(f"/docs/clientes/{name}")
        assert (response.status_code, "Content-Encoding" in response) == (200, False)
        assert b"".join(response) == (packages / name).read_bytes()  # type: ignore[arg-type]
    assert client.get("/docs/clientes/")["Location"] == "/docs/guia/clientes.html"
    assert client.get("/docs/clientes/origination-9.whl").status_code == 404
    assert clients.build() is False, "unchanged sources are not built again"


def test_from_the_query_to_the_cancellation(sdk: Make) -> None:
    client = sdk()
    body = submission(client)
    proposal = client.submit(body)
    assert proposal["status"] == "created"
    assert client.submit(body)["proposal_id"] == proposal["proposal_id"]
    assert client.formalize(proposal["proposal_id"])["action"]["url"].startswith("http")
    assert client.proposal(proposal["proposal_id"])["status"] == "awaiting_signature"
    assert client.cancel(proposal["proposal_id"], {"motivo": "teste"})["status"] == "cancelled"
    assert {each["name"] for each in client.call("GET", "/providers")["providers"]} >= {BANK}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_query_whose_answer_is_lost_is_asked_again(sdk: Make, live_service: LiveService, fault: str) -> None:
    with Network(live_service.url, once(fault)) as network:
        found = sdk(network.url).query(query_body())
    assert found["complete"]
    assert len(network.calls) == 2


def test_a_query_goes_on_by_its_id(sdk: Make, live_service: LiveService, simulator: Simulator) -> None:
    simulator.bank(BANK, latency_ms=1500)
    with Network(live_service.url, once("half", "GET")) as network:
        client = sdk(network.url)
        begun = client.query(query_body(max_wait_ms=500))
        assert not begun["complete"]
        found = client.resume(begun["queryId"])
    assert found["complete"]
    assert found["providerResults"][BANK]["status"] == "ok"
    assert Query.objects.count() == 1


def test_a_query_that_every_bank_failed_is_told_at_once(
    sdk: Make, origination: ModuleType, simulator: Simulator
) -> None:
    simulator.bank(BANK, fault="http_503", operation="query")
    with pytest.raises(origination.ApiError, match="502 provider_unavailable"):
        sdk().query(query_body(providers=[BANK]))


def test_a_stream_that_is_cut_off_loses_no_event(sdk: Make, live_service: LiveService, simulator: Simulator) -> None:
    """Each connection breaks in its second event, but the last, which has none."""
    simulator.bank(BANK, latency_ms=500)
    with Network(live_service.url, lambda method, path: "half") as network:
        stream = sdk(network.url).stream(query_body())
        events = [(event["event"], event.get("provider")) for event in stream]
    banks = {name for kind, name in events if kind == "provider_start"}
    assert len(events) == 2 + 2 * len(banks)
    assert Counter(events) == {
        ("start", None): 1,
        ("complete", None): 1,
        **{(kind, name): 1 for name in banks for kind in ("provider_start", "provider_result")},
    }
    assert (events[0][0], events[-1][0]) == ("start", "complete")
    assert len(network.calls) > len(banks)
    assert Query.objects.count() == 1


def test_a_stream_goes_on_in_another_process(sdk: Make) -> None:
    first = sdk().stream(query_body())
    had = list(itertools.islice(first, 3))
    rest = list(sdk().stream(query_id=first.query_id, last_event_id=first.last_event_id))
    whole = list(sdk().stream(query_id=first.query_id))
    assert sorted(map(json.dumps, had + rest)) == sorted(map(json.dumps, whole))
    done = sdk().stream(query_id=first.query_id, last_event_id="c")
    assert list(done) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_submission_over_a_broken_network_is_one_contract(
    sdk: Make, live_service: LiveService, simulator: Simulator, fault: str
) -> None:
    body = submission(sdk())
    with Network(live_service.url, once(fault)) as network:
        proposal = sdk(network.url).submit(body)
    assert len(network.calls) == 2
    assert proposal["proposal_id"] == str(Proposal.objects.get().pk)
    assert len(simulator.contracts(BANK)) == 1
    if fault == "limited":
        assert network.calls[1].at - network.calls[0].at >= RETRY_AFTER_S, "as long as Retry-After asks"


@pytest.mark.parametrize("fault", ["unknown_outcome", "http_502"])
def test_a_submission_that_its_bank_fails_is_one_contract(sdk: Make, simulator: Simulator, fault: str) -> None:
    client = sdk()
    body = submission(client)
    simulator.lab(body["titular"]["cpf"], "faults", provider=BANK, fault=fault, operation="submit")
    proposal = client.submit(body)
    assert proposal["status"] == "created"
    assert len(simulator.contracts(BANK)) == 1


def test_a_submission_whose_web_process_is_killed_is_one_contract(
    sdk: Make, live_service: LiveService, simulator: Simulator
) -> None:
    body = submission(sdk())
    simulator.bank(BANK, latency_ms=500, operation="submit")
    program = start(live_service.url, body)
    wait_until(lambda: simulator.calls(BANK, "submit"), 20, "the bank is asked")
    live_service.programs.restart("web")
    assert ended(program) == {"proposal_id": str(Proposal.objects.get().pk)}
    assert len(simulator.contracts(BANK)) == 1


def test_a_killed_client_submits_again(sdk: Make, live_service: LiveService, simulator: Simulator) -> None:
    body = submission(sdk())
    simulator.bank(BANK, latency_ms=500, operation="submit")
    program = start(live_service.url, body)
    wait_until(lambda: simulator.calls(BANK, "submit"), 20, "the bank is asked")
    with program:
        program.kill()
    assert ended(start(live_service.url, body)) == {"proposal_id": str(Proposal.objects.get().pk)}
    assert len(simulator.contracts(BANK)) == 1


SUBMIT = """
import json, sys
from origination import Client
url, key, body = sys.argv[1:]
print(json.dumps({"proposal_id": Client(url, key, pause_s=0.1).submit(json.loads(body))["proposal_id"]}))
"""


def start(url: str, body: dict[str, Any]) -> subprocess.Popen[str]:
    """A partner's program that submits `body`."""
    [wheel] = clients.DEFAULT_FOLDER.glob("*.whl")
    command = [sys.executable, "-c", SUBMIT, url, SANDBOX_KEY, json.dumps(body)]
    return subprocess.Popen(command, env={"PYTHONPATH": str(wheel)}, stdout=subprocess.PIPE, text=True)


def ended(program: subprocess.Popen[str]) -> Any:
    printed, _ = program.communicate(timeout=120)
    assert program.returncode == 0
    return json.loads(printed)


def test_a_submission_without_a_known_outcome_raises(
    sdk: Make, origination: ModuleType, live_service: LiveService, simulator: Simulator
) -> None:
    body = submission(sdk())
    simulator.lab(body["titular"]["cpf"], "faults", provider=BANK, fault="unknown_outcome", operation="submit")
    with pytest.raises(origination.OutcomeUnknown) as unknown:
        sdk(patience_s=0).submit(body)
    assert unknown.value.proposal_id == str(Proposal.objects.get().pk)
    with Network(live_service.url, once("limited")) as network, pytest.raises(origination.ApiError, match="429"):
        sdk(network.url, patience_s=0).submit(body)
    sent = iter(["lose"])
    with Network(live_service.url, lambda method, path: next(sent, "")) as network:
        half = origination.Client(network.url, "cpk_test_wrong", pause_s=0.05)
        with pytest.raises(origination.OutcomeUnknown):  # a refused key tells nothing about the call before
            half.submit(body)
    assert sdk().submit(body)["proposal_id"] == unknown.value.proposal_id


def test_a_refused_submission_raises_the_refusal(sdk: Make, origination: ModuleType, simulator: Simulator) -> None:
    client = sdk()
    body = submission(client)
    simulator.lab(body["titular"]["cpf"], "faults", provider=BANK, fault="reject_submit", reason="no_margin")
    with pytest.raises(origination.ApiError) as refused:
        client.submit(body)
    assert (refused.value.status, refused.value.code) == (422, "provider_rejected")
    assert refused.value.body["reason"]["code"] == "no_margin"
    assert re.fullmatch("[0-9a-f]{32}", refused.value.request_id)
    assert str(refused.value).endswith(refused.value.request_id)
    with pytest.raises(origination.ApiError, match=r"422 invalid_input titular\.nome") as refused:
        client.submit({**body, "titular": {**body["titular"], "nome": ""}})
    assert body["titular"]["cpf"] not in str(refused.value)
    assert simulator.contracts(BANK) == []


def test_events_come_once_wherever_the_reader_stops(sdk: Make, live_service: LiveService) -> None:
    partner = Partner.objects.get()
    sent = {send(partner).pk for _ in range(60)}
    got: list[str] = []
    cursor = ""
    faults = itertools.cycle(["", *FAULTS[:2], *FAULTS[3:]])
    with Network(live_service.url, lambda method, path: next(faults)) as network:
        while True:
            part = list(itertools.islice(sdk(network.url).events(cursor, wait_s=0), 7))
            if not part:
                break
            got += [event.id for event in part]
            cursor = part[-1].cursor
    assert set(got) == sent
    assert len(got) == len(sent)
    assert list(sdk().events(wait_s=0, event="lead")) == []


def test_a_waiting_reader_gets_what_happens(sdk: Make) -> None:
    reader = sdk().events()
    partner = Partner.objects.get()
    first = send(partner)
    assert next(reader).id == first.pk
    second = send(partner)
    event = next(reader)
    assert (event.id, event.name, event.body) == (second.pk, second.name, json.loads(second.body))


def test_verify_takes_what_one_of_the_secrets_signed(origination: ModuleType) -> None:
    now = int(time.time())
    for secrets in (SECRETS, SECRETS[1:], SECRETS[:1]):
        headers = signing.headers("evt_1", BODY, secrets, now)
        event = origination.verify(BODY, requests.structures.CaseInsensitiveDict(headers), SECRETS[1:] + SECRETS[:1])
        assert (event.id, event.name, event.is_repeat) == ("evt_1", "lead", False)
        assert event.body == json.loads(BODY), "unknown fields stay"
    assert origination.verify(BODY, headers, SECRETS, handled={"evt_1"}).is_repeat
    assert origination.sign("evt_1", BODY, SECRETS[0], now) == signing.headers("evt_1", BODY, SECRETS[:1], now)
    only_body = {"X-Service-Signature": headers["X-Service-Signature"]}
    assert origination.verify(BODY, only_body, SECRETS, takes_body_signature=True).id == ""


def test_verify_refuses_everything_else(origination: ModuleType) -> None:
    now = int(time.time())
    genuine = signing.headers("evt_1", BODY, SECRETS[:1], now)
    forged = [
        (BODY + b" ", genuine),
        (BODY, {**genuine, "webhook-id": "evt_2"}),
        (BODY, signing.headers("evt_1", BODY, ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"], now)),
        (BODY, signing.headers("evt_1", BODY, SECRETS, now - 330)),
        (BODY, signing.headers("evt_1", BODY, SECRETS, now + 400)),
        *((BODY, {**genuine, "webhook-timestamp": moment}) for moment in ("", "x", "1e9", "٣", "9" * 40)),
        *((BODY, {**genuine, "webhook-signature": text}) for text in ("", "v1", "v1,a", "v2,a v1,a", "é")),
        (BODY, {"X-Service-Signature": genuine["X-Service-Signature"]}),
        (BODY, {}),
    ]
    for body, headers in forged:
        with pytest.raises(origination.SignatureError):
            origination.verify(body, headers, SECRETS)
    with pytest.raises(origination.SignatureError):
        origination.verify(BODY, {"X-Service-Signature": "é"}, SECRETS, takes_body_signature=True)
