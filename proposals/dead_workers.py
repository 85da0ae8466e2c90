"""Ends the leases of dead workers early, so that other workers continue their webhooks.

The reasons are in docs/decisions/0033-leases-of-dead-workers.md.
"""

from __future__ import annotations

from foundation.later import dead_holders
from webhooks import delivery


def end_leases() -> None:
    """End the leases of dead workers."""
    if dead := dead_holders(delivery.held().order_by().values_list("worker", flat=True)):
        delivery.end_leases_of(dead)
