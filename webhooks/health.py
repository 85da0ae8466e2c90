"""How deliveries to a partner go, told from its last attempts. One definition for the first page, the partner's page
and the metrics."""

import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, DateTimeField, Exists, OuterRef, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.utils import timezone

from foundation.formats import counted
from partners.models import Partner
from webhooks.models import UNREACHABLE_PARTNER, Attempt, Event
from webhooks.transport import Fault

#: How many attempts to the current URL are looked at, and how far back: the longest wait for an attempt is shorter.
LOOKED_AT, LOOKED_BACK = 20, timedelta(days=1)
#: A partner receives nothing if its last attempts failed: this many, or all if there are fewer. As many good ones, or
#: as many as failed, end its trouble if nothing waits. As many missed events go on with it.
DOWN_AFTER = 3
#: Deliveries are failing from this percentage of failed attempts on.
FAILING_PERCENT = 10
#: So many good attempts in a row end a trouble even if an event waits: fewer than FAILING_PERCENT of LOOKED_AT failed.
CALM = LOOKED_AT - 1


class State(StrEnum):
    """What the last attempts say."""

    RECEIVING = "receiving"
    FAILING = "failing"
    DOWN = "down"


@dataclass(frozen=True)
class Health:
    """A partner's last attempts, the newest first: their faults, empty for a success, their HTTP status and their
    times. `trouble_began` is the first failure of the last trouble of the day.
    `waiting` events wait for another attempt, and not by our own fault, the first one until `next_at`; `has_missed` is
    true if several of them failed twice, as an outage leaves them."""

    partner_id: uuid.UUID
    name: str
    faults: list[str]
    statuses: list[int | None]
    moments: list[datetime]
    trouble_began: datetime | None
    waiting: int
    next_at: datetime | None
    has_missed: bool

    @property
    def failed(self) -> int:
        """How many of the last attempts failed."""
        return sum(map(bool, self.faults))

    @property
    def has_recovered(self) -> bool:
        """True if the last attempts succeeded, so many that the failures of the last trouble are over."""
        began = self.trouble_began
        failed = sum(bool(fault) for fault, at in zip(self.faults, self.moments, strict=True) if began and at >= began)
        return not any(self.faults[: min(DOWN_AFTER, failed)])

    @property
    def state(self) -> State:
        if all(self.faults[:DOWN_AFTER]):
            return State.DOWN
        is_over = not self.waiting and self.has_recovered
        is_rare = not self.has_missed and 100 * self.failed < FAILING_PERCENT * len(self.faults)
        return State.RECEIVING if is_over or is_rare else State.FAILING

    @property
    def failing_since(self) -> datetime | None:
        """When the present trouble began; if the partner receives, its last attempt if that failed. None if nothing
        fails now: what failed earlier only waits."""
        if self.state is State.RECEIVING:
            return self.moments[0] if self.faults[0] else None
        return None if self.has_recovered else self.trouble_began

    @property
    def words(self) -> str:
        """The state for operators: `falhando: 7 das últimas 20 tentativas falharam`, and the faults, the newest first,
        each with its number if there are several."""
        state = {State.DOWN: "não recebe:", State.FAILING: "falhando:", State.RECEIVING: "recebe:"}[self.state]
        if self.state is State.FAILING and self.has_recovered and self.next_at:
            number = counted(self.waiting, "evento que falhou espera", "eventos que falharam esperam", "")
            next_at = f"{timezone.localtime(self.next_at):%d/%m %H:%M}"
            state = f"recebe, mas {number} nova tentativa, a próxima em {next_at};"
        if not self.failed:
            return state.rstrip(":;")
        found = zip(self.faults, self.statuses, strict=True)
        faults = Counter(_told(Fault(fault), status) for fault, status in found if fault)
        answers = ", ".join(f"{told} ({number}×)" if len(faults) > 1 else told for told, number in faults.items())
        good = next(n for n, each in enumerate(self.faults) if each)
        since = "" if not good else "; a última deu certo" if good == 1 else f"; as últimas {good} deram certo"
        of = f"{self.failed} das últimas {len(self.faults)} tentativas" if len(self.faults) > 1 else "a única tentativa"
        return f"{state} {of} {'falhou' if self.failed == 1 else 'falharam'} ({answers}){since}"


def _told(fault: Fault, status: int | None) -> str:
    return f"{fault.label}: {status}" if fault is Fault.STATUS and status else str(fault.label)


