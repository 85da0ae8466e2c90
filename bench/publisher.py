"""Stores webhook events at a constant rate until it is stopped: `python -m bench.publisher RATE BATCH PARTNER_ID…`."""

from __future__ import annotations

import itertools
import os
import sys
import time

import django


def main(rate: float, batch: int, partner_ids: list[str]) -> None:
    """Store `rate` events a second, in turn for each partner, `batch` in a transaction. Continues after every loss of
    the database."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.db import InterfaceError, OperationalError, connection, transaction

    from partners.models import Partner
    from webhooks import outbox

    partners = list(Partner.objects.filter(pk__in=partner_ids))
    offers = [{"offerId": str(n), "loanValue": 1000 + n, "interestRate": 1.99, "prazo": 48} for n in range(5)]
    next_at = time.monotonic()
    for first in itertools.count(step=batch):
        numbers = range(first, first + batch)
        try:
            with transaction.atomic():
                outbox.send_all(
                    (partners[n % len(partners)], "lead", f"group-{n}", {"providers": [], "offers": offers})
                    for n in numbers
                )
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(0.1)
        # After a halt, do not catch up on everything at once.
        next_at = max(next_at + batch / rate, time.monotonic() - 1)
        time.sleep(max(0.0, next_at - time.monotonic()))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
