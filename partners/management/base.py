"""Shared parts of the operator's commands: one transaction, one JSON object on stdout, clear error messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model

from foundation import audit
from foundation.commands import AuditedCommand
from partners.models import WebhookEvent
from partners.validators import split_names
from providers.models import Provider


class JSONCommand(AuditedCommand):
    """Runs `act(**options)` in one transaction and prints its result as JSON after the commit.

    `act` may raise CommandError or ValidationError: the operator reads the message, and the transaction is rolled back.
    The audit trail records the changes of rows that `act` loaded by `get_row`. A command that only reads sets
    `reads_only` and is not recorded.
    """

    act: Callable[..., dict[str, Any]]
    reads_only = False

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with nullcontext() if self.reads_only else self.audited(options):
                result = self.act(**options)
        except ValidationError as error:
            raise CommandError(_sentence(error)) from None
        self.stdout.write(json.dumps(result, cls=DjangoJSONEncoder))


Row = TypeVar("Row", bound=Model)


def get_row(model: type[Row], identifier: str) -> Row:
    """The row of `model` with this UUID, which the command's audit entry names. Raises CommandError if `identifier` is
    not a UUID or no such row exists."""
    what = model._meta.verbose_name
    try:
        key = uuid.UUID(identifier)
    except ValueError:
        raise CommandError(f"“{identifier}” não é um UUID.") from None
    row = model._default_manager.filter(pk=key).first()
    if row is None:
        raise CommandError(f"Não há {what} com o id {key}.")
    audit.concerns(row)
    return row


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


def event_names(text: str) -> list[str]:
    """The webhook events in `a,b`. Raises CommandError for an unknown event."""
    names = split_names(text)
    unknown = [name for name in names if name not in WebhookEvent.values]
    if unknown:
        raise CommandError(f"Evento desconhecido: {', '.join(unknown)}. Eventos: {', '.join(WebhookEvent.values)}.")
    return names


def _sentence(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
