"""The command line of `manage.py`. Imported before the settings, so no model may be imported at module level."""

from typing import Any

from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand

#: Commands of Django and of libraries that change rows or let a person change them. `migrate` is missing, because the
#: audit table may not exist yet.
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
    """Django's command line. Commands of `FOREIGN` are recorded in the audit trail."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """The command `subcommand`. A command of `FOREIGN` writes its entry before it runs."""
        command = super().fetch_command(subcommand)
        if subcommand in FOREIGN:
            run = command.execute

            def execute(*args: Any, **options: Any) -> str | None:
                from foundation import audit  # models can be imported only now
                from foundation.commands import described

                with audit.running_command():
                    audit.record(audit.Action.COMMAND, detail=described(subcommand, options))
                    return run(*args, **options)

            command.execute = execute  # type: ignore[method-assign]
        return command
