from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from partners.management.base import JSONCommand, get_row
from partners.models import Partner
from webhooks import serializers
from webhooks.models import Event

NEWEST = 100


class Command(JSONCommand):
    reads_only = True
    help = f"Lista os eventos de webhook de um parceiro: os {NEWEST} mais novos, do mais novo ao mais antigo."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--state", choices=Event.State.values, help="só os eventos nesta situação")

    def act(self, *, partner_id: str, state: str | None, **options: Any) -> dict[str, Any]:
        """`{events: [{id, event, state, attempts, next_attempt_at}]}`."""
        events = Event.objects.filter(partner=get_row(Partner, partner_id))
        if state is not None:
            events = events.filter(state=state)
        newest = events.defer("body", "external_reference")[:NEWEST]
        return {"events": [serializers.summary(event) for event in newest]}
