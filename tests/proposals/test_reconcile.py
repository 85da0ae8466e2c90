"""Attempts and look-ups one by one: what is told of them, when they come, and what happens without a worker. What runs
later is noticed when it is due, costs little while nothing is, and ends before its worker does.

The code of web process and worker runs in this process, against the simulated bank over HTTP. That no order of events
sends twice or loses an outcome: tests/unit/proposals/test_model.py.
"""

import json
import signal
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import redis
from django.test import Client as DjangoClient
from django.utils import timezone

from consultas import pending
from consultas.models import Offer, Query, Step
from foundation import later, workers
from foundation.encryption import sealed
from partners.models import SANDBOX_KEY, Partner
from proposals import envelope, sending, sweep
from proposals.models import Cause, Proposal
from providers import operation
from providers.models import Circuit, Provider
from providers.types.proposal import BankProposal, ProposalStatus
from tests.factories import PartnerFactory, move_bank
from tests.leases import dead_worker, living_worker
from tests.plans import executed
from tests.processes import Programs, Simulator, wait_until
from tests.proposals.datasets import dataset
from tests.proposals.rows import a_proposal, a_step, an_offer, shown
from tests.providers.conftest import between
from tests.providers.samples import a_query
from tests.receiver import Received, Reply
from tests.transactions import at_once

Phase = Proposal.Submission
BANK = "aroeira"  # this bank does not deduplicate: sending twice makes two contracts


@pytest.fixture
def partner(sandbox: None) -> Partner:
    Provider.objects.update(timeout_s=2, circuit=Circuit.CLOSED)
    return Partner.objects.get(name="Parceiro Sandbox")


@pytest.fixture
def offer(partner: Partner, simulator: Simulator) -> Offer:
    """A real offer of the bank."""
    return offered(partner, BANK)


def offered(partner: Partner, bank: str) -> Offer:
    client = operation.client(bank, request_id="request-1", partner="partner-1", seconds=10)
    return an_offer(partner, bank, **vars(client.query(a_query()).offers[0]))


@pytest.fixture
def proposal(offer: Offer) -> Proposal:
    """A proposal whose attempt waits for a worker."""
    return waiting_attempt(offer)


def waiting_attempt(offer: Offer) -> Proposal:
    until = timezone.now() + timedelta(seconds=30)
    return a_proposal(offer, lease_until=until, due_at=until)


def change(proposal: Proposal, **values: Any) -> Proposal:
    if "next_dataset" in values:
        values["next_dataset"] = sealed(proposal, "next_dataset", values["next_dataset"])
    Proposal.objects.filter(pk=proposal.pk).update(**values)
    return Proposal.objects.get(pk=proposal.pk)


def unknown(proposal: Proposal, sent_ago: timedelta = timedelta(0)) -> Proposal:
    now = timezone.now()
    return change(proposal, submission=Phase.UNKNOWN, sent_until=now - sent_ago, due_at=now, lease_until=None)


def gap(proposal: Proposal) -> float:
    """Seconds until the next look-up."""
    row = Proposal.objects.get(pk=proposal.pk)
    return (row.due_at - timezone.now()).total_seconds()


def test_a_field_that_the_bank_refuses_is_told_by_the_contracts_name_and_the_code_as_a_reason(
    partner: Partner, simulator: Simulator
) -> None:
    """Before the fix, `field` was null, and a code of the bank was known to nobody: the reason was `other`."""

    def refusing(request: Received, reply: Reply) -> Reply:
        details = b'{"message": "x", "details": [{"code": "REQ-003", "message": "titular.nome_mae: formato invalido"}]}'
        return Reply(400, details) if request.path.endswith("/propostas") else reply

    proposal = waiting_attempt(offered(partner, "imbuia"))
    with between(simulator, "imbuia", refusing) as url:
        move_bank("imbuia", url)
        sending.run(str(proposal.pk))
    row = Proposal.objects.get()
    assert (row.status, row.reason["code"]) == ("rejected", "data_mismatch")
    shown = envelope.shown(row).error or {}
    assert (shown["code"], shown["field"]) == ("provider_rejected", "titular.nome_mae")
    assert set(shown) == {"code", "message", "retryable", "field"}


def test_looks_follow_the_schedule_while_the_bank_can_not_tell(proposal: Proposal) -> None:
    move_bank(BANK, "http://127.0.0.1:1")
    unknown(proposal, timedelta(hours=1))
    gaps = []
    for _ in range(6):
        sweep.reconcile(Proposal.objects.get())
        gaps.append(round(gap(proposal), -1))
    assert gaps == [30, 120, 600, 3600, 3600, 3600]
    assert Proposal.objects.get().submission == Phase.UNKNOWN


def test_looks_that_an_operator_wants_do_not_put_off_the_next_one(proposal: Proposal) -> None:
    """Before the fix, some clicks while the bank could not answer yet put the next look-up off by an hour."""
    unknown(proposal)
    for _ in range(4):
        sweep.hasten_unknown(Proposal.objects.all())
        sweep.reconcile(Proposal.objects.get())
        assert gap(proposal) <= 30


