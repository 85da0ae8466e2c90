from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from foundation.audit import JSONCommand
from foundation.models import RegisteredPhone


class Command(JSONCommand):
    help = "Retira o segundo fator de uma conta: na próxima entrada ela registra outro telefone."
    arguments = {"account": {"help": "o nome do usuário"}}

    def act(self, *, account: str, **options: Any) -> dict[str, Any]:
        """`{account, removed}`. The account's open sessions must pass the second factor again, too."""
        user = get_user_model()._default_manager.filter(username=account).first()
        if user is None:
            raise CommandError("Não há usuário com este nome.")
        self.concerns(user)
        removed, _ = RegisteredPhone.objects.filter(user=user).delete()
        return {"account": account, "removed": removed}
