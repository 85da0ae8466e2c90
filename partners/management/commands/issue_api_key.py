from argparse import ArgumentTypeError
from datetime import timedelta
from typing import Any

from partners.management.base import RowCommand
from partners.models import MAX_KEY_DAYS, ApiKey, Partner


def _days(text: str) -> timedelta:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_KEY_DAYS):
        raise ArgumentTypeError(f"informe de 1 a {MAX_KEY_DAYS} dias")
    return timedelta(days=int(text))


class Command(RowCommand):
    help = "Emite mais uma chave de API de um parceiro e a mostra, esta única vez."
    arguments = {
        "--label": {"default": "", "help": "rótulo, até 60 caracteres"},
        "--expires-in": {"type": _days, "metavar": "DAYS", "help": "validade em dias (padrão: sem fim)"},
    }

    def act_on(self, partner: Partner, *, label: str, expires_in: timedelta | None, **options: Any) -> dict[str, Any]:
        """`{key_id, api_key}`."""
        key, secret = ApiKey.issue(partner, label, expires_in)
        self.concerns(key, is_new=True)
        return {"key_id": key.pk, "api_key": secret}
