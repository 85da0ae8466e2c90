from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webhooks.models import AlreadyPurged, Event


class Command(BaseCommand):
    help = "Queues a webhook event again, under its id and with a fresh schedule."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("event_id", help="the webhook-id")

    def handle(self, *args: Any, event_id: str, **options: Any) -> None:
        try:
            Event.objects.only("pk").get(pk=event_id).resend()
        except Event.DoesNotExist:
            raise CommandError(f"no event {event_id}") from None
        except AlreadyPurged:
            raise CommandError(f"the content of {event_id} was erased when its retention ended") from None
        self.stdout.write(json.dumps({"id": event_id, "state": Event.State.DUE}))
