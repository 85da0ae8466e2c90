"""The Python client, from its wheel, against the service, and its command `listen`. What both clients do alike:
test_programs.py."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client as DjangoClient

from clients import build as clients
from consultas.models import Query
from partners.models import SANDBOX_KEY, Partner
from proposals.models import Proposal
from tests.client import query_body
from tests.clients.network import Network, once
from tests.clients.shop import whole_stream
from tests.processes import LiveService, Simulator, Started, wait_until
from tests.proposals.datasets import dataset
from tests.receiver import Received, Receiver, Reply
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
    # What mypy knows of the standard library is kept for the next run.
    cache = str(clients.ROOT / "var" / "mypy")
    told = subprocess.run([*check, "--cache-dir", cache, sources, str(program)], capture_output=True, text=True)
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


def test_a_query_goes_on_by_its_id(sdk: Make, live_service: LiveService, simulator: Simulator) -> None:
    simulator.bank(BANK, latency_ms=1500)
    with Network(live_service.url, once("half", "GET")) as network:
        client = sdk(network.root)
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
        stream = sdk(network.root).stream(query_body())
        events = [(event["event"], event.get("provider", "-")) for event in stream]
    banks = {name for kind, name in events if kind == "provider_start"}
    assert Counter(events) == whole_stream(banks)
    assert (events[0][0], events[-1][0]) == ("start", "complete")
    assert len(network.calls) > len(banks)
    assert Query.objects.count() == 1


def test_a_submission_without_a_known_outcome_raises(
    sdk: Make, origination: ModuleType, live_service: LiveService, simulator: Simulator
) -> None:
    body = submission(sdk())
    simulator.lab(body["titular"]["cpf"], "faults", provider=BANK, fault="unknown_outcome", operation="submit")
    with pytest.raises(origination.OutcomeUnknown) as unknown:
        sdk(patience_s=0).submit(body)
    assert unknown.value.proposal_id == str(Proposal.objects.get().pk)
    with Network(live_service.url, once("limited")) as network, pytest.raises(origination.ApiError, match="429"):
        sdk(network.root, patience_s=0).submit(body)
    sent = iter(["lose"])
    with Network(live_service.url, lambda method, path: next(sent, "")) as network:
        half = origination.Client(network.root, "cpk_test_wrong", pause_s=0.05)
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


def test_a_waiting_reader_gets_what_happens(sdk: Make) -> None:
    reader = sdk().events()
    partner = Partner.objects.get()
    first = send(partner)
    assert next(reader).id == first.pk
    second = send(partner)
    assert list(sdk().events(wait_s=0, event="lead")) == []
    event = next(reader)
    assert (event.id, event.name, event.body) == (second.pk, second.name, json.loads(second.body))


def test_what_it_signs_is_what_the_service_signs(origination: ModuleType) -> None:
    signed = origination.sign("evt_1", BODY, SECRETS[0], 1_800_000_000)
    assert signed == signing.headers("evt_1", BODY, SECRETS[:1], 1_800_000_000)


# --- python -m origination listen: a receiver without a public URL gets every event, signed, whatever breaks


class Listener:
    """The command, run in the folder `home` of a partner's engineer."""

    def __init__(self, wheel: Path, url: str, home: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(wheel), "HOME": str(home), "ORIGINATION_URL": url}
        self._log = home / "printed"

    def running(self, forward_to: str, *options: str, key: str = SANDBOX_KEY) -> Started:
        """The program, which prints after what earlier ones have printed."""
        command = [sys.executable, "-m", "origination", "listen", "--forward-to", forward_to, *options]
        return Started(command, self._log, env={**self._environment, "ORIGINATION_KEY": key})

    def printed(self) -> str:
        return self._log.read_text()

    def begun(self, times: int = 1) -> None:
        wait_until(lambda: self.printed().count("cursor: ") >= times, 30, "the listener begins", self.printed)

    def secrets(self) -> list[str]:
        return re.findall("secret: (whsec_.*)", self.printed())


