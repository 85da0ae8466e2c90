"""POST /partners/v1/proposals; and a second submission of one offer."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest.mock import ANY
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.test import Client as DjangoClient

from consultas.models import Offer
from foundation.errors import InvalidInput
from partners.models import SANDBOX_KEY
from proposals import claim, submission
from proposals.models import BankCall, Cause, Move, Proposal
from providers.types.proposal import BankProposal, ProposalStatus
from tests.client import Client, error_body, query_body
from tests.factories import PartnerFactory
from tests.processes import Programs, Simulator, wait_until
from tests.proposals import rows
from tests.proposals.datasets import JUST_SUBMITTED, dataset

IN_PROGRESS = "90000001490"
EXPIRED_TABLE = "90000001570"


def test_a_proposal_whole(client: Client, simulator: Simulator) -> None:
    offer = client.offer("ipe")
    response = client.post("/proposals", dataset(offer))
    assert response.status_code == 201, response.text
    body = response.json()
    [contract] = simulator.contracts("ipe")
    assert body == {
        "proposal_id": ANY,
        "partner_reference": None,
        "provider": "ipe",
        "status": "created",
        "offer": offer,
        **JUST_SUBMITTED,
        "error": None,
        "provider_data": {"nativeProposalId": contract["contract"], "nativeStatus": "pending_formalization"},
        "created_at": ANY,
        "updated_at": ANY,
    }
    assert UUID(body["proposal_id"])
    assert body["created_at"].endswith("Z")
    row = Proposal.objects.get(pk=body["proposal_id"])
    assert contract["reference"] == row.reference
    assert [call["request_id"] for call in simulator.worked("ipe", "submit")] == [response.headers["X-Request-Id"]]
    assert list(row.calls.values_list("operation", "outcome")) == [("submit", "ok")]
    assert list(row.moves.values_list("from_status", "to_status", "cause")) == [("", "created", "submit")]
    again = client.post("/proposals", dataset(offer))
    assert (again.status_code, again.json()) == (200, body)
    assert len(simulator.worked("ipe", "submit")) == 1, "a repeat calls nobody"
    assert client.query_one("ipe")["proposal_id"] == body["proposal_id"]


def test_every_identifier_that_the_bank_ever_gave_the_offer_names_it(client: Client, simulator: Simulator) -> None:
    """Before the fix, only the newest one did: after a new query, the identifier that the partner had stored was
    unknown."""
    parameters = {"providers": ["ipe"], "prazo": 24}
    shown = [client.query(**parameters)["proposals"][0] for _ in range(3)]
    natives = [offer["providerData"]["nativeOfferId"] for offer in shown]
    assert len({offer["offerId"] for offer in shown}) == 1
    assert len(set(natives)) == 3
    first = client.post("/proposals", dataset({**shown[0], "offerId": natives[0]}))
    assert first.status_code == 201, first.text
    for native in natives:
        assert client.post("/proposals", dataset({**shown[0], "offerId": native})).json() == first.json()
    [call] = simulator.worked("ipe", "submit")
    assert natives[2] in call["body"]
    assert list(Offer.objects.values_list("earlier_native_ids", flat=True).filter(native_offer_id=natives[2])) == [
        natives[:2]
    ]


def test_a_refusal_bears_the_banks_own_message_and_the_offer_may_be_submitted_again_with_the_same_or_other_data(
    client: Client, simulator: Simulator
) -> None:
    offer = client.offer("ipe", IN_PROGRESS)
    refusal = error_body("provider_rejected", "Ja existe contrato em andamento para este cliente.")
    why = {"code": "existing_contract", "source": "bank", "message": refusal["message"], "retryable": False}
    for changes in ({}, {"recebimento.conta_bancaria.conta": "999990"}):
        response = client.post("/proposals", dataset(offer, IN_PROGRESS, changes))
        [row, *earlier] = client.read("/proposals")["proposals"]
        told = {**refusal, "proposal_id": row["proposal_id"], "reason": why}
        assert (response.status_code, response.json()) == (422, told)
        assert (row["status"], row["error"], row["reason"]) == ("rejected", refusal, why)
        assert row["proposal_id"] not in [each["proposal_id"] for each in earlier]
    moves = Move.objects.values_list("from_status", "to_status")
    assert sorted(moves) == [("", "created")] * 2 + [("created", "rejected")] * 2
    assert (len(simulator.calls("ipe", "submit")), simulator.contracts("ipe")) == (2, [])
    assert client.query_one("ipe", IN_PROGRESS)["proposal_id"] is None


def test_a_refusal_met_by_many_is_told_to_all(client: Client, simulator: Simulator) -> None:
    body = dataset(client.offer("ipe", IN_PROGRESS), IN_PROGRESS)
    simulator.bank("ipe", latency_ms=1500, operation="submit")
    with ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(lambda _: client.post("/proposals", body), range(10)))
    assert {(reply.status_code, reply.json()["code"]) for reply in replies} == {(422, "provider_rejected")}
    assert len(simulator.calls("ipe", "submit")) == Proposal.objects.count() == 1


def test_a_retry_with_other_evidence_tells_of_what_the_bank_has(client: Client, simulator: Simulator) -> None:
    """The bank took the first body, so the row and the delivery in the answer are the first's."""
    offer = client.offer("ipe")
    simulator.bank("ipe", fault="drop_after_accept", operation="submit", times=1)
    first = dataset(offer, changes={"evidencia.tipo_envio": "sms"})
    assert client.post("/proposals", first).status_code == 502
    other = {"evidencia.ip": "203.0.113.8", "evidencia.tipo_envio": "whatsapp"}
    assert client.post("/proposals", dataset(offer, changes=other)).status_code == 200
    row = Proposal.objects.get()
    assert (row.dataset["evidencia"], row.channel, row.next_dataset) == (first["evidencia"], "sms", None)
    action = client.post(f"/proposals/{row.pk}/formalize").json()["action"]
    assert action["delivery"] == {"channel": "sms", "destination": "(11) *****-4321"}


