"""The erasure of a holder and its page in the back office: what is erased, what stays as proof, and what must be
repeated later. Erasures are done again after a restore of an older backup, from a list without CPFs."""

import io
import json
import time
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse_lazy
from django.utils import timezone

from authorizations import dossier, evidence, seal, sessions
from authorizations.evidence import BrowserReport
from authorizations.models import Evidence, Session
from consultas import pending
from consultas.models import Answer, Offer, Query, Step
from consultas.query import end
from foundation.encryption import blind_index
from foundation.errors import NotFound
from foundation.models import AuditEntry
from partners.models import Partner
from proposals import retention
from proposals.models import BankCall, Erasure, ErasureRequest, Proposal
from providers.errors import ProviderRejected
from providers.types.query import BankResult, QueryStatus, StepOutcome
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory
from tests.operators import operator_with, press, printed
from tests.proposals.rows import a_proposal, a_step, accepted, an_offer
from tests.proposals.test_retention import SEEN, an_evidence
from tests.transactions import elsewhere, somebody_waits
from webhooks import outbox
from webhooks.models import Event

OTHER = "90000000256"
NAME, PHONE = "Maria da Silva", "11987654321"
FLOORS = ("partners", "webhooks", "authorizations", "consultas", "proposals")
NOTHING_ERASED = dict.fromkeys(
    ("proposals", "steps", "offers", "queries", "answers", "sessions", "masked_sessions", "events"), 0
)
NO_MATTER = {"proposals.Erasure": ""}
NOTHING_LEFT = {"proposals": 0, "queries": 0}
LIST = "/admin/proposals/erasure/"
FORM = reverse_lazy("admin:proposals_erasure_erase")


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(
        providers=["ipe"],
        webhook_events=["lead", "query.completed", "authorization_result", "authorization.completed", "proposal"],
    )


def erase() -> Erasure:
    return retention.erase(FULL_FLOW, "maria")


def an_answered_offer(partner: Partner, cpf: str = FULL_FLOW) -> Offer:
    """An offer whose query has ended, and whose `lead` was sent to the partner."""
    offer = an_offer(partner, "ipe", cpf)
    Query.objects.filter(pk=offer.query_id).update(simulation_group=offer.query_id)
    offer.query.simulation_group = offer.query_id
    end.end(offer.query, [Answer("ipe", QueryStatus.NO_OFFERS, 10, time.time())])
    outbox.send(partner, "lead", str(offer.query_id), {"cpf": cpf})
    return offer


def an_accepted_session(partner: Partner, cpf: str = FULL_FLOW) -> Session:
    return an_evidence(partner, cpf, "query-1", call="query").session


def refused(offer: Offer) -> Proposal:
    proposal = a_proposal(offer)
    proposal.refuse(ProviderRejected("Margem insuficiente."))
    BankCall.objects.create(proposal=proposal, operation="submit", outcome="provider_rejected", request_id="r")
    return proposal


def stored() -> dict[str, str]:
    """All rows of the service's tables, decrypted, by table."""

    def read(row: Model) -> dict[str, Any]:
        return {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}

    models = [model for model in apps.get_models() if model._meta.app_label in FLOORS]
    return {model._meta.label: repr([read(row) for row in model._base_manager.all()]) for model in models}


def tables_with(text: str) -> set[str]:
    return {label for label, rows in stored().items() if text in rows}


@pytest.mark.control("LGPD 18")
def test_everything_of_a_holder_without_a_contract_goes(partner: Partner) -> None:
    """Before the fix, `query.completed` about a query without offers stayed, and could be sent again."""
    an_answered_offer(partner)
    an_answered_offer(PartnerFactory(webhook_events=["lead"]))
    refused(an_answered_offer(partner))
    a_proposal(an_answered_offer(partner), Proposal.Submission.NOT_SENT)
    a_step(an_answered_offer(partner))
    a_step(an_answered_offer(partner), state="approved", closed_at=timezone.now(), due_at=None)
    sessions.open_session(Session(partner=partner, cpf=FULL_FLOW, name=NAME, phone=PHONE))
    outbox.send(partner, "authorization_result", FULL_FLOW, {"cpf": FULL_FLOW})
    assert tables_with(FULL_FLOW)
    queries = list(map(str, Query.objects.values_list("pk", flat=True)))
    index, before = blind_index("cpf", FULL_FLOW), timezone.now()

    told = erase()

    assert told.erased == {
        "proposals": 2,
        "steps": 2,
        "offers": 6,
        "queries": 6,
        "answers": 0,
        "sessions": 1,
        "masked_sessions": 0,
        "events": 14,
    }
    assert told.kept == {"proposals": 0, "offers": 0, "queries": 0, "evidence": 0, "events": 0}
    assert told.left == NOTHING_LEFT
    row = Erasure.objects.get()
    assert before <= row.at <= timezone.now()
    assert (row.by, row.cpf_index) == ("maria", index)
    assert (row.erased, row.kept, row.left) == (told.erased, told.kept, told.left)
    assert not Event.objects.filter(purged_at=None).exists(), "those of the refused proposal went too"
    for personal in (FULL_FLOW, NAME, PHONE, *queries):
        assert tables_with(personal) == set()
    assert tables_with(index) == {"proposals.Erasure"}


