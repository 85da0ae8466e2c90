#!/usr/bin/env python
"""Django's command line, bound to this project's settings."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError:
        sys.exit("O banco de dados não responde. O serviço (make run) está no ar, com este mesmo DATA_DIR?")


if __name__ == "__main__":
    main()
