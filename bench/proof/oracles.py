"""Judges a finished run by what others saw: the banks' ledgers, the receivers, the tables, the logs. Nothing here uses
the service's code. Each function yields a promise, and what broke it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.proof.backend import ACCOUNT, EMAIL, MOTHER, NAME, PHONE, Backend, Diary
from bench.proof.receivers import Endpoint, Follower

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


# --- Queries ------------------------------------------------------------------------------------------------------

FINAL = {"ok", "no_offers", "requires_action", "pending", "error"}
#: The contract: each bank has its final status by the deadline and five seconds.
_LATE = "finished_at > deadline_at + interval '5 seconds'"


def queries(database: psycopg.Connection[Any], diary: Diary, erased: set[str]) -> Iterator[Finding]:
    """Every query ended in time, and tells each bank's answer to whoever asks."""
    select = "SELECT id::text FROM consultas_query WHERE"
    yield "queries without an end", database.execute(f"{select} finished_at IS NULL").fetchall()
    yield "queries that ended too late", database.execute(f"{select} {_LATE}").fetchall()
    yield (
        "queries without one final status of each bank",
        [
            key
            for key, (backend, banks) in diary.queries.items()
            if key not in erased and not _tells(backend, key, banks)
        ],
    )


def _tells(backend: Backend, query_id: str, banks: list[str]) -> bool:
    reply = backend.call("GET", f"/consultas/{query_id}", what="a query afterwards").body
    told = {bank: each["status"] for bank, each in reply.get("providerResults", {}).items()}
    return bool(reply.get("complete")) and told.keys() == set(banks) and set(told.values()) <= FINAL


# --- Events -------------------------------------------------------------------------------------------------------


def events(database: psycopg.Connection[Any], endpoint: Endpoint) -> Iterator[Finding]:
    """Every event that was stored arrived, genuine, and none came of nothing. Of an erased holder none needs to."""
    select = "SELECT id, state FROM webhooks_event WHERE name <> 'webhook.test' AND purged_at IS NULL"
    kept = dict(database.execute(select).fetchall())
    stored = {key for (key,) in database.execute("SELECT id FROM webhooks_event").fetchall()}
    arrived = {delivery.id for delivery in endpoint.taken}
    yield "events that did not arrive", sorted(kept.keys() - arrived)
    yield "events that count as not delivered", sorted(key for key, state in kept.items() if state != "delivered")
    yield "deliveries of events that nobody stored", sorted(arrived - stored)
    yield "deliveries with a wrong signature", endpoint.forged


def causes(
    database: psycopg.Connection[Any], endpoint: Endpoint, sessions: set[str], erased: set[str]
) -> Iterator[Finding]:
    """What happened was told by exactly one event: not twice under two ids, and nothing untold."""
    bodies = {delivery.id: delivery.body for delivery in endpoint.taken}.values()
    told = Counter((body["event"], body["external_reference"]) for body in bodies)
    moves = "SELECT 'proposal.' || to_status, proposal_id::text FROM proposals_move"
    ended = "SELECT 'query.completed', id::text FROM consultas_query WHERE finished_at IS NOT NULL"
    offers = "SELECT DISTINCT 'lead', simulation_group::text FROM consultas_query WHERE simulation_group IS NOT NULL"
    happened = {
        "moves of proposals": Counter(database.execute(moves).fetchall()),
        "ended queries": Counter(database.execute(ended).fetchall()),
        "simulations": Counter(database.execute(offers).fetchall()),
        "accepted authorizations": Counter(("authorization.completed", each) for each in sessions),
    }
    for what, counts in happened.items():
        yield f"{what} without one event", [key for key, count in counts.items() if told[key] != count == 1]
    begun = "SELECT proposal_id::text FROM proposals_move WHERE from_status = '' GROUP BY 1 HAVING count(*) > 1"
    yield "proposals that began twice", database.execute(begun).fetchall()
    known = happened["moves of proposals"] | happened["ended queries"] | happened["simulations"]
    names = {name for name, _ in known}
    yield (
        "events of nothing that happened",
        [key for key in told if key[0] in names and key not in known and key[1] not in erased],
    )


