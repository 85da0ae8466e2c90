"""What retention deletes, and above all what it keeps."""

import time
import uuid
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from celery import current_app
from cryptography.fernet import Fernet
from django.db import DatabaseError, transaction
from django.utils import timezone
from msgspec import structs

from authorizations import chain, evidence, seal, sessions
from authorizations.evidence import BrowserReport, Observed
from authorizations.models import Evidence, EvidenceUse, PurgedEvidence, Session
from consultas import offers
from consultas.models import Answer, Offer, Query, Step
from consultas.query import end, web
from foundation import batches
from foundation.encryption import blind_index
from partners.models import Partner
from proposals.models import BankCall, Cause, Move, Proposal
from proposals.retention import purge
from providers.errors import ProviderRejected
from providers.types.query import QueryStatus
from tests.authorizations.test_verification import guards_off, verify_evidence
from tests.factories import PartnerFactory
from tests.plans import assert_indexed, execute, executed
from tests.processes import Programs, wait_until
from tests.proposals.rows import a_proposal, a_step, accepted, an_offer
from tests.transactions import elsewhere
from webhooks.models import Event

Phase = Proposal.Submission
OLD = timedelta(days=91)
YOUNG = timedelta(days=89)


def age(by: timedelta = OLD) -> None:
    """Let the retention time of all rows pass."""
    then = timezone.now() - by
    Query.objects.update(created_at=then, deadline_at=then)
    Offer.objects.update(refreshed_at=then)
    Step.objects.update(opened_at=then)
    Proposal.objects.update(created_at=then, updated_at=then)


@pytest.mark.control("LGPD 15")
def test_queries_and_offers_that_came_to_nothing_go(partner: Partner) -> None:
    an_offer(partner, "ipe")
    age()
    young = an_offer(partner, "ipe")
    purge()
    assert list(Offer.objects.all()) == [young]
    assert list(Query.objects.all()) == [young.query]


def test_what_is_young_stays(partner: Partner) -> None:
    offer = an_offer(partner, "ipe")
    a_proposal(offer, Phase.REFUSED)
    a_step(offer, state="approved", closed_at=timezone.now(), due_at=None)
    age(YOUNG)
    purge()
    assert [model.objects.count() for model in (Query, Offer, Step, Proposal)] == [1, 1, 1, 1]


def test_an_offer_given_again_lives_on_and_its_first_query_goes(partner: Partner) -> None:
    first = an_offer(partner, "ipe")
    age()
    again = an_offer(partner, "ipe")
    Offer.objects.filter(pk=first.pk).update(query=again.query, refreshed_at=timezone.now())
    purge()
    assert set(Offer.objects.all()) == {first, again}
    assert list(Query.objects.all()) == [again.query]


@pytest.mark.parametrize(
    ("submission", "status"),
    [
        (Phase.SENDING, "created"),
        (Phase.UNKNOWN, "created"),
        (Phase.ACCEPTED, "created"),
        (Phase.ACCEPTED, "cancelled"),
    ],
)
def test_what_is_was_or_may_be_a_contract_stays_whole(partner: Partner, submission: Phase, status: str) -> None:
    offer = an_offer(partner, "ipe")
    sibling = an_offer(partner, "ipe")
    Offer.objects.filter(pk=sibling.pk).update(query=offer.query)
    proposal = a_proposal(offer, submission, status=status)
    age(timedelta(days=4000))
    purge()
    kept = Proposal.objects.select_related("offer__query").get()
    assert (kept.pk, kept.dataset, kept.terms) == (proposal.pk, proposal.dataset, proposal.terms)
    assert kept.offer.query.request == offer.query.request
    assert list(Offer.objects.all()) == [offer], "an offer of the same query that nobody submitted goes"


def test_old_calls_to_a_contracts_bank_go_and_its_moves_stay(partner: Partner) -> None:
    """Before the fix, each formalization left a row for ever."""
    proposal = accepted(an_offer(partner, "ipe"))
    _, young = (
        BankCall.objects.create(
            proposal=proposal, operation=BankCall.Operation.FORMALIZE, request_id="r", at=timezone.now() - each
        )
        for each in (OLD, YOUNG)
    )
    moves = Move.objects.count()
    purge()
    assert list(BankCall.objects.all()) == [young]
    assert Move.objects.count() == moves > 0


def test_the_query_that_a_contract_was_sent_from_stays(partner: Partner) -> None:
    offer, newer = an_offer(partner, "ipe"), an_offer(partner, "ipe").query
    origin = offer.query
    a_proposal(offer, Phase.ACCEPTED, origin_query_id=origin.pk)
    Offer.objects.filter(pk=offer.pk).update(query=newer)
    age()
    purge()
    assert set(Query.objects.all()) == {origin, newer}


