"""The guide and the README describe the sandbox as the code has it: its partner, its holders, its times."""

import re
from pathlib import Path

from consultas.admission import OverCapacity
from partners.limits import PER_MINUTE
from partners.management.commands.seed_sandbox import IN_FLIGHT_LIMIT, PARTNER_ID
from simulator import catalogue
from simulator.ledger import DISBURSED_AFTER_S

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text("utf-8")
SANDBOX = (ROOT / "docs" / "guia" / "sandbox.md").read_text("utf-8")
PROSE = " ".join(SANDBOX.split())


def test_the_partner_and_its_limit() -> None:
    assert f"{IN_FLIGHT_LIMIT:,} queries in flight" in README
    assert f"{IN_FLIGHT_LIMIT:,} consultas em andamento".replace(",", ".") in PROSE
    assert "curl -s -X PUT http://127.0.0.1:8000/partners/v1/webhook" in README
    assert "curl -s -X PUT https://sandbox.example/partners/v1/webhook" in SANDBOX
    assert f"manage.py set_limits {PARTNER_ID} --per-minute" in SANDBOX
    assert PER_MINUTE.message in PROSE
    assert OverCapacity.default_message.partition(".")[0] in PROSE


def test_each_holder_with_the_name_of_its_scenario() -> None:
    told = dict(re.findall(r"^\| `(\d{11})` \| `(\w+)` \|", SANDBOX, re.MULTILINE))
    assert told == {holder["cpf"]: holder["scenario"] for holder in catalogue.HOLDERS}


def test_how_soon_the_money_is_paid() -> None:
    assert f"Depois de uma assinatura o banco paga em {DISBURSED_AFTER_S:g} s." in PROSE
