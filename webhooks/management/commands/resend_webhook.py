from typing import Any

from django.core.management.base import CommandError

from foundation.audit import JSONCommand
from webhooks.models import AlreadyPurged, Event


class Command(JSONCommand):
    help = "Põe um evento de webhook de novo na fila, com o mesmo id e um novo calendário de tentativas."
    arguments = {"event_id": {"metavar": "EVENT_ID", "help": "o webhook-id"}}

    def act(self, *, event_id: str, **options: Any) -> dict[str, Any]:
        """`{id, state}`."""
        event = Event.objects.only("pk", "name").filter(pk=event_id).first()
        if event is None:
            raise CommandError(f"Não há evento com o id {event_id}.")
        self.concerns(event)
        try:
            event.resend()
        except AlreadyPurged:
            raise CommandError(f"O conteúdo do evento {event_id} foi apagado ao fim da retenção.") from None
        return {"id": event_id, "state": Event.State.DUE}