def test_a_retry_with_other_evidence_is_sent_with_it_where_the_bank_has_nothing(
    client: Client, simulator: Simulator
) -> None:
    offer = client.offer("ipe")
    simulator.bank("ipe", fault="reset", operation="submit", times=1)
    assert client.post("/proposals", dataset(offer)).status_code == 502
    assert client.post("/proposals", dataset(offer, changes={"evidencia.tipo_envio": "sms"})).status_code == 201
    row = Proposal.objects.get()
    assert (row.channel, row.next_dataset) == ("sms", None)
    assert '"sms"' in simulator.worked("ipe", "submit")[-1]["body"]


def test_aroeira_table_no_longer_eligible_is_offer_expired(client: Client, simulator: Simulator) -> None:
    """Before the fix, `replacement` was an offer of the same answer, which had expired with this one."""
    offer, _ = client.query(EXPIRED_TABLE, providers=["aroeira"])["proposals"]
    response = client.post("/proposals", dataset(offer, EXPIRED_TABLE))
    assert response.status_code == 409, response.text
    [listed] = client.get("/proposals?status=expired").json()["proposals"]
    assert listed["error"] == error_body("offer_expired", "A oferta não está mais disponível. Faça uma nova consulta.")
    assert listed["reason"]["code"] == "offer_expired"
    more = {"proposal_id": listed["proposal_id"], "reason": listed["reason"], "replacement": None}
    assert response.json() == {**listed["error"], **more}
    assert simulator.calls("aroeira", "submit") == []


def test_another_partner_may_submit_the_same_holder(client: Client, stranger: Client, simulator: Simulator) -> None:
    """Each has offers of its own, even of the same amount."""
    mine, theirs = ((each, each.offer("ipe")) for each in (client, stranger))
    assert mine[1]["loanValue"] == theirs[1]["loanValue"]
    assert mine[1]["offerId"] != theirs[1]["offerId"]
    assert [each.post("/proposals", dataset(offer)).status_code for each, offer in (mine, theirs)] == [201, 201]
    assert len(simulator.contracts("ipe")) == 2


def test_a_late_answer_is_kept_and_the_retry_returns_it_without_a_call(
    bank_worker: Programs, simulator: Simulator, settings: Any
) -> None:
    http = DjangoClient(headers={"X-Partner-Api-Key": SANDBOX_KEY})

    def post(path: str, body: Any) -> Any:
        return http.post(f"/partners/v1{path}", json.dumps(body), content_type="application/json")

    offer = post("/consultas", query_body(providers=["aroeira"])).json()["proposals"][0]
    simulator.bank("aroeira", latency_ms=2500, operation="submit")
    settings.PROPOSAL_WAIT_S = 1
    late = post("/proposals", dataset(offer))
    assert (late.status_code, late.json()["code"], late.json()["retryable"]) == (502, "provider_unavailable", True)
    wait_until(lambda: Proposal.objects.get().submission == "accepted", 10, "the late answer is stored")
    calls = BankCall.objects.count()
    retry = post("/proposals", dataset(offer))
    assert (retry.status_code, retry.json()["proposal_id"]) == (200, str(Proposal.objects.get().pk))
    assert BankCall.objects.count() == calls
    assert len(simulator.contracts("aroeira")) == 1


