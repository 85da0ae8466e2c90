from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from typing import Any

from foundation import audit
from partners.management.base import JSONCommand, get_row
from partners.models import MAX_KEY_DAYS, ApiKey, Partner
from partners.validators import split_names


def _days(text: str) -> timedelta:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_KEY_DAYS):
        raise ArgumentTypeError(f"informe de 1 a {MAX_KEY_DAYS} dias")
    return timedelta(days=int(text))


class Command(JSONCommand):
    help = "Emite mais uma chave de API de um parceiro e a mostra, esta única vez."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("partner_id", metavar="PARTNER_ID")
        parser.add_argument("--label", default="", help="rótulo, até 60 caracteres")
        parser.add_argument("--expires-in", type=_days, metavar="DAYS", help="validade em dias (padrão: sem fim)")

        parser.add_argument(
            "--networks",
            default="",
            metavar="a,b",
            help="endereços e redes de que a chave vale, como 203.0.113.7,198.51.100.0/24 (padrão: de qualquer um)",
        )

    def act(
        self, *, partner_id: str, label: str, expires_in: timedelta | None, networks: str, **options: Any
    ) -> dict[str, Any]:
        """`{key_id, api_key}`."""
        key, secret = ApiKey.issue(get_row(Partner, partner_id), label, expires_in, networks=split_names(networks))
        audit.concerns(key, is_new=True)
        return {"key_id": key.pk, "api_key": secret}
