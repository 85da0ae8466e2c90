import json
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser

from foundation import audit
from foundation.models import RegisteredPhone


class Command(audit.AuditedCommand):
    """Prints `{account, removed}`. The account's open sessions must pass the second factor again, too."""

    help = "Retira o segundo fator de uma conta: na próxima entrada ela registra outro telefone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("account", help="o nome do usuário")

    def handle(self, *args: Any, account: str, **options: Any) -> None:
        user = get_user_model()._default_manager.filter(username=account).first()
        if user is None:
            raise CommandError("Não há usuário com este nome.")
        self.concerns(user)
        with self.audited(options):
            removed, _ = RegisteredPhone.objects.filter(user=user).delete()
        self.stdout.write(json.dumps({"account": account, "removed": removed}))
