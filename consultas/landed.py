"""The answers that have arrived for a running query: encrypted in Redis, for every process."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import structlog
from redis.exceptions import RedisError

from consultas.answer import Answer
from consultas.models import Query
from foundation import interim_results

log = structlog.get_logger(__name__)


def answers(query: Query, banks: Iterable[str] | None = None) -> dict[str, Answer]:
    """The arrived answers of `banks` (None: of all), by bank. Empty, with a log line, while Redis is unavailable."""
    try:
        encoded = interim_results.read(str(query.id), banks)
    except RedisError:
        log.warning("kept_results_unreachable", query=str(query.id))
        return {}
    return {bank: msgspec.json.decode(answer, type=Answer) for bank, answer in encoded.items()}


def banks(query: Query) -> set[str]:
    """The banks whose answer has arrived. Empty, with a log line, while Redis is unavailable."""
    try:
        return interim_results.names(str(query.id))
    except RedisError:
        log.warning("kept_results_unreachable", query=str(query.id))
        return set()
