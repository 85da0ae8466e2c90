"""Counts events between two times: reads the rows of queries, steps and proposals, and sums them by hour.

Each source has one function, which reads the rows by an index on the time that counts. A row is counted once, in the
hour of that time, and must be final by then (`figures.sweep` waits for that).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self

import msgspec
from django.apps import apps
from django.db import connection, models, transaction

from backoffice.figures.models import UNTAKEN, BankHour, LatencyHour, QueryHour, ReasonHour, Stage
from consultas.models import TAKEN, Query, Step
from proposals.models import Move
from proposals.statuses import NOT_LIVE, WITHDRAWN
from providers.reasons import ReasonCode
from providers.types.proposal import ProposalStatus
from providers.types.query import QueryStatus

#: The upper bounds, in milliseconds, of the classes of answer times. The last class has no bound.
LATENCY_BOUNDS_MS = (100, 250, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000, 7500, 10_000, 15_000, 20_000, 25_000)
LONGER_MS = 2**31 - 1
#: The columns that identify a row of each table.
KEYS: dict[type[models.Model], tuple[str, ...]] = {
    QueryHour: ("hour", "partner_id"),
    BankHour: ("hour", "bank", "partner_id"),
    ReasonHour: ("hour", "bank", "partner_id", "stage", "code"),
    LatencyHour: ("hour", "bank", "up_to_ms"),
}
_CHUNK = 500
_STEP_CODES = {
    Step.State.REFUSED: ReasonCode.AUTHORIZATION_REFUSED,
    Step.State.EXPIRED: ReasonCode.AUTHORIZATION_EXPIRED,
}
#: The columns in which a proposal's move is counted.
_MOVES: dict[str, str] = {
    ProposalStatus.CREATED: "submitted",
    ProposalStatus.SIGNED: "signed",
    ProposalStatus.DISBURSED: "disbursed",
    WITHDRAWN: "withdrawn",
    ProposalStatus.REJECTED: "rejected",
    ProposalStatus.CANCELLED: "cancelled",
    ProposalStatus.EXPIRED: "expired",
}


class _Offer(msgspec.Struct):
    loan_value: Decimal


class _Reason(msgspec.Struct):
    code: str


class _Answer(msgspec.Struct):
    """The counted parts of a stored `consultas.models.Answer`. Decoding the whole takes several times as long."""

    provider: str
    status: QueryStatus
    elapsed_ms: int
    answered_at: float
    reached: bool = True
    offers: tuple[_Offer, ...] = ()
    coded: tuple[_Reason, ...] = ()
    operator_code: str | None = None


@dataclass
class Tally:
    """Counts that are not stored yet: by table, the rows by their keys, with the amounts to add to columns."""

    rows: dict[type[models.Model], dict[tuple[Any, ...], dict[str, int | Decimal]]] = field(default_factory=dict)

    def add(self, model: type[models.Model], key: tuple[Any, ...], **amounts: int | Decimal) -> None:
        """Add `amounts` to the columns of the row `key`. Its parts are those of `KEYS`."""
        row = self.rows.setdefault(model, {}).setdefault(key, {})
        for name, amount in amounts.items():
            if amount:
                row[name] = row.get(name, 0) + amount

    def as_data(self) -> list[Any]:
        """The counts as JSON data, which `of` reads."""
        return [[each._meta.label, key, row] for each, rows in self.rows.items() for key, row in rows.items()]

    @classmethod
    def of(cls, data: list[Any]) -> Self:
        """The tally of which `data` is the `as_data`. Its amounts are numbers, or their text."""
        tally = cls()
        for label, key, row in data:
            tally.rows.setdefault(apps.get_model(label), {})[tuple(key)] = row
        return tally

    def store(self) -> None:
        """Add everything to the tables, with one statement each. Inside a transaction."""
        for model, rows in self.rows.items():
            keys = KEYS[model]
            columns = [each.attname for each in model._meta.concrete_fields if not each.primary_key]
            counted = [name for name in columns if name not in keys]
            table = connection.ops.quote_name(model._meta.db_table)
            sums = ", ".join(f"{name} = {table}.{name} + EXCLUDED.{name}" for name in counted)
            statement = (
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"  # noqa: S608 - names of ours
                f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {sums}"
            )
            values = [
                [row.get(name, 0) if name in counted else key[keys.index(name)] for name in columns]
                for key, row in sorted(rows.items(), key=lambda each: str(each[0]))
            ]
            with connection.cursor() as cursor:
                cursor.executemany(statement, values)


def hour_of(moment: datetime) -> datetime:
    """The beginning of the hour that contains `moment`."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def latency_class(ms: int) -> int:
    """The upper bound of the class for an answer after `ms` milliseconds."""
    return next((bound for bound in LATENCY_BOUNDS_MS if ms <= bound), LONGER_MS)


