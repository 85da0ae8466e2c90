"""A bank's credentials are tried before they are kept, and can be taken back until the bank accepts them."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from foundation.models import Action, AuditEntry
from providers.account import REFUSED, UNHEARD
from providers.models import Provider
from tests.client import Client
from tests.operators import Browser, bank_form, page_of
from tests.processes import LiveService, Simulator
from tests.providers.samples import CREDENTIALS
from tests.receiver import Receiver

GOOD = CREDENTIALS["ipe"]
WRONG = {"client_secret": "errado-e-secreto"}


@pytest.fixture
def operator(live_service: LiveService) -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("chefe", password="uma-senha-bem-longa"))
    return browser


def form(bank: str = "ipe", **changes: Any) -> dict[str, Any]:
    kept = Provider.objects.values("base_url", "portfolio", "max_in_flight").get(name=bank)
    return bank_form(bank, **kept, timeout_s="10", **changes)


def page(bank: str = "ipe", view: str = "change") -> str:
    return page_of(Provider(name=bank), view)


def typed(credentials: dict[str, str]) -> dict[str, str]:
    return {f"credential_{name}": value for name, value in credentials.items()}


def kept() -> tuple[str, str]:
    """The client secret, and the one before it."""
    provider = Provider.objects.get(name="ipe")
    return provider.credentials["client_secret"], provider.former_credentials.get("client_secret", "")


def test_wrong_credentials_are_told_in_seconds_and_never_kept(
    operator: Browser, simulator: Simulator, client: Client
) -> None:
    """Before the fix, a typing error was found by the next partner's query."""
    refused = operator.post(page(), form(**typed(WRONG)))
    assert f"{REFUSED} Nada foi guardado." in refused.content.decode()
    assert WRONG["client_secret"] not in refused.content.decode()
    assert kept() == (GOOD["client_secret"], "")
    [entry] = AuditEntry.objects.filter(model="providers.provider")
    assert (entry.action, entry.changes) == (
        Action.TRIED,
        {"timeout_s": [None, 10], "credential_client_secret": [None, "[oculto]"]},
    )
    assert [call["operation"] for call in simulator.calls("ipe")] == ["token"], "nothing of a holder was sent"
    assert simulator.calls("ipe")[0]["cpf"] is None
    assert client.query_one("ipe")["status"] == "ok", "the breaker heard nothing of it"


def test_good_ones_are_kept_and_those_before_them_until_the_bank_accepts_a_call(
    operator: Browser, client: Client
) -> None:
    assert operator.post(page(), form(**typed(GOOD))).status_code == 302
    assert kept() == (GOOD["client_secret"], GOOD["client_secret"])
    assert client.query_one("ipe")["status"] == "ok"
    assert kept() == (GOOD["client_secret"], "")
    entry = AuditEntry.objects.filter(model="providers.provider").latest("at")
    assert entry.detail == "O banco aceitou as credenciais novas; as anteriores foram apagadas."


def test_untried_ones_may_be_kept_and_taken_back_in_one_click(operator: Browser, client: Client) -> None:
    assert operator.post(page(), form(**typed(WRONG), untried="on")).status_code == 302
    assert kept() == (WRONG["client_secret"], GOOD["client_secret"])
    assert client.query_one("ipe")["status"] == "error"
    assert kept()[1] == GOOD["client_secret"], "refused credentials take nothing with them"
    shown = operator.post(page(view="try_account"), follow=True).content.decode()
    assert REFUSED in shown
    assert "Voltar às credenciais anteriores" in shown
    shown = operator.post(page(view="restore_credentials"), follow=True).content.decode()
    assert "Voltar às credenciais anteriores" not in shown
    assert kept() == (GOOD["client_secret"], "")
    assert "O banco aceitou as credenciais guardadas." in (
        operator.post(page(view="try_account"), follow=True).content.decode()
    )


@pytest.mark.parametrize(
    ("fault", "told"), [("hang", "O banco não respondeu a tempo."), ("http_503", "Banco indisponível no momento.")]
)
def test_a_bank_that_fails_is_told_as_such(operator: Browser, simulator: Simulator, fault: str, told: str) -> None:
    """Before the fix, the page said of one that hangs that no process of the service's own had answered in time."""
    simulator.bank("ipe", fault=fault)
    shown = operator.post(page(), form(**typed(GOOD)) | {"timeout_s": "1"}).content.decode()
    assert told in shown
    assert "Nada foi guardado." in shown


def test_a_bank_without_a_log_in_has_nothing_to_try(operator: Browser) -> None:
    assert "Testar conexão" not in operator.get(page("sucupira")).content.decode()
    assert operator.post(page("sucupira"), form("sucupira", credential_key_id="outra")).status_code == 302


def test_another_way_gets_no_stored_credential_and_its_trial_is_on_the_first_page(
    operator: Browser, simulator: Simulator
) -> None:
    """Before the fix, the test of a typed proxy logged in through it with the stored credentials, and left no trace."""
    with Receiver() as listener:
        proxy = {"new_proxy": listener.root}
        refused = operator.post(page(), form(**proxy)).content.decode()
        assert "de outro endereço ou caminho" in refused
        assert (listener.received, simulator.calls("ipe")) == ([], [])
        assert not AuditEntry.objects.filter(model="providers.provider").exists()
        assert "Nada foi guardado." in operator.post(page(), form(**proxy, **typed(GOOD))).content.decode()
        assert GOOD["client_secret"] not in str(listener.received)
    [entry] = AuditEntry.objects.filter(model="providers.provider")
    assert (entry.action, entry.who, entry.changes["new_proxy"]) == (Action.TRIED, "chefe", [None, "[oculto]"])
    assert "teste de proxy, credenciais, por chefe" in operator.get("/admin/").content.decode()
    assert kept() == (GOOD["client_secret"], "")


def test_without_a_worker_nothing_is_kept_and_the_operator_is_told(
    operator: Browser, live_service: LiveService, settings: Any
) -> None:
    settings.BANK_TIMEOUT_S = 2
    live_service.programs.kill("banks")
    assert UNHEARD in operator.post(page(), form(**typed(GOOD))).content.decode()
    assert kept() == (GOOD["client_secret"], "")
