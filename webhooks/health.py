"""How deliveries to a partner go, told from its last attempts. One definition for the first page, the partner's page
and the metrics."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import DateTimeField, Exists, OuterRef
from django.db.models.expressions import RawSQL
from django.utils import timezone

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
#: So many good attempts in a row, in at least this time, divide two troubles.
CALM, CALM_TIME = 10, timedelta(minutes=10)
#: The same for a partner with few events.
CALM_OF_FEW, CALM_TIME_OF_FEW = DOWN_AFTER, timedelta(hours=1)


class State(StrEnum):
    """What the last attempts say."""

    RECEIVING = "receiving"
    FAILING = "failing"
    DOWN = "down"


@dataclass(frozen=True)
class Health:
    """A partner's last attempts, the newest first: their faults, empty for a success, their HTTP status and their
    times. `trouble_began` is the first failure of the last day since they were calm.
    `is_waited_for` is true if an event waits for another attempt, and not by our own fault; `has_missed` if several
    wait that failed twice, as an outage leaves them."""

    partner_id: uuid.UUID
    name: str
    faults: list[str]
    statuses: list[int | None]
    moments: list[datetime]
    trouble_began: datetime | None
    is_waited_for: bool
    has_missed: bool

    @property
    def failed(self) -> int:
        """How many of the last attempts failed."""
        return sum(map(bool, self.faults))

    @property
    def has_recovered(self) -> bool:
        """True if the last attempts succeeded, so many that the failures since they were calm are over."""
        began = self.trouble_began
        failed = sum(bool(fault) for fault, at in zip(self.faults, self.moments, strict=True) if began and at >= began)
        return not any(self.faults[: min(DOWN_AFTER, failed)])

    @property
    def state(self) -> State:
        if all(self.faults[:DOWN_AFTER]):
            return State.DOWN
        is_over = not self.is_waited_for and self.has_recovered
        is_rare = not self.has_missed and 100 * self.failed < FAILING_PERCENT * len(self.faults)
        return State.RECEIVING if is_over or is_rare else State.FAILING

    @property
    def failing_since(self) -> datetime | None:
        """When the present trouble began; if the partner receives, its last attempt if that failed. None if there is
        none, or if the partner only missed events earlier."""
        if self.state is State.RECEIVING:
            return self.moments[0] if self.faults[0] else None
        return self.trouble_began if self.failed else None

    @property
    def words(self) -> str:
        """The state for operators: `falhando: 7 das últimas 20 tentativas falharam`, and the newest fault."""
        if not self.failed:
            return "recebe, mas eventos que falharam esperam nova tentativa" if self.has_missed else "recebe"
        state = {State.DOWN: "não recebe", State.FAILING: "falhando", State.RECEIVING: "recebe"}[self.state]
        fault, status = next((Fault(each), self.statuses[n]) for n, each in enumerate(self.faults) if each)
        answer = f"{fault.label}: {status}" if fault is Fault.STATUS and status else fault.label
        good = next(n for n, each in enumerate(self.faults) if each)
        since = "" if not good else "; a última deu certo" if good == 1 else f"; as últimas {good} deram certo"
        of = f"{self.failed} das últimas {len(self.faults)} tentativas" if len(self.faults) > 1 else "a única tentativa"
        return f"{state}: {of} {'falhou' if self.failed == 1 else 'falharam'} ({answer}){since}"


_MINE = "FROM webhooks_attempt WHERE partner_id = partners_partner.id AND url = partners_partner.webhook_url"


def _calm_until(number: int, least: timedelta) -> str:
    """An SQL expression for the latest time with so many good attempts between it and the failure `trouble.at`, and at
    least so long before that."""
    enough = f"SELECT at FROM good WHERE good.at < trouble.at ORDER BY at DESC OFFSET {number - 1} LIMIT 1"  # noqa: S608 - constants
    return f"least(trouble.at - interval '{least}', coalesce(({enough}), '-infinity'))"


#: The first failure of the partner in the row since its deliveries were calm. Those before the last success count for
#: LOOKED_BACK. Each step goes to the oldest failure since a calm time, so PostgreSQL reads few rows by an index.
_TROUBLE_BEGAN = f"""(
    WITH RECURSIVE
    failed AS NOT MATERIALIZED (SELECT at {_MINE} AND fault <> '' AND fault <> '{Fault.INTERNAL}'),
    good AS NOT MATERIALIZED (SELECT at {_MINE} AND fault = ''),
    trouble (at) AS (
        SELECT max(at) FROM failed WHERE at > now() - interval '{LOOKED_BACK}'
        UNION ALL
        SELECT (
            SELECT min(failed.at) FROM failed WHERE failed.at < trouble.at AND failed.at > greatest(
                {_calm_until(CALM, CALM_TIME)},
                {_calm_until(CALM_OF_FEW, CALM_TIME_OF_FEW)},
                least(now() - interval '{LOOKED_BACK}', (SELECT coalesce(max(at), '-infinity') FROM good))
            )
        )
        FROM trouble WHERE trouble.at IS NOT NULL
    )
    SELECT min(at) FROM trouble
)"""  # noqa: S608 - constants


def of_partners(partner_id: uuid.UUID | None = None) -> list[Health]:
    """The health of the partners with attempts in the last day, or of this one. One statement.

    Partners to which nothing can be sent are left out, and our own faults say nothing about a partner.
    """
    partners = Partner.objects.exclude(UNREACHABLE_PARTNER)
    mine = Attempt.objects.filter(partner=OuterRef("pk"), url=OuterRef("webhook_url")).exclude(fault=Fault.INTERNAL)
    newest = mine.filter(at__gt=timezone.now() - LOOKED_BACK).order_by("-at", "-pk")
    # An event is due later only after an attempt that failed.
    waiting = Event.objects.filter(partner=OuterRef("pk"), due_at__gt=timezone.now()).exclude(fault=Fault.INTERNAL)
    missed = waiting.filter(failures__gt=1)[DOWN_AFTER - 1 : DOWN_AFTER]
    rows = (
        (partners.filter(pk=partner_id) if partner_id else partners)
        .annotate(faults=ArraySubquery(newest.values("fault")[:LOOKED_AT]))
        .annotate(statuses=ArraySubquery(newest.values("status")[:LOOKED_AT]))
        .annotate(moments=ArraySubquery(newest.values("at")[:LOOKED_AT]))
        .annotate(trouble_began=RawSQL(_TROUBLE_BEGAN, (), DateTimeField()))  # noqa: S611 - a constant
        .annotate(is_waited_for=Exists(waiting), has_missed=Exists(missed))
    )
    names = ("pk", "name", "faults", "statuses", "moments", "trouble_began", "is_waited_for", "has_missed")
    return [Health(*row) for row in rows.values_list(*names) if row[2]]
