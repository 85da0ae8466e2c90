from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from backoffice.figures import volume
from backoffice.figures.volume import Volume
from foundation.commands import AuditedCommand


class Command(AuditedCommand):
    help = (
        "Cria linhas para medir: consultas, ofertas, passos, sessões, propostas e eventos de parceiros fictícios. "
        "Um milhão de consultas ocupa uns 12 GB. Só em desenvolvimento e no sandbox."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--queries", type=int, default=1_000_000)
        parser.add_argument("--offers-each", type=int, default=5, help="ofertas por consulta, em média")
        parser.add_argument("--proposals", type=int, default=500_000)
        parser.add_argument("--partners", type=int, default=20)
        parser.add_argument("--days", type=int, default=90)
        parser.add_argument("--delete", action="store_true", help="apaga o que este comando criou")

    def handle(self, *args: Any, delete: bool, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("Nada disto é criado em produção.")
        self.note({"delete": delete, **options})
        if delete:
            for table, rows in volume.delete():
                self.stdout.write(f"{table}: {rows}")
            return
        numbers = {name: options[name] for name in ("queries", "offers_each", "proposals", "partners", "days")}
        if min(numbers.values()) < 1:
            raise CommandError("Cada número deve ser 1 ou mais.")
        for day, seconds in volume.seed(Volume(**numbers)):
            self.stdout.write(f"{day}: {seconds:.1f} s")
