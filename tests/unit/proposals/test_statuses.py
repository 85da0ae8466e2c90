"""The statuses of a proposal and their allowed order, as in the contract. What a partner may do at each, and where the
money goes. No bank is called."""

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from msgspec import to_builtins

from foundation.errors import InvalidState, NotSupported
from proposals import actions, envelope
from proposals.models import Proposal
from proposals.statuses import MOVES, moves_between
from providers import registry
from providers.types.proposal import ProposalStatus
from tests.proposals.datasets import ACCOUNT, dataset, pix

FINAL = {ProposalStatus.DISBURSED, ProposalStatus.REJECTED, ProposalStatus.CANCELLED, ProposalStatus.EXPIRED}
S = ProposalStatus
ALLOWED = {
    *itertools.product([S.CREATED, S.IN_ANALYSIS], [S.AWAITING_SIGNATURE, S.REJECTED, S.CANCELLED, S.EXPIRED]),
    (S.CREATED, S.IN_ANALYSIS),
    *itertools.product([S.AWAITING_SIGNATURE], [S.SIGNED, S.DISBURSED, S.REJECTED, S.CANCELLED, S.EXPIRED]),
    *itertools.product([S.SIGNED], [S.DISBURSED, S.REJECTED, S.CANCELLED]),
}


def test_the_moves_are_those_of_the_contract() -> None:
    assert {(start, end) for start, ends in MOVES.items() for end in ends} == ALLOWED
    assert set(S) - set(MOVES) == FINAL


def test_a_way_is_made_of_allowed_moves_and_never_leads_back() -> None:
    for start, end in list(itertools.product(S, S)):
        found = moves_between(start, end)
        if found is None:
            assert start in FINAL or (start, end) in {
                (S.IN_ANALYSIS, S.CREATED),
                (S.AWAITING_SIGNATURE, S.CREATED),
                (S.AWAITING_SIGNATURE, S.IN_ANALYSIS),
                (S.SIGNED, S.CREATED),
                (S.SIGNED, S.IN_ANALYSIS),
                (S.SIGNED, S.AWAITING_SIGNATURE),
                (S.SIGNED, S.EXPIRED),
            }
        else:
            stops = [start, *found]
            assert stops[-1] == end
            assert all(pair in ALLOWED for pair in itertools.pairwise(stops))


# --- What a partner may do ------------------------------------------------------------------------------------------

ENDS = ("disbursed", "rejected", "cancelled", "expired")
STATUSES = ("created", "in_analysis", "awaiting_signature", "signed", *ENDS)
#: What partners read of `ACCOUNT`.
SHOWN = {"banco": "001", "conta": "****90", "tipo_conta": "corrente"}
#: No place is asked for, because each call is refused before.
NO_USAGE: Any = None
CANNOT_CANCEL = [name for name in registry.names() if not registry.get(name).cancels()]  # type: ignore[union-attr]


def a_proposal(status: str, bank: str = "ipe", **columns: Any) -> Proposal:
    return Proposal(provider=bank, **{"status": status, "submission": "accepted", **columns})


@pytest.mark.parametrize("bank", CANNOT_CANCEL)
def test_a_bank_that_cannot_cancel_is_told_in_every_state(bank: str) -> None:
    for status in STATUSES:
        with pytest.raises(NotSupported, match="Este banco não permite cancelamento"):
            actions.cancel(a_proposal(status, bank), None, "request-1", NO_USAGE)


@pytest.mark.parametrize("submission", ["unknown", "sending"])
def test_what_a_bank_may_have_waits(submission: str) -> None:
    row = a_proposal("created", submission=submission)
    for call in (actions.formalize, actions.cancel):
        with pytest.raises(InvalidState):
            call(row, None, "request-1", NO_USAGE)
    assert envelope.next_actions(row) == ["wait"]


@pytest.mark.parametrize(
    ("status", "bank", "refused", "told"),
    [
        ("created", "ipe", "", ["formalize", "cancel"]),
        ("created", "jatoba", "", ["formalize"]),
        ("created", "ipe", "formalize", ["wait", "cancel"]),
        ("awaiting_signature", "ipe", "", ["formalize", "cancel"]),
        ("awaiting_signature", "ipe", "cancel", ["formalize"]),
        ("in_analysis", "ipe", "", ["wait", "cancel"]),
        ("in_analysis", "canela", "", ["wait"]),
        ("signed", "ipe", "", ["wait", "cancel"]),
        *((end, "ipe", "", ["none"]) for end in ENDS),
    ],
)
def test_what_comes_next_is_told(status: str, bank: str, refused: str, told: list[str]) -> None:
    assert envelope.next_actions(a_proposal(status, bank), refused) == told


@pytest.mark.parametrize(("age", "wait_s"), [(timedelta(), 10), (timedelta(minutes=10), 60), (timedelta(days=3), 600)])
def test_status_checks_grow_rarer_with_time(age: timedelta, wait_s: int) -> None:
    now = timezone.now()
    row = a_proposal("created", moved_at=now - age)
    row.plan_refresh()
    assert row.due_at is not None
    assert round((row.due_at - now).total_seconds()) == wait_s


@pytest.mark.parametrize(
    ("bank", "wanted", "account", "key", "remark"),
    [
        ("ipe", pix("email", "maria@example.com"), None, "email", None),
        (
            "jatoba",
            pix("telefone", "11987654321"),
            None,
            "cpf",
            "Este banco não aceita chave PIX de telefone: o valor é pago na chave CPF do titular.",
        ),
        ("ipe", None, SHOWN, None, None),
        (
            "canela",
            {"conta_bancaria": {**ACCOUNT, "tipo_conta": "salario"}},
            SHOWN,
            None,
            "Este banco não tem conta salário: o valor é creditado como em conta corrente.",
        ),
    ],
)
def test_where_the_bank_pays_is_told_masked(
    bank: str, wanted: Any, account: dict[str, str] | None, key: str | None, remark: str | None
) -> None:
    body = dataset({"provider": bank, "offerId": "x"}, changes={"recebimento": wanted} if wanted else None)
    assert to_builtins(envelope.disbursement(a_proposal("created", bank, dataset=body))) == {
        "conta_bancaria": account,
        "pix": key and {"tipo_chave": key},
        "observacao": remark,
    }