def test_the_replacement_is_the_nearest_offer_of_the_newest_query(client: Client) -> None:
    offer = client.offer("ipe", loan_value=5000, prazo=24, with_insurance=False)
    wish = {"providers": ["ipe", "jatoba"], "loan_value": 4000, "prazo": 36}
    newer = [each for each in client.query(**wish)["proposals"] if each["provider"] == "ipe"]
    Offer.objects.filter(pk=offer["offerId"]).update(native_offer_id="7c1d8f8e-0000-4000-8000-000000000000")
    told = client.post("/proposals", dataset(offer)).json()
    assert told["replacement"] == next(each for each in newer if not each["withInsurance"])
    assert client.post("/proposals", dataset(told["replacement"])).status_code == 201


def test_a_repeated_query_does_not_give_an_expired_offer_again(client: Client, simulator: Simulator) -> None:
    """Before the fix, the same query within 60 s reused the bank's answer: the partner, told to query again, got the
    offer that the bank no longer had."""
    offer = client.offer("ipe")
    Offer.objects.filter(pk=offer["offerId"]).update(native_offer_id="7c1d8f8e-0000-4000-8000-000000000000")
    refused = client.post("/proposals", dataset(offer))
    assert (refused.status_code, refused.json()["code"]) == (409, "offer_expired")
    again = client.offer("ipe")
    assert again["offerId"] == offer["offerId"]
    assert len(simulator.calls("ipe", "query")) == 2
    assert client.post("/proposals", dataset(again)).status_code == 201


@contextmanager
def away_at_first() -> Iterator[None]:
    """The first statement fails, as during a restart of the database."""
    faults = iter([OperationalError])

    def execute(proceed: Any, *statement: Any) -> Any:
        if fault := next(faults, None):
            raise fault
        return proceed(*statement)

    with connection.execute_wrapper(execute):
        yield
    assert next(faults, "used up") == "used up"


