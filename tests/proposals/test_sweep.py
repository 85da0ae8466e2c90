"""What runs later is noticed when it is due, costs little while nothing is, and ends before its worker does."""

import signal
from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from consultas import pending
from consultas.models import Query, Step
from foundation import later, workers
from partners.models import Partner
from proposals.models import Proposal
from proposals.sweep import CHECK
from tests.factories import PartnerFactory
from tests.processes import Programs, Simulator, wait_until
from tests.proposals.rows import a_proposal, a_step, an_offer

CHAT = "90000000337"


def due() -> list[str]:
    return later.tasks_due()


def test_each_kind_of_work_is_noticed_when_it_is_due(db: None) -> None:
    now = timezone.now()
    offer = an_offer(PartnerFactory(), "peroba")
    step = a_step(offer, due_at=now)
    assert due() == [pending.CHECK]
    Step.objects.filter(pk=step.pk).update(state="approved", due_at=None)
    proposal = a_proposal(offer, submission=Proposal.Submission.UNKNOWN, due_at=now)
    assert due() == [CHECK]
    Proposal.objects.filter(pk=proposal.pk).update(submission=Proposal.Submission.ACCEPTED, due_at=now)
    assert due() == [CHECK]
    Proposal.objects.filter(pk=proposal.pk).update(due_at=now + timedelta(minutes=1))
    Query.objects.filter(pk=offer.query_id).update(due_at=now)
    assert due() == ["consultas.tasks.take_over"]
    Query.objects.filter(pk=offer.query_id).update(due_at=None)
    assert due() == []


def test_where_nothing_is_due_a_tick_costs_two_statements(transactional_db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        later.tick()
    assert len(queries) == 2


def test_told_to_stop_it_finishes_the_look_that_is_under_way(
    sandbox: None, programs: Programs, simulator: Simulator
) -> None:
    simulator.bank("peroba", latency_ms=1500)
    step = a_step(an_offer(Partner.objects.get(), "peroba", cpf=CHAT), due_at=timezone.now())
    programs.restart("sweeps")
    workers.publish(pending.CHECK, (), expires_s=60)
    wait_until(lambda: simulator.calls("peroba", "poll"), 20, "the bank is asked", lambda: programs.logs("sweeps"))
    programs.kill("sweeps", signal.SIGTERM)
    wait_until(lambda: not programs.is_running("sweeps"), 20, "it ends")
    step.refresh_from_db()
    assert (step.state, step.checks) == ("expired", 1), "the bank knows nothing of the step"