def test_the_first_look_is_after_5_s(proposal: Proposal, simulator: Simulator) -> None:
    simulator.bank(BANK, fault="reset", operation="submit")
    sending.run(str(proposal.pk))
    assert Proposal.objects.get().submission == Phase.UNKNOWN
    assert 3 < gap(proposal) <= 5


def post(offer: Offer) -> Any:
    """The answer to a submission of `offer`, whose request this process serves."""
    http = DjangoClient(headers={"X-Partner-Api-Key": SANDBOX_KEY})
    return http.post("/partners/v1/proposals", json.dumps(dataset(shown(offer))), content_type="application/json")


def test_without_a_worker_it_is_a_502_and_the_retry_is_not_held_up(
    offer: Offer, programs: Programs, simulator: Simulator, settings: Any, redis_url: str
) -> None:
    """Before the fix, each of many waiting requests published the task: one dead publisher led to fifty tasks."""
    programs.kill("banks")
    proposal = waiting_attempt(offer)
    settings.PROPOSAL_WAIT_S = 1
    assert {reply.status_code for reply in at_once(*[partial(post, offer)] * 8)} == {502}
    with redis.Redis.from_url(redis_url) as broker:
        tasks = [json.loads(each)["headers"]["task"] for each in broker.lrange("banks", 0, -1)]
    assert tasks.count("proposals.tasks.submit") == 1
    change(proposal, lease_until=timezone.now())
    lost = post(offer)
    assert (lost.status_code, lost.json()["code"]) == (502, "provider_unavailable")
    assert Proposal.objects.get().submission == Phase.NOT_SENT
    programs.ensure("banks")
    settings.PROPOSAL_WAIT_S = 30
    retry = post(offer)
    assert retry.status_code == 201, retry.content
    assert len(simulator.contracts(BANK)) == 1


def test_a_retry_sends_a_try_whose_task_never_came(
    offer: Offer, bank_worker: Programs, simulator: Simulator, settings: Any
) -> None:
    """The web process died before it published the task. Before the fix, the retry waited until the lease ended, and
    got 502."""
    proposal = waiting_attempt(offer)
    begun = timezone.now() - timedelta(seconds=10)
    change(proposal, lease_until=begun + timedelta(seconds=settings.PROPOSAL_WAIT_S))
    retry = post(offer)
    assert (retry.status_code, retry.json()["proposal_id"]) == (200, str(proposal.pk))
    assert len(simulator.contracts(BANK)) == 1


# --- What runs later ------------------------------------------------------------------------------------------------


def test_each_kind_of_work_is_noticed_when_it_is_due(db: None) -> None:
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
    with executed() as statements:
        later.tick()
    assert len(statements) == 2


def test_told_to_stop_it_finishes_the_look_that_is_under_way(
    sandbox: None, programs: Programs, simulator: Simulator
) -> None:
    simulator.bank("peroba", latency_ms=1500)
    step = a_step(an_offer(Partner.objects.get(), "peroba", cpf="90000000337"), due_at=timezone.now())
    programs.ensure("sweeps")
    workers.publish(Step.task, (), expires_s=60)
    wait_until(lambda: simulator.calls("peroba", "poll"), 20, "the bank is asked", lambda: programs.logs("sweeps"))
    programs.kill("sweeps", signal.SIGTERM)
    wait_until(lambda: not programs.is_running("sweeps"), 20, "it ends")
    step.refresh_from_db()
    assert (step.state, step.checks) == ("expired", 1), "the bank knows nothing of the step"


# --- A worker dies during a submission or a look-up ---------------------------------------------------------------


@pytest.fixture
def plain_offer(db: None) -> Offer:
    """Not of the running service's partner: its sweep process would claim the same due rows as these tests."""
    return an_offer(PartnerFactory(), "ipe")


@pytest.fixture
def taken(plain_offer: Offer) -> Proposal:
    """An attempt that a worker took and may be sending."""
    found = Proposal.take(str(waiting_attempt(plain_offer).pk))
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


def test_a_dead_look_is_made_again(plain_offer: Offer) -> None:
    now = timezone.now()
    a_proposal(plain_offer, Phase.UNKNOWN, sent_until=now, due_at=now)
    assert len(sweep.claim_due()) == 1
    Proposal.objects.update(worker=dead_worker())
    assert sweep.claim_due() == []
    later.end_dead_leases()
    assert len(sweep.claim_due()) == 1


def test_a_try_that_no_worker_took_waits_for_its_lease(plain_offer: Offer) -> None:
    waiting_attempt(plain_offer)
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


def test_only_claimed_rows_count_as_held(plain_offer: Offer) -> None:
    """Before the fix, the running service's sweep process sometimes claimed the step first."""
    step = a_step(plain_offer)
    assert not Step.held().exists()
    assert pending.claim_due() == [step]
    assert Step.held().exists()
