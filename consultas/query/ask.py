"""A worker's part of a query: it takes the row by a lease, asks each bank in a greenlet, keeps each answer when it
comes, and ends the query.

If the worker dies, another takes the row and asks the banks whose answer was not kept. A bank that may have sent the
holder a message is not asked a second time.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import structlog
from django.db import Error as DatabaseFailure
from django.db import connection
from django.utils import timezone
from gevent.pool import Group
from redis.exceptions import RedisError

from consultas import pending
from consultas.models import LATE, LOST_AFTER, Answer, Query, Step, answered, failed, refused
from consultas.query import end
from foundation import database, workers
from foundation.database import give_back_connection
from foundation.errors import ApiError
from foundation.later import FREE, worker_id
from foundation.redis import to_redis
from partners import contract
from partners.models import Partner
from providers import operation, registry
from providers.bank import Bank, Connection
from providers.errors import BankFailure, BankPaused, BankTimedOut, ProviderError, native_code
from providers.models import connections_sql, read_connections
from providers.reasons import OperatorCode, ReasonCode

log = structlog.get_logger(__name__)
#: While this process asks for several queries, their answers are told at these intervals, in seconds, so that one
#: pipeline carries what all of them tell. With banks of 1 to 5 s that is a fifth of what a worker can do.
INTERVAL_S = 0.02
_running: set[str] = set()


def run(query_id: str) -> None:
    """Take the query, ask its banks for offers, all at the same time, and end it. Does nothing if another worker has
    it, or if it has ended."""
    taken = take(query_id)
    connection.close()
    if taken is None:
        return
    query = taken.query
    structlog.contextvars.bind_contextvars(request_id=query.request_id)
    answers: list[Answer] = []
    if query.takes > 1:
        answers += end.kept_answers(query).values()
        log.warning("query_taken_over", query=query_id, kept=len(answers))
    banks = _banks_to_ask(query, {answer.provider for answer in (*query.stored_answers(), *answers)})
    asking, telling = Group(), Group()

    def one(bank: str) -> None:
        structlog.contextvars.bind_contextvars(request_id=query.request_id)
        answers.append(answer := _answer(taken, bank))
        telling.spawn(_tell, query, [answer])

    to_redis().post(workers.message(query_id, workers.START))
    if answers:
        telling.spawn(_tell, query, list(answers))
    _running.add(query_id)
    for bank in banks:
        asking.spawn(one, bank)
    # Answers are stored even if Redis is away, and told even if the database is.
    asking.join(max(0.0, query.seconds_left()))
    _running.discard(query_id)
    _end(taken, answers, telling)
    asking.join()


@dataclass(frozen=True)
class Taken:
    """A query that this worker has taken, with the parts of its partner that events need; the `connections` of its
    banks that are enabled, the `steps` that the holder still owes them, and the partner's `pauses`, by bank. The banks
    in `late` have less than their own time, because the query waited for a worker."""

    query: Query
    connections: dict[str, Connection]
    late: frozenset[str]
    steps: dict[str, Step]
    pauses: dict[str, str]


def take(query_id: str) -> Taken | None:
    """Lease the query until just after its deadline. None if it has ended or another worker has it. One statement."""
    sql, columns = _taking()
    row = database.fetch_one(sql, {"id": query_id, "worker": worker_id(), "late": LATE})
    if row is None:
        return None
    *values, events, connections, pauses, owed = row
    query = columns.row(values)
    query.partner = Partner.from_db(connection.alias, ("id", "webhook_events"), (query.partner_id, events))
    steps = pending.open_steps(query, owed) if owed else {}
    banks, late = read_connections(connections), frozenset[str]()
    if timezone.now() - query.created_at > LOST_AFTER:
        known, left_s = {answer.provider for answer in query.stored_answers()}, query.seconds_left()
        late = frozenset(name for name, bank in banks.items() if left_s < bank.timeout_s) - known
    return Taken(query, banks, late, steps, contract.read_pauses(pauses))


@lru_cache(maxsize=1)
def _taking() -> tuple[str, database.Columns[Query]]:
    columns = database.Columns(Query, "q")
    sql = f"""
WITH q AS (
    UPDATE consultas_query SET worker = %(worker)s, lease_until = deadline_at + %(late)s::interval, takes = takes + 1
    WHERE id = %(id)s AND finished_at IS NULL AND {FREE} RETURNING *)