def steps(
    database: psycopg.Connection[Any], endpoint: Endpoint, finished: Counter[tuple[str, str]]
) -> Iterator[Finding]:
    """A holder's step that ended is told once."""
    bodies = {delivery.id: delivery.body for delivery in endpoint.taken}.values()
    told = Counter((each["partner_id"], each["provider"]) for each in bodies if each["event"] == "authorization_result")
    select = "SELECT partner_id::text, provider FROM consultas_step WHERE state <> 'open'"
    closed = Counter(database.execute(select).fetchall())
    yield "ended steps that were not told", [*(closed - told), *(finished - told)]
    yield "steps that were told twice", list(told - closed)


def feed(database: psycopg.Connection[Any], endpoint: Endpoint, followers: list[Follower]) -> Iterator[Finding]:
    """Who follows the ordered list gets every event once, everybody in the same order, each proposal's in its own."""
    stored: dict[str, set[str]] = defaultdict(set)
    for key, partner in database.execute("SELECT id, partner_id::text FROM webhooks_event").fetchall():
        stored[partner].add(key)
    pairs = list(zip(followers[::2], followers[1::2], strict=True))
    yield (
        "events that a reader of the list missed",
        [key for each in followers for key in stored[each.partner] - set(each.got)],
    )
    yield (
        "events that a reader of the list got twice",
        [key for each in followers for key, count in Counter(each.got).items() if count > 1],
    )
    yield "lists in another order for another reader", [one.partner for one, other in pairs if one.got != other.got]
    bodies = {delivery.id: delivery.body for delivery in endpoint.taken}
    select = "SELECT proposal_id::text, 'proposal.' || to_status FROM proposals_move ORDER BY at, id"
    moves = _by_reference(database.execute(select).fetchall())
    shown = _by_reference(
        (bodies[key]["external_reference"], bodies[key]["event"])
        for one, _ in pairs
        for key in one.got
        if key in bodies and bodies[key]["event"].startswith("proposal.")
    )
    yield "proposals whose events are out of order", [key for key in shown if shown[key] != moves.get(key)]


def _by_reference(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for reference, event in pairs:
        found[reference].append(event)
    return found


# --- What stays behind ----------------------------------------------------------------------------------------------


def leftovers(database: psycopg.Connection[Any], indexes: set[str]) -> Iterator[Finding]:
    """No row is held by a lease that ended, none waits although it is due, and no erased holder is left."""
    yield "rows that stay leased", list(_rows(database, "lease_until", "lease_until < now() - interval '15 seconds'"))
    due = "due_at < now() - interval '30 seconds' AND lease_until IS NULL"
    yield "rows that are due and that nobody takes", list(_rows(database, "lease_until", due))
    found = _rows(database, "cpf_index", "cpf_index = ANY(%s)", [sorted(indexes)])
    yield "rows of erased holders", [each for each in found if not each.startswith("proposals_erasure")]


def _rows(database: psycopg.Connection[Any], column: str, condition: str, values: Sequence[Any] = ()) -> Iterator[str]:
    select = "SELECT table_name FROM information_schema.columns WHERE table_schema = 'public' AND column_name = %s"
    for (table,) in database.execute(select, [column]).fetchall():
        for (key,) in database.execute(f"SELECT ctid::text FROM {table} WHERE {condition}", values).fetchall():
            yield f"{table} {key}"


def personal_data(files: Iterable[Path], cpfs: Iterable[str], secrets: Iterable[str]) -> Iterator[Finding]:
    """No log line, and nothing that the broker wrote to its disk, holds a holder's data or a secret."""
    known = set(cpfs)
    words = [r"(?<!\d)\d{11}(?!\d)", *map(re.escape, [*secrets, NAME, MOTHER, PHONE, EMAIL, ACCOUNT])]
    pattern = re.compile("|".join(words).encode())
    found = {(file.name, match[0].decode()) for file in files for match in pattern.finditer(file.read_bytes())}
    yield (
        "personal data or secrets in logs and broker",
        [each for each in sorted(found) if not each[1].isdecimal() or each[1] in known or each[1] in (PHONE, ACCOUNT)],
    )
