#!/usr/bin/env python
"""Django's command line, bound to this project's settings."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.db import OperationalError

    from foundation.command_line import CommandLine

    try:
        CommandLine(sys.argv).execute()
    except OperationalError:
        sys.exit("O banco de dados não responde. O serviço (make run) está no ar, com este mesmo DATA_DIR?")


if __name__ == "__main__":
    main()
