"""Stores webhook events at a constant rate until it is stopped: `python -m bench.publisher RATE PARTNER_ID…`."""

from __future__ import annotations

import itertools
import os
import sys
import time

import django


def main(rate: float, partner_ids: list[str]) -> None:
    """Store `rate` events a second, in turn for each partner. Continues after every loss of the database."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.db import InterfaceError, OperationalError, connection, transaction

    from partners.models import Partner
    from webhooks import outbox

    partners = list(Partner.objects.filter(pk__in=partner_ids))
    offers = [{"offerId": str(n), "loanValue": 1000 + n, "interestRate": 1.99, "prazo": 48} for n in range(5)]
    next_at = time.monotonic()
    for number in itertools.count():
        try:
            with transaction.atomic():
                partner = partners[number % len(partners)]
                outbox.send(partner, "lead", f"group-{number}", {"providers": [], "offers": offers})
        except (OperationalError, InterfaceError):
            connection.close()
            time.sleep(0.1)
        next_at = max(next_at + 1 / rate, time.monotonic() - 1)  # after a halt, do not catch up on everything at once
        time.sleep(max(0.0, next_at - time.monotonic()))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
