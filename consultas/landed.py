"""The answers that have landed for a query that has not come to its end: kept sealed in Redis, for every process."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import structlog
from redis.exceptions import RedisError

from consultas.answer import Answer
from consultas.models import Query
from foundation import kept

log = structlog.get_logger(__name__)


def answers(query: Query, banks: Iterable[str] | None = None) -> dict[str, Answer]:
    """By bank, what has landed of `banks` (None: of all). Nothing, and a log line, while Redis is away."""
    try:
        found = kept.kept(str(query.id), banks)
    except RedisError:
        log.warning("landed_unreachable", query=str(query.id))
        return {}
    return {bank: msgspec.json.decode(answer, type=Answer) for bank, answer in found.items()}


def banks(query: Query) -> set[str]:
    """The banks whose answer has landed. None, and a log line, while Redis is away."""
    try:
        return kept.kept_names(str(query.id))
    except RedisError:
        log.warning("landed_unreachable", query=str(query.id))
        return set()
