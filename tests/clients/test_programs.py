"""Partners' programs on both clients, while network, banks, web process and the programs themselves break."""

import base64
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients import build as clients
from partners.models import SANDBOX_KEY
from proposals.models import Proposal
from providers import registry
from providers.models import Circuit, Provider
from tests.client import Client, query_body
from tests.clients.network import FAULTS, RETRY_AFTER_S, Network, once
from tests.clients.shop import LANGUAGES, Shop, break_at_random, forged, install, whole_stream
from tests.clients.test_python import BANK, BODY, SECRETS
from tests.processes import LiveService, Simulator, run, wait_until
from tests.proposals.datasets import dataset
from webhooks import signing
from webhooks.models import Event

SUBMISSIONS = 10
Open = Callable[..., Shop]


@pytest.fixture
def service(live_service: LiveService) -> Client:
    return Client(live_service.url, SANDBOX_KEY)


@pytest.fixture
def network(live_service: LiveService) -> Any:
    with Network(live_service.url) as made:
        yield made


@pytest.fixture
def open_shop(packages: Path, network: Network, tmp_path: Path) -> Any:
    """Opens a partner's folder, over `network`."""
    opened: list[Shop] = []

    def open_one(language: str) -> Shop:
        if language == "typescript" and not any(packages.glob("*.tgz")):
            pytest.skip("the TypeScript client needs Node 20 and npm: `make deps-node` found none")
        opened.append(Shop(language, packages, network.root, SANDBOX_KEY, tmp_path / language))
        return opened[-1]

    yield open_one
    for shop in opened:
        for command in list(shop.running):
            shop.kill(command)


def stock(service: Client, shop: Shop, count: int) -> None:
    """Give the shop `count` offers to submit."""
    for number in range(count):
        offer = service.query(providers=[BANK], loan_value=3000 + number, prazo=24)["proposals"][0]
        shop.put(number, dataset({"provider": BANK, "offerId": offer["offerId"]}))


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_doubled_or_lost_whatever_breaks(
    live_service: LiveService, service: Client, simulator: Simulator, network: Network, open_shop: Open, language: str
) -> None:
    shop = open_shop(language)
    stock(service, shop, SUBMISSIONS)
    shop.ask(query_body())
    simulator.bank(BANK, latency_ms=200, operation="submit", fault="drop_after_accept", times=2)
    Provider.objects.update(circuit=Circuit.CLOSED)  # every call meets its fault
    break_at_random(network, seed=7, share=0.3)
    for command in ("submit", "events", "stream"):
        shop.start(command)
    for number in range(3):
        wait_until(lambda: len(shop.done()) > 2 * number, 60, "it submits", lambda: shop.log("submit"))  # noqa: B023
        for command in ("submit", "events", "stream"):
            shop.kill(command)
            shop.start(command)
        if number == 1:
            live_service.programs.restart("web")
    wait_until(lambda: len(shop.done()) == SUBMISSIONS, 120, "all are submitted", lambda: shop.log("submit"))
    wait_until(lambda: ("complete", "-") in shop.streamed(), 60, "the stream ends", lambda: shop.log("stream"))
    assert any(call.fault for call in network.calls if call.path == "/partners/v1/proposals")
    made = {str(proposal.pk) for proposal in Proposal.objects.filter(submission=Proposal.Submission.ACCEPTED)}
    assert set(shop.done()) == made
    assert len(simulator.contracts(BANK)) == len(made) == SUBMISSIONS
    assert shop.streamed() == whole_stream(set(registry.names()))
    sent = set(Event.objects.values_list("pk", flat=True))
    wait_until(lambda: set(shop.events()) == sent, 60, "every event is handled", lambda: shop.log("events"))
    assert len(shop.events()) == len(sent)


