"""POST /partners/v1/bank-callbacks/{name}: the banks' own calls."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
import requests
from django.utils import timezone

from consultas.models import Pending
from partners.models import Partner
from providers.models import Provider
from tests.client import Client
from tests.processes import LiveService, Simulator, wait_until
from webhooks.models import Event

CALLING = [("imbuia", "90000000256", "liveness"), ("canela", "90000000418", "sms")]


def results(partner: Partner) -> list[str]:
    rows = Event.objects.filter(partner=partner, name="authorization_result").order_by("created_at")
    return [json.loads(row.body)["status"] for row in rows]


def put_off() -> None:
    """Keep the polling away, so that only a callback can bring the check forward."""
    Pending.objects.filter(state="open").update(next_check_at=timezone.now() + timedelta(hours=1))


@pytest.mark.parametrize(("bank", "cpf", "step"), CALLING)
def test_a_genuine_callback_has_the_step_checked_at_once(
    client: Client, partner: Partner, simulator: Simulator, live_service: LiveService, bank: str, cpf: str, step: str
) -> None:
    client.query(cpf, providers=[bank])
    put_off()
    simulator.complete(cpf, bank, step)
    wait_until(lambda: results(partner), 10, "authorization_result", live_service.logs)
    assert results(partner) == ["approved"]


@pytest.mark.parametrize(("bank", "cpf", "step"), CALLING)
def test_without_a_callback_polling_finds_it_within_10_s(
    client: Client, partner: Partner, simulator: Simulator, live_service: LiveService, bank: str, cpf: str, step: str
) -> None:
    Provider.objects.filter(name=bank).update(callback_secret="another one: no callback verifies")
    client.query(cpf, providers=[bank])
    simulator.complete(cpf, bank, step, "refused")
    wait_until(lambda: results(partner), 10, "authorization_result", live_service.logs)
    assert results(partner) == ["refused"]


@pytest.mark.parametrize("bank", ["imbuia", "canela"])
@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b"[" * 1000, b'{"id": "x"}', b"x" * 300_000])
def test_a_forged_one_is_refused_and_changes_nothing(
    client: Client, simulator: Simulator, bank: str, body: bytes
) -> None:
    answer = requests.post(f"{client.base}/bank-callbacks/{bank}", data=body, timeout=10)
    expected = (413, "payload_too_large") if len(body) > 256 * 1024 else (401, "unauthorized")
    assert (answer.status_code, answer.json()["code"]) == expected


@pytest.mark.parametrize("bank", ["ipe", "jatoba", "peroba", "nenhum"])
def test_a_bank_that_sends_none_is_404(client: Client, bank: str) -> None:
    answer = requests.post(f"{client.base}/bank-callbacks/{bank}", json={}, timeout=10)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_only_post_is_taken(client: Client) -> None:
    assert requests.get(f"{client.base}/bank-callbacks/imbuia", timeout=10).status_code == 405