@pytest.mark.control("LGPD 18")
def test_what_proves_a_contract_or_an_authorization_stays_readable(partner: Partner) -> None:
    session = an_accepted_session(partner)
    proposal = accepted(an_answered_offer(partner))
    before = Proposal.objects.values().get()
    record = Evidence.objects.values().get()
    sibling = an_answered_offer(partner)
    Offer.objects.filter(pk=sibling.pk).update(query=proposal.offer.query)

    told = erase()

    assert told.kept == {"proposals": 1, "offers": 1, "queries": 1, "evidence": 1, "events": 2}
    assert told.erased == NOTHING_ERASED | {
        "offers": 1,
        "queries": 1,
        "answers": 1,
        "masked_sessions": 1,
        "events": 5,
    }
    assert Proposal.objects.values().get() == before
    kept = Offer.objects.select_related("query").get()
    assert (kept.live_proposal_id, kept.query.holder.cpf) == (proposal.pk, FULL_FLOW)
    assert kept.query.stored_answers() == []
    # The evidence, its chain and its dossier, which names the uses of the evidence.
    assert Evidence.objects.values().get() == record
    assert printed("verify_evidence")["valid"] is True
    taken = Evidence.objects.select_related("session__terms").get()
    assert taken.content["declared_by_partner"]["cpf"] == FULL_FLOW
    archive = dossier.export(taken, "maria")
    problems, _ = dossier.verify(archive, seal.trusted_keys())
    assert problems == []
    with zipfile.ZipFile(io.BytesIO(archive)) as package:
        assert [use["reference"] for use in json.loads(package.read(dossier.USES))] == ["query-1"]
    # The session has no data of the holder any more, but is still found for the evidence.
    session.refresh_from_db()
    assert (session.cpf, session.name, session.phone, session.masked_cpf) == ("***", "***", "***", "***")
    assert session.cpf_index == blind_index("cpf", FULL_FLOW)
    # The contract's own events have no data of the holder: they are still delivered.
    assert set(Event.objects.filter(state="due").values_list("name", flat=True)) == {
        "proposal.created",
        "proposal.awaiting_signature",
    }


def test_no_row_that_stays_keeps_what_the_partner_named_it(partner: Partner) -> None:
    """Before the fix, a reference with a CPF inside stayed in the clear."""
    proposal = accepted(an_answered_offer(partner))
    session = an_accepted_session(partner)
    rows: list[Model] = [proposal, proposal.offer.query, session, *Event.objects.filter(name__startswith="proposal.")]
    assert len(rows) == 5
    for row in rows:
        type(row)._base_manager.filter(pk=row.pk).update(partner_reference=f"order:{FULL_FLOW}")
    erase()
    for row in rows:
        row.refresh_from_db()
        assert row.partner_reference == ""  # type: ignore[attr-defined]


def test_other_holders_are_not_touched(partner: Partner) -> None:
    an_answered_offer(partner, OTHER)
    refused(an_answered_offer(partner, OTHER))
    a_step(an_answered_offer(partner, OTHER))
    an_accepted_session(partner, OTHER)
    sessions.open_session(Session(partner=partner, cpf=OTHER, name=NAME, phone=PHONE))
    outbox.send(partner, "authorization_result", OTHER, {"cpf": OTHER})
    before = stored()
    assert erase().erased == NOTHING_ERASED
    assert {**stored(), **NO_MATTER} == {**before, **NO_MATTER}


def test_running_it_twice_changes_nothing_more(partner: Partner) -> None:
    an_accepted_session(partner)
    accepted(an_answered_offer(partner))
    refused(an_answered_offer(partner))
    erase()
    before = stored()
    again = erase()
    assert (again.erased, again.left) == (NOTHING_ERASED, NOTHING_LEFT)
    assert {**stored(), **NO_MATTER} == {**before, **NO_MATTER}
    assert Erasure.objects.count() == 2, "each request of a holder is answered, and noted"


