"""What `manage.py` runs. Imported before the settings are: nothing here imports a model before a command runs."""

from __future__ import annotations

from typing import Any

from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand

#: Commands of Django and of libraries that change rows, or let a person do so. `migrate` is left out: the table of the
#: trail may not be there yet.
FOREIGN = {
    "axes_reset",
    "axes_reset_failure_logs",
    "axes_reset_ip",
    "axes_reset_ip_username",
    "axes_reset_logs",
    "axes_reset_username",
    "changepassword",
    "createsuperuser",
    "dbshell",
    "flush",
    "loaddata",
    "remove_stale_contenttypes",
    "shell",
}


class CommandLine(ManagementUtility):
    """Django's own command line, on which others' commands that change rows are noted in the audit trail too."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """The command called `subcommand`. One of `FOREIGN` writes its entry before it begins."""
        command = super().fetch_command(subcommand)
        if subcommand in FOREIGN:
            run = command.execute

            def execute(*args: Any, **options: Any) -> str | None:
                from foundation import audit  # only now are the models there
                from foundation.commands import told

                with audit.running_command():
                    audit.record(audit.Action.COMMAND, detail=told(subcommand, options))
                    return run(*args, **options)

            command.execute = execute  # type: ignore[method-assign]
        return command
