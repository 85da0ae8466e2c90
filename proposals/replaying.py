"""The list of erasures, kept outside the database, and their repetition after a restore of an older backup."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from authorizations import chain
from proposals import retention
from proposals.models import Erasure


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
