"""Retention and erasure of personal data, over all apps; in the highest app, because it needs all others.

Proposals that a bank accepted, and their evidence, prove a contract: they are never deleted after a time, and an
erasure keeps them. The reasons are in docs/decisions/0060-retention-and-erasure.md.
"""

import re
import uuid
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from msgspec import structs

import authorizations.retention
import consultas.retention
import webhooks.models
from authorizations import chain
from authorizations.models import Session
from consultas.models import Offer, Query, Step
from foundation import batches
from foundation.batches import Erased
from foundation.encryption import blind_index
from partners.models import Partner
from proposals.attempts import NEVER_ACCEPTED
from proposals.models import BankCall, Erasure, ErasureRequest, Proposal
from webhooks.models import reference_index

log = structlog.get_logger(__name__)

Phase = Proposal.Submission
#: The condition on offers that a proposal was made from the offer; and on queries, that one was sent from the query.
_IN_USE = Exists(Proposal.objects.filter(offer=OuterRef("pk")))
_IS_ORIGIN = Exists(Proposal.objects.filter(origin_query_id=OuterRef("pk")))
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def purge() -> dict[str, int]:
    """Delete submissions that no bank accepted after `SUBMISSION_RETENTION_DAYS`, calls to banks after
    `BANK_CALL_RETENTION_DAYS`, and queries with their offers and steps after `QUERY_RETENTION_DAYS`. The query and the
    offer of a kept proposal stay. Evidence goes `EVIDENCE_RETENTION_DAYS` after its last use, unless a kept proposal or
    query used it. Returns the number of deleted rows of each kind."""
    now, until = timezone.now(), batches.end_of_run()
    unwanted = Proposal.objects.filter(
        submission__in=NEVER_ACCEPTED, updated_at__lt=now - timedelta(days=settings.SUBMISSION_RETENTION_DAYS)
    )
    # Submissions go first, because a submission keeps its offer.
    deleted = {"proposals": batches.delete_oldest(unwanted, "updated_at", until)}
    calls = BankCall.objects.filter(at__lt=now - timedelta(days=settings.BANK_CALL_RETENTION_DAYS))
    deleted["calls"] = batches.delete_oldest(calls, "at", until)
    before = now - timedelta(days=settings.QUERY_RETENTION_DAYS)
    deleted |= consultas.retention.purge(before, _IN_USE, _IS_ORIGIN, until)
    deleted["evidence"] = authorizations.retention.purge_evidence(_needing_evidence, until)
    log.info("queries_purged", **deleted)
    return deleted


def _needing_evidence(references: set[str]) -> set[str]:
    """Those of the references of an evidence's uses that name a query or a proposal which is still kept."""
    keys = [each for each in references if _UUID.fullmatch(each)]
    return {
        str(key)
        for model in (Query, Proposal)
        for key in model._default_manager.filter(pk__in=keys).values_list("pk", flat=True)
    }


def erase(cpf: str, by: str) -> Erasure:
    """Erase the holder `cpf`, who asked for it, and record that without the CPF. `by` is the operator. Proofs of a
    contract or an authorization are counted in `kept`, rows of running work in `left`: call this again later. One
    transaction, over one holder's rows."""
    return erase_again(*_indexes(cpf), by, timezone.now())


def erase_again(cpf_index: str, event_index: str, by: str, at: datetime) -> Erasure:
    """Erase the holder whose rows and events have these keyed hashes, as `by` did at `at`. The list of erasures has
    the hashes, so an erasure can be repeated after a restore without the CPF."""
    with transaction.atomic():
        erasure = _erase(cpf_index, event_index, by, at)
    log.info("holder_erased", erasure=erasure.pk, **erasure.erased)
    return erasure


def _indexes(cpf: str) -> tuple[str, str]:
    """The keyed hashes by which a holder's rows, and the events about the holder, are found."""
    return blind_index("cpf", cpf), reference_index(cpf)


def preview(cpf: str) -> Erasure:
    """The result that `erase` would have for the holder `cpf` now, as an unsaved row. It runs the same code in a
    transaction that is rolled back, so the two cannot differ."""
    with transaction.atomic():
        erasure = _erase(*_indexes(cpf), "", timezone.now())
        transaction.set_rollback(True)
    return erasure


