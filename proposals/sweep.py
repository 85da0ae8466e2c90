"""Work that is due while no partner waits: checks submissions without an outcome and open
proposals at their banks, sends phone codes whose task was lost, and takes over the submissions of dead workers.

PostgreSQL says what is due. Several workers can share the work, because each claims its rows before it asks a bank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import gevent
import structlog
from django.db import connection

from authorizations import codes
from proposals import actions, dead_workers, reconciling
from proposals.models import Proposal

log = structlog.get_logger(__name__)


def reconcile() -> None:
    """Check the due submissions of unknown outcome."""
    _each(reconciling.reconcile, reconciling.claim_unsettled())


def refresh() -> None:
    """Check the due open proposals."""
    _each(actions.refresh, actions.claim_due())


def _each(work: Callable[[Proposal], None], proposals: list[Proposal]) -> None:
    """Run `work` for each proposal in its own greenlet, so that a slow bank delays no other."""

    def one(proposal: Proposal) -> None:
        try:
            work(proposal)
        except Exception:  # the row stays due, and the next sweep tries again
            log.exception("proposal_look_failed", proposal=str(proposal.pk), bank=proposal.provider)
        finally:
            connection.close()

    connection.close()
    gevent.joinall([gevent.spawn(one, proposal) for proposal in proposals])


class Sweep(NamedTuple):
    """One kind of work: the check whether any is due, and the function that does it."""

    name: str
    is_due: Callable[[], bool]
    run: Callable[[], None]


SWEEPS = (
    Sweep("leases of dead workers", dead_workers.is_any_held, dead_workers.end_leases),
    Sweep("unsettled submissions", reconciling.is_any_due, reconcile),
    Sweep("open proposals", actions.is_any_due, refresh),
    Sweep("codes", codes.is_any_due, codes.send_due),
)


def run() -> None:
    """Run each sweep that has due work, all at the same time. Returns when they have ended; the next run does not wait
    for that."""
    due = [sweep for sweep in SWEEPS if sweep.is_due()]
    connection.close()
    gevent.joinall([gevent.spawn(_run, sweep) for sweep in due])


def _run(sweep: Sweep) -> None:
    try:
        sweep.run()
    except Exception:  # the rows that it claimed are due again when their leases expire
        log.exception("sweep_failed", sweep=sweep.name)
    finally:
        connection.close()
