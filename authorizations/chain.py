"""Verification of all evidence: against itself, its signatures and the sessions; and of every use against its seal.

It runs daily, and the chain's head is written to the log, which cannot be altered afterwards.
"""

import heapq
from collections.abc import Collection, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
import structlog
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from msgspec import structs
from prometheus_client import Counter

from authorizations import seal
from authorizations.models import ERASED, Evidence, EvidenceUse, PurgedEvidence, Session
from foundation.encryption import WrongKey, blind_index
from foundation.formats import iso_utc
from providers import metrics  # noqa: F401 - names the files by which a machine's processes count together

log = structlog.get_logger(__name__)

CHECKS = Counter("evidence_checks", "Checks of the whole chain of evidence.", ["outcome"])
_CHUNK = 500
_LINKS: tuple[Any, ...] = (Evidence, PurgedEvidence)
_HOLDER = ("cpf", "name", "phone")
_USE = ("number", "provider", "call", "reference", "used_at", "seal")


@transaction.atomic  # behind PgBouncer, a transaction alone keeps its connection and so the cursors on it
def verify(trusted_keys: Collection[str]) -> dict[str, Any]:
    """Returns `{valid, checked, uses, head, problems}`: every evidence in order, then its uses. `head` is the last
    hash. A chain alone cannot show that its newest links were removed: that shows in the sessions, and in comparison
    with a `head` that was stored elsewhere; for uses, in a session's count and in `uses`, which never decrease."""
    problems: list[str] = []
    number, head = 0, seal.GENESIS
    purged: Iterator[Any] = PurgedEvidence.objects.order_by("number").iterator(_CHUNK)
    kept: Iterator[Any] = Evidence.objects.select_related("session__terms").order_by("number").iterator(_CHUNK)
    rows = groupby(heapq.merge(kept, purged, key=attrgetter("number")), attrgetter("number"))
    for row in (next(same) for _, same in rows):  # a link that is purged meanwhile is in both, or in the first
        problems += [f"evidência {row.number}: {fault}" for fault in _faults(row, number + 1, head, trusted_keys)]
        number, head = row.number, row.hash
    orphans = Session.objects.filter(status=Session.Status.AUTHORIZED, evidence=None).order_by("pk")
    problems += [f"sessão {pk}: autorizada, mas sem evidência" for pk in orphans.values_list("pk", flat=True)]
    uses = 0
    for evidence, checked, faults in _uses(trusted_keys):
        problems += [f"evidência {evidence}: {fault}" for fault in faults]
        uses += checked
    uses += purged_uses()  # read last: what is purged meanwhile counts twice rather than not at all
    return {"valid": not problems, "checked": number, "uses": uses, "head": head, "problems": problems}


def last_link() -> tuple[int, str]:
    """The number and the hash of the chain's last link, whether its record was purged or not."""
    newest = [model.objects.order_by("-number").values_list("number", "hash").first() for model in _LINKS]
    return max((link for link in newest if link), default=(0, seal.GENESIS))


def has_link(link_hash: str) -> bool:
    """True if a link with this hash is in the chain."""
    return link_hash == seal.GENESIS or any(model.objects.filter(hash=link_hash).exists() for model in _LINKS)


def purged_uses() -> int:
    """The number of uses that were deleted with their evidence. With them, the number of uses never decreases."""
    return PurgedEvidence.objects.aggregate(uses=Sum("uses"))["uses"] or 0


def _faults(row: Any, number: int, previous_hash: str, trusted_keys: Collection[str]) -> list[str]:
    """The faults of a link, and of its record if that was not purged."""
    words = ("o elo não confere", "assinada com uma chave desconhecida", "a assinatura não confere")
    faults = seal.failed(
        (row.number == number, f"falta a evidência {number}"),
        (row.previous_hash == previous_hash, "não se liga à anterior"),
        *seal.link_checks(row.link, trusted_keys, words),
    )
    return faults if isinstance(row, PurgedEvidence) else [*faults, *_record_faults(row)]


