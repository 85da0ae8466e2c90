"""What POST /partners/v1/proposals refuses before it calls any bank. Faults of form, and what banks require:
tests/unit/proposals/test_dataset.py."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as DjangoClient
from django.utils import timezone

from consultas.models import Offer
from partners.models import Partner
from proposals import claim, submission
from proposals.dataset import to_bank
from proposals.models import BankCall, Cause, Proposal
from providers.types.proposal import BankProposal, ProposalStatus
from tests.client import FULL_FLOW, error_body
from tests.factories import PartnerFactory, http_of
from tests.proposals.datasets import LEFT_OUT, dataset
from tests.proposals.rows import a_proposal, a_step, accepted, an_offer, shown
from webhooks.models import Event

ROUTE = "/partners/v1/proposals"
OTHER_CPF = "52998224725"

DOCUMENT = {"documento.numero", "documento.orgao_emissor", "documento.uf_emissor", "documento.data_emissao"}


@pytest.fixture
def offer(partner: Partner) -> Offer:
    return an_offer(partner, "ipe")


def refused(http: DjangoClient, body: Any) -> dict[str, Any]:
    """The 422's error; nothing was written, so nothing was sent."""
    response = http.post(ROUTE, body, "application/json")
    assert response.status_code == 422, response.content
    error = response.json()
    assert (error["code"], error["retryable"]) == ("invalid_input", False)
    assert error["details"][0] == {"field": error["field"], "message": error["message"]}
    assert not Proposal.objects.exists()
    assert not BankCall.objects.exists()
    return error  # type: ignore[no-any-return]


def fields(error: dict[str, Any]) -> set[str]:
    return {detail["field"] for detail in error["details"]}


@pytest.mark.parametrize("bank", ["outro", "peroba"])
def test_a_bank_unknown_or_outside_the_contract_is_a_404(http: DjangoClient, partner: Partner, bank: str) -> None:
    offer = an_offer(partner, "peroba")
    partner.allow_only(["ipe"])
    response = http.post(ROUTE, dataset({**shown(offer), "provider": bank}), "application/json")
    assert response.status_code == 404
    assert response.json() == error_body("not_found", "Recurso não encontrado.")


def test_an_offer_is_found_for_its_partner_at_its_bank_alone(http: DjangoClient, offer: Offer) -> None:
    Offer.objects.filter(pk=offer.pk).update(earlier_native_ids=["N-0", "N-1"])
    theirs = http_of(PartnerFactory(providers=["ipe"]))
    names = (str(offer.pk), offer.native_offer_id, "N-1")
    for caller, provider, named in (
        *((theirs, "ipe", name) for name in names),
        *((http, "jatoba", name) for name in names),
        *((http, "ipe", name) for name in ("x", "1f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11", "z" * 36)),
    ):
        error = refused(caller, dataset({"provider": provider, "offerId": named}))
        assert fields(error) == {"offer_ref.offer_id"}


@pytest.mark.parametrize("names", [{"native_offer_id": "N-1"}, {"earlier_native_ids": ["N-1"]}])
@pytest.mark.parametrize("own", [{"native_offer_id": "N-1"}, {"earlier_native_ids": ["N-0", "N-1"]}])
def test_a_native_id_that_names_two_offers_does_not_resolve(
    http: DjangoClient, partner: Partner, offer: Offer, own: dict[str, Any], names: dict[str, Any]
) -> None:
    """Neither a newest identifier nor an earlier one of each."""
    Offer.objects.filter(pk=offer.pk).update(**own)
    other = an_offer(partner, "ipe", **names)
    body = dataset({**shown(offer), "offerId": "N-1"}, changes={"documento": LEFT_OUT})
    assert fields(refused(http, body)) == {"offer_ref.offer_id", *DOCUMENT}
    other.delete()
    assert fields(refused(http, body)) == DOCUMENT


def test_faults_of_form_offer_and_bank_are_named_in_one_round(http: DjangoClient, offer: Offer) -> None:
    """Before the fix, one bad phone hid what else the bank requires: each request reported only the next fault."""
    pix = {"pix": {"tipo_chave": "cpf", "chave": FULL_FLOW}}  # the offer's holder's, so no fault
    changes = {"contato.telefone": "1", "documento": LEFT_OUT, "recebimento": pix}
    error = refused(http, dataset(shown(offer), OTHER_CPF, changes=changes))
    assert [detail["field"] for detail in error["details"]] == [
        "contato.telefone",
        "titular.cpf",
        "documento.numero",
        "documento.orgao_emissor",
        "documento.uf_emissor",
        "documento.data_emissao",
    ]


def test_of_a_bank_outside_the_contract_only_the_form_is_checked(http: DjangoClient, partner: Partner) -> None:
    offer = an_offer(partner, "ipe")
    partner.allow_only(["jatoba"])
    error = refused(http, dataset(shown(offer), OTHER_CPF, changes={"documento": LEFT_OUT, "contato.telefone": "1"}))
    assert fields(error) == {"contato.telefone"}
    assert (
        http.post(ROUTE, dataset(shown(offer), changes={"documento": LEFT_OUT}), "application/json").status_code == 404
    )


