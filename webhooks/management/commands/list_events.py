from typing import Any

from msgspec import structs

from partners.management.base import RowCommand
from partners.models import Partner
from webhooks import shapes
from webhooks.models import Event

NEWEST = 100


class Command(RowCommand):
    reads_only = True
    help = f"Lista os eventos de webhook de um parceiro: os {NEWEST} mais novos, do mais novo ao mais antigo."
    arguments = {"--state": {"choices": Event.State.values, "help": "só os eventos nesta situação"}}

    def act_on(self, partner: Partner, *, state: str | None, **options: Any) -> dict[str, Any]:
        """`{events: [{id, event, state, attempts, next_attempt_at}]}`."""
        events = Event.objects.filter(partner=partner, **({"state": state} if state else {}))
        newest = events.defer("body", "external_reference")[:NEWEST]
        rows = [structs.asdict(shapes.WebhookEventRow.of_row(event)) for event in newest]
        shown = ("id", "event", "state", "attempts", "next_attempt_at")
        return {"events": [{name: row[name] for name in shown} for row in rows]}