def test_a_submission_that_no_bank_accepted_goes_with_its_offer_and_query(partner: Partner) -> None:
    refused = a_proposal(an_offer(partner, "ipe"))
    refused.refuse(ProviderRejected("Margem insuficiente."))
    BankCall.objects.create(proposal=refused, operation="submit", outcome="provider_rejected", request_id="r")
    a_proposal(an_offer(partner, "ipe"), Phase.NOT_SENT)
    age()
    purge()
    for model in (Proposal, Move, BankCall, Offer, Query):
        assert model.objects.count() == 0
    owed = Event.objects.order_by("created_at")
    assert [(event.name, event.state) for event in owed] == [
        ("proposal.created", "due"),
        ("proposal.rejected", "due"),
    ], "what the partner is still owed is delivered"
    assert all(event.body for event in owed)


def test_an_open_step_stays_with_its_query(partner: Partner) -> None:
    offer = an_offer(partner, "ipe")
    step = a_step(offer)
    age()
    Offer.objects.all().delete()
    purge()
    assert Step.objects.select_related("query").get().query == offer.query
    step.refresh_from_db()
    assert (step.state, step.checks) == ("open", 0)


@pytest.mark.parametrize(
    ("state", "closed", "expired", "kept"),
    [
        ("approved", OLD, timedelta(days=-1), 0),
        ("open", None, OLD, 0),
        ("expired", OLD, OLD, 0),
        ("refused", YOUNG, timedelta(), 1),
    ],
)
def test_a_step_goes_long_after_its_end(
    partner: Partner, state: str, closed: timedelta | None, expired: timedelta, kept: int
) -> None:
    now = timezone.now()
    closed_at = None if closed is None else now - closed
    a_step(an_offer(partner, "ipe"), state=state, closed_at=closed_at, expires_at=now - expired)
    age()
    purge()
    assert Step.objects.count() == Query.objects.count() == kept


@pytest.mark.django_db(transaction=True)
def test_a_repeat_still_finds_its_source_under_the_shortest_retention(settings: Any) -> None:
    settings.QUERY_RETENTION_DAYS = 1
    source = an_offer(PartnerFactory(), "ipe").query
    source.fingerprint, source.banks = blind_index("query", str(source.pk)), ["ipe"]
    source.save()
    end.end(source, [Answer("ipe", QueryStatus.NO_OFFERS, 10, time.time())])
    purge()
    source.refresh_from_db()
    again = Query.objects.get(pk=source.pk)
    assert again.request, "read while it is this row's"
    again.pk, again.answers, again.finished_at = uuid.uuid4(), None, None
    result = web.end_if_repeated(again, web.insert_unless_running(again) or end.Earlier())
    assert result is not None, "it asks no bank"
    shown = msgspec.json.decode(result.reply())
    assert shown["providerResults"]["ipe"]["status"] == "no_offers"
    for each in (source, again):
        each.refresh_from_db()
    assert again.stored_answers() == source.stored_answers() != []


def test_many_go_in_batches_past_those_that_stay(partner: Partner) -> None:
    kept = an_offer(partner, "ipe")
    a_proposal(kept, Phase.ACCEPTED)
    query = an_offer(partner, "ipe").query
    Offer.objects.exclude(pk=kept.pk).delete()
    values = {field.attname: getattr(query, field.attname) for field in Query._meta.fields if field.name != "id"}
    Query.objects.bulk_create(Query(**values) for _ in range(2 * batches.SIZE + 50))
    age()
    purge()
    assert list(Query.objects.all()) == [kept.query]


def test_what_cannot_be_read_can_be_deleted(partner: Partner, settings: Any) -> None:
    a_proposal(an_offer(partner, "ipe"), Phase.REFUSED)
    age()
    settings.FIELD_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    purge()
    assert not Query.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_left_and_nobody_waits() -> None:
    offer = an_offer(PartnerFactory(), "ipe")
    proposal = a_proposal(offer, Phase.NOT_SENT)
    age()
    with elsewhere(lambda: Proposal.objects.select_for_update().get(pk=proposal.pk)):
        purge()
        assert (Proposal.objects.count(), Offer.objects.count(), Query.objects.count()) == (1, 1, 1)
    purge()
    assert (Proposal.objects.count(), Offer.objects.count(), Query.objects.count()) == (0, 0, 0)


def test_a_fresh_query_of_a_purged_holder_keeps_its_offers(partner: Partner) -> None:
    """The same offer, given again after its row was deleted, makes a new row without a fault."""
    seen = an_offer(partner, "ipe").as_bank_offer()
    age()
    purge()
    query = an_offer(partner, "ipe").query
    [again] = offers.persist(query, {"ipe": [seen]})["ipe"]
    assert Offer.objects.get(pk=again).query == query


def test_every_statement_is_served_by_an_index(partner: Partner) -> None:
    refused = a_proposal(an_offer(partner, "ipe"), Phase.REFUSED)
    Move.objects.create(proposal=refused, to_status="rejected", cause=Cause.SUBMIT)
    a_step(an_offer(partner, "ipe"), state="expired", closed_at=timezone.now() - OLD)
    age()
    with executed() as statements:
        purge()
    asked = [sql for sql in statements if sql.startswith(("SELECT", "DELETE"))]
    assert sum("FOR UPDATE" in sql for sql in asked) == 5, "proposals, steps, offers, queries, evidence"
    assert_indexed(asked)


