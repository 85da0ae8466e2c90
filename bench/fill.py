"""Fills the tables for a measurement: `python -m bench.fill --queries 1000000`, in the environment of a service.

Creates queries, offers, steps, sessions, proposals and events of partners that do not exist. A million queries take
some 12 GB. `--delete` deletes what was created. Not in production.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import django


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or delete the rows. Raises SystemExit in production, and for a number below 1."""
    from django.conf import settings

    from bench import volume

    parser = argparse.ArgumentParser(description=__doc__)
    numbers = {"queries": 1_000_000, "offers_each": 5, "proposals": 500_000, "partners": 20, "days": 90}
    for name, number in numbers.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=number)
    parser.add_argument("--delete", action="store_true", help="delete what this program created")
    given = vars(parser.parse_args(arguments))
    if settings.PRODUCTION:
        sys.exit("Nothing of this is created in production.")
    if given.pop("delete"):
        for table, rows in volume.delete():
            print(f"{table}: {rows}")
        return
    if min(given.values()) < 1:
        sys.exit("Each number must be 1 or more.")
    for day, seconds in volume.seed(volume.Volume(**given)):
        print(f"{day}: {seconds:.1f} s")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    main()
