from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from foundation.counts import serve_counts
from foundation.memory import freeze_what_is_loaded
from webhooks.delivery import DeliveryProcess


class Command(BaseCommand):
    help = "Entrega os webhooks até SIGTERM ou SIGINT; as tentativas em andamento terminam antes."

    def handle(self, *args: Any, **options: Any) -> None:
        process, stop = DeliveryProcess(), threading.Event()

        def finish(_signal: int, _frame: object) -> None:
            stop.set()
            process.wake()

        signal.signal(signal.SIGTERM, finish)
        signal.signal(signal.SIGINT, finish)
        serve_counts()
        freeze_what_is_loaded()
        process.run(stop)
