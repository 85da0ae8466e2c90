"""Shared parts of the operator's commands about partners."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db.models import Model

from foundation.audit import JSONCommand
from partners.models import Partner
from partners.validators import split_names
from providers.models import Provider

#: The argument that names a contract's banks, for `bank_names`.
CONTRACT = {"--providers": {"required": True, "metavar": "a,b", "help": "bancos do contrato"}}


class RowCommand(JSONCommand):
    """Runs `act_on(row, **options)`. The first argument, `named_by`, is the key of a row of `model`."""

    act_on: Callable[..., dict[str, Any]]
    model: type[Model] = Partner
    named_by = "partner_id"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(self.named_by, metavar=self.named_by.upper())
        super().add_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        identifier = options.pop(self.named_by)
        try:
            row = self.model._default_manager.filter(pk=identifier).first()
        except ValidationError:
            raise CommandError(f"“{identifier}” não é um UUID.") from None
        if row is None:
            raise CommandError(f"Não há {self.model._meta.verbose_name} com o id {identifier}.")
        self.concerns(row)
        return self.act_on(row, **options)


def bank_names(text: str) -> list[str]:
    """The banks in `a,b`. Raises CommandError for an empty list and for an unknown bank."""
    names = split_names(text)
    if not names:
        raise CommandError("Informe ao menos um banco em --providers; para barrar o parceiro, suspenda-o.")
    registered = list(Provider.objects.order_by("name").values_list("name", flat=True))
    unknown = [name for name in names if name not in registered]
    if unknown:
        raise CommandError(
            f"Banco desconhecido: {', '.join(unknown)}. Bancos cadastrados: {', '.join(registered) or 'nenhum'}."
        )
    return names
