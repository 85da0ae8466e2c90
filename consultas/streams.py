"""A query as server-sent events: as it is asked, and again for whoever comes back.

Each event has an id that tells what its reader has by then: of the opening events how many, then which banks. So a
reader that comes back, to whatever process, misses nothing and gets nothing twice.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection

from consultas import ending, fan_out, landed, query_json, standing
from consultas.answer import Answer
from consultas.models import Query
from foundation.errors import NotFound
from providers.errors import BankTimedOut

_OPENING = re.compile(r"o([0-9]{1,3})", re.ASCII)
_BANKS = re.compile(r"b([0-9a-f]{1,32})", re.ASCII)
_COMPLETE = "c"
#: What has landed is looked for this often; the row, which tells that the query has ended, less often.
_LOOK_EVERY_S = 0.2
_LOOK_AT_ROW_EVERY_S = 1.0


@dataclass(frozen=True)
class Position:
    """What a reader has: so many of the opening events, and the results of these banks."""

    opening: int = 0
    banks: frozenset[str] = frozenset()
    is_complete: bool = False


def position(query: Query, event_id: str) -> Position:
    """What a reader has whose last event had this id (`Last-Event-ID`). Nothing, where it is no id of this query."""
    if event_id == _COMPLETE:
        return Position(is_complete=True)
    if named := _OPENING.fullmatch(event_id):
        return Position(opening=int(named[1]) + 1)
    if named := _BANKS.fullmatch(event_id):
        mask = int(named[1], 16)
        banks = frozenset(bank for index, bank in enumerate(query.banks) if mask >> index & 1)
        return Position(opening=len(query.banks) + 1, banks=banks)
    return Position()


def live(query: Query) -> Generator[bytes]:
    """Have the query's banks asked. Yields the stream, event by event as the answers land.

    When the client leaves, the server closes this generator at its next write, a heartbeat at the latest, and with it
    everything held for the client. The query goes on.
    """
    yield from _opening(query, 0)
    results = _Results(query, frozenset())
    try:
        for each in fan_out.follow(query, query.banks, settings.STREAM_HEARTBEAT_S):
            if each is None:
                yield b": keep-alive\n\n"
            elif isinstance(each, Answer):
                yield results.event(each, query_json.shown_offers(query, [each], {})[each.provider])
            else:
                yield _complete(query)
    finally:
        connection.close()


def again(query: Query, after: Position) -> Generator[bytes]:
    """The stream of a query that was begun before, without what the reader has: first what has landed, then each
    answer as it lands."""
    yield from _opening(query, after.opening)
    results = _Results(query, after.banks)
    try:
        for found in _landing(query, after.banks):
            yield b": keep-alive\n\n" if found is None else results.event(*found)
        yield _complete(query)
    finally:
        connection.close()


def _landing(query: Query, seen: frozenset[str]) -> Iterator[tuple[Answer, query_json.Offers] | None]:
    """The answers that a reader who has `seen` some has not, as they land, each with its offers as they are shown; a
    None after each long pause. Ends when the query has ended; one that is overdue is ended."""
    left = set(query.banks) - seen
    reused = {answer.provider: answer for answer in ending.answers_of(query)}
    quiet_since, row_looked_at = time.monotonic(), -_LOOK_AT_ROW_EVERY_S
    while True:
        connection.close()
        found = reused | (landed.answers(query, left) if left and query.finished_at is None else {})
        for bank in sorted(left & found.keys()):
            left.remove(bank)
            yield found[bank], standing.shown(query, [found[bank]]).shown[bank]
            quiet_since = time.monotonic()
        if query.finished_at is not None:
            return
        if time.monotonic() - row_looked_at >= _LOOK_AT_ROW_EVERY_S or not left:
            row_looked_at = time.monotonic()
            try:
                query = standing.fresh(query)
            except NotFound:  # erased meanwhile
                return
            if ending.is_overdue(query):
                ending.end(query, (), BankTimedOut())
                query = standing.fresh(query)
            if query.finished_at is not None:
                reused = {answer.provider: answer for answer in ending.answers_of(query)}
                continue
        if time.monotonic() - quiet_since >= settings.STREAM_HEARTBEAT_S:
            quiet_since = time.monotonic()
            yield None
        time.sleep(_LOOK_EVERY_S)


class _Results:
    """The events of a reader's results, who has those of `banks` already."""

    def __init__(self, query: Query, banks: frozenset[str]) -> None:
        self._query = query
        self._mask = sum(1 << index for index, bank in enumerate(query.banks) if bank in banks)

    def event(self, answer: Answer, offers: query_json.Offers) -> bytes:
        """The event of a bank's `answer`, whose offers are shown as `offers`."""
        self._mask |= 1 << self._query.banks.index(answer.provider)
        return _event(f"b{self._mask:x}", query_json.stream_event(self._query, answer, offers))


def _opening(query: Query, beginning: int) -> Iterator[bytes]:
    told = {"queryId": str(query.id), "partnerReference": query.partner_reference or None}
    opening: list[dict[str, Any]] = [{"event": "start", **told, "message": "Consulta iniciada."}]
    opening += [{"event": "provider_start", "queryId": str(query.id), "provider": bank} for bank in query.banks]
    for number, body in enumerate(opening[beginning:], beginning):
        yield _event(f"o{number}", body)


def _complete(query: Query) -> bytes:
    return _event(_COMPLETE, {"event": "complete", "queryId": str(query.id)})


def _event(event_id: str, body: dict[str, Any]) -> bytes:
    return b"id: " + event_id.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"
