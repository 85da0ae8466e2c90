"""Shared parts of the operator's commands: one transaction, one JSON object on stdout, clear error messages."""

import json
import uuid
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model, PositiveIntegerField

from foundation import audit
from partners import registration
from partners.models import Partner
from partners.validators import split_names
from providers.models import Provider

#: The largest value of the limits' columns.
MOST = 2**31 - 1
#: The argument that names a contract's banks, for `bank_names`.
CONTRACT = {"--providers": {"required": True, "metavar": "a,b", "help": "bancos do contrato"}}


class JSONCommand(audit.AuditedCommand):
    """Runs `act(**options)` in one transaction and prints its result as JSON after the commit.

    `arguments` are those of the command line, each with its options of `add_argument`. `act` may raise CommandError or
    ValidationError: the operator reads the message, and the transaction is rolled back. The audit trail records the
    changes of rows that `act` named by `concerns`. A command that only reads sets `reads_only` and is not
    recorded.
    """

    act: Callable[..., dict[str, Any]]
    arguments: Mapping[str, Mapping[str, Any]] = {}
    reads_only = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name, options in self.arguments.items():
            parser.add_argument(name, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with nullcontext() if self.reads_only else self.audited(options):
                result = self.act(**options)
        except ValidationError as error:
            raise CommandError(_sentence(error)) from None
        self.stdout.write(json.dumps(result, cls=DjangoJSONEncoder))


class RowCommand(JSONCommand):
    """Runs `act_on(row, **options)`. The first argument, `named_by`, is the UUID of a row of `model`, which the audit
    entry names."""

    act_on: Callable[..., dict[str, Any]]
    model: type[Model] = Partner
    named_by = "partner_id"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(self.named_by, metavar=self.named_by.upper())
        super().add_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        identifier = options.pop(self.named_by)
        try:
            key = uuid.UUID(identifier)
        except ValueError:
            raise CommandError(f"“{identifier}” não é um UUID.") from None
        row = self.model._default_manager.filter(pk=key).first()
        if row is None:
            raise CommandError(f"Não há {self.model._meta.verbose_name} com o id {key}.")
        self.concerns(row)
        return self.act_on(row, **options)


class SettingsCommand(RowCommand):
    """Sets the settings of `group`, one of the groups of `partners.registration`. Settings without an option given stay
    unchanged."""

    group: Mapping[str, str]

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        fields = {field.name: field for field in Partner._meta.concrete_fields}
        for name, option in self.group.items():
            words = f"{fields[name].verbose_name} ({_FORMS.get(type(fields[name]), 'texto')})"
            parser.add_argument(f"--{option.replace('_', '-')}", metavar="VALUE", help=words)

    def act_on(self, partner: Partner, **options: Any) -> dict[str, Any]:
        """Returns the group's fields."""
        given = {name: text for name, option in self.group.items() if (text := options[option]) is not None}
        registration.change(partner, {name: _read(name, text) for name, text in given.items()})
        return {name: getattr(partner, name) for name in self.group}


_FORMS: dict[type, str] = {
    PositiveIntegerField: "um número inteiro; 0: sem limite",
    ArrayField: "valores separados por vírgula",
}


def _read(name: str, text: str) -> Any:
    """The value of a partner's field `name` in the text of its option. Raises CommandError."""
    kind = type(Partner._meta.get_field(name))
    if kind is ArrayField:
        return split_names(text)
    if kind is PositiveIntegerField and text.isascii() and text.isdigit() and int(text[:12]) <= MOST:
        return int(text) or None
    if kind in _FORMS:
        raise CommandError(f"{name}: informe {_FORMS[kind]}.")
    return text


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


def _sentence(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
