"""The API's failed calls, kept so that operators can answer a partner's questions.

The reply does not wait: a call is noted in the memory of the web process, and a thread writes all notes in one
statement. If the database is unavailable, the notes are dropped and counted. A flood of failures is limited: up to
`KEPT_PER_MINUTE` calls a minute are kept individually, per partner and for all callers without a known key together.
Further calls become one row per kind of failure, with their number.
"""

import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import prometheus_client
import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, models
from django.utils import timezone

from foundation import batches
from foundation.database import give_back_connection

log = structlog.get_logger(__name__)

KEPT_PER_MINUTE = 60
#: The maximum number of notes in one process.
LONGEST = 2_000
#: The route of a call to an address that has none.
NO_ROUTE = "(nenhuma)"
#: How long the thread waits for more notes after the first one, in seconds.
GATHERED_S = 0.5
#: A field name in the contract's spelling. A name invented by the caller is not kept, because it may be personal data.
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*", re.ASCII)
_DIGITS = re.compile(r"\d{5}", re.ASCII)

DROPPED = prometheus_client.Counter(
    "failed_calls_dropped", "Failed API calls that were not kept: the database was away, or there were too many kinds."
)


class FailedCall(models.Model):
    """One API call that was answered with 4xx or 5xx, or several equal ones of one minute. Bodies, URLs and ids from
    URLs are not stored: `route` is the pattern. `partner` is null if the key was unknown; `key_prefix` then holds the
    visible prefix of the sent key, if it had a key's form. `field` names the limit if the code is `rate_limited`."""

    at = models.DateTimeField("quando", default=timezone.now)
    partner = models.ForeignKey(
        # No database constraint, so that writing needs no look at the partner's table. Partners are never deleted.
        "partners.Partner",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name="parceiro",
    )
    key_prefix = models.CharField("prefixo da chave", max_length=20, blank=True)
    method = models.CharField("método", max_length=10)
    route = models.CharField("rota", max_length=200)
    status = models.PositiveSmallIntegerField("HTTP")
    code = models.CharField("código", max_length=40, blank=True)
    field = models.CharField("campo", max_length=100, blank=True)
    request_id = models.CharField("X-Request-Id", max_length=128)
    times = models.PositiveIntegerField("vezes", default=1)

    class Meta:
        verbose_name = "chamada com falha"
        verbose_name_plural = "chamadas com falha"
        ordering = ("-at", "-pk")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=("-at", "-id"), name="failed_call_newest"),
            models.Index(fields=("partner", "-at", "-id"), name="failed_call_partner"),
            models.Index(fields=("partner", "code", "-at", "-id"), name="failed_call_code"),
            models.Index(fields=("request_id",), name="failed_call_request"),
            models.Index(fields=("key_prefix",), name="failed_call_key", condition=~models.Q(key_prefix="")),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.method} {self.route}"


def field_name(field: str | None) -> str:
    """`field` if it can be a field of the contract, otherwise empty."""
    is_known = field is not None and len(field) <= 100 and _FIELD.fullmatch(field) and not _DIGITS.search(field)
    return str(field) if is_known else ""


class Notes:
    """The calls that one process has noted but not written yet. `clock` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._single: list[FailedCall] = []
        self._together: dict[tuple[object, ...], FailedCall] = {}
        self._noted: Counter[uuid.UUID | None] = Counter()
        self._minute = 0
        self.some = threading.Event()

    def note(self, call: FailedCall) -> None:
        """Keep `call` until it is written, individually or together with equal calls of the same minute."""
        with self._lock:
            self._turn()
            self._noted[call.partner_id] += 1
            if self._noted[call.partner_id] <= KEPT_PER_MINUTE and len(self._single) < LONGEST:
                self._single.append(call)
            else:
                self._add(call)
        self.some.set()

    def take(self) -> list[FailedCall]:
        """Remove and return the calls that can be written now. Those counted together wait for the minute's end."""
        with self._lock:
            self._turn()
            notes, self._single = self._single, []
            if not self._together:
                self.some.clear()
            return notes

    def _turn(self) -> None:
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute = minute
            self._noted.clear()
            self._single += self._together.values()
            self._together.clear()

    def _add(self, call: FailedCall) -> None:
        call.key_prefix = ""
        kind = (call.partner_id, call.method, call.route, call.status, call.code, call.field)
        if kind in self._together:
            self._together[kind].times += 1
        elif len(self._together) < LONGEST:
            self._together[kind] = call
        else:
            DROPPED.inc()


notes = Notes()


def write() -> int:
    """Store the noted calls, or drop and count them. Returns the number of stored rows."""
    rows = notes.take()
    if not rows:
        return 0
    try:
        FailedCall.objects.bulk_create(rows, batch_size=500)
    except (DatabaseError, InterfaceError) as fault:
        DROPPED.inc(len(rows))
        log.warning("failed_calls_dropped", rows=len(rows), fault=type(fault).__name__)
        return 0
    finally:
        give_back_connection()
    return len(rows)


def keep_writing() -> None:
    """Start this process's thread that writes notes."""
    threading.Thread(target=_write_forever, name="failed-calls", daemon=True).start()


def _write_forever() -> None:
    while True:
        notes.some.wait()
        time.sleep(GATHERED_S)
        try:
            write()
        except Exception as fault:
            # A bug must not end the thread. Only the exception's type is logged, because its text may quote a row.
            log.error("failed_calls_not_written", fault=type(fault).__name__)


def purge() -> int:
    """Delete rows older than `FAILED_CALL_RETENTION_DAYS`. Returns their number."""
    old = FailedCall.objects.filter(at__lt=timezone.now() - timedelta(days=settings.FAILED_CALL_RETENTION_DAYS))
    return batches.delete_oldest(old, "at", batches.end_of_run())