def test_a_running_query_is_left_and_goes_the_next_time(partner: Partner) -> None:
    running = an_offer(partner, "ipe").query
    a_step(an_offer(partner, "ipe"))
    first = erase()
    assert first.left == {"proposals": 0, "queries": 2}
    end.end(running, [])
    Query.objects.exclude(pk=running.pk).update(deadline_at=timezone.now() - timedelta(minutes=2))  # its process died
    second = erase()
    assert (second.erased["queries"], second.left) == (2, NOTHING_LEFT)
    assert not Step.objects.exists()


@pytest.mark.parametrize("phase", [Proposal.Submission.SENDING, Proposal.Submission.UNKNOWN])
def test_a_submission_whose_outcome_is_unknown_is_left_whole(partner: Partner, phase: Proposal.Submission) -> None:
    proposal = a_proposal(an_answered_offer(partner), phase)
    assert erase().left == {"proposals": 1, "queries": 0}
    left = Proposal.objects.select_related("offer__query").get()
    assert (left.pk, left.dataset) == (proposal.pk, proposal.dataset)
    assert left.offer.query.holder.cpf == FULL_FLOW
    Proposal.objects.update(submission=Proposal.Submission.NOT_SENT)
    assert erase().left == NOTHING_LEFT
    assert tables_with(FULL_FLOW) == set()


def test_a_check_of_a_step_under_way_keeps_nothing_and_tells_nobody(partner: Partner) -> None:
    offer = an_answered_offer(partner)
    a_step(offer)
    [under_way] = pending.claim_due()
    erase()
    found = BankResult(status=QueryStatus.OK, offers=(offer.as_bank_offer(),))
    assert pending.settle(under_way, StepOutcome.APPROVED, found) is False
    assert tables_with(FULL_FLOW) == set()
    assert not Offer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_acceptance_that_meets_an_erasure_finds_the_link_gone() -> None:
    session, _ = sessions.open_session(Session(partner=PartnerFactory(), cpf=FULL_FLOW, name=NAME, phone=PHONE))
    with elsewhere(lambda: retention.erase(FULL_FLOW, "maria"), until=somebody_waits), pytest.raises(NotFound):
        evidence.accept(session.authorization_id, SEEN, BrowserReport())
    assert not Evidence.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_erasure_that_meets_an_acceptance_keeps_its_evidence() -> None:
    session, _ = sessions.open_session(Session(partner=PartnerFactory(), cpf=FULL_FLOW, name=NAME, phone=PHONE))
    with elsewhere(lambda: evidence.accept(session.authorization_id, SEEN, BrowserReport()), until=somebody_waits):
        erasure = retention.erase(FULL_FLOW, "maria")
    assert (erasure.erased["sessions"], erasure.erased["masked_sessions"], erasure.kept["evidence"]) == (0, 1, 1)
    assert Evidence.objects.get().content["declared_by_partner"]["cpf"] == FULL_FLOW


# --- The back office ----------------------------------------------------------------------------------------------


def confirm(client: Client, cpf: str = FULL_FLOW, again: str = FULL_FLOW) -> Any:
    """The answer to the typed confirmation after the preview."""
    preview = press(client, str(FORM), "Ver o que seria apagado", cpf=cpf)
    button = "Pedir a exclusão" if "Pedir a exclusão" in preview.content.decode() else "Apagar"
    return press(client, preview, button, cpf=again)


def test_an_operator_erases_a_holder(admin_client: Client, partner: Partner) -> None:
    an_answered_offer(partner)
    assert str(FORM) in admin_client.get(LIST).content.decode()
    assert "ainda não apaga" in admin_client.get(FORM).content.decode()

    preview = admin_client.post(FORM, {"cpf": "900.000.001-75"}).content.decode()
    for told in ("Não há como desfazer", "ofertas: 1, consultas: 1, eventos de webhook: 2", partner.name):
        assert told in preview
    assert FULL_FLOW not in preview
    assert Query.objects.exists(), "a look erases nothing"
    assert not Erasure.objects.exists()

    answer = confirm(admin_client)
    page = answer.content.decode()
    assert "Apagados: ofertas: 1, consultas: 1, eventos de webhook: 2." in page
    assert answer.redirect_chain == [(LIST, 302)]
    for personal in (FULL_FLOW, "900.000.001-75"):
        assert personal not in page
    assert tables_with(FULL_FLOW) == set()
    assert f"Parceiros a avisar: {partner.name}." in page
    erasure = Erasure.objects.get()
    assert (erasure.by, erasure.partners) == ("admin", [partner.name])
    page = admin_client.get(f"{LIST}{erasure.pk}/change/").content.decode()
    assert partner.name in page, "whom to inform is still known after the erasure"
    Erasure.objects.update(partners=None)
    assert "não registrados" in admin_client.get(f"{LIST}{erasure.pk}/change/").content.decode()


