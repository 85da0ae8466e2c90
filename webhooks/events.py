"""A partner's access to its own events: one event, pages of events, and a test event.

Partners that poll instead of receiving read all events in one order that skips none. Transactions commit in another
order than they begin. Each event bears the number of the transaction that wrote it (`pg_current_xact_id`), and a reader
gets only events below the oldest transaction still running (`pg_snapshot_xmin`): no event can appear below a cursor any
more. A long transaction that writes delays the events after it, for as long as it runs.
"""

import re
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan

from foundation import listing, workers
from foundation.database import give_back_connection
from foundation.errors import InvalidState, NotFound
from partners.models import Partner, WebhookEvent
from providers.types.proposal import ProposalStatus
from webhooks import outbox
from webhooks.models import Event
from webhooks.outbox import news_for

TEST = "webhook.test"
#: The largest page in order, and the largest with bodies.
SMALL_PAGE = 50
_ID = re.compile(r"evt_[0-9a-f]{32}", re.ASCII)
#: The filters that are look-ups of a column.
_LOOKUPS = ("state", "partner_reference", "created_at__gte", "created_at__lt")
_KEY = re.compile(r"(\d{1,18}):(evt_[0-9a-f]{32})", re.ASCII)
#: The cursor before the first event.
_START = listing.encode(datetime(1970, 1, 1, tzinfo=UTC), f"0:evt_{'0' * 32}")
#: Seconds between two looks. After news that brought nothing (a running transaction hides the event, or the filters
#: leave it out) the first, then each time `_SLOWER` times as long. A further news waits up to `_DAMPED_S`, so that
#: events which a reader does not want cost little. Without news `_QUIET_S`, because Redis may be away.
_HIDDEN_S, _SLOWER, _DAMPED_S, _QUIET_S = 0.02, 4, 1.0, 5.0


def get(partner: Partner, event_id: str) -> Event:
    """The partner's event with this `webhook-id`. Raises NotFound, also for an event of another partner."""
    event = Event.objects.filter(partner=partner, pk=event_id).first() if _ID.fullmatch(event_id) else None
    if event is None:
        raise NotFound
    return event


def page(partner: Partner, filters: dict[str, Any]) -> tuple[list[Event], str | None]:
    """A page of events, newest first, and the cursor of the next page. `filters` are those of `EventListRequest`.
    Raises InvalidInput on `cursor` for a cursor that this list did not issue."""
    return listing.newest_first(chosen(partner, filters), filters.get("cursor"), page_size(filters), key=_known)


def page_size(filters: dict[str, Any]) -> int:
    """The most events that a page may have: as many as `filters` ask for, and not too many."""
    largest = SMALL_PAGE if filters.get("include") or filters["order"] == "asc" else listing.PAGE
    return min(filters.get("limit", largest), largest)


def chosen(partner: Partner, filters: dict[str, Any]) -> QuerySet[Event]:
    """The partner's events that `filters` choose, with their bodies only if those are asked for."""
    unread = ("external_reference",) if filters.get("include") else ("external_reference", "body")
    conditions = {name: filters[name] for name in _LOOKUPS if filters.get(name)}
    rows = Event.objects.filter(partner=partner, **conditions).defer(*unread)
    if name := filters.get("event"):
        # As in the registration, `proposal` means every `proposal.<status>`.
        names = [f"{name}.{status.value}" for status in ProposalStatus] if name == WebhookEvent.PROPOSAL else [name]
        rows = rows.filter(name__in=names)
    # What the partial indexes say: the planner does not conclude it.
    if "partner_reference" in conditions:
        rows = rows.filter(partner_reference__gt="")
    if filters.get("state") == Event.State.DUE:
        rows = rows.filter(due_at__isnull=False)
    return rows


def _known(key: str) -> str:
    """`key` if it has an event's form. Raises ValueError otherwise."""
    if not _ID.fullmatch(key):
        raise ValueError(key)
    return key


def page_in_order(partner: Partner, filters: dict[str, Any]) -> tuple[list[Event], str]:
    """Like `page`, but the events after the cursor, oldest first; the next call goes on from the returned cursor. With
    `wait_s`, returns when there is an event, or when that time is over, and holds no database connection meanwhile."""
    found = _read(partner, filters)
    if found or not filters.get("wait_s"):
        return _with_cursor(found, filters)
    until, pause_s, damped_s = time.monotonic() + filters["wait_s"], _QUIET_S, 0.0
    give_back_connection()
    with workers.listen(news_for(partner.pk)) as inbox:
        while not found and (left := until - time.monotonic()) > 0:
            if inbox.next(min(left, pause_s)) is not None:
                time.sleep(min(left, damped_s))
                pause_s = damped_s = min(_DAMPED_S, max(_HIDDEN_S, 2 * damped_s))
            else:
                pause_s = min(_QUIET_S, _SLOWER * pause_s)
            found = _read(partner, filters)
            give_back_connection()
    return _with_cursor(found, filters)


def _read(partner: Partner, filters: dict[str, Any]) -> list[Event]:
    rows = chosen(partner, filters).filter(
        xact_id__lt=RawSQL("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", ())
    )
    at, key = listing.decode(filters.get("cursor") or _START)
    parts = _KEY.fullmatch(key)
    if parts is None:
        raise listing.invalid_cursor()
    after = TupleGreaterThan(Tuple("xact_id", "created_at", "id"), (int(parts[1]), at, parts[2]))
    return list(rows.filter(after).order_by("xact_id", "created_at", "id")[: page_size(filters)])


def _with_cursor(found: list[Event], filters: dict[str, Any]) -> tuple[list[Event], str]:
    if not found:
        return [], filters.get("cursor") or _START
    last = found[-1]
    return found, listing.encode(last.created_at, f"{last.xact_id}:{last.pk}")


def send_test(partner: Partner) -> Event:
    """Queue a `webhook.test` event, whatever the registration asks for. Raises InvalidState without URL or secret."""
    if not partner.webhook_url:
        where = "Peça ao operador do serviço." if settings.PRODUCTION else "Informe-a por PUT /partners/v1/webhook."
        raise InvalidState(f"O cadastro não tem URL de webhook. {where}")
    if not partner.webhook_secrets():
        raise InvalidState("O cadastro não tem segredo de webhook. Peça ao operador do serviço.")
    with transaction.atomic():
        return outbox.store(partner, TEST, str(uuid.uuid4()), {})
