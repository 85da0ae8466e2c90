"""Has a bank's earlier calls count no more: those before a change of its settings, and log-ins that it refused before
it let us in again. A refused trial of the log-in counts like a call. Calls are counted by the minute
(`providers.outcomes`)."""

import time
from collections import Counter

import structlog
from redis.exceptions import RedisError

from providers import outcomes
from providers.outcomes import Outcome

log = structlog.get_logger(__name__)

#: The blocks of minutes that hold the last hour.
LAST_HOUR = range(60 // outcomes.BLOCK_MIN + 1)


def put_before(bank: str, changed_at: float) -> None:
    """Count the calls of the minute of `changed_at` (seconds since the epoch) in the minute before it. The minute of a
    change counts for the new settings, and the calls before the change must not."""
    minute = int(changed_at) // 60
    try:
        calls = outcomes.read([bank], changed_at, range(1))[bank].get(minute, Counter())
        if calls:
            outcomes.write(bank, calls, (minute - 1) * 60)
            outcomes.write(bank, _negative(calls), minute * 60)
    except RedisError:
        log.warning("bank_calls_unreachable")


def forget_refused_logins(bank: str) -> None:
    """Count no log-in that the bank refused in the last hour, because it accepts the same credentials now."""
    try:
        for minute, calls in outcomes.read([bank], time.time(), LAST_HOUR)[bank].items():
            refused = Counter({each: count for each, count in calls.items() if each[0] is Outcome.LOGIN_REFUSED})
            if refused:
                outcomes.write(bank, _negative(refused), minute * 60)
    except RedisError:
        log.warning("bank_calls_unreachable")


def count_refused_login(bank: str) -> None:
    """Count a log-in with the stored credentials that an operator tried and the bank refused."""
    try:
        outcomes.write(bank, Counter({(Outcome.LOGIN_REFUSED, outcomes.OPERATOR): 1}), time.time())
    except RedisError:
        log.warning("bank_calls_unreachable")


def _negative(calls: outcomes.Calls) -> outcomes.Calls:
    return Counter({each: -count for each, count in calls.items()})