@pytest.mark.parametrize(("language", "block"), [("python", "python"), ("typescript", "ts")])
def test_the_guides_first_program_runs(
    live_service: LiveService, open_shop: Open, packages: Path, language: str, block: str
) -> None:
    shop = open_shop(language)
    page = (clients.ROOT / "docs" / "guia" / "clientes.md").read_text()
    [program, *_] = re.findall(rf"^```{block}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for name in ("consulta.json", "proposta.json"):
        shutil.copy(clients.ROOT / "docs" / "guia" / name, shop.folder)
    file = shop.folder / ("program.py" if language == "python" else "program.mjs")
    file.write_text(program.replace("https://sandbox.example", live_service.url).replace("<a sua chave>", SANDBOX_KEY))
    command, environment = shop.program(file)
    proposal_id, url = run(*command, folder=shop.folder, env=environment).split()
    assert proposal_id == str(Proposal.objects.get().pk)
    assert url.startswith("http")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_call_that_meets_a_fault_is_made_again(
    service: Client, simulator: Simulator, network: Network, open_shop: Open, language: str
) -> None:
    """Each fault meets one query and one submission."""
    shop = open_shop(language)
    stock(service, shop, len(FAULTS))
    queries = "".join(f"{json.dumps(query_body(loan_value=3000 + number))}\n" for number in range(len(FAULTS)))

    def times_of(command: str) -> list[float]:
        """When the command made its calls, of which each first one meets a fault."""
        left = [each for fault in FAULTS for each in (fault, "")]
        network.calls.clear()
        network.fault = lambda method, path: left.pop(0) if method == "POST" else ""
        printed = shop.run(command, queries)
        assert command == "submit" or [json.loads(line)["complete"] for line in printed.splitlines()] == [True] * 6
        return [call.at for call in network.calls if call.method == "POST"]

    first = 2 * FAULTS.index("limited")
    for command in ("query", "submit"):
        times = times_of(command)
        assert len(times) == 2 * len(FAULTS)
        assert times[first + 1] - times[first] >= RETRY_AFTER_S, "as long as Retry-After asks"
    assert sorted(shop.done()) == sorted(str(proposal.pk) for proposal in Proposal.objects.all())
    assert len(simulator.contracts(BANK)) == len(shop.done()) == len(FAULTS)


def test_typescript_from_the_proposal_to_the_cancellation(service: Client, open_shop: Open) -> None:
    shop = open_shop("typescript")
    stock(service, shop, 1)
    assert shop.start("submit").wait(60) == 0
    assert json.loads(shop.run("formalize")) == ["string", "awaiting_signature", "cancelled"]


def test_typescript_raises_what_is_known(
    service: Client, simulator: Simulator, network: Network, open_shop: Open
) -> None:
    shop = open_shop("typescript")
    stock(service, shop, 1)
    cpf = json.loads((shop.folder / "0.body").read_text())["titular"]["cpf"]
    network.fault = once("limited")
    assert json.loads(shop.run("raise"))[:3] == ["ApiError", "rate_limited", None]
    network.fault = once("lose")
    assert json.loads(shop.run("raise"))[0] == "OutcomeUnknown"
    wait_until(lambda: len(simulator.contracts(BANK)) == 1, 20, "the lost call arrived")
    stock(service, shop, 2)
    shutil.copy(shop.folder / "1.body", shop.folder / "0.body")
    simulator.lab(cpf, "faults", provider=BANK, fault="unknown_outcome", operation="submit")
    name, _, proposal_id, _ = json.loads(shop.run("raise"))
    assert (name, proposal_id) == ("OutcomeUnknown", str(Proposal.objects.latest("created_at").pk))
    stock(service, shop, 3)
    shutil.copy(shop.folder / "2.body", shop.folder / "0.body")
    simulator.lab(cpf, "faults", provider=BANK, fault="reject_submit", reason="no_margin")
    assert json.loads(shop.run("raise"))[:2] == ["ApiError", "provider_rejected"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_client_verifies_as_the_service_signs(open_shop: Open, language: str) -> None:
    shop = open_shop(language)
    now = int(time.time())
    genuine = signing.headers("evt_known", BODY, SECRETS[:1], now)
    only_body = {"X-Service-Signature": genuine["X-Service-Signature"]}
    taken = [signing.headers("evt_1", BODY, secrets, now) for secrets in (SECRETS, SECRETS[:1], SECRETS[1:])]
    refused = [
        *forged(BODY, SECRETS[0], now),
        (BODY, {**genuine, "webhook-timestamp": "٣"}),
        (BODY, {**genuine, "webhook-signature": "v1,é"}),
        (BODY, {}),
    ]

    def line(body: bytes, headers: dict[str, str], **options: Any) -> str:
        return json.dumps({"body": base64.b64encode(body).decode(), "headers": headers, "secrets": SECRETS, **options})

    lines = [
        *(line(BODY, headers) for headers in taken),
        line(BODY, genuine),
        line(BODY, only_body, takesBodySignature=True),
        line(BODY, {"X-Service-Signature": "é"}, takesBodySignature=True),
        *(line(body, headers) for body, headers in refused),
    ]
    told = [json.loads(each) for each in shop.run("verify", "\n".join(lines)).splitlines()]
    body = json.loads(BODY)
    assert told[:5] == [
        *(["evt_1", "lead", False, body] for _ in taken),
        ["evt_known", "lead", True, body],
        ["", "lead", False, body],
    ]
    assert told[5:] == ["SignatureError"] * (1 + len(refused))


def test_the_typescript_package_is_typed(packages: Path, tmp_path: Path) -> None:
    """A partner's program in strict TypeScript: the types are of the schema, and a code that a later release adds is no
    error."""
    if not any(packages.glob("*.tgz")):
        pytest.skip("the TypeScript client needs Node 20 and npm: `make deps-node` found none")
    install(packages, tmp_path)
    (tmp_path / "program.ts").write_text(
        'import { Client, type types } from "@origination/client";\n'
        "export async function run(client: Client, body: types.SubmissionRequest): Promise<string> {\n"
        "  const proposal = await client.submit(body);\n"
        '  if (proposal.status === "of_next_year") return "x";\n'
        "  return proposal.nothing;\n"
        "}\n"
    )
    options = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--skipDefaultLibCheck"]
    command = ["node", str(clients.TSC), *options, str(tmp_path / "program.ts")]
    told = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert [line.partition(": ")[2] for line in told.stdout.splitlines()] == [
        "error TS2339: Property 'nothing' does not exist on type 'Proposal'."
    ]
