"""What a new bank begins with (`manage.py new_bank`). A line that says FILL IN fails a test until it is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent
#: What a new bank has not filled in yet.
GAP = "FILL IN"
#: A bank's own files, and the template of each.
FILES = {
    "docs/banks/$name.md": "manual.md.txt",
    "providers/banks/$name.json": "data.json.txt",
    "providers/banks/$name.py": "adapter.py.txt",
    "simulator/banks/$name.py": "simulated.py.txt",
    "tests/providers/test_$name.py": "test_adapter.py.txt",
    "tests/simulator/test_$name.py": "test_simulated.py.txt",
    "tests/providers/bodies/$name.json": "bodies.json.txt",
}
_OFFERS: dict[str, Any] = {"answer": "offers", "max_amount": 6600, "max_term": 24}
_IN_PROGRESS = "Ja existe contrato em andamento para este cliente."
#: What the simulated bank answers to the test holders of each scenario that every bank has.
CATALOGUE: dict[str, dict[str, Any]] = {
    "full_flow": _OFFERS,
    "no_offers": {"answer": "no_offers", "reason": "margem consignavel insuficiente"},
    "contract_in_progress": {**_OFFERS, "submit": "rejected", "message": _IN_PROGRESS},
    "submit_unknown": {**_OFFERS, "submit": "lost_answer"},
    "submit_unavailable": {**_OFFERS, "submit": "unavailable_once"},
    **dict.fromkeys(("bank_down", "slow_bank", "garbage"), _OFFERS),
    "all_slow": {"answer": "hang"},
}
#: The sentences of the simulated bank for refusals, by our code.
REFUSALS = {
    "no_margin": "margem consignavel insuficiente",
    "existing_contract": "ja existe contrato em andamento para este cliente",
    "credit_policy": "cliente sem oferta disponivel",
}
