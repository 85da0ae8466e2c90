"""Stores the history of banks' breakers. Workers, which hold no connection during a call, write it to Redis."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import structlog
from redis.exceptions import RedisError

from backoffice.figures.models import BreakerMove
from foundation.database import give_back_connection
from foundation.formats import to_uuid
from foundation.redis import redis
from providers.breaker import ALL, HISTORY, OPENED_TTL_S

log = structlog.get_logger(__name__)

#: A breaker that is not tried again counts as closed after this time, because Redis forgets it.
LONGEST_OPEN = timedelta(seconds=OPENED_TTL_S)
_AT_ONCE = 1_000


@dataclass(frozen=True)
class Opening:
    """A period during which a bank's breaker was open, for all or for one partner. `until` is None while it is open."""

    since: datetime
    until: datetime | None
    partner_id: UUID | None


def fetch() -> int:
    """Store the breakers' history since the last call, each entry once. Returns the number of entries."""
    give_back_connection()
    try:
        lines = cast("list[bytes]", redis().lrange(HISTORY, 0, _AT_ONCE - 1))
        BreakerMove.objects.bulk_create(filter(None, map(_row, lines)), ignore_conflicts=True)
        give_back_connection()
        pipe = redis().pipeline(transaction=False)
        for each in lines:
            pipe.lrem(HISTORY, 1, cast(str, each))
        pipe.execute()
    except RedisError:
        log.warning("breaker_history_unreachable")
        return 0
    return len(lines)


def _row(line: bytes) -> BreakerMove | None:
    """The row for an entry. None for a caller without a partner, because such an entry cannot be shown to anyone."""
    bank, scope, is_open, at = json.loads(line)
    partner = to_uuid(scope)
    if partner is None and scope != ALL:
        return None
    return BreakerMove(bank=bank, partner_id=partner, is_open=is_open, at=datetime.fromtimestamp(at, UTC))


def openings(bank: str, since: datetime, now: datetime, most: int = 50) -> list[Opening]:
    """The periods of the bank's open breaker, newest first. A failed probe prolongs a period. One statement."""
    moves = BreakerMove.objects.filter(bank=bank, at__gte=since).order_by("-at")[: most * 4]
    periods: list[Opening] = []
    running: dict[UUID | None, tuple[datetime, datetime]] = {}  # when it opened, and when it was last opened again

    def end(partner: UUID | None, at: datetime) -> None:
        if partner in running:
            first, last = running.pop(partner)
            periods.append(Opening(first, min(at, last + LONGEST_OPEN), partner))

    for move in reversed(moves):
        if not move.is_open:
            end(move.partner_id, move.at)
            continue
        if move.partner_id in running and move.at - running[move.partner_id][1] > LONGEST_OPEN:
            end(move.partner_id, move.at)
        first, _ = running.get(move.partner_id, (move.at, move.at))
        running[move.partner_id] = (first, move.at)
    for partner, (first, last) in running.items():
        periods.append(Opening(first, None if now - last <= LONGEST_OPEN else last + LONGEST_OPEN, partner))
    return sorted(periods, key=lambda each: each.since, reverse=True)[:most]
