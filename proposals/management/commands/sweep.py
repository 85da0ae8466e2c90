from __future__ import annotations

import signal
from typing import Any

import gevent
from django.core.management.base import BaseCommand, CommandError
from gevent.event import Event
from gevent.monkey import is_module_patched

from foundation.counts import serve_counts
from foundation.memory import freeze_what_is_loaded
from proposals.sweep import SweepProcess


class Command(BaseCommand):
    help = (
        "Olha nos bancos o que venceu sem parceiro à espera (etapas externas, envios sem desfecho, propostas abertas) "
        "e envia os códigos atrasados, até SIGTERM ou SIGINT. Roda por `python -m gevent.monkey manage.py sweep`."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not is_module_patched("socket"):
            raise CommandError("Use: python -m gevent.monkey manage.py sweep")
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, stop.set)
        serve_counts()
        freeze_what_is_loaded()
        SweepProcess().run(stop)
