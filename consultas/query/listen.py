"""A web process waits for a query: it publishes one task, listens to what the worker tells, and passes it on until the
end or the deadline.

All readers hear the same: the request that waits for the whole, a stream, a reader that comes back, and an identical
query that follows this one. A reader judges nobody's life. Past the deadline it ends the query, if nobody else has.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import replace

import msgspec
import structlog
from django.db import Error as DatabaseFailure
from django.db import connection

from consultas.admission import admission
from consultas.answer import Answer, failed
from consultas.models import Query
from consultas.query import end
from consultas.query.end import Ended
from consultas.query.repeat import NOTHING, Earlier
from foundation import channels, workers
from foundation.channels import Inbox
from providers.errors import BankTimedOut, ProviderUnavailable

log = structlog.get_logger(__name__)

TASK = "consultas.tasks.run_query"
#: How long after the deadline a reader waits for the end before it ends the query itself, in seconds.
LATE_S = 1.0
#: How long a reader that has all answers waits until they are stored, in seconds.
STORED_WITHIN_S = 2.0
#: A reader that may have missed something looks at Redis and PostgreSQL this often, in seconds.
LOOK_EVERY_S = 1.0


def aggregate(query: Query, earlier: Earlier = NOTHING, *, publishes: bool = True) -> msgspec.Raw:
    """The aggregated response to `query` as JSON: from `earlier`, if that has a good answer of every bank. Otherwise
    have a worker ask the other banks, or follow the identical query that is running, and wait for the end. Without
    `publishes` another process has them asked.

    Gives the caller's database connection back first, so that none is held while waiting. Raises ProviderUnavailable if
    no bank gave any answer but an infrastructure failure, and the database's error if the query cannot be stored.
    """
    ended = _repeated(query, earlier) or _whole(query, publishes)
    if not ended.reached:
        raise ProviderUnavailable("Nenhum banco respondeu. Tente novamente em instantes.")
    return ended.reply


def _repeated(query: Query, earlier: Earlier) -> Ended | None:
    """The end of a query to whose banks all `earlier` has good answers. Otherwise None, and the row keeps those that it
    has, so that a worker asks the other banks."""
    reused = replace(earlier, answers=earlier.still_good())
    if not query.follows and {answer.provider for answer in reused.answers} >= set(query.banks):
        return end.end(query, earlier=reused).ended()
    if reused.answers:
        query.reuse(msgspec.to_builtins(reused.answers), reused.simulation_group)
    return None


def _whole(query: Query, publishes: bool) -> Ended:
    reader = _Reader(query, (), publishes)
    for _ in reader.news(math.inf):
        pass
    heard = reader.ended
    if heard is None or not heard.has_reply or query.follows:
        return end.end(query).ended()
    return heard


def aggregate_within(query: Query, earlier: Earlier, wait_ms: int | None, place: ExitStack) -> msgspec.Raw:
    """Like `aggregate`, but waits at most `wait_ms` milliseconds (None: to the end) and then returns the response so
    far. The query continues, and keeps its `place` until its end."""
    if wait_ms is None:
        return aggregate(query, earlier)
    held = place.pop_all()
    reply: Future[msgspec.Raw] = Future()

    def run() -> None:
        try:
            reply.set_result(aggregate(query, earlier))
        except Exception as error:
            reply.set_exception(error)
        finally:
            held.close()
            connection.close()

    connection.close()
    threading.Thread(target=copy_context().run, args=(run,), name="query", daemon=True).start()
    try:
        return reply.result(wait_ms / 1000)
    except TimeoutError:
        return msgspec.Raw(end.read_or_end(Query.of(query.partner, str(query.id))).reply())


def ask_one(query: Query) -> Answer:
    """Have the only bank of an individual query asked. Returns its answer."""
    [answer] = [each for each in answers(query, query.banks, pause_s=math.inf) if each is not None]
    return answer


def answers(query: Query, banks: Collection[str], pause_s: float, *, publishes: bool = True) -> Iterator[Answer | None]:
    """Like `aggregate`, but yields the answers of `banks` as they come, and None after each `pause_s` seconds without
    one. Returns once the query has ended, or has all its answers.

    Closing the generator frees everything held for it; the worker continues.
    """
    reader = _Reader(query, banks, publishes)
    yield from reader.news(pause_s)
    if not reader.left and reader.ended is not None:
        return
    try:
        result = end.stored(query) if reader.ended and reader.ended.is_stored else end.end(query, reader.heard)
        missing = [answer for answer in result.answers if answer.provider in reader.left]
    except (DatabaseFailure, Query.DoesNotExist) as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)
        missing = [failed(bank, BankTimedOut(), time.monotonic() - reader.begun) for bank in sorted(reader.left)]
    finally:
        connection.close()
    yield from missing


class _Reader:
    """One reader, who still wants the answers of the banks in `left`, and has heard some. `ended` is set at the end."""

    def __init__(self, query: Query, banks: Collection[str], publishes: bool) -> None:
        self.left = set(banks)
        self.heard: list[Answer] = []
        self.ended: Ended | None = None
        self.begun = time.monotonic()
        self._query = query
        #: The first reader has the banks asked. Nothing was told before it listened.
        self._is_first = publishes and query.follows is None
        self._until = self.begun + query.seconds_left() + LATE_S
        self._look_at = math.inf if self._is_first else self.begun + LOOK_EVERY_S

    def news(self, pause_s: float) -> Iterator[Answer | None]:
        """The answers, and None after each `pause_s` without one, until the end or the deadline."""
        connection.close()
        with channels.listen(str(self._query.source), results=bool(self.left)) as inbox:
            if self._is_first and not self._publish():
                return
            pause_at = time.monotonic() + pause_s
            while self.ended is None and (now := time.monotonic()) < self._until:
                for answer in self._next(inbox, min(self._until, pause_at, self._look_at) - now):
                    pause_at = time.monotonic() + pause_s
                    yield answer
                if time.monotonic() >= pause_at:
                    pause_at = time.monotonic() + pause_s
                    yield None

    def _publish(self) -> bool:
        """Have a worker ask the banks. False if the broker is away: nobody will take the query then."""
        left = self._query.seconds_left()
        return workers.publish(TASK, (str(self._query.id),), expires_s=left, patience_s=workers.BROKER_PATIENCE_S)

    def _next(self, inbox: Inbox, timeout_s: float) -> Iterator[Answer]:
        """What the next message brings, or a look if it is time for one."""
        match inbox.get(timeout_s):
            case (channels.READY, _) if self._is_first:
                self._is_first = False  # READY comes again if Redis was away, and something may have been missed
            case (channels.READY, _):
                yield from self._look()
            case (channels.START, _) if not self._query.follows:
                admission.observe(time.monotonic() - self.begun)
            case (channels.ANSWER, payload):
                yield from self._take(msgspec.json.decode(payload, type=Answer))
            case (channels.END, payload):
                self.ended = msgspec.json.decode(payload, type=Ended)
        if time.monotonic() >= self._look_at:
            yield from self._look()

    def _take(self, answer: Answer) -> Iterator[Answer]:
        if answer.provider not in self.left:
            return
        self.left.remove(answer.provider)
        self.heard.append(answer)
        if not self.left:
            self._until = min(self._until, time.monotonic() + STORED_WITHIN_S)
        yield answer

    def _look(self) -> Iterator[Answer]:
        """The wanted answers that are already there. Sees whether the query has ended."""
        if not math.isinf(self._look_at):
            self._look_at = time.monotonic() + LOOK_EVERY_S
        kept = end.landed(self._query) if self.left else {}
        try:
            row = Query.objects.filter(pk=self._query.source).first()
        except DatabaseFailure as fault:
            log.warning("query_unread", query=str(self._query.id), fault=type(fault).__name__)
            return
        finally:
            connection.close()
        if row is None or row.finished_at is not None:
            self.ended = Ended()
        for answer in (*kept.values(), *(end.answers_of(row) if row else ())):
            yield from self._take(answer)
