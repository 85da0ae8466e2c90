"""One bank's answer to a query: sent by workers, shown by web processes, and stored in the query's row."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from providers.errors import BankFailure, LoginRefused
from providers.reasons import Reason
from providers.types.answer import BankOffer, BankResult, Employment, QueryStatus
from providers.types.steps import BankAction


@dataclass(frozen=True)
class Answer:
    """One bank's answer, or its failure. `reached` is False for an infrastructure failure: the bank was unreachable,
    timed out, answered 5xx or unreadably. `answered_at` is seconds since the epoch. `reasons` are the bank's sentences
    for having no offer. `coded` are the reasons as data, also for a failure or a refusal. `is_login_refused` is True if
    the bank refused our credentials: operators read that, partners do not."""

    provider: str
    status: QueryStatus
    elapsed_ms: int
    answered_at: float
    reached: bool = True
    offers: tuple[BankOffer, ...] = ()
    employments: tuple[Employment, ...] = ()
    action: BankAction | None = None
    reasons: tuple[str, ...] = ()
    coded: tuple[Reason, ...] = ()
    error: str | None = None
    term_auto_authorized: bool = False
    data: dict[str, Any] | None = None
    is_login_refused: bool = False

    @property
    def settled(self) -> bool:
        """True if a repeated query within the window may reuse this answer."""
        return self.status in (QueryStatus.OK, QueryStatus.NO_OFFERS)


#: The fields that a bank's result and an answer share.
_SHARED = [each.name for each in fields(BankResult) if each.name in {mine.name for mine in fields(Answer)}]


def answered(bank: str, result: BankResult, coded: Sequence[Reason], elapsed_s: float) -> Answer:
    """The answer with the bank's `result` and its reasons as data, which came after `elapsed_s` seconds."""
    return _answer(bank, elapsed_s, coded=tuple(coded), **{name: getattr(result, name) for name in _SHARED})


def refused(bank: str, message: str, why: Reason, elapsed_s: float) -> Answer:
    """The answer of a bank that refused the query."""
    return _answer(bank, elapsed_s, status=QueryStatus.ERROR, error=message, coded=(why,))


def failed(bank: str, error: BankFailure, elapsed_s: float) -> Answer:
    """The answer for a bank that failed, `elapsed_s` seconds after it was asked."""
    answer = refused(bank, error.message, error.reason, elapsed_s)
    return replace(answer, reached=False, is_login_refused=isinstance(error, LoginRefused))


def _answer(bank: str, elapsed_s: float, **told: Any) -> Answer:
    return Answer(provider=bank, elapsed_ms=round(elapsed_s * 1000), answered_at=time.time(), **told)
