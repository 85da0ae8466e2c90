"""The sweep process starts due checks, sleeps if nothing is due, and finishes running checks when it is stopped."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from consultas.models import Query, Step
from partners.models import Partner
from proposals.models import Proposal
from proposals.sweep import SWEEPS, SweepProcess
from tests.factories import PartnerFactory
from tests.processes import Programs, Simulator, wait_until
from tests.proposals.rows import a_proposal, a_step, an_offer

CHAT = "90000000337"


def due() -> list[str]:
    return [sweep.name for sweep in SWEEPS if sweep.is_due()]


def test_each_kind_of_work_is_noticed_when_it_is_due(db: None) -> None:
    now = timezone.now()
    offer = an_offer(PartnerFactory(), "peroba")
    step = a_step(offer, next_check_at=now)
    assert due() == ["steps"]
    Step.objects.filter(pk=step.pk).update(state="approved", next_check_at=None)
    proposal = a_proposal(offer, submission=Proposal.Submission.UNKNOWN, next_reconcile_at=now)
    assert due() == ["unsettled submissions"]
    Proposal.objects.filter(pk=proposal.pk).update(
        submission=Proposal.Submission.ACCEPTED, next_reconcile_at=None, next_refresh_at=now
    )
    assert due() == ["open proposals"]
    Proposal.objects.filter(pk=proposal.pk).update(next_refresh_at=now + timedelta(minutes=1))
    Query.objects.filter(pk=offer.query_id).update(deadline_at=now - timedelta(seconds=2))
    assert due() == ["overdue queries"]
    Query.objects.filter(pk=offer.query_id).update(finished_at=now)
    assert due() == []


def test_where_nothing_is_due_one_statement_for_each_kind_is_all_that_a_tick_costs(transactional_db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        SweepProcess().tick()
    assert len(queries) == len(SWEEPS)


def test_it_needs_a_patched_standard_library() -> None:
    with pytest.raises(CommandError, match=r"python -m gevent\.monkey manage\.py sweep"):
        call_command("sweep")


def test_told_to_stop_it_finishes_the_look_that_is_under_way(
    sandbox: None, programs: Programs, simulator: Simulator
) -> None:
    simulator.bank("peroba", latency_ms=1500)
    step = a_step(an_offer(Partner.objects.get(), "peroba", cpf=CHAT), next_check_at=timezone.now())
    programs.restart("sweeps")
    wait_until(lambda: simulator.calls("peroba", "poll"), 20, "the bank is asked", lambda: programs.logs("sweeps"))
    programs.kill("sweeps", signal.SIGTERM)
    wait_until(lambda: not programs.is_running("sweeps"), 20, "it ends")
    step.refresh_from_db()
    assert (step.state, step.checks) == ("expired", 1), "the bank knows nothing of the step"
