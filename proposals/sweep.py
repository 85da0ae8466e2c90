"""The sweep process does the work that is due while no partner waits. It ends overdue queries, checks external steps,
submissions without an outcome and open proposals at their banks, sends phone codes whose task was lost, and takes over
the work of dead workers.

PostgreSQL says what is due, so the process needs no broker. Several processes can share the work, because each claims
its rows before it asks a bank. The reasons are in docs/decisions/0043-sweeps-without-the-broker.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import gevent
import structlog
from django.db import InterfaceError, OperationalError, connection
from gevent.event import Event
from gevent.pool import Group

from authorizations import codes
from consultas import ending, pending
from consultas import sweep as steps
from proposals import actions, dead_workers, reconciling
from proposals.models import Proposal

log = structlog.get_logger(__name__)

#: Seconds between two checks for due work.
TICK_S = 2.0


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
    Sweep("overdue queries", ending.is_any_overdue, ending.end_overdue),
    Sweep("steps", pending.is_any_due, steps.run),
    Sweep("unsettled submissions", reconciling.is_any_due, reconcile),
    Sweep("open proposals", actions.is_any_due, refresh),
    Sweep("codes", codes.is_any_due, codes.send_due),
)


class SweepProcess:
    """One sweep process. A sweep that waits for its banks delays neither other sweeps nor the next one of its kind."""

    def __init__(self) -> None:
        self._running = Group()

    def run(self, stop: Event) -> None:
        """Sweep every `TICK_S` seconds until `stop` is set, then finish the running checks. Continues after any outage
        of PostgreSQL."""
        while not stop.is_set():
            self.tick()
            stop.wait(TICK_S)
        self._running.join()

    def tick(self) -> None:
        """Start each sweep that has due work."""
        try:
            due = [sweep for sweep in SWEEPS if sweep.is_due()]
        except (OperationalError, InterfaceError) as fault:
            log.warning("sweep_database_away", fault=type(fault).__name__)
            due = []
        finally:
            connection.close()
        for sweep in due:
            self._running.spawn(_run, sweep)


def _run(sweep: Sweep) -> None:
    try:
        sweep.run()
    except Exception:  # the rows that it claimed are due again when their leases expire
        log.exception("sweep_failed", sweep=sweep.name)
    finally:
        connection.close()