def _erase(index: str, event_index: str, by: str, at: datetime) -> Erasure:
    # All partners are named, so that PostgreSQL can use the index on partner and holder.
    mine = Proposal.objects.filter(partner__in=list(Partner.objects.values_list("pk", flat=True)), cpf_index=index)
    partners = _partners_of(index)
    locked = [row.pk for row in mine.order_by("pk").select_for_update().only("pk")]
    unwanted = Proposal.objects.filter(pk__in=locked, submission__in=NEVER_ACCEPTED)
    deleted_ids = [str(key) for key in unwanted.values_list("pk", flat=True)]
    _, submissions = unwanted.only("pk").delete()
    # What a partner named a contract may name the holder, and proves nothing. The contract's events stay.
    accepted = Proposal.objects.filter(pk__in=locked, submission=Phase.ACCEPTED)
    accepted.exclude(partner_reference="").update(partner_reference="")
    contracts = [reference_index(str(key)) for key in accepted.values_list("pk", flat=True)]
    own = Erased(
        erased={"proposals": submissions.get(Proposal._meta.label, 0)},
        kept={"proposals": mine.filter(submission=Phase.ACCEPTED).count()},
        left={"proposals": mine.exclude(submission=Phase.ACCEPTED).count()},
        references=deleted_ids,
    )
    queries = consultas.retention.erase(index, _IN_USE, _IS_ORIGIN)
    sessions = authorizations.retention.erase(index)
    references = [*own.references, *queries.references, *sessions.references]
    others = [event_index, *map(reference_index, references)]
    webhooks.models.lock([*contracts, *others])
    told, events = webhooks.models.unname(contracts), webhooks.models.erase(others)
    return Erasure.objects.create(
        cpf_index=index,
        event_index=event_index,
        by=by,
        at=at,
        erased={**own.erased, **queries.erased, **sessions.erased, "events": events},
        kept={**own.kept, **queries.kept, **sessions.kept, "events": told},
        left={**own.left, **queries.left},
        partners=partners,
    )


def _partners_of(index: str) -> list[str]:
    """The names of the partners that have rows of the holder with the keyed hash `index`, and must be informed."""
    keys: set[uuid.UUID] = set()
    for model in (Query, Offer, Step, Session, Proposal):
        keys |= set(model._default_manager.filter(cpf_index=index).order_by().values_list("partner_id", flat=True))
    return list(Partner.objects.filter(pk__in=keys).values_list("name", flat=True))


# --- Two persons, and the list of erasures that is kept outside the database --------------------------------------


def waiting_for(cpf: str) -> QuerySet[ErasureRequest]:
    """The requests for the holder `cpf` that wait for a second person."""
    requests = ErasureRequest.objects.filter(cpf_index=blind_index("cpf", cpf), erasure=None)
    return requests.filter(asked_at__gt=timezone.now() - ErasureRequest.VALID)


def ask_or_confirm(cpf: str, by: str) -> Erasure | None:
    """Record that `by` requests the erasure of the holder `cpf`; or erase, if another person requested it before. None
    while a confirmation by a person other than `by` is missing."""
    with transaction.atomic():
        erasure_request = waiting_for(cpf).select_for_update().first()  # no other person confirms it meanwhile
        if erasure_request is None:
            ErasureRequest.objects.create(cpf_index=blind_index("cpf", cpf), asked_by=by)
            return None
        if erasure_request.asked_by == by:
            return None
        erasure_request.erasure = erase(cpf, f"{erasure_request.asked_by} e {by}"[:150])
        erasure_request.save(update_fields=["erasure"])
        return erasure_request.erasure


class ErasedHolder(msgspec.Struct, forbid_unknown_fields=True):
    """An erasure as the list holds it: no CPF, but the keyed hashes by which a holder's rows and events are found."""

    at: datetime
    by: str
    cpf_index: str
    event_index: str


class Export(chain.Head):
    """The head of the chain of evidence at one time, and all erasures so far, the oldest first."""

    erasures: list[ErasedHolder]


def export() -> Export:
    rows = Erasure.objects.order_by("at", "pk").values("at", "by", "cpf_index", "event_index")
    return Export(**structs.asdict(chain.head()), erasures=[ErasedHolder(**row) for row in rows])


def read(content: bytes) -> Export:
    """The export in a file. Raises ValueError."""
    return msgspec.json.decode(content, type=Export)


def replay(exported: Export) -> tuple[dict[str, Any], list[Erasure]]:
    """Do the erasures of `exported` that the database does not have, with their own time and author. Returns what
    `replay_erasures` prints, and the new rows."""
    known = set(Erasure.objects.values_list("cpf_index", "at"))
    missing = [each for each in exported.erasures if (each.cpf_index, each.at) not in known]
    done = [erase_again(each.cpf_index, each.event_index, each.by, each.at) for each in missing]
    return {
        "replayed": len(done),
        "known": len(exported.erasures) - len(done),
        "left": sum(any(erasure.left.values()) for erasure in done),
        "head_is_known": chain.has_link(exported.head),
    }, done