def test_the_banks_rules_are_applied_where_the_offer_is_unknown(http: DjangoClient) -> None:
    error = refused(http, dataset({"provider": "ipe", "offerId": "unknown"}, changes={"documento.numero": "1" * 21}))
    assert [detail["field"] for detail in error["details"]] == ["offer_ref.offer_id", "documento.numero"]


def test_before_the_holder_authorized_it_is_the_offer_that_is_at_fault(http: DjangoClient, partner: Partner) -> None:
    offer = an_offer(partner, "peroba")
    a_step(offer, opened_at=timezone.now() + timedelta(seconds=1))
    error = refused(http, dataset(shown(offer)))
    assert fields(error) == {"offer_ref.offer_id"}


# --- The partner's own name, which is not sent to the bank and not compared -----------------------------------------

Phase = Proposal.Submission


def body(proposal: Proposal, **more: Any) -> dict[str, Any]:
    return {**dataset(shown(proposal.offer)), **more}


def test_a_repeat_with_another_name_is_no_other_submission_and_the_newest_counts(
    partner: Partner, http: DjangoClient
) -> None:
    proposal = accepted(an_offer(partner, "ipe"), ProposalStatus.CREATED)
    for sent, kept in (("order:7", "order:7"), ("order-8._x", "order-8._x"), (None, "order-8._x")):
        reply = http.post(ROUTE, body(proposal, partner_reference=sent), "application/json")
        assert (reply.status_code, reply.json()["partner_reference"]) == (200, kept)
    reply = http.post(ROUTE, body(proposal), "application/json")
    assert (reply.status_code, reply.json()["partner_reference"]) == (200, "order-8._x")
    Proposal.objects.get().absorb(BankProposal("N-1", "paid", ProposalStatus.DISBURSED), Cause.REFRESH)
    reply = http.post(ROUTE, body(proposal), "application/json")
    assert (reply.status_code, reply.json()["status"]) == (200, "disbursed")
    names = {event.name: json.loads(event.body)["partner_reference"] for event in Event.objects.all()}
    assert names == {
        "proposal.created": None,
        "proposal.awaiting_signature": "order-8._x",
        "proposal.disbursed": "order-8._x",
    }


def test_a_refused_repeat_changes_no_name(partner: Partner, http: DjangoClient) -> None:
    proposal = a_proposal(an_offer(partner, "ipe"), Phase.ACCEPTED, native_id="N-1", partner_reference="order:7")
    other = dataset(shown(proposal.offer), changes={"titular.nome": "Outra Pessoa"})
    reply = http.post(ROUTE, {**other, "partner_reference": "order:8"}, "application/json")
    assert (reply.status_code, reply.json()["field"]) == (409, "titular.nome")
    assert Proposal.objects.get().partner_reference == "order:7"


@pytest.mark.parametrize(
    "route", ["consultas", "consultas/stream", "providers/ipe/consultas", "authorizations", "proposals"]
)
def test_a_name_that_is_a_cpf_is_refused_on_each_route(http: DjangoClient, route: str) -> None:
    """Before the fix, it was stored in the clear and indexed, and no erasure found it."""
    reply = http.post(f"/partners/v1/{route}", {"partner_reference": "529.982.247-25"}, "application/json")
    faults = {each["field"]: each["message"] for each in reply.json()["details"]}
    assert reply.status_code == 422
    assert "CPF" in faults["partner_reference"]


@pytest.mark.parametrize("phase", [Phase.NOT_SENT, Phase.UNKNOWN])
def test_the_name_comes_with_the_try_and_is_no_part_of_the_dataset(
    partner: Partner, phase: Proposal.Submission
) -> None:
    offer = an_offer(partner, "ipe")
    told = {**dataset(shown(offer)), "partner_reference": "order:7"}
    first, is_ours = claim.claim_attempt(offer, *submission._split(told), "request-1")
    assert is_ours
    assert first.partner_reference == "order:7"
    sent = timezone.now() - timedelta(hours=1) if phase == Phase.UNKNOWN else None
    Proposal.objects.update(submission=phase, lease_until=None, sent_until=sent)
    claim.claim_attempt(offer, *submission._split({**told, "partner_reference": "order:8"}), "request-2")
    row = Proposal.objects.get()
    assert (row.partner_reference, row.attempts) == ("order:8", 2)
    for kept in (row.dataset, row.next_dataset or {}):
        assert "partner_reference" not in kept
    assert "order:8" not in str(to_bank(row.dataset, row.offer, reference=row.reference))
    Proposal.objects.update(submission=phase, lease_until=None)
    claim.claim_attempt(offer, *submission._split(dataset(shown(offer))), "request-3")
    assert Proposal.objects.get().partner_reference == "order:8"
