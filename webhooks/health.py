"""How deliveries to a partner go, told from its last attempts. One definition for the first page, the partner's page
and the metrics."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from partners.models import Partner
from webhooks.models import UNREACHABLE_PARTNER, Attempt
from webhooks.transport import Fault

#: How many attempts to the current URL are looked at, and how far back: the longest wait for an attempt is shorter.
LOOKED_AT, LOOKED_BACK = 20, timedelta(days=1)
#: A partner receives nothing if its last attempts failed: this many, or all if there are fewer.
DOWN_AFTER = 3
#: Deliveries are failing from this percentage of failed attempts on.
FAILING_PERCENT = 10
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class State(StrEnum):
    """What the last attempts say."""

    RECEIVING = "receiving"
    FAILING = "failing"
    DOWN = "down"


@dataclass(frozen=True)
class Health:
    """A partner's last attempts, the newest first: their faults, empty for a success. `failing_since` is the first
    failure after the last success; None if the last attempt succeeded."""

    partner_id: uuid.UUID
    name: str
    faults: list[str]
    failing_since: datetime | None

    @property
    def failed(self) -> int:
        """How many of the last attempts failed."""
        return sum(map(bool, self.faults))

    @property
    def state(self) -> State:
        if all(self.faults[:DOWN_AFTER]):
            return State.DOWN
        return State.FAILING if 100 * self.failed >= FAILING_PERCENT * len(self.faults) else State.RECEIVING

    @property
    def words(self) -> str:
        """The state for operators: `falhando: 7 das últimas 20 tentativas`, and the newest fault."""
        if not self.failed:
            return "recebe"
        state = {State.DOWN: "não recebe", State.FAILING: "falhando", State.RECEIVING: "recebe"}[self.state]
        fault = Fault(next(filter(None, self.faults))).label
        return f"{state}: {self.failed} das últimas {len(self.faults)} tentativas falharam ({fault})"


def of_partners(partner_id: uuid.UUID | None = None) -> list[Health]:
    """The health of the partners with attempts in the last day, or of this one. One statement.

    Partners to which nothing can be sent are left out, and our own faults say nothing about a partner.
    """
    partners = Partner.objects.exclude(UNREACHABLE_PARTNER)
    mine = Attempt.objects.filter(partner=OuterRef("pk"), url=OuterRef("webhook_url")).exclude(fault=Fault.INTERNAL)
    newest = mine.filter(at__gt=timezone.now() - LOOKED_BACK).order_by("-at")
    last_success = mine.filter(fault="").order_by("-at")
    failures = mine.exclude(fault="").filter(at__gt=Coalesce(OuterRef("last_success"), Value(_NEVER)))
    rows = (
        (partners.filter(pk=partner_id) if partner_id else partners)
        .annotate(last_success=Subquery(last_success.values("at")[:1]))
        .annotate(faults=ArraySubquery(newest.values("fault")[:LOOKED_AT]))
        .annotate(failing_since=Subquery(failures.order_by("at").values("at")[:1]))
    )
    return [Health(*row) for row in rows.values_list("pk", "name", "faults", "failing_since") if row[2]]