SELECT {columns.sql}, p.webhook_events, {connections_sql("q.banks ? b.name")},
    {contract.pauses_sql("q.partner_id")}, ARRAY(
    SELECT s.provider FROM consultas_step s
    WHERE s.partner_id = q.partner_id AND s.cpf_index = q.cpf_index AND s.state = 'open' AND q.banks ? s.provider)
FROM q JOIN partners_partner p ON p.id = q.partner_id
"""  # noqa: S608 - names of ours
    return sql, columns


def _banks_to_ask(query: Query, answered: Collection[str]) -> list[str]:
    """The banks without an answer. If another worker had the query, without those that may have sent the holder a
    message, which must not be sent twice."""
    if query.seconds_left() <= 0:
        return []
    left = [bank for bank in query.banks if bank not in answered]
    return [bank for bank in left if query.takes == 1 or not (registry.get(bank) or Bank).notifies_holder]


def _tell(query: Query, answers: list[Answer]) -> None:
    """Keep `answers` and tell them, until the deadline."""
    if query.kind == Query.Kind.AGGREGATED and len(_running) > 1:  # of others a reader waits for each answer
        time.sleep(INTERVAL_S - time.monotonic() % INTERVAL_S)
    try:
        if (left := query.seconds_left()) > 0:
            workers.keep(str(query.id), answers, left)
    except RedisError:
        log.warning("answers_not_kept", query=str(query.id), banks=len(answers))


def mark_late(taken: Taken, answers: list[Answer]) -> list[Answer]:
    """The answers, and a time-out of each late bank that gave none to this worker or an earlier one. Time-outs of late
    banks say that they were late, to operators."""
    silent = sorted(taken.late - {answer.provider for answer in answers}) if taken.query.takes == 1 else []
    elapsed_s = time.time() - taken.query.created_at.timestamp()
    answers = [*answers, *(failed(bank, BankTimedOut(), elapsed_s) for bank in silent)]
    return [
        replace(answer, operator_code=OperatorCode.LATE)
        if answer.provider in taken.late and answer.coded and answer.coded[0].code is ReasonCode.TIMEOUT
        else answer
        for answer in answers
    ]


def _end(taken: Taken, answers: list[Answer], telling: Group) -> None:
    """Store the answers, the offers and the events. Tell the end after the answers."""
    query = taken.query
    work = str(query.id)
    try:
        result = end.end(query, mark_late(taken, list(answers)))
    except Exception as fault:
        log.error("query_not_stored", query=work, fault=type(fault).__name__)
        telling.join()
        workers.tell(work, workers.END, patience_s=query.seconds_left())
        if isinstance(fault, DatabaseFailure):
            return
        raise  # a fault of ours
    finally:
        connection.close()
    if query.kind == Query.Kind.AGGREGATED:  # its readers wait for the end alone
        telling.kill()
    telling.join()
    workers.tell_end(work, result.told(), max(LATE.total_seconds(), query.seconds_left()))


def _answer(taken: Taken, bank: str) -> Answer:
    """The bank's answer to the query. Any exception becomes this bank's answer, so that no other bank is affected."""
    begun, query, adapter = time.monotonic(), taken.query, registry.get(bank) or Bank
    try:
        if pause := taken.pauses.get(bank):
            raise BankPaused(pause)
        client = operation.client(
            bank,
            request_id=query.request_id,
            partner=str(query.partner_id),
            known=taken.connections,
        ).within(query.seconds_left())
        result = pending.ask(client, query, query.for_bank(bank), taken.steps.get(bank))
    except BankFailure as failure:
        log.warning("bank_failed", bank=bank, code=failure.code, held_back=failure.held_back)
        return failed(bank, failure, time.monotonic() - begun)
    except ApiError as refusal:
        why = adapter.reason(refusal.message, native_code(refusal))
        return refused(bank, refusal.message, why, time.monotonic() - begun)
    except Exception:
        # A bug of ours at one bank must not cost the partner the other banks. It is logged and not shown.
        log.exception("bank_adapter_failed", bank=bank)
        return failed(bank, ProviderError(), time.monotonic() - begun)
    finally:
        give_back_connection()
    return answered(bank, result, adapter.reasons_for(result), time.monotonic() - begun)
