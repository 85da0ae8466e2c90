"""A partner's events in one order that skips none, for partners that poll instead of receiving.

Transactions commit in another order than they begin. Each event bears the number of the transaction that wrote it
(`pg_current_xact_id`), and a reader gets only events below the oldest transaction still running
(`pg_snapshot_xmin`): no event can appear below a cursor any more. A long transaction that writes delays the events
after it, for as long as it runs.
"""

import re
import time
from datetime import UTC, datetime
from typing import Any

from django.db.models.expressions import RawSQL
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan

from foundation import listing, workers
from foundation.database import give_back_connection
from partners.models import Partner
from webhooks import events
from webhooks.models import Event
from webhooks.outbox import news_for

_KEY = re.compile(r"(\d{1,18}):(evt_[0-9a-f]{32})", re.ASCII)
#: The cursor before the first event.
_START = listing.encode(datetime(1970, 1, 1, tzinfo=UTC), f"0:evt_{'0' * 32}")
#: Seconds between two looks. After news that brought nothing (a running transaction hides the event, or the filters
#: leave it out) the first, then each time `_SLOWER` times as long. A further news waits up to `_DAMPED_S`, so that
#: events which a reader does not want cost little. Without news `_QUIET_S`, because Redis may be away.
_HIDDEN_S, _SLOWER, _DAMPED_S, _QUIET_S = 0.02, 4, 1.0, 5.0


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Event], str]:
    """A page of events after the cursor, oldest first, and the cursor from which the next call goes on.

    `filters` are those of `EventListRequest`. With `wait_s`, returns when there is an event, or when that time is over.
    No database connection is held meanwhile. Raises InvalidInput on `cursor` for a cursor that this list did not issue.
    """
    found = _read(partner, filters)
    if found or not filters.get("wait_s"):
        return _with_cursor(found, filters)
    until, pause_s, damped_s = time.monotonic() + filters["wait_s"], _QUIET_S, 0.0
    give_back_connection()
    with workers.listen(news_for(partner.pk)) as inbox:
        while not found and (left := until - time.monotonic()) > 0:
            if inbox.get(min(left, pause_s)) is not None:
                time.sleep(min(left, damped_s))
                pause_s = damped_s = min(_DAMPED_S, max(_HIDDEN_S, 2 * damped_s))
            else:
                pause_s = min(_QUIET_S, _SLOWER * pause_s)
            found = _read(partner, filters)
            give_back_connection()
    return _with_cursor(found, filters)


def _read(partner: Partner, filters: dict[str, Any]) -> list[Event]:
    rows = events.chosen(partner, filters).filter(
        xact_id__lt=RawSQL("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", ())
    )
    at, key = listing.decode(filters.get("cursor") or _START)
    parts = _KEY.fullmatch(key)
    if parts is None:
        raise listing.invalid_cursor()
    after = TupleGreaterThan(Tuple("xact_id", "created_at", "id"), (int(parts[1]), at, parts[2]))
    return list(rows.filter(after).order_by("xact_id", "created_at", "id")[: events.page_size(filters)])


def _with_cursor(found: list[Event], filters: dict[str, Any]) -> tuple[list[Event], str]:
    if not found:
        return [], filters.get("cursor") or _START
    last = found[-1]
    return found, listing.encode(last.created_at, f"{last.xact_id}:{last.pk}")
