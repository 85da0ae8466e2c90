"""The fixed test holders: how each bank answers for each CPF. Read once from `catalogue.json`, whose rows say it for
`every` bank, and for those in `banks` that answer otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Employment:
    """An employment of a holder. `margin` is in reais; only some banks return it."""

    cnpj: str
    name: str
    registration: str
    margin: Decimal
    job_title: str
    admitted_on: date


EMPLOYMENTS = (
    Employment(
        "11222333000181",
        "Metalúrgica Aurora Ltda",
        "100200",
        Decimal("1850.00"),
        "Operador de Produção",
        date(2019, 3, 11),
    ),
    Employment(
        "12ABC34501DE35",
        "Hospital Boa Vista S.A.",
        "B-778",
        Decimal("920.50"),
        "Técnico de Enfermagem",
        date(2021, 8, 2),
    ),
)


@dataclass(frozen=True)
class Scenario:
    """How one bank behaves for one CPF. The names are those of the catalogue.

    `answer` is offers, no_offers, or a fault of `faults.FAULTS` for queries. `needs` is the external step that the
    holder must finish first. If `auto_complete_s` is set, the step ends by itself with `outcome` after that time.
    `averbation_failures` are the bank's sentences for the tries at averbation that fail before one succeeds.
    """

    answer: str = "no_offers"
    reason: str = "cliente sem oferta disponivel"
    latency_ms: int = 0
    needs: str | None = None
    auto_complete_s: float | None = None
    outcome: str = "approved"
    employers: int = 1
    submit: str | None = None
    message: str = ""
    desk: str = "approved"
    portfolio: str | None = None
    native_status: str | None = None
    signature: str | None = None
    expires_after_s: float | None = None
    averbation_failures: tuple[str, ...] = ()

    @property
    def employments(self) -> tuple[Employment, ...]:
        return EMPLOYMENTS[: self.employers]


NO_OFFERS = Scenario()

_data: dict[str, Any] = json.loads(Path(__file__).with_name("catalogue.json").read_text("utf-8"), parse_float=Decimal)


def _scenario(entry: dict[str, Any]) -> Scenario:
    return Scenario(**{**entry, "averbation_failures": tuple(entry.get("averbation_failures", ()))})


AUCTION_KEYS: dict[str, str] = _data["auction_keys"]
AUCTION_CUSTOMER_CPF: str = _data["auction_customer_cpf"]
HOLDERS: tuple[dict[str, str], ...] = tuple(
    {key: row[key] for key in ("cpf", "scenario", "description")} for row in _data["scenarios"]
)
_by_cpf: dict[str, dict[str, Scenario]] = {
    row["cpf"]: {bank: _scenario(entry) for bank, entry in row.get("banks", {}).items()} for row in _data["scenarios"]
}
_of_every_bank: dict[str, Scenario] = {
    row["cpf"]: _scenario(row["every"]) for row in _data["scenarios"] if "every" in row
}


def scenario(cpf: str, bank: str) -> Scenario:
    """How `bank` behaves for `cpf`. `NO_OFFERS` if the catalogue does not say it."""
    return _by_cpf.get(cpf, {}).get(bank) or _of_every_bank.get(cpf, NO_OFFERS)
