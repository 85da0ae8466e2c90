import re
from typing import Any

import pytest

from tests.processes import Simulator
from tests.providers.samples import HOLDERS
from tests.simulator.ipe_client import FULL_FLOW, IpeClient

STEP = re.compile(r'<li class="step (\w+)" data-bank="(\w+)" data-step="(\w+)"')
MESSAGE = re.compile(r'<li class="message (\w+)" data-bank="(\w+)"')


def issued(ipe: IpeClient) -> tuple[dict[str, Any], str]:
    debt = ipe.debt()
    return debt, ipe.issue(debt).json()["signature"]["url"]


def test_a_phone_without_anything_says_so(simulator: Simulator) -> None:
    page = simulator.get(f"/phone/{FULL_FLOW}")
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "no-store"
    assert "Nenhuma mensagem." in page.text
    assert "Nenhum link." in page.text


def test_the_phone_shows_every_link_with_what_the_holder_would_do(simulator: Simulator, ipe: IpeClient) -> None:
    _, url = issued(ipe)
    page = simulator.get(f"/phone/{FULL_FLOW}").text
    assert STEP.findall(page) == [("open", "ipe", "signature")]
    assert f'href="{url}"' in page
    assert "Assinar o contrato" in page
    assert "Recusar a assinatura" in page
    assert MESSAGE.findall(page) == []


@pytest.mark.parametrize(
    ("outcome", "state", "status"),
    [("approved", "Concluída", "pending_reservation"), ("refused", "Recusada", "refused")],
)
@pytest.mark.parametrize("back_to", ["link", "phone"])
def test_the_first_button_does_what_the_holder_does_and_looking_does_nothing(
    simulator: Simulator, ipe: IpeClient, outcome: str, state: str, status: str, back_to: str
) -> None:
    debt, url = issued(ipe)
    assert simulator.get(url).text.count("<button") == 2
    simulator.request("HEAD", url)
    assert ipe.status(debt)["status"] == "waiting_signature"
    page = simulator.post(url, data={"outcome": outcome, "back_to": back_to})
    assert page.url == (url if back_to == "link" else f"{simulator.url}/phone/{FULL_FLOW}")
    assert state in page.text
    assert "<button" not in page.text
    for _ in range(2):
        assert ipe.status(debt)["status"] == status
        simulator.post(url, data={"outcome": "refused" if outcome == "approved" else "approved"})  # too late


def test_an_unknown_link_is_a_page_for_a_holder(simulator: Simulator) -> None:
    page = simulator.get("/links/unknown")
    assert page.status_code == 404
    assert "Link desconhecido" in page.text


def test_the_start_page_leads_to_every_holder(simulator: Simulator) -> None:
    page = simulator.get("/").text
    assert f'href="/phone/{FULL_FLOW}"' in page
    assert page.count('href="/phone/') == len(HOLDERS)


def test_what_came_from_outside_is_escaped(simulator: Simulator) -> None:
    page = simulator.get("/phone/%3Cscript%3Ealert(1)%3C%2Fscript%3E").text
    assert "<script>" not in page
