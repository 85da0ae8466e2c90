"""What runs later is noticed when it is due, costs little while nothing is, and ends before its worker does. What a
dead worker held is soon looked up, and no second contract is made, even if that worker is still alive."""

import signal
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from consultas import pending
from consultas.models import Offer, Query, Step
from foundation import later, workers
from partners.models import Partner
from proposals import sending, sweep
from proposals.models import Cause, Proposal
from providers.types.proposal import BankProposal, ProposalStatus
from tests.factories import PartnerFactory
from tests.leases import dead_worker, living_worker
from tests.processes import Programs, Simulator, wait_until
from tests.proposals.rows import a_proposal, a_step, an_offer

pytestmark = pytest.mark.django_db
Phase = Proposal.Submission
BANK, CHAT = "ipe", "90000000337"


def test_each_kind_of_work_is_noticed_when_it_is_due() -> None:
    now = timezone.now()
    offer = an_offer(PartnerFactory(), "peroba")
    step = a_step(offer, due_at=now)
    assert later.tasks_due() == [Step.task]
    Step.objects.filter(pk=step.pk).update(state="approved", due_at=None)
    proposal = a_proposal(offer, submission=Proposal.Submission.UNKNOWN, due_at=now)
    assert later.tasks_due() == [Proposal.task]
    Proposal.objects.filter(pk=proposal.pk).update(submission=Proposal.Submission.ACCEPTED, due_at=now)
    assert later.tasks_due() == [Proposal.task]
    Proposal.objects.filter(pk=proposal.pk).update(due_at=now + timedelta(minutes=1))
    Query.objects.filter(pk=offer.query_id).update(due_at=now)
    assert later.tasks_due() == ["consultas.query.end.take_over"]
    Query.objects.filter(pk=offer.query_id).update(due_at=None)
    assert later.tasks_due() == []


def test_where_nothing_is_due_a_tick_costs_two_statements(transactional_db: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        later.tick()
    assert len(queries) == 2


def test_told_to_stop_it_finishes_the_look_that_is_under_way(
    sandbox: None, programs: Programs, simulator: Simulator
) -> None:
    simulator.bank("peroba", latency_ms=1500)
    step = a_step(an_offer(Partner.objects.get(), "peroba", cpf=CHAT), due_at=timezone.now())
    programs.ensure("sweeps")
    workers.publish(Step.task, (), expires_s=60)
    wait_until(lambda: simulator.calls("peroba", "poll"), 20, "the bank is asked", lambda: programs.logs("sweeps"))
    programs.kill("sweeps", signal.SIGTERM)
    wait_until(lambda: not programs.is_running("sweeps"), 20, "it ends")
    step.refresh_from_db()
    assert (step.state, step.checks) == ("expired", 1), "the bank knows nothing of the step"


# --- A worker dies during a submission or a look-up ---------------------------------------------------------------


@pytest.fixture
def partner(db: None) -> Partner:
    """Not the running service's partner: its sweep process would claim the same due rows as these tests."""
    return PartnerFactory()


@pytest.fixture
def offer(partner: Partner) -> Offer:
    return an_offer(partner, BANK)


@pytest.fixture
def taken(offer: Offer) -> Proposal:
    """An attempt that a worker took and may be sending."""
    until = timezone.now() + timedelta(seconds=30)
    proposal = a_proposal(offer, lease_until=until, due_at=until)
    found = Proposal.take(str(proposal.pk))
    assert found is not None
    return found


def held_by(proposal: Proposal, worker: str) -> None:
    Proposal.objects.filter(pk=proposal.pk).update(worker=worker)


def row() -> Proposal:
    return Proposal.objects.get()


def test_who_takes_a_try_is_named_and_keeps_it_while_alive(taken: Proposal) -> None:
    assert row().worker == later.worker_id()
    held_by(taken, living_worker())
    later.end_dead_leases()
    assert row().submission == Phase.SENDING
    assert sweep.claim_due() == []


def test_what_a_dead_worker_sent_is_looked_for_by_the_next_sweep(taken: Proposal) -> None:
    """Before the fix, nobody looked for it until the lease ended, 85 s later."""
    held_by(taken, dead_worker())
    before = row().sent_until
    later.end_dead_leases()
    [found] = sweep.claim_due()
    assert (found.submission, found.worker, found.reconciles) == (Phase.UNKNOWN, later.worker_id(), 0)
    assert found.sent_until == before, "what was sent may still arrive"
    assert not sending.is_not_found_final(found)


def test_a_dead_look_is_made_again(offer: Offer) -> None:
    now = timezone.now()
    a_proposal(offer, Phase.UNKNOWN, sent_until=now, due_at=now)
    assert len(sweep.claim_due()) == 1
    Proposal.objects.update(worker=dead_worker())
    assert sweep.claim_due() == []
    later.end_dead_leases()
    assert len(sweep.claim_due()) == 1


def test_a_try_that_no_worker_took_waits_for_its_lease(offer: Offer) -> None:
    until = timezone.now() + timedelta(seconds=30)
    a_proposal(offer, lease_until=until, due_at=until)
    later.end_dead_leases()
    assert (row().submission, row().worker) == (Phase.SENDING, "")


@pytest.mark.parametrize("end", ["mark_unknown", "return_to_unknown"])
def test_a_try_that_ended_names_nobody(taken: Proposal, end: str) -> None:
    getattr(taken, end)()
    assert (row().submission, row().worker) == (Phase.UNKNOWN, "")


def test_an_acceptance_counts_though_the_worker_s_lease_was_ended(taken: Proposal) -> None:
    """Its heartbeat did not arrive. Nothing else of it counts: tests/unit/proposals/test_model.py."""
    held_by(taken, dead_worker())
    later.end_dead_leases()
    taken.adopt(BankProposal("n-1", ProposalStatus.IN_ANALYSIS, "EM_ANALISE"), Cause.SUBMIT)
    assert (row().submission, row().native_id) == (Phase.ACCEPTED, "n-1")


def test_only_claimed_rows_count_as_held(offer: Offer) -> None:
    """Before the fix, the running service's sweep process sometimes claimed the step first."""
    step = a_step(offer)
    assert not Step.held().exists()
    assert pending.claim_due(BANK, 1) == [step]
    assert Step.held().exists()