def _record_faults(row: Evidence) -> list[str]:
    session = row.session
    try:
        record = row.record
    except WrongKey:
        return ["o registro não abre com nenhuma chave de FIELD_ENCRYPTION_KEYS"]
    faults = seal.failed(
        (seal.sha256(record.encode()) == row.record_sha256, "o registro foi alterado"),
        # Canonical JSON has only one spelling of a field.
        (f'"terms_sha256":"{session.terms.sha256}"' in record, "os termos guardados não são os mostrados"),
        (f'"authorization_id":"{session.authorization_id}"' in record, "é de outra sessão"),
        (session.status == Session.Status.AUTHORIZED, "a sessão não consta como autorizada"),
    )
    return [*faults, *_copy_faults(row)]


def _copy_faults(row: Evidence) -> list[str]:
    """Differences between the record and its copies: the columns of its row and its session."""
    session = row.session
    try:
        observed, declared = row.content["observed_by_server"], row.declared
        accepted_at, from_api_address = observed["accepted_at"], observed["from_api_address"]
        cpf, partner_id = declared["cpf"], declared["partner_id"]
    except (msgspec.DecodeError, LookupError, TypeError):
        return ["o registro não tem a forma de uma evidência"]
    try:
        holder = [getattr(session, name) for name in _HOLDER]
    except WrongKey:
        return ["os dados da sessão não abrem com nenhuma chave de FIELD_ENCRYPTION_KEYS"]
    copied = [declared.get(name) if session.erased_at is None else ERASED for name in _HOLDER]
    return seal.failed(
        (iso_utc(row.accepted_at) == accepted_at, "a data do aceite foi alterada"),
        (row.from_api_address is from_api_address, "a marca de endereço da API foi alterada"),
        (str(session.partner_id) == partner_id, "a sessão foi passada a outro parceiro"),
        (session.cpf_index == blind_index("cpf", cpf), "o índice do CPF da sessão foi alterado"),
        (holder == copied, "os dados do titular na sessão foram alterados"),
    )


def _uses(trusted_keys: Collection[str]) -> Iterator[tuple[int, int, list[str]]]:
    """For each evidence that has uses, or should have: its number, the number of uses, and their faults. A single
    statement, so that a use recorded meanwhile is either both counted and present, or neither."""
    fields = ("number", "hash", "session__use_count", *(f"uses__{name}" for name in _USE))
    rows = Evidence.objects.exclude(session__use_count=0, uses=None).order_by("number", "uses__number")
    for (number, link_hash, count), group in groupby(rows.values_list(*fields).iterator(_CHUNK), lambda row: row[:3]):
        uses = [EvidenceUse(**dict(zip(_USE, row[3:], strict=True))).sealed for row in group if row[3] is not None]
        yield number, len(uses), seal.use_faults(link_hash, uses, count, trusted_keys)


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """The chain's head at one time: the number of evidences, the last one's hash, and the number of uses."""

    at: str
    evidences: int
    head: str
    uses: int


def head() -> Head:
    """The chain's current head. Stored elsewhere, it later shows whether the newest links were removed."""
    number, last_hash = last_link()
    purged = purged_uses()  # read first: what is purged meanwhile does not count twice
    uses = Session.objects.exclude(use_count=0).aggregate(uses=Sum("use_count"))["uses"] or 0
    return Head(iso_utc(timezone.now()), number, last_hash, uses + purged)


def log_head() -> None:
    """Write the chain's head as a log line, which is sent to another machine with the others."""
    log.info("evidence_head", **structs.asdict(head()))


def check() -> None:
    """Verify all evidence. Each problem gives an error line and is counted, which triggers an alarm."""
    result = verify(seal.trusted_keys())
    CHECKS.labels("valid" if result["valid"] else "broken").inc()
    for problem in result["problems"]:
        log.error("evidence_broken", problem=problem)
    log.info("evidence_checked", **{name: result[name] for name in ("valid", "checked", "uses", "head")})
