"""A query as server-sent events, for the first reader and for one that reconnects.

Each event's id contains the reader's position: the number of opening events, then the banks whose results it has. A
reader that reconnects, to any process, therefore misses nothing and gets nothing twice.
"""

import re
from collections.abc import Generator, Set
from dataclasses import dataclass

import msgspec
from django.conf import settings
from django.db import connection

from consultas import query_json
from consultas.models import Query
from consultas.query import end, web
from consultas.shapes import CompleteEvent, ProviderStartEvent, StartEvent
from foundation.shapes import Shape

_OPENING = re.compile(r"o([0-9]{1,3})", re.ASCII)
_BANKS = re.compile(r"b([0-9a-f]{1,32})", re.ASCII)
_COMPLETE = "c"


@dataclass(frozen=True)
class Position:
    """A reader's position: the number of opening events, and the banks whose results it has."""

    opening: int = 0
    banks: frozenset[str] = frozenset()
    is_complete: bool = False


#: The position of a query's first reader.
BEGINNING = Position()


def position(query: Query, event_id: str) -> Position:
    """The position of a reader whose last event has this id (`Last-Event-ID`). The beginning, if no stream has such
    ids."""
    if event_id == _COMPLETE:
        return Position(is_complete=True)
    if named := _OPENING.fullmatch(event_id):
        return Position(opening=int(named[1]) + 1)
    if named := _BANKS.fullmatch(event_id):
        mask = int(named[1], 16)
        banks = frozenset(bank for index, bank in enumerate(query.banks) if mask >> index & 1)
        return Position(opening=len(query.banks) + 1, banks=banks)
    return BEGINNING


def events(query: Query, after: Position = BEGINNING, *, publishes: bool) -> Generator[bytes]:
    """The stream from the position `after`: first the answers that have come, then each new one. With `publishes`, the
    query's banks are asked first. When the client disconnects, the server closes this generator at its next write, at
    the latest a heartbeat. That frees everything held for the client; the query continues."""
    if opening := _opening(query, after.opening):
        yield opening
    had = set(after.banks)
    try:
        for answer in web.answers(query, set(query.banks) - had, settings.STREAM_HEARTBEAT_S, publishes=publishes):
            if answer is None:
                yield b": keep-alive\n\n"
                continue
            had.add(answer.provider)
            if query.kind == Query.Kind.AGGREGATED:  # it may have ended, or been erased, since it was read
                query = Query.of(query.partner, str(query.id))
            shown = end.result_with_ids(query, [answer]).shown[answer.provider]
            connection.close()
            yield _event(_position_id(query, had), query_json.stream_event(query, answer, shown))
        yield _event(_COMPLETE, CompleteEvent(event="complete", query_id=query.id))
    finally:
        connection.close()


def _position_id(query: Query, had: Set[str]) -> str:
    """The id of an event after which the reader has the results of the banks `had`."""
    return f"b{sum(1 << index for index, bank in enumerate(query.banks) if bank in had):x}"


def _opening(query: Query, beginning: int) -> bytes:
    """The opening events from the number `beginning` on, all in one piece: a write for each would cost more than they
    do."""
    begun = StartEvent(
        event="start",
        query_id=query.id,
        partner_reference=query.partner_reference or None,
        message="Consulta iniciada.",
    )
    asked = [ProviderStartEvent(event="provider_start", query_id=query.id, provider=bank) for bank in query.banks]
    opening = [begun, *asked]
    return b"".join(_event(f"o{number}", body) for number, body in enumerate(opening[beginning:], beginning))


def _event(event_id: str, body: Shape) -> bytes:
    return b"id: " + event_id.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"
