from datetime import datetime
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from backoffice.figures import sweep
from foundation.audit import AuditedCommand
from foundation.formats import counted


class Command(AuditedCommand):
    help = (
        "Conta de novo os números por hora a partir das linhas que existem. Sem --from e --to, todas as horas cujas "
        "linhas ainda estão guardadas. Pode ser repetido, e interrompido: cada hora é gravada por inteiro."
    )
    arguments = {
        "--from": {"dest": "since", "help": "primeira hora, como 2026-11-01 ou 2026-11-01T13:00"},
        "--to": {"dest": "until", "help": "até antes desta hora"},
    }

    def handle(self, *args: Any, since: str | None, until: str | None, **options: Any) -> None:
        first = _moment("--from", since) or sweep.oldest()
        if first is None:
            self.stdout.write("Nada foi contado ainda.")
            return
        if first < sweep.countable_since():
            self.stderr.write("As horas mais antigas ficam como estão: parte das suas linhas já foi apagada.")
        self.note({"since": since, "until": until})
        hours = rows = 0
        for _, number in sweep.rebuild(first, _moment("--to", until) or timezone.now()):
            hours, rows = hours + 1, rows + number
        counts = counted(hours, "hora", "horas", "nenhuma hora"), counted(rows, "linha", "linhas", "nenhuma linha")
        self.stdout.write(f"Contado de novo: {', '.join(counts)}.")


def _moment(name: str, text: str | None) -> datetime | None:
    """The time in `text`, in the service's time zone unless it names another."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{name} deve ser uma data, como 2026-11-01 ou 2026-11-01T13:00.") from None
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
