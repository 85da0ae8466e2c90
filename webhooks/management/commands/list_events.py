from __future__ import annotations

import json
import uuid
from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from partners.models import Partner
from webhooks.models import Event

NEWEST = 100


class Command(BaseCommand):
    help = f"Prints a partner's webhook events, the newest {NEWEST}, newest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", type=uuid.UUID)
        parser.add_argument("--state", choices=Event.State.values)

    def handle(self, *args: Any, partner_id: uuid.UUID, state: str | None, **options: Any) -> None:
        if not Partner.objects.filter(pk=partner_id).exists():
            raise CommandError(f"no partner {partner_id}")
        events = Event.objects.filter(partner=partner_id)
        if state is not None:
            events = events.filter(state=state)
        rows = events.values("id", "name", "state", "attempts", "next_attempt_at")[:NEWEST]
        self.stdout.write(json.dumps({"events": [_as_dict(row) for row in rows]}))


def _as_dict(row: Mapping[str, Any]) -> dict[str, Any]:
    moment: datetime | None = row["next_attempt_at"]
    return {
        "id": row["id"],
        "event": row["name"],
        "state": row["state"],
        "attempts": row["attempts"],
        "next_attempt_at": moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None,
    }