@pytest.mark.django_db(transaction=True)
def test_a_wait_for_an_outcome_and_the_outcome_outlast_a_restart_of_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the fix, a look in that moment was answered with 500, and an acceptance was lost."""
    offer = rows.an_offer(PartnerFactory(), "ipe")
    proposal, _ = claim.claim_attempt(offer, dataset(rows.shown(offer)), "", "request-1")
    monkeypatch.setattr(submission.workers, "hear", lambda *_, **__: iter([None]))
    with away_at_first():
        submission._await_outcome(proposal, time.monotonic() + 1, publishes=True)
    with away_at_first():
        proposal.adopt(BankProposal("N-1", "new", ProposalStatus.CREATED), Cause.SUBMIT)
    assert Proposal.objects.get().submission == "accepted"


@pytest.mark.django_db(transaction=True)
def test_a_submission_whose_offer_went_meanwhile_is_refused() -> None:
    """It is not retried for ever: no other request stored the row that is missing."""
    partner = PartnerFactory()
    offer = rows.an_offer(partner, "ipe")
    Offer.objects.filter(pk=offer.pk).delete()
    with pytest.raises(InvalidInput) as refusal:
        claim.claim_attempt(offer, dataset(rows.shown(offer)), "", "request-1")
    assert refusal.value.field == "offer_ref.offer_id"
    assert not Proposal.objects.exists()


# --- A second submission: the same dataset is the same proposal, a changed one is refused ---------------------------

Phase = Proposal.Submission
ACCOUNT_NUMBER = "recebimento.conta_bancaria.conta"


def changed(offer: dict[str, Any]) -> dict[str, Any]:
    """The submission of `offer` with another account for the money."""
    return dataset(offer, changes={ACCOUNT_NUMBER: "999990"})


def refusal(proposal: Proposal, *, accepted: bool = True) -> dict[str, Any]:
    """The refusal of another account. `accepted`: the bank already had the proposal."""
    known = {"status": proposal.status, "next_actions": ["formalize", "cancel"]}
    if proposal.provider != "ipe":  # the only bank that cancels
        known["next_actions"] = ["formalize"]
    return {
        "code": "invalid_state",
        "message": (
            f"A proposta {proposal.pk} desta oferta já foi enviada, ou está em envio, com outro valor neste campo. "
            "Nada foi alterado."
        ),
        "retryable": False,
        "field": ACCOUNT_NUMBER,
        "proposal_id": str(proposal.pk),
        **(known if accepted else {}),
    }


def test_another_account_for_an_accepted_proposal_is_refused(client: Client, simulator: Simulator) -> None:
    """Before the fix, the answer was 200 with the first proposal, and the money went to the first account."""
    offer = client.offer("ipe")
    first = client.post("/proposals", dataset(offer)).json()
    before = Proposal.objects.get()
    response = client.post("/proposals", changed(offer))
    assert (response.status_code, response.json()) == (409, refusal(before))
    after = Proposal.objects.get()
    assert (after.dataset, after.next_dataset, after.updated_at) == (before.dataset, None, before.updated_at)
    [worked] = simulator.worked("ipe", "submit")
    assert json.loads(worked["body"])["disbursement"]["bank_account"]["account_number"] == "567890"
    assert client.post("/proposals", dataset(offer)).json() == first


def test_after_an_unknown_outcome_only_the_same_data_may_be_sent_again(client: Client, simulator: Simulator) -> None:
    """The bank may have the first body: no second one may be sent, and the service may not choose silently."""
    for bank, fault in (("ipe", "drop_after_accept"), ("ipe", "reset"), ("aroeira", "http_500")):
        Proposal.objects.all().delete()
        offer = client.offer(bank)
        simulator.bank(bank, fault=fault, operation="submit", times=1)
        lost = client.post("/proposals", dataset(offer))
        row = Proposal.objects.get()
        assert (lost.status_code, lost.json()["proposal_id"]) == (502, str(row.pk))
        calls = BankCall.objects.count()
        response = client.post("/proposals", changed(offer))
        assert (response.status_code, response.json()) == (409, refusal(row, accepted=False)), (bank, fault)
        assert BankCall.objects.count() == calls
        row = Proposal.objects.get()
        assert (row.submission, row.next_dataset, row.attempts) == (Phase.UNKNOWN, None, 1)


def test_a_replacement_is_not_answered_with_the_submission_that_arrived_after_all(
    client: Client, simulator: Simulator
) -> None:
    """The look-up before the second attempt finds the first body at the bank: the partner who sent other data must
    learn that the contract does not have them."""
    offer = client.offer("ipe")
    simulator.bank("ipe", fault="drop_after_accept", operation="submit", times=1)
    assert client.post("/proposals", dataset(offer)).status_code == 502
    Proposal.objects.update(submission=Phase.NOT_SENT, due_at=None)
    response = client.post("/proposals", changed(offer))
    row = Proposal.objects.get()
    assert (response.status_code, response.json()) == (409, refusal(row))
    assert (row.submission, row.dataset["recebimento"]["conta_bancaria"]["conta"]) == (Phase.ACCEPTED, "567890")
    assert row.moves.last().cause == "reconcile"
    assert client.post("/proposals", dataset(offer)).status_code == 200
    assert len(simulator.contracts("ipe")) == 1


@pytest.mark.parametrize("bank", ["aroeira", "ipe"])  # one that does not deduplicate, and one that does
def test_of_fifty_equal_and_unequal_ones_at_once_one_is_the_contract(
    client: Client, simulator: Simulator, bank: str
) -> None:
    offer = client.offer(bank)
    bodies = [dataset(offer, changes={ACCOUNT_NUMBER: str(700000 + number % 3)}) for number in range(50)]
    simulator.bank(bank, latency_ms=300, operation="submit")
    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda body: client.post("/proposals", body), bodies))
    row = Proposal.objects.get()
    won = row.dataset["recebimento"]["conta_bancaria"]["conta"]
    assert len(simulator.contracts(bank)) == 1
    assert sum(reply.status_code == 201 for reply in replies) == 1
    for body, reply in zip(bodies, replies, strict=True):
        if body["recebimento"]["conta_bancaria"]["conta"] == won:
            assert reply.status_code in (200, 201)
            assert reply.json()["proposal_id"] == str(row.pk)
        else:
            assert reply.status_code == 409
            assert reply.json() in (refusal(row, accepted=False), refusal(row))