def queries(since: datetime, until: datetime, tally: Tally, rows: models.QuerySet[Query] | None = None) -> int:
    """Count those of `rows`, by default of all queries, that began in [since, until), and their answers. Returns their
    number. An answer that no bank gave because no worker took the query, or the one that it follows, is no failure of a
    bank. A query without its answers was counted before these were erased."""
    rows = (Query.objects.all() if rows is None else rows).exclude(finished_at__isnull=False, answers__isnull=True)
    rows = rows.filter(created_at__gte=since, created_at__lt=until).order_by().annotate(taken=TAKEN)
    number = 0
    for query in _each(rows.only("partner_id", "created_at", "finished_at", "answers", "follows")):
        number += 1
        hour, partner, best, offers = hour_of(query.created_at), query.partner_id, Decimal(0), 0
        for answer in msgspec.convert(query.answers or [], list[_Answer]):
            greatest = max((offer.loan_value for offer in answer.offers), default=Decimal(0))
            best, offers = max(best, greatest), offers + len(answer.offers)
            if not (query.taken or answer.reached):
                tally.add(ReasonHour, (hour, "", partner, Stage.OFFER.value, UNTAKEN), count=1)
                continue
            column = answer.status.value
            if answer.status is QueryStatus.ERROR:
                column = "refused" if answer.reached else "failed"
            key = (hour, answer.provider, partner)
            tally.add(BankHour, key, offers=len(answer.offers), offered=greatest, **{column: 1})
            if answer.coded and not answer.offers:
                code = answer.operator_code or answer.coded[0].code
                tally.add(ReasonHour, (*key, Stage.OFFER.value, code), count=1)
            if answer.reached and not query.follows and answer.answered_at >= query.created_at.timestamp():
                tally.add(LatencyHour, (hour, answer.provider, latency_class(answer.elapsed_ms)), count=1)
        tally.add(
            QueryHour,
            (hour, partner),
            queries=1,
            unfinished=query.finished_at is None,
            with_offers=offers > 0,
            offers=offers,
            offered=best,
        )
    return number


def steps(since: datetime, until: datetime, tally: Tally, rows: models.QuerySet[Step] | None = None) -> int:
    """Count those of `rows`, by default of all external steps, that ended in [since, until), and the queries that they
    brought offers to. Returns the number of steps."""
    rows = Step.objects.all() if rows is None else rows
    rows = rows.filter(closed_at__gte=since, closed_at__lt=until).order_by()
    number, fruitful = 0, []
    for step in _each(rows.only("partner_id", "query_id", "provider", "state", "closed_at", "offers", "best_offer")):
        number += 1
        if step.offers:
            fruitful.append(step)
        assert step.closed_at is not None  # noqa: S101 - the filter above
        key = (hour_of(step.closed_at), step.provider, step.partner_id)
        offers = step.offers or 0
        tally.add(
            BankHour,
            key,
            **{f"steps_{step.state}": 1},
            steps_with_offers=offers > 0,
            step_offers=offers,
            step_offered=step.best_offer or Decimal(0),
        )
        if code := _STEP_CODES.get(Step.State(step.state)):
            tally.add(ReasonHour, (*key, Stage.OFFER.value, code.value), count=1)
    _later_offers(fruitful, until, tally)
    return number


def _later_offers(steps: list[Step], until: datetime, tally: Tally) -> None:
    """Count the queries that got their first offer, or a greater one, from one of the `steps`, which ended before
    `until`. A query counts once, however many of its banks bring offers. Two statements."""
    if not steps:
        return
    counted = {step.pk: step for step in steps}
    best = dict.fromkeys((step.query_id for step in steps), Decimal(0))
    for query in _each(Query.objects.filter(pk__in=best).order_by().only("answers")):
        answers = msgspec.convert(query.answers or [], list[_Answer])
        best[query.pk] = max((offer.loan_value for answer in answers for offer in answer.offers), default=Decimal(0))
    ended = Step.objects.filter(query__in=best, offers__gt=0, closed_at__lt=until).order_by("closed_at", "pk")
    for step in ended.only("query_id", "best_offer", "closed_at", "partner_id"):
        before, offered = best[step.query_id], step.best_offer or Decimal(0)
        best[step.query_id] = max(before, offered)
        if step.pk in counted:
            assert step.closed_at is not None  # noqa: S101 - the filter above
            tally.add(
                QueryHour,
                (hour_of(step.closed_at), step.partner_id),
                later_with_offers=not before,
                later_offered=max(Decimal(0), offered - before),
            )


def moves(since: datetime, until: datetime, tally: Tally) -> int:
    """Count the moves of proposals in [since, until). Returns their number."""
    rows = Move.objects.filter(at__gte=since, at__lt=until).order_by().select_related("proposal__offer")
    number = 0
    fields = ("from_status", "to_status", "at", "proposal__partner_id", "proposal__provider", "proposal__reason")
    for move in _each(rows.only(*fields, "proposal__offer__loan_value")):
        number += 1
        status, proposal = move.to_status, move.proposal
        if status not in _MOVES:
            continue
        key, amount = (hour_of(move.at), proposal.provider, proposal.partner_id), proposal.offer.loan_value
        columns = [_MOVES[status]]
        if status == ProposalStatus.DISBURSED and move.from_status != ProposalStatus.SIGNED:
            columns.append("signed")  # the bank never reported the signature of a proposal that it paid
        for column in columns:
            tally.add(BankHour, key, **{column: 1, f"{column}_amount": amount})
        if status in NOT_LIVE:
            stage = Stage.PAYMENT if move.from_status == ProposalStatus.SIGNED else Stage.SIGNATURE
            # Proposals that ended before reasons were stored have none.
            code = (proposal.reason or {}).get("code", ReasonCode.OTHER.value)
            tally.add(ReasonHour, (*key, stage.value, code), count=1, amount=amount)
    return number


def _each(rows: models.QuerySet[Any]) -> Iterator[Any]:
    """The rows, read in chunks, because answers are large. Behind PgBouncer a cursor needs a transaction."""
    with transaction.atomic():
        yield from rows.iterator(chunk_size=_CHUNK)


#: What is counted, each by the time at which it happened.
COUNT: dict[str, Callable[[datetime, datetime, Tally], int]] = {"queries": queries, "steps": steps, "moves": moves}
