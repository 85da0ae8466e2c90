"""What crosses the boundary between the service and a bank: frozen dataclasses, no behaviour of any bank.

Money is `Decimal` in reais, rates are `Decimal` percent a month (1.99), times are aware UTC.
"""

from __future__ import annotations

from typing import TypeVar

from providers.types.query import (
    ActionType,
    AppAuthorization,
    AppEvidence,
    BankAction,
    BankOffer,
    BankQuery,
    BankResult,
    Employment,
    Geolocation,
    QueryStatus,
    StepOutcome,
)
from providers.types.submission import (
    Address,
    BankAccount,
    BankProposal,
    BankSubmission,
    DeclaredEmployment,
    Disbursement,
    Holder,
    IdentityDocument,
    PersonalReference,
    PixKey,
    ProposalStatus,
)

__all__ = [
    "ActionType",
    "Address",
    "AppAuthorization",
    "AppEvidence",
    "BankAccount",
    "BankAction",
    "BankOffer",
    "BankProposal",
    "BankQuery",
    "BankResult",
    "BankSubmission",
    "DeclaredEmployment",
    "Disbursement",
    "Employment",
    "Geolocation",
    "Holder",
    "IdentityDocument",
    "PersonalReference",
    "PixKey",
    "ProposalStatus",
    "QueryStatus",
    "StepOutcome",
    "given",
]

T = TypeVar("T")


def given(value: T | None) -> T:
    """`value`, which a rule outside its type says is there: `Bank.required`, an account where there is no PIX key,
    `accepted_at` when a bank is asked. Raises ValueError for None."""
    if value is None:
        raise ValueError("a value that must be there is missing")
    return value