_MINE = "FROM webhooks_attempt a WHERE partner_id = partners_partner.id AND url = partners_partner.webhook_url"


#: The time before which failures do not count: those before the last success count for LOOKED_BACK.
_EARLIEST = f"least(now() - interval '{LOOKED_BACK}', (SELECT coalesce(max(at), '-infinity') FROM good))"  # noqa: S608 - constants


def _since_good(number: int) -> str:
    """SQL: the failures before the one of `trouble`, without those before so many good attempts."""
    enough = f"SELECT at FROM good WHERE good.at < trouble.at ORDER BY at DESC OFFSET {number - 1} LIMIT 1"  # noqa: S608 - constants
    return f"FROM failed WHERE at < trouble.at AND at > greatest(coalesce(({enough}), '-infinity'), {_EARLIEST})"


#: The first failure of the partner's last trouble. The trouble goes on at a failure if fewer than DOWN_AFTER good
#: attempts came before; or if an event waited then, after CALM good attempts DOWN_AFTER events. Each step goes to an
#: older failure of the same trouble, so that PostgreSQL reads few rows by an index.
_TROUBLE_BEGAN = f"""(
    WITH RECURSIVE
    failed AS NOT MATERIALIZED (SELECT at, event_id, number {_MINE} AND fault <> '' AND fault <> '{Fault.INTERNAL}'),
    good AS NOT MATERIALIZED (SELECT at {_MINE} AND fault = ''),
    trouble (at) AS (
        SELECT max(at) FROM failed WHERE at > now() - interval '{LOOKED_BACK}'
        UNION ALL
        SELECT coalesce(
            (SELECT min(at) {_since_good(DOWN_AFTER)}),
            (SELECT at FROM failed WHERE at < trouble.at AND at > {_EARLIEST} AND coalesce(
                (SELECT again.at >= trouble.at FROM webhooks_attempt again
                    WHERE again.event_id = failed.event_id AND again.number = failed.number + 1),
                (SELECT state = '{Event.State.DUE}' FROM webhooks_event WHERE id = failed.event_id)
            ) ORDER BY at DESC
            OFFSET CASE WHEN EXISTS (SELECT {_since_good(CALM)}) THEN 0 ELSE {DOWN_AFTER - 1} END LIMIT 1)
        )
        FROM trouble WHERE trouble.at IS NOT NULL
    )
    SELECT min(at) FROM trouble
)"""  # noqa: S608 - constants


def of_partners(partner_id: uuid.UUID | None = None) -> list[Health]:
    """The health of the partners with attempts in the last day, or of this one. One statement. Partners to which
    nothing can be sent are left out, and our own faults say nothing about a partner."""
    partners = Partner.objects.exclude(UNREACHABLE_PARTNER)
    mine = Attempt.objects.filter(partner=OuterRef("pk"), url=OuterRef("webhook_url")).exclude(fault=Fault.INTERNAL)
    newest = mine.filter(at__gt=timezone.now() - LOOKED_BACK).order_by("-at", "-pk")
    due = Event.objects.filter(partner=OuterRef("pk"), due_at__isnull=False)
    waiting = due.exclude(fault__in=("", Fault.INTERNAL))
    missed = waiting.filter(failures__gt=1)[DOWN_AFTER - 1 : DOWN_AFTER]
    number = waiting.order_by().values("partner").annotate(number=Count("pk")).values("number")
    rows = (
        (partners.filter(pk=partner_id) if partner_id else partners)
        .annotate(faults=ArraySubquery(newest.values("fault")[:LOOKED_AT]))
        .annotate(statuses=ArraySubquery(newest.values("status")[:LOOKED_AT]))
        .annotate(moments=ArraySubquery(newest.values("at")[:LOOKED_AT]))
        .annotate(trouble_began=RawSQL(_TROUBLE_BEGAN, (), DateTimeField()))  # noqa: S611 - a constant
        .annotate(waiting=Coalesce(Subquery(number), 0), has_missed=Exists(missed))
        .annotate(next_at=Subquery(waiting.order_by("due_at").values("due_at")[:1]))
    )
    names = ("pk", "name", "faults", "statuses", "moments", "trouble_began", "waiting", "next_at", "has_missed")
    return [Health(*row) for row in rows.values_list(*names) if row[2]]
