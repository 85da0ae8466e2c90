"""Submissions while bank, worker or web process fail. The reference is each bank's own ledger: one contract per
reference, or none if nothing arrived, and the service's row agrees."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redis
import requests
from django.utils import timezone

from config.local.servers import free_port
from proposals.models import Proposal
from providers import registry
from providers.models import Circuit, Provider
from tests.client import Client
from tests.factories import move_bank
from tests.faults.test_queries_end import REFUSED
from tests.front import put_behind
from tests.processes import LiveService, Outage, Simulator, wait_until
from tests.proposals.datasets import dataset

Phase = Proposal.Submission
#: Each occurs once at `submit`. The ledger says whether the bank did the work before it failed.
FAULTS = ("http_500", "http_503", "reset", "drop_after_accept", "half_body", "html", "garbage", "slow_body", "hang")
ARRIVED = {"drop_after_accept", "half_body", "slow_body"}
BANKS = registry.names()
WAIT_S = 40
LONG_AGO = timedelta(minutes=30)


@pytest.fixture(autouse=True)
def some_behind_a_front(live_service: LiveService) -> None:
    """Have every second bank demand a client certificate, and reach it through a proxy."""
    for bank in Provider.objects.filter(name__in=BANKS[::2]):
        put_behind(bank)


@pytest.fixture(autouse=True)
def no_breaker(live_service: LiveService) -> None:
    """Disable the breakers, so that every call meets its fault."""
    Provider.objects.update(circuit=Circuit.CLOSED)


def give_banks(seconds: int | None) -> None:
    """Set the banks' time-outs. None: the service's default."""
    Provider.objects.update(timeout_s=seconds)


def at_all_banks(work: Callable[[str], Any]) -> dict[str, Any]:
    """The results of `work` for each bank, all at the same time."""
    with ThreadPoolExecutor(len(BANKS)) as pool:
        return dict(zip(BANKS, pool.map(work, BANKS), strict=True))


def an_offer(client: Client, bank: str, amount: int = 3000) -> dict[str, Any]:
    """An offer of its own for each amount."""
    return client.offer(bank, loan_value=amount, prazo=24)


def is_unavailable(response: requests.Response) -> bool:
    error = response.json()
    return (response.status_code, error["code"], error["retryable"]) == (502, "provider_unavailable", True)


def all_called(simulator: Simulator, operation: str) -> Callable[[], bool]:
    return lambda: all(simulator.calls(bank, operation) for bank in BANKS)


def settle() -> None:
    """Return when no submission is open. Makes everything look as if sent long ago, and every check due; repeated every
    second, because a running check schedules the next one later."""
    wait_until(_is_settled, WAIT_S, "every submission is adopted or known not to have arrived", every_s=1)


def _is_settled() -> bool:
    past = timezone.now() - LONG_AGO
    open_ = Proposal.objects.filter(submission__in=(Phase.SENDING, Phase.UNKNOWN))
    open_.update(lease_until=past, due_at=past)
    open_.filter(sent_until__isnull=False).update(sent_until=past)
    return not open_.exists()


def ledgers_agree(simulator: Simulator) -> None:
    """One contract for each accepted row, none for any other, and no contract without a row."""
    for bank in BANKS:
        contracts = simulator.contracts(bank)
        rows = Proposal.objects.filter(provider=bank, submission=Phase.ACCEPTED)
        expected = {row.reference: row.native_id for row in rows}
        assert Counter(contract["reference"] for contract in contracts) == Counter(expected.keys()), bank
        assert {contract["reference"]: contract["contract"] for contract in contracts} == expected, bank


@pytest.mark.control("V2")
def test_every_bank_and_every_fault_ends_with_one_contract(client: Client, simulator: Simulator) -> None:
    bodies: dict[tuple[str, str], dict[str, Any]] = {}

    def choose(bank: str) -> None:
        for number, fault in enumerate(FAULTS):
            bodies[bank, fault] = dataset(an_offer(client, bank, 3000 + 100 * number))

    def fail_in_turn(bank: str) -> None:
        for fault in FAULTS:
            simulator.bank(bank, fault=fault, operation="submit", times=1)
            response = client.post("/proposals", bodies[bank, fault])
            assert is_unavailable(response), (bank, fault, response.text)
            simulator.bank(bank)

    at_all_banks(choose)
    give_banks(2)
    at_all_banks(fail_in_turn)
    give_banks(None)
    settle()
    ledgers_agree(simulator)
    rows = Proposal.objects.filter(submission=Phase.ACCEPTED)
    accepted = {(row.provider, row.dataset["offer_ref"]["offer_id"]) for row in rows}
    assert {row.moves.first().cause for row in rows} == {"reconcile"}, "the sweep adopts by itself"
    arrived = {(bank, body["offer_ref"]["offer_id"]) for (bank, fault), body in bodies.items() if fault in ARRIVED}
    assert accepted == arrived

    def ask_again(bank: str) -> None:
        for fault in FAULTS:
            response = client.post("/proposals", bodies[bank, fault])
            assert response.status_code == (200 if fault in ARRIVED else 201), (bank, fault, response.text)

    at_all_banks(ask_again)
    ledgers_agree(simulator)
    assert Proposal.objects.count() == len(bodies) == len(BANKS) * len(FAULTS)


@pytest.mark.control("API6")
def test_an_immediate_retry_never_makes_a_second_contract(client: Client, simulator: Simulator) -> None:
    """A bank that deduplicates may get the submission again once it has answered that it has none. Other banks must
    first get their longest time to find it."""

    def insist(bank: str) -> None:
        for number, fault in enumerate(("http_500", "drop_after_accept")):
            body = dataset(an_offer(client, bank, 3000 + 100 * number))
            simulator.bank(bank, fault=fault, operation="submit", times=1)
            assert is_unavailable(client.post("/proposals", body))
            retry = client.post("/proposals", body)
            adapter = registry.get(bank)
            if fault in ARRIVED or (adapter and adapter.deduplicates):
                assert retry.status_code in (200, 201), (bank, fault, retry.text)
            else:
                assert is_unavailable(retry), (bank, fault, retry.text)

    at_all_banks(insist)
    ledgers_agree(simulator)
    settle()
    ledgers_agree(simulator)


def test_a_refused_connection_is_not_sent_and_the_retry_is(client: Client, simulator: Simulator) -> None:
    bodies = at_all_banks(lambda bank: dataset(an_offer(client, bank)))
    addresses = dict(Provider.objects.values_list("name", "base_url"))
    for name in addresses:
        move_bank(name, f"http://127.0.0.1:{free_port()}")
    replies = at_all_banks(lambda bank: client.post("/proposals", bodies[bank]))
    assert all(is_unavailable(reply) for reply in replies.values()), replies
    assert set(Proposal.objects.values_list("submission", "sent_until")) == {(Phase.NOT_SENT, None)}
    assert client.get("/proposals").json() == {"proposals": [], "next_cursor": None}
    ledgers_agree(simulator)
    for name, address in addresses.items():
        move_bank(name, address)
    replies = at_all_banks(lambda bank: client.post("/proposals", bodies[bank]))
    assert {reply.status_code for reply in replies.values()} == {201}
    ledgers_agree(simulator)


@pytest.mark.parametrize(("point", "arrived"), [("after_commit", False), ("after_send", True), ("before_settle", True)])
def test_a_worker_that_is_killed_leaves_one_contract_at_every_bank(
    client: Client,
    simulator: Simulator,
    live_service: LiveService,
    point: str,
    arrived: bool,
) -> None:
    """The worker dies when a submission to each bank has reached that point. Two of them are then repeated with another
    account. The repeat is refused while the bank may have the first body, and once the bank is known to have it."""
    programs = live_service.programs
    offers = at_all_banks(lambda bank: an_offer(client, bank))
    account = "recebimento.conta_bancaria.conta"
    changed = ("ipe", "aroeira")  # one that deduplicates, and one that does not

    def post(bank: str, changes: dict[str, Any] | None = None) -> requests.Response:
        return client.post("/proposals", dataset(offers[bank], changes=changes))

    def refuses_another_account(bank: str) -> bool:
        response = post(bank, {account: "999990"})
        row = Proposal.objects.get(provider=bank)
        told = response.json()
        assert (response.status_code, told["code"], told["field"]) == (409, "invalid_state", account), response.text
        assert row.dataset["recebimento"]["conta_bancaria"]["conta"] == "567890"
        return bool(told["proposal_id"] == str(row.pk))

    # Each submission that waits for the others holds a connection.
    programs.restart("banks", CRASH_AT=f"{point}*{len(BANKS)}", DATABASE_POOL_SIZE=str(len(BANKS) + 1))
    live_service.wait_ready()
    replies = at_all_banks(post)
    # Waiting requests learn of the death at about the same time as the sweep, which may already know the outcome.
    assert all(is_unavailable(reply) for reply in replies.values() if not arrived or not reply.ok), replies
    assert not programs.is_running("banks")
    assert {bank: len(simulator.contracts(bank)) for bank in BANKS} == dict.fromkeys(BANKS, int(arrived))
    open_ = (Phase.SENDING, Phase.UNKNOWN, *([Phase.ACCEPTED] if arrived else []))
    rows = Proposal.objects.filter(submission__in=open_, taken_at__isnull=False, sent_until__isnull=False)
    assert rows.count() == len(BANKS)
    if point == "after_send":
        # Before the fix, nobody looked until the leases ended, 85 s after the death. The replies came 7 s after it.
        wait_until(all_called(simulator, "find"), 8, "every outcome is looked for within 15 s of the worker's death")
    assert all(map(refuses_another_account, changed))

    programs.restart("banks")
    live_service.wait_ready()
    settle()
    ledgers_agree(simulator)
    for bank in changed:
        if arrived:
            assert refuses_another_account(bank)
        else:
            assert post(bank, {account: "999990"}).status_code == 201
            row = Proposal.objects.get(provider=bank)
            assert row.dataset["recebimento"]["conta_bancaria"]["conta"] == "999990"
            assert post(bank).status_code == 409
    replies = at_all_banks(post)
    statuses = {bank: reply.status_code for bank, reply in replies.items()}
    assert statuses == {bank: 200 if arrived else 409 if bank in changed else 201 for bank in BANKS}
    ledgers_agree(simulator)
    assert {bank: len(simulator.contracts(bank)) for bank in BANKS} == dict.fromkeys(BANKS, 1)


def retries_find(client: Client, simulator: Simulator, bodies: dict[str, Any], proposals: dict[str, str]) -> None:
    """Check that each bank's body, sent again, is answered with the known proposal, and has reached the bank once."""
    for bank in BANKS:
        simulator.bank(bank)
    retries = at_all_banks(lambda bank: client.post("/proposals", bodies[bank]))
    assert {reply.status_code for reply in retries.values()} == {200}
    assert {bank: reply.json()["proposal_id"] for bank, reply in retries.items()} == proposals
    assert {bank: len(simulator.worked(bank, "submit")) for bank in BANKS} == dict.fromkeys(BANKS, 1)
    ledgers_agree(simulator)