@pytest.fixture
def listener(wheel: Path, live_service: LiveService, tmp_path: Path) -> Iterator[Any]:
    with Network(live_service.url) as network:
        made = Listener(wheel, network.root, tmp_path)
        yield network, made


def test_every_event_arrives_signed_and_in_order_whatever_breaks(
    listener: tuple[Network, Listener], live_service: LiveService, origination: ModuleType
) -> None:
    """The receiver is away and fails, the network is away, the listener is killed in the middle of a page, and the web
    process is started again."""
    network, command = listener
    partner = Partner.objects.get()
    send(partner)  # before the first start
    refused: list[str] = []

    def reply(request: Received) -> Reply:
        """500 for each third event, the first time."""
        if int(request.id[-1], 16) % 3 == 0 and request.id not in refused:
            refused.append(request.id)
            return Reply(500)
        return Reply()

    with Receiver(reply) as receiver:
        with command.running(receiver.url) as listening:
            command.begun()
            sent = [send(partner).pk for _ in range(6)]
            wait_until(lambda: sent[2] in receiver.ids, 60, "events come", command.printed)
            listening.handle.kill()
        network.fault = lambda method, path: "refuse"
        sent += [send(partner).pk for _ in range(3)]
        with command.running(receiver.url):
            wait_until(lambda: len([call for call in network.calls if call.fault]) > 1, 30, "it tries", command.printed)
            live_service.programs.restart("web")
            network.fault = lambda method, path: ""
            sent.append(send(partner).pk)
            wait_until(lambda: f"{sent[-1]} -> 204" in command.printed(), 90, "the last event comes", command.printed)
        first = list(dict.fromkeys(receiver.ids))
        assert first == sent, "none is missed, in their order; what came before the first start does not come"
        [secret] = set(command.secrets())
        for request in receiver.received:
            assert origination.verify(request.body, request.headers, [secret]).id == request.id
            assert request.json()["event"] == "webhook.test"
    lines = re.findall(r"^[\d:]{8} webhook\.test (\S+) -> 204$", command.printed(), re.MULTILINE)
    assert set(lines) <= set(sent)
    assert len(lines) == len(set(lines)) >= len(sent) - 1, "a line for each; the killed listener may have lost one"


def test_from_says_where_to_begin(listener: tuple[Network, Listener], origination: ModuleType) -> None:
    network, command = listener
    partner = Partner.objects.get()
    sent = [send(partner).pk for _ in range(4)]
    cursors = [event.cursor for event in origination.Client(network.root, SANDBOX_KEY).events(wait_s=0)]
    for begin, rest in (("start", sent), (cursors[1], sent[2:])):
        with Receiver() as receiver, command.running(receiver.url, "--from", begin):
            receiver.wait_for(len(rest), 30)
            assert receiver.ids == rest


def test_a_refused_key_ends_it(listener: tuple[Network, Listener]) -> None:
    _, command = listener
    with command.running("http://127.0.0.1:1/", key="cpk_test_wrong") as refused:
        assert refused.handle.wait(30) == 1
    assert "401 unauthorized" in command.printed()


def test_it_speaks_one_language(wheel: Path) -> None:
    """Before the fix, its help and its first lines were in Portuguese, its errors in English."""
    command = [sys.executable, "-m", "origination", "listen"]
    environment = {"PYTHONPATH": str(wheel)}
    told = [
        subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
        for options in (["--help"], ["--forward-to", "http://127.0.0.1:1/"])
    ]
    assert [each.returncode for each in told] == [0, 2]
    assert "your webhook receiver" in told[0].stdout
    assert told[1].stderr.endswith("error: needs --url or ORIGINATION_URL, and your key in ORIGINATION_KEY\n")
    assert (told[0].stdout + told[1].stderr).isascii()


def test_the_state_is_its_owners(listener: tuple[Network, Listener], tmp_path: Path) -> None:
    _, command = listener
    with command.running("http://127.0.0.1:1/"):
        command.begun()
    [state] = (tmp_path / ".origination").iterdir()
    assert state.stat().st_mode & 0o777 == 0o600
    assert SANDBOX_KEY not in state.read_text() + command.printed()
