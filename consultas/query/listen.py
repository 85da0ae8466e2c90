"""A web process waits for a query: it publishes one task, listens to what the worker tells, and passes it on until the
end or the deadline.

All readers hear the same: the request that waits for the whole, a stream, a reader that comes back, and an identical
query that follows this one. A reader judges nobody's life. Past the deadline it ends the query, if nobody else has.
"""

import math
import time
from collections.abc import Collection, Iterator

import msgspec
import structlog
from django.db import Error as DatabaseFailure
from django.db import connection

from consultas.admission import admission
from consultas.models import Answer, Query, failed
from consultas.query import end
from foundation import workers
from providers.errors import BankTimedOut, ProviderUnavailable

log = structlog.get_logger(__name__)

#: How long after the deadline a reader waits for the end before it ends the query itself, in seconds.
LATE_S = 1.0
#: How long a reader that has all answers waits until they are stored, in seconds.
STORED_WITHIN_S = 2.0
#: A reader that may have missed something looks at the row this often, in seconds.
LOOK_EVERY_S = 1.0


def aggregate(query: Query, *, publishes: bool = True) -> msgspec.Raw:
    """The aggregated response to `query` as JSON. A worker asks the banks, or the query follows an identical one; the
    reader waits for the end. Without `publishes` another process has them asked.

    Gives the caller's database connection back first, so that none is held while waiting. Raises ProviderUnavailable if
    no bank gave any answer but an infrastructure failure, and the database's error if the query cannot be stored.
    """
    reader = _Reader(query, (), publishes)
    for _ in reader.news(math.inf):
        pass
    if reader.reply is not None and query.follows is None:
        return msgspec.Raw(reader.reply)
    result = end.end(query)
    if not result.reached:
        raise ProviderUnavailable("Nenhum banco respondeu. Tente novamente em instantes.")
    return msgspec.Raw(result.reply())


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
    if not reader.left and reader.has_ended:
        return
    try:
        result = end.end(query, reader.heard)
        missing = [answer for answer in result.answers if answer.provider in reader.left]
    except (DatabaseFailure, Query.DoesNotExist) as fault:
        log.error("query_not_stored", query=str(query.id), fault=type(fault).__name__)
        missing = [failed(bank, BankTimedOut(), time.monotonic() - reader.begun) for bank in sorted(reader.left)]
    finally:
        connection.close()
    yield from missing


class _Reader:
    """One reader, who still wants the answers of the banks in `left`, and has heard some. `reply` is what the worker
    told at the end (`Result.told`), as JSON, if it told any."""

    def __init__(self, query: Query, banks: Collection[str], publishes: bool) -> None:
        self.left = set(banks)
        self.heard: list[Answer] = []
        self.has_ended = False
        self.reply: bytes | None = None
        self.begun = time.monotonic()
        self._query = query
        #: The first reader has the banks asked. Others may have missed something.
        self._is_first = publishes and query.follows is None
        self._until = self.begun + query.seconds_left() + LATE_S

    def news(self, pause_s: float) -> Iterator[Answer | None]:
        """The answers, and None after each `pause_s` without one, until the end or the deadline."""
        work, pause_at = str(self._query.source), time.monotonic() + pause_s
        task = (end.ASK, (work,)) if self._is_first else None
        look_s = min(pause_s, LOOK_EVERY_S if self.left or not self._is_first else math.inf)
        for message in workers.hear(work, self._until, look_s, results=bool(self.left), task=task):
            for answer in self._read(message):
                pause_at = time.monotonic() + pause_s
                yield answer
            now = time.monotonic()
            if self.has_ended or now >= self._until:
                return
            if now >= pause_at:
                pause_at = now + pause_s
                yield None

    def _read(self, message: tuple[str, bytes] | None) -> Iterator[Answer]:
        """The answers that `message` brings. None is a second without one."""
        match message:
            case (workers.START, _) if not self._query.follows:
                admission.observe(time.monotonic() - self.begun)
            case (workers.ANSWER, payload):
                yield from self._take(msgspec.json.decode(payload, type=list[Answer]))
            case (workers.END, payload):
                self.has_ended, self.reply = True, None if payload == b"null" else payload
            case (workers.READY, _):  # the reader came late, or Redis was away: it may have missed something
                yield from self._look()
            case None if not self._is_first:
                yield from self._look()

    def _take(self, answers: list[Answer]) -> Iterator[Answer]:
        for answer in answers:
            if answer.provider in self.left:
                self.left.remove(answer.provider)
                self.heard.append(answer)
                if not self.left:
                    self._until = min(self._until, time.monotonic() + STORED_WITHIN_S)
                yield answer

    def _look(self) -> Iterator[Answer]:
        """The wanted answers that are in the row. Sees whether the query has ended."""
        try:
            row = Query.objects.filter(pk=self._query.source).first()
        except DatabaseFailure as fault:
            log.warning("query_unread", query=str(self._query.id), fault=type(fault).__name__)
            return
        finally:
            connection.close()
        if row is None or row.finished_at is not None:
            self.has_ended = True
        yield from self._take(row.stored_answers() if row else [])
