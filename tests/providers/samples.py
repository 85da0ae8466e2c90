"""One complete query and one complete submission that every bank accepts, and the holders of the catalogue."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import providers
from foundation.formats import money
from providers import registry
from providers.types import given
from providers.types.proposal import BankSubmission
from providers.types.query import AppAuthorization, AppEvidence, BankOffer, BankQuery, Geolocation
from providers.words import data_of
from simulator.banks import BANKS as SIMULATED_BANKS

if TYPE_CHECKING:
    from providers.operation import BankClient

_PROVIDERS = Path(providers.__file__).parent
_SANDBOX = {name: data_of(name).sandbox for name in registry.names()}
CREDENTIALS: dict[str, dict[str, str]] = {name: seed["credentials"] for name, seed in _SANDBOX.items()}
CALLBACK_SECRETS: dict[str, str] = {
    name: seed["callback_secret"] for name, seed in _SANDBOX.items() if "callback_secret" in seed
}
SIMULATED = {bank.name: bank for bank in SIMULATED_BANKS}
_EXAMPLE: dict[str, Any] = json.loads(
    (_PROVIDERS.parent / "proposals" / "example.json").read_text("utf-8"), parse_float=lambda text: money(Decimal(text))
)
_CATALOGUE = json.loads((_PROVIDERS.parent / "simulator" / "catalogue.json").read_text("utf-8"))
HOLDERS: dict[str, str] = {row["scenario"]: row["cpf"] for row in _CATALOGUE["scenarios"]}
FULL_FLOW = HOLDERS["full_flow"]
#: By bank, a holder who owes it a step before it makes offers.
OWING: dict[str, str] = {
    bank: row["cpf"]
    for row in reversed(_CATALOGUE["scenarios"])
    for bank, told in row.get("banks", {}).items()
    if "needs" in told
}
STRANGER = "52998224725"
BANK_ACCOUNT: dict[str, str] = _EXAMPLE["recebimento"]["conta_bancaria"]
#: An offer, as an adapter returns it with its employer.
OFFER = BankOffer(
    native_offer_id="native-1",
    loan_value=Decimal("5000.00"),
    installment_value=Decimal("300.00"),
    installments=24,
    interest_rate=Decimal("1.99"),
    total_amount=Decimal("7200.00"),
    table_code="TABELA",
    with_insurance=False,
    first_due_date=date(2027, 1, 10),
    employer_cnpj="11222333000181",
    employer_name="Metalúrgica Aurora Ltda",
    registration="100200",
)


def ceiling(bank: str) -> tuple[Decimal, int]:
    """The largest amount in reais and the longest term that `bank` gives."""
    amount, term = SIMULATED[bank].ceiling
    return Decimal(amount), term


def a_query(cpf: str = FULL_FLOW, **changes: Any) -> BankQuery:
    """A query with a location, without other optional fields."""
    values: dict[str, Any] = {
        "cpf": cpf,
        "name": "Maria da Silva",
        "birth_date": date(1985, 3, 14),
        "phone": "11987654321",
        "email": "maria@example.com",
        "client_ip": "203.0.113.7",
        "sex": 2,
        "geolocation": Geolocation(Decimal("-23.55"), Decimal("-46.63")),
        "accepted_at": datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
    }
    return BankQuery(**{**values, **changes})


def a_whole_query(**changes: Any) -> BankQuery:
    """A query by installment, with all evidence that a holder can give."""
    app = AppEvidence(
        "App/1", "Android 15", "Pixel 8", "Telefone", "phone", Geolocation(Decimal("-23.5"), Decimal(-46))
    )
    values: dict[str, Any] = {
        "sex": 1,
        "accepted_at": datetime(2026, 11, 22, 1, 30, 0, 250_000, tzinfo=UTC),  # still the 21st in Brasília
        "geolocation": Geolocation(Decimal("-23.5505"), Decimal("0.0000001"), Decimal("12.5")),
        "user_agent": "Mozilla/5.0",
        "device_model": "Pixel 8",
        "platform": "Android",
        "authorization_reference": "session-1",
        "app_authorization": AppAuthorization("app-1", "2026-11-21T11:59:58Z", app),
        "portfolio": "CARTEIRA-1",
        "installment_value": Decimal("200.00"),
        "installments": 24,
        "with_insurance": False,
    }
    return a_query(**{**values, **changes})


def reference_of(bank: BankClient, cpf: str) -> str:
    """Ask for offers. Returns the bank's id of the step that it requires first."""
    action = given(bank.query(a_query(cpf)).action)
    return action.reference


def a_submission(offer: BankOffer, cpf: str = FULL_FLOW, **changes: Any) -> BankSubmission:
    """The reference's example, without masks and channel: a submission with every block, paid into an account."""
    blocks = {name: _read(block) if isinstance(block, dict) else block for name, block in _EXAMPLE.items()}
    blocks["titular"]["cpf"] = cpf
    blocks["endereco"]["cep"] = "01310100"
    del blocks["evidencia"]["tipo_envio"]
    return BankSubmission(**{"reference": "reference-1", "offer": offer, **blocks, "query": a_query(cpf), **changes})


def _read(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the example with dates in place of their texts."""
    return {name: date.fromisoformat(value) if name.startswith("data_") else value for name, value in block.items()}


def a_whole_submission(offer: BankOffer) -> BankSubmission:
    """A submission with all that a partner can tell."""
    return changed_submission(
        a_submission(offer, portfolio="CARTEIRA-1"),
        titular={"estado_civil": "uniao_estavel", "exposicao_politica": True},
        endereco={"complemento": "Sala 1"},
        recebimento={
            "conta_bancaria": {**BANK_ACCOUNT, "digito_agencia": "5", "digito_conta": "X", "tipo_conta": "poupanca"}
        },
        evidencia={"tipo_envio": "whatsapp"},
    )


def changed_submission(submission: BankSubmission, **blocks: dict[str, Any]) -> BankSubmission:
    """The submission with other fields in these blocks; None leaves a field out."""
    told = {name: {**getattr(submission, name), **changes} for name, changes in blocks.items()}
    kept = {name: {key: value for key, value in block.items() if value is not None} for name, block in told.items()}
    return replace(submission, **kept)


def pix_key(kind: str, key: str) -> dict[str, Any]:
    """The block `recebimento` of a submission that is paid by PIX."""
    return {"pix": {"tipo_chave": kind, "chave": key}}
