"""The base of management commands that change something: each run leaves its entry in the audit trail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand
from django.db import models, transaction

from foundation import audit

#: What Django asks of every command, and what a call from code adds; it says nothing about the change.
_OF_DJANGO = {*vars(BaseCommand().create_parser("manage.py", "command").parse_args([])), "stdout", "stderr"}


class AuditedCommand(BaseCommand):
    """A command whose run is noted: by `audited` around the change, or by `note` before work of many transactions.

    A command is noted with its options. Rows that it names by `audit.concerns` get an entry each, with old and new
    values.
    """

    _rows: list[tuple[models.Model, dict[str, Any]]]

    def execute(self, *args: Any, **options: Any) -> str | None:
        with audit.running_command() as self._rows:
            return super().execute(*args, **options)

    @contextmanager
    def audited(self, options: Mapping[str, Any]) -> Iterator[None]:
        """A transaction for the change, and its entry in the trail."""
        with transaction.atomic():
            yield
            self.note(options)

    def note(self, options: Mapping[str, Any]) -> None:
        """Write the entry now."""
        detail = told(type(self).__module__.rpartition(".")[2], options)
        for row, before in self._rows:
            now = type(row)._base_manager.filter(pk=row.pk).first()
            changes = audit.differences(before, audit.state(now) if now else {})
            audit.record(audit.Action.COMMAND, obj=row, changes=changes, detail=detail)
        if not self._rows:
            audit.record(audit.Action.COMMAND, detail=detail)


def told(name: str, options: Mapping[str, Any]) -> str:
    """`set_webhook url=https://… rotate_secret=True`, without what was not given."""
    given = {option: value for option, value in options.items() if option not in _OF_DJANGO and _is_given(value)}
    return " ".join([name, *(f"{option}={audit.shown(option, value)}" for option, value in given.items())])


def _is_given(value: object) -> bool:
    """A number may be 0; else what is false was not given."""
    return bool(value) or (isinstance(value, int) and not isinstance(value, bool))
