import getpass
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from foundation.audit import JSONCommand, system_user
from foundation.formats import cpf_is_valid, only_digits
from proposals import retention


class Command(JSONCommand):
    """The CPF is not an argument, because process lists and the shell's history keep arguments."""

    help = "Apaga os dados de um titular, a pedido dele. O CPF vem da entrada padrão, nunca como argumento."
    arguments = {"--by": {"metavar": "NAME", "help": "quem apaga, para o registro (padrão: o usuário do sistema)"}}

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, cpf=_read_cpf(), **options)  # asked before the transaction begins

    def act(self, *, cpf: str, by: str | None, **options: Any) -> dict[str, Any]:
        """`{erasure_id, cpf_index, erased, kept, left}`. If `left` counts anything, run the command again later."""
        if settings.ERASURE_BY_TWO:  # one person could write two names behind `--by`
            raise CommandError("Aqui uma exclusão precisa de duas pessoas: peça e confirme na administração.")
        erasure = retention.erase(cpf, by or system_user())
        self.concerns(erasure, is_new=True)
        return {
            "erasure_id": erasure.pk,
            "cpf_index": erasure.cpf_index,
            "erased": erasure.erased,
            "kept": erasure.kept,
            "left": erasure.left,
        }


def _read_cpf() -> str:
    """The CPF from the terminal. Raises CommandError, which does not quote the input."""
    typed = getpass.getpass("CPF: ") if sys.stdin.isatty() else sys.stdin.read()
    cpf = only_digits(typed)
    if not cpf_is_valid(cpf):
        raise CommandError("A entrada padrão não tem um CPF válido.")
    return cpf
