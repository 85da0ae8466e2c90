"""Judges a finished run by what others saw: the banks' ledgers, the receivers, the tables, the logs. Nothing here uses
the service's code. Each function yields a promise, and what broke it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.proof.backend import Diary

Finding = tuple[str, Sequence[object]]


@dataclass(frozen=True)
class Contract:
    """A contract in a bank's ledger."""

    bank: str
    id: str
    reference: str
    status: str


@dataclass(frozen=True)
class Proposal:
    """A row of the service's table."""

    id: str
    partner: str
    offer: str
    bank: str
    reference: str
    native_id: str
    submission: str
    status: str


def proposals(database: psycopg.Connection[Any]) -> list[Proposal]:
    """All proposals of the service."""
    columns = "id::text, partner_id::text, offer_id::text, provider, reference, native_id, submission, status"
    return [Proposal(*row) for row in database.execute(f"SELECT {columns} FROM proposals_proposal").fetchall()]


def contracts(rows: list[Proposal], ledger: list[Contract], diary: Diary) -> Iterator[Finding]:
    """One contract for a submission that was acknowledged, none for one that was refused."""
    of = {row.reference: row for row in rows}
    per_reference = Counter(each.reference for each in ledger)
    yield "submissions with more than one contract", [each for each, count in per_reference.items() if count > 1]
    yield "contracts that no proposal knows", [each.id for each in ledger if not _is_known(each, of)]
    accepted = {row.reference for row in rows if row.submission == "accepted"}
    yield "proposals without a contract", sorted(accepted - per_reference.keys())
    not_there = [row.id for row in rows if row.submission in ("refused", "not_sent") and per_reference[row.reference]]
    yield "contracts of submissions that count as refused or not sent", not_there
    alive = defaultdict(list)
    for each in ledger:
        if (row := of.get(each.reference)) and each.status not in ("rejected", "cancelled", "expired"):
            alive[row.partner, row.offer].append(each.id)
    yield "offers with two living contracts", [found for found in alive.values() if len(found) > 1]
    known = {(row.id, row.partner, row.offer) for row in rows if row.submission == "accepted"}
    done = [sale for sale in diary.sales if sale.proposal_id]
    missing = [sale.proposal_id for sale in done if (sale.proposal_id, sale.partner_id, sale.offer_id) not in known]
    yield "acknowledged proposals that are gone", missing
    yield (
        "submissions without an end",
        [sale.offer_id for sale in diary.sales if not (sale.proposal_id or sale.refusal)],
    )
    yield "refusals of offers that the bank had", [sale.refusal for sale in diary.sales if sale.refusal]
    yield "submissions of unknown outcome", [row.id for row in rows if row.submission in ("sending", "unknown")]


def _is_known(contract: Contract, of: dict[str, Proposal]) -> bool:
    row = of.get(contract.reference)
    return row is not None and (row.submission, row.bank, row.native_id) == ("accepted", contract.bank, contract.id)


def behind(rows: list[Proposal], ledger: list[Contract]) -> list[Proposal]:
    """The proposals whose status is not the bank's."""
    at_bank = {each.reference: each.status for each in ledger}
    return [
        row for row in rows if row.submission == "accepted" and at_bank.get(row.reference, row.status) != row.status
    ]
