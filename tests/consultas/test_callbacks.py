"""POST /partners/v1/bank-callbacks/{name}: the banks' own calls."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from importlib import import_module

import pytest
import requests
from django.test import Client as DjangoClient
from django.utils import timezone

from consultas.models import Step
from partners.models import Partner
from providers.models import Provider
from tests.client import Client
from tests.factories import ProviderFactory, move_bank, update_encrypted
from tests.processes import Simulator, wait_until
from tests.providers.callbacks import simulator_calling
from tests.providers.samples import CALLBACK_SECRETS
from tests.receiver import Received, Receiver
from tests.webhooks.deliveries import told

CALLING = [("imbuia", "90000000256", "liveness"), ("canela", "90000000418", "sms")]
WAIT_S = 30


def results(partner: Partner) -> list[str]:
    return [event["status"] for event in told("authorization_result", partner=partner)]


def put_off() -> None:
    """Put the next poll off, so that only a callback can start a check."""
    Step.objects.filter(state="open").update(due_at=timezone.now() + timedelta(hours=1))


def test_without_a_callback_polling_finds_it_within_10_s(
    client: Client, partner: Partner, simulator: Simulator
) -> None:
    update_encrypted(Provider.objects.all(), callback_secret="another one: no callback verifies")
    for bank, cpf, _ in CALLING:
        client.query(cpf, providers=[bank])
    for bank, cpf, step in CALLING:
        simulator.complete(cpf, bank, step, "refused")
    wait_until(lambda: len(results(partner)) == len(CALLING), 10, "authorization_result")
    assert set(results(partner)) == {"refused"}


class Postman:
    """Stands between the banks and the service: keeps callbacks, and delivers them when a test says so."""

    def __init__(self, simulator: Simulator, letters: Receiver, client: Client) -> None:
        self.simulator = simulator
        self._letters = letters
        self._client = client

    def letter(self) -> Received:
        """The callback that the bank sent."""
        return self._letters.wait_for(1, WAIT_S)[0]

    def deliver(self, letter: Received, **changed: str | bytes) -> int:
        """Deliver it to the service, with another `path`, `body` or `signature` if given. Returns the status."""
        headers = {name: value for name, value in letter.headers.items() if name.startswith(("x-", "canela-"))}
        (signature,) = (name for name in headers if name.endswith("assinatura"))
        headers[signature] = str(changed.get("signature", headers[signature]))
        url = self._client.base.removesuffix("/partners/v1") + str(changed.get("path", letter.path))
        body = changed.get("body", letter.body)
        return requests.post(url, data=body, headers=headers, timeout=10).status_code


@pytest.fixture(scope="module")
def calling() -> Iterator[tuple[Simulator, Receiver]]:
    """Simulated banks whose callbacks go to a receiver of the test."""
    with Receiver() as letters, simulator_calling(letters) as simulator:
        yield simulator, letters


@pytest.fixture
def postman(client: Client, calling: tuple[Simulator, Receiver]) -> Postman:
    """The service's banks send their callbacks to the postman."""
    simulator, letters = calling
    simulator.reset()
    letters.forget()
    for bank in Provider.objects.all():
        move_bank(bank.name, f"{simulator.url}/{bank.name}")
    return Postman(simulator, letters, client)


def opened(simulator: Simulator, bank: str, cpf: str) -> bool:
    """True if the bank has worked on a query of that holder."""
    return any(call["worked"] and call["cpf"] == cpf for call in simulator.calls(bank, "query"))


def next_check() -> datetime | None:
    return Step.objects.get().due_at


@pytest.mark.parametrize(("bank", "cpf", "step"), CALLING)
def test_a_repeated_or_late_callback_is_accepted_and_changes_nothing(
    client: Client, partner: Partner, postman: Postman, bank: str, cpf: str, step: str
) -> None:
    client.query(cpf, providers=[bank])
    put_off()
    postman.simulator.complete(cpf, bank, step)
    letter = postman.letter()
    assert postman.deliver(letter) == 204
    wait_until(lambda: results(partner), WAIT_S, "authorization_result")
    looks = len(postman.simulator.calls(bank, "poll"))
    for _ in range(2):
        assert postman.deliver(letter) == 204
    row = Step.objects.get()
    assert (row.state, row.due_at) == ("approved", None)
    assert results(partner) == ["approved"]
    assert len(postman.simulator.calls(bank, "poll")) == looks


