"""Retention and erasure of sessions and of evidence that led to no contract."""

import time
from collections.abc import Callable
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from authorizations import codes
from authorizations.models import ERASED, LINK_COLUMNS, Evidence, EvidenceUse, PhoneCode, PurgedEvidence, Session
from foundation import batches
from foundation.encryption import sealed

log = structlog.get_logger(__name__)

#: The number of evidences that one transaction deletes.
SIZE = 200
#: The condition on sessions without evidence.
_UNPROVEN = ~Exists(Evidence.objects.filter(session=OuterRef("pk")))
#: What the links of purged evidence need of its session.
_OF_SESSION = ("session__use_count", "session__partner_id", "session__authorization_id")


def purge() -> int:
    """Delete the sessions that nobody accepted and that expired `SESSION_RETENTION_DAYS` ago. Returns their number."""
    before = timezone.now() - timedelta(days=settings.SESSION_RETENTION_DAYS)
    old = Session.objects.exclude(status=Session.Status.AUTHORIZED).filter(expires_at__lt=before)
    deleted = batches.delete_oldest(old, "expires_at", batches.end_of_run(), _UNPROVEN)
    codes.purge_uses()
    log.info("sessions_purged", sessions=deleted)
    return deleted


def purge_evidence(needed: Callable[[set[str]], set[str]], until: float) -> int:
    """Delete the evidence, with its uses and session, whose last use was `EVIDENCE_RETENTION_DAYS` ago, and that nobody
    needs: of the references of its uses, `needed` returns those of rows that still rely on it. The chain keeps the
    links. Stops at `until` (monotonic seconds). Returns the number."""
    before = timezone.now() - timedelta(days=settings.EVIDENCE_RETENTION_DAYS)
    recent = EvidenceUse.objects.filter(evidence=OuterRef("pk"), used_at__gte=before)
    younger = Evidence.objects.filter(accepted_at__gte=before).order_by("number").only("number").first()
    old = Evidence.objects.filter(~Exists(recent), accepted_at__lt=before).order_by("number")
    if younger is not None:  # numbers grow with time, so no page reads the younger rows
        old = old.filter(number__lt=younger.number)
    locked = old.select_related("session").select_for_update(of=("session",)).only(*LINK_COLUMNS, *_OF_SESSION)
    purged, last = 0, 0
    while time.monotonic() < until:
        with transaction.atomic():
            # Locked by the session, as a use is counted there.
            page = list(locked.filter(number__gt=last)[:SIZE])
            purged += _purge_page(page, needed)
        if len(page) < SIZE:
            break
        last = page[-1].number
    return purged


def _purge_page(page: list[Evidence], needed: Callable[[set[str]], set[str]]) -> int:
    uses = EvidenceUse.objects.filter(evidence__in=page)
    references = set(uses.values_list("reference", flat=True))
    kept = set(uses.filter(reference__in=needed(references)).values_list("evidence_id", flat=True))
    unneeded = [evidence for evidence in page if evidence.number not in kept]
    PurgedEvidence.objects.bulk_create(
        PurgedEvidence(
            **each.link,
            uses=each.session.use_count,
            session_index=PurgedEvidence.index_of(each.session.partner_id, each.session.authorization_id),
        )
        for each in unneeded
    )
    numbers = [each.number for each in unneeded]
    EvidenceUse.objects.filter(evidence__in=numbers).delete()
    Evidence.objects.filter(number__in=numbers).only("pk").delete()
    Session.objects.filter(pk__in=[each.session_id for each in unneeded]).only("pk").delete()
    return len(unneeded)


def erase(cpf_index: str) -> batches.Erased:
    """Delete a holder's sessions without evidence, including pending ones, and mask the others, whose data are then
    only in the evidence. Their keyed hash stays, because the evidence must be found in a dispute. Inside a
    transaction."""
    # Locked first: a running acceptance ends before that, and a session that has evidence by then is masked.
    sessions = list(
        Session.objects.filter(cpf_index=cpf_index).order_by("pk").select_for_update().only("authorization_id")
    )
    mine = Session.objects.filter(pk__in=[session.pk for session in sessions])
    _, deleted = mine.filter(_UNPROVEN).only("pk").delete()
    PhoneCode.objects.filter(session__in=mine).delete()
    masked = 0
    for session in sessions:
        row = Session.objects.filter(pk=session.pk)
        row.filter(revocation_reason__isnull=False).update(
            revocation_reason=sealed(session, "revocation_reason", ERASED)
        )
        holder = {name: sealed(session, name, ERASED) for name in ("cpf", "name", "phone")}
        masked += row.filter(erased_at=None).update(
            **holder, return_link=None, partner_reference="", erased_at=timezone.now()
        )
    return batches.Erased(
        erased={"sessions": deleted.get(Session._meta.label, 0), "masked_sessions": masked},
        kept={"evidence": mine.count()},
        references=[session.authorization_id for session in sessions],
    )
