"""The token of the simulator's controls; scenarios that only ipe plays; and the holder's phone. What each fault of a
bank is to a caller: tests/providers/contract/test_failures.py and tests/faults/test_submission.py."""

import re
from typing import Any

import pytest

from tests.processes import Simulator
from tests.providers.samples import HOLDERS
from tests.simulator.test_ipe import FULL_FLOW, IpeClient

COMPLETE = f"holders/{FULL_FLOW}/complete"


@pytest.mark.parametrize("token", [{}, "wrong", "né".encode(), b"\xe9"], ids=ascii)
def test_every_control_is_401_without_the_token(simulator: Simulator, token: Any) -> None:
    headers = {"X-Control-Token": token} if token else {}
    for path in ("reset", "banks/ipe", COMPLETE, "clock"):
        assert simulator.post(f"/_control/{path}", headers=headers).status_code == 401, path
    for path in ("banks/ipe/calls", "banks/ipe/contracts", "unknown"):
        assert simulator.get(f"/_control/{path}", headers=headers).status_code == 401, path


def test_a_holder_who_never_signs_lets_the_contract_expire(simulator: Simulator, ipe: IpeClient) -> None:
    debt = ipe.debt(HOLDERS["unsigned"])
    ipe.issue(debt)
    simulator.advance(55)
    assert ipe.status(debt)["status"] == "waiting_signature"
    simulator.advance(10)
    assert ipe.status(debt)["status"] == "signature_expired"
    assert ipe.issue(debt).status_code == 409


def test_a_strange_word_is_told_until_the_contract_is_issued(ipe: IpeClient) -> None:
    debt = ipe.debt(HOLDERS["strange_status"])
    assert ipe.status(debt)["status"] == "em_orbita"
    assert ipe.issue(debt).json()["status"] == "waiting_signature"


# --- The holder's phone: its page with links and messages, and the gateway whose text messages it gets


STEP = re.compile(r'<li class="step (\w+)" data-bank="(\w+)" data-step="(\w+)"')
TEXT = {"to": "+5511987654321", "text": "123456 é o seu <código>.", "reference": "r-1"}
BEARER = {"Authorization": "Bearer x"}
MESSAGE = re.compile(r'<li class="message (\w+)" data-bank="(\w+)"')


def issued(ipe: IpeClient) -> tuple[dict[str, Any], str]:
    debt = ipe.debt()
    return debt, ipe.issue(debt).json()["signature"]["url"]


def test_a_phone_without_anything_says_so_and_escapes_what_came_from_outside(simulator: Simulator) -> None:
    page = simulator.get(f"/phone/{FULL_FLOW}")
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.headers["Cache-Control"] == "no-store"
    assert "Nenhuma mensagem." in page.text
    assert "Nenhum link." in page.text
    assert "<script>" not in simulator.get("/phone/%3Cscript%3Ealert(1)%3C%2Fscript%3E").text


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


def test_the_start_page_leads_to_every_holder_and_an_unknown_link_to_a_page(simulator: Simulator) -> None:
    unknown, page = simulator.get("/links/unknown"), simulator.get("/").text
    assert (unknown.status_code, "Link desconhecido" in unknown.text) == (404, True)
    assert f'href="/phone/{FULL_FLOW}"' in page
    assert page.count('href="/phone/') == len(HOLDERS)


def test_a_text_message_lands_on_the_phone_of_its_number_once(simulator: Simulator) -> None:
    message = TEXT | {"reference": "once"}
    for _ in range(2):
        reply = simulator.post("/sms", json=message, headers=BEARER)
        assert (reply.status_code, reply.json()) == (202, {"reference": "once"})
    page = simulator.get("/phone/11987654321").text
    assert page.count("123456 é o seu &lt;código&gt;.") == 1
    assert "Nenhuma mensagem." in simulator.get("/phone/11987654322").text


@pytest.mark.parametrize(
    ("change", "headers", "status"),
    [
        ({}, {}, 401),
        ({"to": "11987654321"}, BEARER, 422),
        ({"text": ""}, BEARER, 422),
        ({"text": "x" * 1001}, BEARER, 422),
        ({"reference": None}, BEARER, 422),
        ({"colour": "red"}, BEARER, 422),
    ],
)
def test_what_is_no_message_is_refused(
    simulator: Simulator, change: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    assert simulator.post("/sms", json=TEXT | change, headers=headers).status_code == status
    assert "Nenhuma mensagem." in simulator.get("/phone/11987654321").text