def test_the_default_worker_does_it(sandbox: None, programs: Programs) -> None:
    an_offer(PartnerFactory(), "ipe")
    age()
    programs.ensure("default")
    current_app.send_task("proposals.retention.purge")
    wait_until(lambda: not Query.objects.exists(), 60, "the old query is gone", lambda: programs.logs("default"))


# --- Evidence that led to no contract goes after its term, and the chain stays verifiable ---------------------------

YEARS_5 = 1826
SEEN = Observed("203.0.113.9", "203.0.113.9", None, "Navegador/1.0", "request-1", "json")
CPFS = ("52998224725", "90000000256", "90000000175")


def an_evidence(partner: Partner, cpf: str, reference: str, call: str = "submit") -> Evidence:
    """An evidence with one use by `call`, under `reference`."""
    session, _ = sessions.open_session(Session(partner=partner, cpf=cpf, name="Maria Teste", phone="11987654321"))
    taken = evidence.accept(session.authorization_id, SEEN, BrowserReport())
    evidence.record_use(taken.number, ["ipe"], call=call, reference=reference)
    return taken


def age_evidence(number: int, days: int, used_days: int | None = None) -> None:
    """Set back the acceptance of an evidence, and its uses."""
    now = timezone.now()
    with guards_off():
        moment, used = now - timedelta(days=days), now - timedelta(days=days if used_days is None else used_days)
        execute("UPDATE authorizations_evidence SET accepted_at = %s WHERE number = %s", [moment, number])
        execute("UPDATE authorizations_evidenceuse SET used_at = %s WHERE evidence_id = %s", [used, number])


def numbers() -> list[int]:
    return sorted(Evidence.objects.values_list("number", flat=True))


def test_it_goes_five_years_after_its_last_use_and_the_chain_still_verifies(partner: Partner) -> None:
    """Before the fix, the evidence of everybody who ever authorized a query was kept for ever."""
    for cpf in CPFS:
        an_evidence(partner, cpf, str(uuid.uuid4()))
    index = PurgedEvidence.index_of(partner.pk, Evidence.objects.get(number=1).session.authorization_id)
    before = chain.head()
    age_evidence(1, YEARS_5 + 30, used_days=YEARS_5 - 1)
    purge()
    assert numbers() == [1, 2, 3], "its last use is younger"
    age_evidence(1, YEARS_5 + 1)
    purge()
    assert numbers() == [2, 3]
    assert list(PurgedEvidence.objects.values_list("number", "uses", "session_index")) == [(1, 1, index)]
    assert not EvidenceUse.objects.filter(evidence=1).exists()
    assert Session.objects.count() == 2
    assert verify_evidence("--head", before.head, "--uses", str(before.uses))[0]
    assert structs.replace(chain.head(), at="") == structs.replace(before, at="")


def test_the_newest_may_go_and_the_next_one_goes_on_from_its_link(partner: Partner) -> None:
    an_evidence(partner, CPFS[0], str(uuid.uuid4()))
    age_evidence(1, YEARS_5 + 1)
    purge()
    assert numbers() == []
    assert an_evidence(partner, CPFS[1], str(uuid.uuid4())).number == 2
    assert chain.verify(seal.trusted_keys())["valid"]


@pytest.mark.parametrize("kept", ["proposal", "query"])
def test_the_evidence_of_a_contract_stays(partner: Partner, kept: str) -> None:
    proposal = a_proposal(an_offer(partner, "ipe"), Proposal.Submission.ACCEPTED, native_id="N-1")
    an_evidence(partner, CPFS[0], str(proposal.pk if kept == "proposal" else proposal.offer.query_id))
    age_evidence(1, 4 * YEARS_5)
    purge()
    assert numbers() == [1]


def test_a_changed_link_of_a_purged_evidence_is_found(partner: Partner) -> None:
    for cpf in CPFS:
        an_evidence(partner, cpf, str(uuid.uuid4()))
    for number in (1, 2):
        age_evidence(number, YEARS_5 + 1)
    purge()
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        PurgedEvidence.objects.update(uses=0)
    with guards_off("authorizations_purgedevidence"):
        execute("UPDATE authorizations_purgedevidence SET record_sha256 = %s", ["0" * 64])
    assert "evidência 2: o elo não confere" in verify_evidence()[1]["problems"]


def raw_delete(taken: Evidence, *, with_link: bool) -> None:
    if with_link:
        names = ("number", "record_sha256", "hash", "previous_hash", "public_key", "signature")
        PurgedEvidence.objects.create(**{name: getattr(taken, name) for name in names}, uses=1)
    Evidence.objects.all()._raw_delete("default")


@pytest.mark.parametrize(("days", "with_link"), [(0, True), (YEARS_5 - 1, True), (YEARS_5 + 1, False)])
def test_the_database_lets_no_younger_evidence_go_and_none_without_its_link(
    partner: Partner, days: int, with_link: bool
) -> None:
    taken = an_evidence(partner, CPFS[0], str(uuid.uuid4()))
    age_evidence(1, days)
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        raw_delete(taken, with_link=with_link)
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        EvidenceUse.objects.all()._raw_delete("default")
