"""Automatic supervision of the evidence chain: a daily verification, and its head written to the log, which cannot be
altered afterwards."""

from __future__ import annotations

import msgspec
import structlog
from django.db.models import Sum
from django.utils import timezone
from msgspec import structs
from prometheus_client import Counter

from authorizations import chain, seal
from authorizations.models import Session
from foundation.formats import iso_utc
from providers import metrics  # noqa: F401 - names the files by which a machine's processes count together

log = structlog.get_logger(__name__)

CHECKS = Counter("evidence_checks", "Checks of the whole chain of evidence.", ["outcome"])


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """The chain's head at one time: the number of evidences, the last one's hash, and the number of uses."""

    at: str
    evidences: int
    head: str
    uses: int


def head() -> Head:
    """The chain's current head. Stored elsewhere, it later shows whether the newest links were removed."""
    number, last_hash = chain.last_link()
    uses = Session.objects.exclude(use_count=0).aggregate(uses=Sum("use_count"))["uses"] or 0
    return Head(iso_utc(timezone.now()), number, last_hash, uses + chain.purged_uses())


def log_head() -> None:
    """Write the chain's head as a log line, which is sent to another machine with the others."""
    log.info("evidence_head", **structs.asdict(head()))


def check() -> None:
    """Verify all evidence. Each problem gives an error line and is counted, which triggers an alarm."""
    result = chain.verify(seal.trusted_keys())
    CHECKS.labels("valid" if result["valid"] else "broken").inc()
    for problem in result["problems"]:
        log.error("evidence_broken", problem=problem)
    log.info("evidence_checked", **{name: result[name] for name in ("valid", "checked", "uses", "head")})
