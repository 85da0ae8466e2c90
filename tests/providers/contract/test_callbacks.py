"""Callbacks of every bank that sends them. They are signed as `callback` in the bank's own test file does it."""

from importlib import import_module
from types import ModuleType

import pytest
from requests.structures import CaseInsensitiveDict

from foundation.errors import Unauthorized
from providers import registry
from providers.bank import Bank
from providers.types import given
from providers.types.query import StepOutcome
from tests.processes import Simulator
from tests.providers.conftest import at
from tests.providers.manuals import manual_of
from tests.providers.samples import CALLBACK_SECRETS, OWING, a_query, reference_of
from tests.receiver import Receiver

pytestmark = pytest.mark.parametrize("adapter", [bank for bank in registry.BANKS if bank.calls_back])


@pytest.fixture
def own(adapter: type[Bank]) -> ModuleType:
    return import_module(f"tests.providers.test_{adapter.name}")


@pytest.mark.parametrize("age_s", [0, 290, -3600])  # the bank's clock may be ahead of ours
def test_a_callback_is_taken_again_within_five_minutes(adapter: type[Bank], own: ModuleType, age_s: float) -> None:
    headers, body = own.callback(age_s=age_s)
    for _ in range(2):
        assert adapter.verify_callback(CALLBACK_SECRETS[adapter.name], headers, body) in body.decode()


def test_a_callback_that_is_forged_altered_or_old_is_refused(adapter: type[Bank], own: ModuleType) -> None:
    headers, body = own.callback()
    attempts = [
        ({}, body),
        own.callback(secret="another-secret"),
        own.callback(age_s=302),
        own.callback(b"{}"),
        own.callback(b"not JSON"),
        (headers, body.replace(b"1", b"2")),
        (headers, body + b" "),
        (headers, b""),
        *(({**headers, name: ""}, body) for name in headers),
        *own.altered_callbacks(),
    ]
    for sent_headers, sent_body in attempts:
        with pytest.raises(Unauthorized):
            adapter.verify_callback(CALLBACK_SECRETS[adapter.name], sent_headers, sent_body)
    with pytest.raises(Unauthorized):
        adapter.verify_callback("", *own.callback(secret=""))


def test_the_simulated_banks_own_callback_names_the_step(
    adapter: type[Bank], calling: tuple[Simulator, Receiver]
) -> None:
    name, cpf, (simulator, service) = adapter.name, OWING[adapter.name], calling
    bank = at(name, f"{simulator.url}/{name}")
    reference = reference_of(bank, cpf)
    simulator.complete(cpf, name, given(manual_of(name).step).kind)
    [request] = service.wait_for(1)
    assert request.path == f"/partners/v1/bank-callbacks/{name}"
    headers = CaseInsensitiveDict(request.headers)
    assert adapter.verify_callback(CALLBACK_SECRETS[name], headers, request.body) == reference
    assert bank.check(a_query(cpf), reference).step is StepOutcome.APPROVED
