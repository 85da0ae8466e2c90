from typing import Any

import pytest

from tests.processes import Simulator

MESSAGE = {"to": "+5511987654321", "text": "123456 é o seu <código>.", "reference": "r-1"}
BEARER = {"Authorization": "Bearer x"}


def test_a_text_message_lands_on_the_phone_of_its_number_once(simulator: Simulator) -> None:
    message = MESSAGE | {"reference": "once"}
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
    assert simulator.post("/sms", json=MESSAGE | change, headers=headers).status_code == status
    assert "Nenhuma mensagem." in simulator.get("/phone/11987654321").text