def test_another_cpf_than_the_one_looked_at_erases_nothing(admin_client: Client, partner: Partner) -> None:
    an_answered_offer(partner)
    for again in ("", "x"):
        assert confirm(admin_client, again=again).status_code == 200
    page = confirm(admin_client, again="90000000256").content.decode()
    assert "Nada foi apagado" in page
    assert "Ver o que seria apagado" in page, "a button that erases stands only below what it would erase"
    assert 'name="index"' not in page
    assert admin_client.post(FORM, {"cpf": FULL_FLOW, "index": ""}).status_code == 200
    assert "Informe um CPF válido." in admin_client.post(FORM, {"cpf": "90000000176"}).content.decode()
    assert Query.objects.exists()
    assert not Erasure.objects.exists()


def test_where_two_are_asked_for_one_alone_erases_nothing(
    admin_client: Client, partner: Partner, settings: Any
) -> None:
    settings.ERASURE_BY_TWO = True
    an_answered_offer(partner)
    for _ in range(2):
        assert "outra pessoa com a permissão tem de confirmar" in confirm(admin_client).content.decode()
    assert Query.objects.exists()
    assert ErasureRequest.objects.count() == 1
    client = operator_with("erase_holder", "view_erasure", name="rui")
    assert "Pedido por" in client.post(FORM, {"cpf": FULL_FLOW}).content.decode()
    assert "Apagados: " in confirm(client).content.decode()
    assert not Query.objects.exists()
    assert Erasure.objects.get().by == "admin e rui"
    assert "feita" in admin_client.get("/admin/proposals/erasurerequest/").content.decode()


def test_a_request_that_nobody_confirmed_in_time_has_to_be_made_again(partner: Partner) -> None:
    an_answered_offer(partner)
    assert retention.ask_or_confirm(FULL_FLOW, "maria") is None
    ErasureRequest.objects.update(asked_at=timezone.now() - ErasureRequest.VALID)
    assert retention.ask_or_confirm(FULL_FLOW, "rui") is None
    assert Query.objects.exists()
    assert retention.ask_or_confirm(FULL_FLOW, "maria") is not None
    assert not Query.objects.exists()


def test_an_operator_is_told_what_to_repeat(admin_client: Client, partner: Partner) -> None:
    an_offer(partner, "ipe")
    page = confirm(admin_client).content.decode()
    assert "Em andamento, repita em alguns minutos: consultas: 1." in page


# --- After a restore ----------------------------------------------------------------------------------------------


@pytest.mark.control("CMN VII")
def test_a_restored_holder_is_erased_again_by_the_exported_list(partner: Partner, tmp_path: Path) -> None:
    """Before the fix, somebody had to keep the requests and type each CPF again."""
    retention.erase(OTHER, "maria")
    an_answered_offer(partner)
    session = an_accepted_session(partner)
    outbox.send(partner, "authorization_result", FULL_FLOW, {"cpf": FULL_FLOW})
    backup = transaction.savepoint()
    erasure = retention.erase(FULL_FLOW, "maria")
    file = tmp_path / "list.json"
    file.write_text(json.dumps(printed("export_chain_head")))
    assert FULL_FLOW not in file.read_text()
    transaction.savepoint_rollback(backup)  # the restore
    assert (Query.objects.exists(), Erasure.objects.count()) == (True, 1)

    assert printed("replay_erasures", str(file)) == {"replayed": 1, "known": 1, "left": 0, "head_is_known": True}
    assert not Query.objects.exists()
    session.refresh_from_db()
    assert session.name == "***"
    assert set(Event.objects.values_list("body", flat=True)) == {None}
    again = Erasure.objects.get(cpf_index=erasure.cpf_index)
    assert (again.at, again.by, again.erased) == (erasure.at, "maria", erasure.erased)
    assert AuditEntry.objects.filter(action="command", detail__startswith="replay_erasures").exists()
    assert printed("replay_erasures", str(file))["replayed"] == 0, "a second run does nothing"

    backup = transaction.savepoint()
    an_accepted_session(partner)
    file.write_text(json.dumps(printed("export_chain_head")))
    transaction.savepoint_rollback(backup)
    assert Session.objects.get() == session
    assert printed("replay_erasures", str(file))["head_is_known"] is False


@pytest.mark.parametrize("content", ["", "[]", '{"at": "x"}', '{"erasures": [{"cpf": "52998224725"}]}'])
def test_another_file_is_refused(db: None, tmp_path: Path, content: str) -> None:
    file = tmp_path / "list.json"
    file.write_text(content)
    with pytest.raises(CommandError, match="export_chain_head") as refused:
        call_command("replay_erasures", str(file))
    assert "52998224725" not in str(refused.value)
    with pytest.raises(CommandError, match="FileNotFoundError"):
        call_command("replay_erasures", str(tmp_path / "none"))
