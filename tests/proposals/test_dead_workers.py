"""A worker dies during a submission or a look-up: the submission is soon looked up, and no second contract is made,
even if the worker is still alive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from consultas import pending
from consultas.models import Offer, Step
from foundation import later, leases
from partners.models import Partner
from proposals import sending, sweep
from proposals.models import Cause, Proposal
from providers.errors import ProviderRejected
from providers.types.proposal import BankProposal, ProposalStatus
from tests.factories import PartnerFactory, ProviderFactory
from tests.leases import dead_worker, living_worker
from tests.proposals.rows import a_proposal, a_step, an_offer

pytestmark = pytest.mark.django_db
Phase = Proposal.Submission
BANK = "ipe"


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
    assert row().worker == leases.worker_id()
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
    assert (found.submission, found.worker, found.reconciles) == (Phase.UNKNOWN, leases.worker_id(), 0)
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


# --- A living worker whose heartbeat does not arrive ------------------------------------------------------------------


@pytest.fixture
def unheard(taken: Proposal) -> Proposal:
    """The attempt of a living worker whose lease was ended."""
    held_by(taken, dead_worker())
    later.end_dead_leases()
    return taken


def test_an_acceptance_of_it_counts(unheard: Proposal) -> None:
    unheard.adopt(BankProposal("n-1", ProposalStatus.IN_ANALYSIS, "EM_ANALISE"), Cause.SUBMIT)
    assert (row().submission, row().native_id) == (Phase.ACCEPTED, "n-1")


@pytest.mark.parametrize(
    "end",
    [
        lambda proposal: proposal.refuse(ProviderRejected("Não.")),
        lambda proposal: proposal.mark_not_sent(ProviderRejected("Não.")),
        lambda proposal: proposal.mark_unknown(),
    ],
)
def test_nothing_else_of_it_does(unheard: Proposal, end: Any) -> None:
    before = Proposal.objects.values().get()
    end(unheard)
    assert Proposal.objects.values().get() == before


def test_it_sends_nothing_after_an_earlier_try(unheard: Proposal) -> None:
    assert not unheard.prepare_resend(is_first_gone=True)


@pytest.mark.parametrize("timeout_s", [25, 1])
def test_a_repeat_without_an_outcome_does_not_forget_when_the_first_one_may_arrive(
    unheard: Proposal, timeout_s: int
) -> None:
    """Before the fix, the end of the repeat counted, and a "not found" was final while the first one was on its way.
    With a shorter time-out, also the repeat's own lease ends earlier than the first one's."""
    until = row().sent_until
    ProviderFactory(name=BANK, timeout_s=timeout_s)
    row().begin_next_attempt(unheard.dataset, "request-2", timezone.now() + timedelta(seconds=30), "")
    repeat = Proposal.take(str(unheard.pk))
    assert repeat is not None
    assert repeat.prepare_resend(is_first_gone=False)
    assert row().sent_until == max(until, row().lease_until)
    repeat.mark_unknown()
    assert (row().submission, row().sent_until) == (Phase.UNKNOWN, until)
    assert not sending.is_not_found_final(row())


# --- External steps ---------------------------------------------------------------------------------------------------


def test_a_step_that_a_dead_worker_looked_at_is_looked_at_by_the_next(offer: Offer) -> None:
    """Before the fix, it waited for 45 s."""
    step = a_step(offer)
    [claimed] = pending.claim_due(BANK, 1)
    assert Step.objects.get().worker == leases.worker_id()
    later.end_dead_leases()
    assert pending.claim_due(BANK, 1) == []
    Step.objects.update(worker=dead_worker())
    later.end_dead_leases()
    assert [found.pk for found in pending.claim_due(BANK, 1)] == [step.pk]
    pending.put_off(claimed)
    assert Step.objects.get().worker == leases.worker_id(), "the dead one's late word does not count"


def test_only_claimed_rows_count_as_held(offer: Offer) -> None:
    """Before the fix, the running service's sweep process sometimes claimed the step first."""
    step = a_step(offer)
    assert not Step.held().exists()
    assert pending.claim_due(BANK, 1) == [step]
    assert Step.held().exists()
