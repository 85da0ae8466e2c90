"""The base class of management commands that change something. Each run is recorded in the audit trail."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand
from django.db import models, transaction

from foundation import audit

#: Options that every command has. They say nothing about the change.
_OF_DJANGO = {*vars(BaseCommand().create_parser("manage.py", "command").parse_args([])), "stdout", "stderr"}


class AuditedCommand(BaseCommand):
    """A command whose run is recorded: by `audited` around the change, or by `note` before work in many transactions.

    The entry holds the command's options. Rows that the command names by `audit.concerns` get an entry each, with old
    and new values.
    """

    _rows: list[tuple[models.Model, dict[str, Any]]]

    def execute(self, *args: Any, **options: Any) -> str | None:
        with audit.running_command() as self._rows:
            return super().execute(*args, **options)

    @contextmanager
    def audited(self, options: Mapping[str, Any]) -> Iterator[None]:
        """A transaction for the change and its entries."""
        with transaction.atomic():
            yield
            self.note(options)

    def note(self, options: Mapping[str, Any]) -> None:
        detail = described(type(self).__module__.rpartition(".")[2], options)
        for row, before in self._rows:
            now = type(row)._base_manager.filter(pk=row.pk).first()
            changes = audit.differences(before, audit.state(now) if now else {})
            audit.record(audit.Action.COMMAND, obj=row, changes=changes, detail=detail)
        if not self._rows:
            audit.record(audit.Action.COMMAND, detail=detail)


def described(name: str, options: Mapping[str, Any]) -> str:
    """For example `set_webhook url=https://… rotate_secret=True`. Options that were not given are left out."""
    stated = {option: value for option, value in options.items() if option not in _OF_DJANGO and _is_given(value)}
    return " ".join([name, *(f"{option}={audit.shown(option, value)}" for option, value in stated.items())])


def _is_given(value: object) -> bool:
    """True for 0, for which Python's truth value would be False."""
    return bool(value) or (isinstance(value, int) and not isinstance(value, bool))
