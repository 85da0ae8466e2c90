from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from foundation.audit import JSONCommand
from proposals import retention


class Command(JSONCommand):
    """For after a restore. May be run again: an erasure that the database has is not done again."""

    help = "Faz de novo as exclusões de um arquivo de export_chain_head que o banco de dados não tem mais."
    arguments = {"file": {"metavar": "FILE", "help": "a saída guardada de export_chain_head"}}

    def act(self, *, file: str, **options: Any) -> dict[str, Any]:
        """Returns `{replayed, known, left, head_is_known}`. `left` counts the erasures that left rows of running work:
        erase those holders again later. `head_is_known` is False if evidence was lost since the file was written."""
        try:
            export = retention.read(Path(file).read_bytes())
        except (OSError, ValueError) as error:
            raise CommandError(f"O arquivo não é uma saída de export_chain_head: {type(error).__name__}.") from None
        result, done = retention.replay(export)
        for erasure in done:
            self.concerns(erasure, is_new=True)
        return result
