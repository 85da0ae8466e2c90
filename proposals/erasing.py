"""Erasure of a holder by two persons, for deployments that require it: one requests, another confirms. And the list of
erasures, kept outside the database, with their repetition after a restore of an older backup."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import models, transaction
from django.utils import timezone
from msgspec import structs

from authorizations import chain
from foundation.encryption import blind_index
from proposals import retention
from proposals.models import Erasure

#: A request that is not confirmed within this time must be made again.
VALID = timedelta(days=7)


class ErasureRequest(models.Model):
    """A request to erase a holder. It does not store the CPF, so the confirming person types it again. `erasure` is set
    once it was done."""

    cpf_index = models.CharField("hash do CPF", max_length=64, db_index=True)
    asked_by = models.CharField("pedido por", max_length=150)
    asked_at = models.DateTimeField("pedido em", default=timezone.now)
    erasure = models.OneToOneField(
        Erasure, models.PROTECT, null=True, related_name="asked", verbose_name="exclusão feita"
    )

    class Meta:
        verbose_name = "pedido de exclusão"
        verbose_name_plural = "pedidos de exclusão"
        ordering = ("-asked_at",)
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"pedido {self.pk}"

    @property
    def is_waiting(self) -> bool:
        """True while another person may confirm the request."""
        return self.erasure_id is None and self.asked_at > timezone.now() - VALID


def waiting_for(cpf: str) -> ErasureRequest | None:
    """The request for the holder `cpf` that waits for a second person, or None."""
    requests = ErasureRequest.objects.filter(cpf_index=blind_index("cpf", cpf), erasure=None)
    return requests.filter(asked_at__gt=timezone.now() - VALID).first()


def ask(cpf: str, by: str) -> tuple[ErasureRequest, bool]:
    """The request for the holder `cpf` that waits for a second person, and True if `by` made it now. Inside a
    transaction: until it ends, no other person can confirm the request."""
    found = waiting_for(cpf)
    erasure_request = found and ErasureRequest.objects.select_for_update().get(pk=found.pk)
    if erasure_request is not None and erasure_request.is_waiting:
        return erasure_request, False
    return ErasureRequest.objects.create(cpf_index=blind_index("cpf", cpf), asked_by=by), True


def ask_or_confirm(cpf: str, by: str) -> Erasure | None:
    """Record that `by` requests the erasure of the holder `cpf`; or erase, if another person requested it before. None
    while a confirmation by a person other than `by` is missing."""
    with transaction.atomic():
        erasure_request, is_new = ask(cpf, by)
        if is_new or erasure_request.asked_by == by:
            return None
        erasure_request.erasure = retention.erase(cpf, f"{erasure_request.asked_by} e {by}"[:150])
        erasure_request.save(update_fields=["erasure"])
        return erasure_request.erasure


class Erased(msgspec.Struct, forbid_unknown_fields=True):
    """An erasure as the list holds it: no CPF, but the keyed hashes by which a holder's rows and events are found."""

    at: datetime
    by: str
    cpf_index: str
    event_index: str


class Export(chain.Head):
    """The head of the chain of evidence at one time, and all erasures so far, the oldest first."""

    erasures: list[Erased]


def export() -> Export:
    """The export of now."""
    rows = Erasure.objects.order_by("at", "pk").values("at", "by", "cpf_index", "event_index")
    return Export(**structs.asdict(chain.head()), erasures=[Erased(**row) for row in rows])


def read(content: bytes) -> Export:
    """The export in a file. Raises ValueError."""
    return msgspec.json.decode(content, type=Export)


def replay(exported: Export) -> tuple[dict[str, Any], list[Erasure]]:
    """Do the erasures of `exported` that the database does not have, with their own time and author. Returns what
    `replay_erasures` prints, and the new rows."""
    known = set(Erasure.objects.values_list("cpf_index", "at"))
    missing = [each for each in exported.erasures if (each.cpf_index, each.at) not in known]
    done = [retention.erase_again(each.cpf_index, each.event_index, each.by, each.at) for each in missing]
    return {
        "replayed": len(done),
        "known": len(exported.erasures) - len(done),
        "left": sum(any(erasure.left.values()) for erasure in done),
        "head_is_known": chain.has_link(exported.head),
    }, done
