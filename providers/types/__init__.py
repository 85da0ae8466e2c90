"""The frozen dataclasses that pass between the service and a bank's adapter. They contain no behaviour of any bank.

Money is `Decimal` in reais. Rates are `Decimal` in percent a month (1.99). Times are aware UTC.
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
    """`value`, which the type allows to be None but another rule requires: `Bank.required`, an account if there is no
    PIX key, `accepted_at` when a bank is asked. Raises ValueError for None."""
    if value is None:
        raise ValueError("a value that must be there is missing")
    return value
