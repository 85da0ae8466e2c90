#!/usr/bin/env python
"""Django's command line, bound to this project's settings."""

import os
import sys
from typing import Any

from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand
from django.db import OperationalError

#: Commands of Django and libraries that can change rows. `migrate` is missing: there may be no audit table yet.
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
                from foundation import audit  # models can be imported only once the settings are

                with audit.running_command():
                    audit.record(audit.Action.COMMAND, detail=audit.described(subcommand, options))
                    return run(*args, **options)

            command.execute = execute
        return command


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        CommandLine(sys.argv).execute()
    except OperationalError:
        sys.exit("O banco de dados não responde. O serviço (make run) está no ar, com este mesmo DATA_DIR?")


if __name__ == "__main__":
    main()