def test_an_altered_or_foreign_callback_starts_no_check(client: Client, partner: Partner, postman: Postman) -> None:
    (bank, cpf, step), (other, _, _) = CALLING
    client.query(cpf, providers=[bank])
    put_off()
    put_off_until = next_check()
    postman.simulator.complete(cpf, bank, step, "refused")
    letter = postman.letter()
    secrets = {each.name: each.callback_secret for each in Provider.objects.filter(name__in=(bank, other))}

    assert postman.deliver(letter, signature="0" * 64) == 401
    assert postman.deliver(letter, body=letter.body + b" ") == 401
    assert postman.deliver(letter, path=f"/partners/v1/bank-callbacks/{other}") == 401
    update_encrypted(Provider.objects.filter(name=bank), callback_secret=secrets[other])
    assert postman.deliver(letter) == 401
    assert next_check() == put_off_until
    assert results(partner) == []

    update_encrypted(Provider.objects.filter(name=bank), callback_secret=secrets[bank])
    assert postman.deliver(letter) == 204, "the same one, unaltered"
    assert next_check() != put_off_until


def test_polling_makes_good_a_callback_before_the_querys_reply(
    client: Client, partner: Partner, postman: Postman
) -> None:
    """The bank opens the step and answers late. The holder finishes meanwhile, and no further callback comes."""
    bank, cpf, step = CALLING[1]
    client.query(providers=[bank])  # a query of another holder, so that the login at the bank is done
    postman.simulator.bank(bank, latency_ms=4000, operation="query")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.query, cpf, providers=[bank])
        wait_until(lambda: opened(postman.simulator, bank, cpf), WAIT_S, "the bank works")
        postman.simulator.complete(cpf, bank, step)
        assert postman.deliver(postman.letter()) == 204
        assert not Step.objects.exists()
        shown = asked.result()["providerResults"][bank]
    assert (shown["requiresSignature"], shown["proposals"]) == (True, [])
    row = Step.objects.get()
    assert row.checks > 0 or row.due_at <= row.opened_at + timedelta(seconds=10)
    Step.objects.filter(checks=0).update(due_at=timezone.now())  # the clock is moved, not waited for
    wait_until(lambda: results(partner), WAIT_S, "authorization_result")
    assert results(partner) == ["approved"]


# --- without the service's processes

ADDRESS = "/partners/v1/bank-callbacks"


@pytest.fixture(params=CALLBACK_SECRETS)
def calling_bank(db: None, request: pytest.FixtureRequest) -> str:
    ProviderFactory(name=request.param, callback_secret=CALLBACK_SECRETS[request.param])
    return str(request.param)


@pytest.mark.parametrize("reference", ["nobody-knows-it", "\0", "a\0b", "x" * 100_000])
def test_a_genuine_callback_about_an_unknown_step_is_accepted(calling_bank: str, reference: str) -> None:
    """Before the fix, a reference with a NUL was answered with 500."""
    told = {"imbuia": {"biometria": {"id_biometria": reference, "situacao": "APROVADA"}}}
    body = json.dumps(told.get(calling_bank, {"autorizacaoId": reference})).encode()
    headers, _ = import_module(f"tests.providers.test_{calling_bank}").callback(body)
    answer = DjangoClient(headers=headers).post(f"{ADDRESS}/{calling_bank}", body, "application/json")
    assert answer.status_code == 204, answer.content


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b"[" * 1000, b'{"id": "x"}', b"x" * 300_000])
@pytest.mark.control("CMN XIII")
def test_a_forged_callback_is_refused_and_changes_nothing(calling_bank: str, body: bytes) -> None:
    answer = DjangoClient().post(f"{ADDRESS}/{calling_bank}", body, "application/json")
    expected = (413, "payload_too_large") if len(body) > 256 * 1024 else (401, "unauthorized")
    assert (answer.status_code, answer.json()["code"]) == expected


def test_only_a_bank_that_sends_callbacks_has_the_route_and_only_for_post(db: None) -> None:
    for bank in ("ipe", "jatoba", "peroba", "nenhum"):
        answer = DjangoClient().post(f"{ADDRESS}/{bank}", {}, "application/json")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), bank
    assert DjangoClient().get(f"{ADDRESS}/imbuia").status_code == 405
