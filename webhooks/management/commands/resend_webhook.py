from typing import Any

from django.core.management.base import CommandError

from partners.management.base import RowCommand
from webhooks.models import AlreadyPurged, Event


class Command(RowCommand):
    help = "Põe um evento de webhook de novo na fila, com o mesmo id (webhook-id) e um novo calendário de tentativas."
    model, named_by = Event, "event_id"

    def act_on(self, event: Event, **options: Any) -> dict[str, Any]:
        """`{id, state}`."""
        try:
            event.resend()
        except AlreadyPurged:
            raise CommandError(f"O conteúdo do evento {event.pk} foi apagado ao fim da retenção.") from None
        return {"id": event.pk, "state": Event.State.DUE}