def test_a_web_process_that_is_killed_while_it_waits_loses_nothing(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    bodies = at_all_banks(lambda bank: dataset(an_offer(client, bank)))
    for bank in BANKS:
        simulator.bank(bank, latency_ms=2500, operation="submit")

    def is_cut_off(bank: str) -> bool:
        with pytest.raises(requests.ConnectionError):
            client.post("/proposals", bodies[bank])
        return True

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(at_all_banks, is_cut_off)
        taken = Proposal.objects.filter(taken_at__isnull=False)
        wait_until(lambda: taken.count() == len(BANKS), WAIT_S, "a worker sends to every bank")
        live_service.programs.kill("web")
        waiting.result()
    accepted = Proposal.objects.filter(submission=Phase.ACCEPTED)
    wait_until(lambda: accepted.count() == len(BANKS), WAIT_S, "the outcomes are stored")
    live_service.programs.ensure("web")
    live_service.wait_ready()
    retries_find(client, simulator, bodies, {row.provider: str(row.pk) for row in accepted})


def test_a_database_that_is_away_when_the_banks_have_accepted_costs_time_only(
    client: Client, simulator: Simulator, live_service: LiveService, cut_database: Outage
) -> None:
    """Before the fix, the acceptance was lost with the connection: the partner got 502, and a retry waited for a
    look-up."""
    bodies = at_all_banks(lambda bank: dataset(an_offer(client, bank)))
    for bank in BANKS:
        simulator.bank(bank, latency_ms=2500, operation="submit")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(at_all_banks, lambda bank: client.post("/proposals", bodies[bank]))
        wait_until(all_called(simulator, "submit"), WAIT_S, "every bank is asked")
        told = len(live_service.programs.logs("banks"))
        with cut_database():
            wait_until(lambda: REFUSED in live_service.programs.logs("banks")[told:], 10, "a worker can't store")
        replies = waiting.result()
    assert {reply.status_code for reply in replies.values()} == {201}, replies
    retries_find(client, simulator, bodies, {bank: reply.json()["proposal_id"] for bank, reply in replies.items()})


def test_a_worker_whose_heartbeat_redis_forgot_is_not_taken_for_lost(
    client: Client, simulator: Simulator, redis_url: str
) -> None:
    body = dataset(an_offer(client, "ipe"))
    simulator.bank("ipe", latency_ms=4000, operation="submit")
    with ThreadPoolExecutor(1) as pool, redis.Redis.from_url(redis_url) as server:
        waiting = pool.submit(client.post, "/proposals", body)
        wait_until(lambda: simulator.calls("ipe", "submit"), WAIT_S, "a worker sends")

        def answered_though_redis_forgets() -> bool:
            server.flushdb()
            return waiting.done()

        wait_until(answered_though_redis_forgets, WAIT_S, "the partner has the answer", every_s=0.1)
        assert waiting.result().status_code == 201
