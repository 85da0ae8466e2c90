from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner
from webhooks.models import Event

NEWEST = 100


class Command(JSONCommand):
    help = f"Lista os eventos de webhook de um parceiro: os {NEWEST} mais novos, do mais novo ao mais antigo."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--state", choices=Event.State.values, help="só os eventos nesta situação")

    def act(self, *, partner_id: str, state: str | None, **options: Any) -> dict[str, Any]:
        """`{events: [{id, event, state, attempts, next_attempt_at}]}`."""
        events = Event.objects.filter(partner=get_row(Partner, partner_id))
        if state is not None:
            events = events.filter(state=state)
        rows = events.values("id", "name", "state", "attempts", "next_attempt_at")[:NEWEST]
        return {"events": [_as_dict(row) for row in rows]}


def _as_dict(row: Mapping[str, Any]) -> dict[str, Any]:
    moment: datetime | None = row["next_attempt_at"]
    return {
        "id": row["id"],
        "event": row["name"],
        "state": row["state"],
        "attempts": row["attempts"],
        "next_attempt_at": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None,
    }
