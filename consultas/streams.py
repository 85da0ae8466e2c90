"""A query as server-sent events, for the first reader and for one that reconnects.

Each event's id contains the reader's position: the number of opening events, then the banks whose results it has. A
reader that reconnects, to any process, therefore misses nothing and gets nothing twice.
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
#: Arrived answers are polled this often, in seconds. The row, which says that the query has ended, is read less often.
_LOOK_EVERY_S = 0.2
_LOOK_AT_ROW_EVERY_S = 1.0


@dataclass(frozen=True)
class Position:
    """A reader's position: the number of opening events, and the banks whose results it has."""

    opening: int = 0
    banks: frozenset[str] = frozenset()
    is_complete: bool = False


def position(query: Query, event_id: str) -> Position:
    """The position of a reader whose last event has this id (`Last-Event-ID`). The beginning, if the id does not belong
    to this query."""
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
    """Have the query's banks asked, and yield the stream as the answers arrive.

    When the client disconnects, the server closes this generator at its next write, at the latest a heartbeat. That
    frees everything held for the client; the query continues.
    """
    yield _opening(query, 0)
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
    """The stream of an existing query from the position `after`: first the answers that have arrived, then each new
    one."""
    if opening := _opening(query, after.opening):
        yield opening
    results = _Results(query, after.banks)
    try:
        for landing in _landing(query, after.banks):
            yield b": keep-alive\n\n" if landing is None else results.event(*landing)
        yield _complete(query)
    finally:
        connection.close()


def _landing(query: Query, seen: frozenset[str]) -> Iterator[tuple[Answer, query_json.Offers] | None]:
    """The answers whose bank is not in `seen`, as they arrive, each with its rendered offers; None after each long
    pause. Ends with the query. Ends an overdue query."""
    left = set(query.banks) - seen
    reused = {answer.provider: answer for answer in ending.answers_of(query)}
    quiet_since, row_looked_at = time.monotonic(), -_LOOK_AT_ROW_EVERY_S
    while True:
        connection.close()
        by_bank = reused | (landed.answers(query, left) if left and query.finished_at is None else {})
        for bank in sorted(left & by_bank.keys()):
            left.remove(bank)
            yield by_bank[bank], standing.shown(query, [by_bank[bank]]).shown[bank]
            quiet_since = time.monotonic()
        if query.finished_at is not None:
            return
        if time.monotonic() - row_looked_at >= _LOOK_AT_ROW_EVERY_S or not left:
            row_looked_at = time.monotonic()
            try:
                query = standing.fresh(query)
            except NotFound:  # the query was erased meanwhile
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
    """The result events for a reader that already has those of `banks`."""

    def __init__(self, query: Query, banks: frozenset[str]) -> None:
        self._query = query
        self._mask = sum(1 << index for index, bank in enumerate(query.banks) if bank in banks)

    def event(self, answer: Answer, offers: query_json.Offers) -> bytes:
        """The event of a bank's `answer` with its rendered `offers`."""
        self._mask |= 1 << self._query.banks.index(answer.provider)
        return _event(f"b{self._mask:x}", query_json.stream_event(self._query, answer, offers))


def _opening(query: Query, beginning: int) -> bytes:
    """The opening events from the number `beginning` on, all in one piece: a write for each would cost more than they
    do."""
    ids = {"queryId": str(query.id), "partnerReference": query.partner_reference or None}
    opening: list[dict[str, Any]] = [{"event": "start", **ids, "message": "Consulta iniciada."}]
    opening += [{"event": "provider_start", "queryId": str(query.id), "provider": bank} for bank in query.banks]
    return b"".join(_event(f"o{number}", body) for number, body in enumerate(opening[beginning:], beginning))


def _complete(query: Query) -> bytes:
    return _event(_COMPLETE, {"event": "complete", "queryId": str(query.id)})


def _event(event_id: str, body: dict[str, Any]) -> bytes:
    return b"id: " + event_id.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"
