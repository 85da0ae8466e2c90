"""POST /partners/v1/bank-callbacks/{name}: the banks' own calls. From a callback to the event:
tests/flows/test_external_steps.py."""

import json
from datetime import timedelta
from importlib import import_module

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone

from consultas.models import Step
from partners.models import Partner
from providers.models import Provider
from tests.client import Client
from tests.factories import PartnerFactory, ProviderFactory, update_encrypted
from tests.processes import Simulator, wait_until
from tests.proposals.rows import a_step, an_offer
from tests.providers.samples import CALLBACK_SECRETS
from tests.webhooks.deliveries import told

ADDRESS = "/partners/v1/bank-callbacks"


def test_without_a_callback_polling_finds_it_within_10_s(
    client: Client, partner: Partner, simulator: Simulator
) -> None:
    update_encrypted(Provider.objects.all(), callback_secret="another one: no callback verifies")
    calling = [("imbuia", "90000000256", "liveness"), ("canela", "90000000418", "sms")]
    for bank, cpf, _ in calling:
        client.query(cpf, providers=[bank])
    for bank, cpf, step in calling:
        simulator.complete(cpf, bank, step, "refused")

    def results() -> list[str]:
        return [event["status"] for event in told("authorization_result", partner=partner)]

    wait_until(lambda: len(results()) == len(calling), 10, "authorization_result")
    assert set(results()) == {"refused"}


# --- without the service's processes


@pytest.fixture(params=CALLBACK_SECRETS)
def calling_bank(db: None, request: pytest.FixtureRequest) -> str:
    ProviderFactory(name=request.param, callback_secret=CALLBACK_SECRETS[request.param])
    return str(request.param)


@pytest.fixture
def step(calling_bank: str) -> Step:
    """A step of which only a callback can start a check."""
    return a_step(an_offer(PartnerFactory(), calling_bank), due_at=timezone.now() + timedelta(hours=1))


Letter = tuple[dict[str, str], bytes]


def letter(bank: str, reference: str) -> Letter:
    """A genuine callback of `bank` about the step with this reference."""
    told = {"imbuia": {"biometria": {"id_biometria": reference, "situacao": "APROVADA"}}}
    body = json.dumps(told.get(bank, {"autorizacaoId": reference})).encode()
    genuine: Letter = import_module(f"tests.providers.test_{bank}").callback(body)
    return genuine


def deliver(bank: str, headers: dict[str, str], body: bytes) -> int:
    return DjangoClient(headers=headers).post(f"{ADDRESS}/{bank}", body, "application/json").status_code


def test_a_callback_has_the_step_checked_at_once_and_changes_nothing_once_it_is_closed(
    calling_bank: str, step: Step
) -> None:
    for _ in range(2):
        assert deliver(calling_bank, *letter(calling_bank, step.reference)) == 204
    assert Step.objects.get().due_at <= timezone.now()
    Step.objects.update(state="approved", due_at=None)
    assert deliver(calling_bank, *letter(calling_bank, step.reference)) == 204
    assert (Step.objects.get().state, Step.objects.get().due_at) == ("approved", None)


def test_an_altered_or_foreign_callback_starts_no_check(calling_bank: str, step: Step) -> None:
    other = next(name for name in CALLBACK_SECRETS if name != calling_bank)
    ProviderFactory(name=other, callback_secret=CALLBACK_SECRETS[other])
    headers, body = letter(calling_bank, step.reference)
    signature = next(name for name in headers if name.endswith("Assinatura"))
    assert deliver(calling_bank, {**headers, signature: "0" * 64}, body) == 401
    assert deliver(calling_bank, headers, body + b" ") == 401
    assert deliver(other, headers, body) == 401
    update_encrypted(Provider.objects.filter(name=calling_bank), callback_secret=CALLBACK_SECRETS[other])
    assert deliver(calling_bank, headers, body) == 401
    assert Step.objects.get().due_at == step.due_at


@pytest.mark.parametrize("reference", ["nobody-knows-it", "\0", "a\0b", "x" * 100_000])
def test_a_genuine_callback_about_an_unknown_step_is_accepted(calling_bank: str, reference: str) -> None:
    """Before the fix, a reference with a NUL was answered with 500."""
    assert deliver(calling_bank, *letter(calling_bank, reference)) == 204


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
