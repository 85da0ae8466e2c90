"""One bank's answer to a query: sent by workers, shown by web processes, and stored in the query's row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from providers.errors import BankFailure
from providers.reasons import Reason
from providers.types.answer import BankOffer, Employment, QueryStatus
from providers.types.steps import BankAction


@dataclass(frozen=True)
class Answer:
    """One bank's answer, or its failure. `reached` is False for an infrastructure failure: the bank was unreachable,
    timed out, answered 5xx or unreadably. `answered_at` is seconds since the epoch. `reasons` are the bank's sentences
    for having no offer. `coded` are the reasons as data, also for a failure or a refusal."""

    provider: str
    status: QueryStatus
    elapsed_ms: int
    answered_at: float
    reached: bool = True
    offers: tuple[BankOffer, ...] = ()
    #: The holder's employments. Stored answers use this name.
    links: tuple[Employment, ...] = ()
    action: BankAction | None = None
    reasons: tuple[str, ...] = ()
    coded: tuple[Reason, ...] = ()
    error: str | None = None
    term_auto_authorized: bool = False
    data: dict[str, Any] | None = None

    @property
    def settled(self) -> bool:
        """True if a repeated query within the window may reuse this answer."""
        return self.status in (QueryStatus.OK, QueryStatus.NO_OFFERS)


def failed(bank: str, error: BankFailure, elapsed_s: float) -> Answer:
    """The answer for a bank that failed, `elapsed_s` seconds after it was asked."""
    return Answer(
        provider=bank,
        status=QueryStatus.ERROR,
        elapsed_ms=round(elapsed_s * 1000),
        answered_at=time.time(),
        reached=False,
        error=error.message,
        coded=(error.reason,),
    )
