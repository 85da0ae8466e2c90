"""Evidence that led to no contract goes after its term, and the chain stays verifiable."""

import uuid
from datetime import timedelta

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone
from msgspec import structs

from authorizations import chain, evidence, seal, sessions
from authorizations.evidence import BrowserReport, Observed
from authorizations.models import Evidence, EvidenceUse, PurgedEvidence, Session
from partners.models import Partner
from proposals.models import Proposal
from proposals.retention import purge
from tests.authorizations.test_verification import guards_off, verify_evidence
from tests.proposals.rows import a_proposal, an_offer
from tests.unit.test_settings import read, refusal

YEARS_5 = 1826
SEEN = Observed("203.0.113.9", "203.0.113.9", None, "Navegador/1.0", "request-1", "json")
CPFS = ("52998224725", "90000000256", "90000000175")


def an_evidence(partner: Partner, cpf: str, reference: str) -> Evidence:
    """An evidence with one use under `reference`."""
    session, _ = sessions.open_session(partner, sessions.Opening(cpf, "Maria Teste", "11987654321"))
    taken = evidence.accept(session.authorization_id, SEEN, BrowserReport())
    evidence.record_use(taken.number, ["ipe"], call="submit", reference=reference)
    return taken


def age(number: int, days: int, used_days: int | None = None) -> None:
    """Set back the acceptance of an evidence, and its uses."""
    now = timezone.now()
    with guards_off() as cursor:
        moment, used = now - timedelta(days=days), now - timedelta(days=days if used_days is None else used_days)
        cursor.execute("UPDATE authorizations_evidence SET accepted_at = %s WHERE number = %s", [moment, number])
        cursor.execute("UPDATE authorizations_evidenceuse SET used_at = %s WHERE evidence_id = %s", [used, number])


def numbers() -> list[int]:
    return sorted(Evidence.objects.values_list("number", flat=True))


def test_it_goes_five_years_after_its_last_use_and_the_chain_still_verifies(partner: Partner) -> None:
    """Before the fix, the evidence of everybody who ever authorized a query was kept for ever."""
    for cpf in CPFS:
        an_evidence(partner, cpf, str(uuid.uuid4()))
    index = PurgedEvidence.index_of(partner.pk, Evidence.objects.get(number=1).session.authorization_id)
    before = chain.head()
    age(1, YEARS_5 + 30, used_days=YEARS_5 - 1)
    purge()
    assert numbers() == [1, 2, 3], "its last use is younger"
    age(1, YEARS_5 + 1)
    purge()
    assert numbers() == [2, 3]
    assert list(PurgedEvidence.objects.values_list("number", "uses", "session_index")) == [(1, 1, index)]
    assert not EvidenceUse.objects.filter(evidence=1).exists()
    assert Session.objects.count() == 2
    assert verify_evidence("--head", before.head, "--uses", str(before.uses))[0]
    assert structs.replace(chain.head(), at="") == structs.replace(before, at="")


def test_the_newest_may_go_and_the_next_one_goes_on_from_its_link(partner: Partner) -> None:
    an_evidence(partner, CPFS[0], str(uuid.uuid4()))
    age(1, YEARS_5 + 1)
    purge()
    assert numbers() == []
    assert an_evidence(partner, CPFS[1], str(uuid.uuid4())).number == 2
    assert chain.verify(seal.trusted_keys())["valid"]


@pytest.mark.parametrize("kept", ["proposal", "query"])
def test_the_evidence_of_a_contract_stays(partner: Partner, kept: str) -> None:
    proposal = a_proposal(an_offer(partner, "ipe"), Proposal.Submission.ACCEPTED, native_id="N-1")
    an_evidence(partner, CPFS[0], str(proposal.pk if kept == "proposal" else proposal.offer.query_id))
    age(1, 4 * YEARS_5)
    purge()
    assert numbers() == [1]


def test_a_changed_link_of_a_purged_evidence_is_found(partner: Partner) -> None:
    for cpf in CPFS:
        an_evidence(partner, cpf, str(uuid.uuid4()))
    for number in (1, 2):
        age(number, YEARS_5 + 1)
    purge()
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        PurgedEvidence.objects.update(uses=0)
    with guards_off("authorizations_purgedevidence") as cursor:
        cursor.execute("UPDATE authorizations_purgedevidence SET record_sha256 = %s", ["0" * 64])
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
    age(1, days)
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        raw_delete(taken, with_link=with_link)
    with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
        EvidenceUse.objects.all()._raw_delete("default")


def test_the_term_is_never_below_what_a_claim_needs() -> None:
    assert read()["EVIDENCE_RETENTION_DAYS"] == YEARS_5
    assert "EVIDENCE_RETENTION_DAYS must be at least 1826" in refusal(EVIDENCE_RETENTION_DAYS="1825")
