"""The operator's pages for terms, sessions and evidence."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from authorizations import seal
from authorizations.models import Evidence, Session, Terms
from foundation.models import AuditEntry
from tests.authorizations.clients import CPF, NAME
from tests.operators import operator_with, page_of, see

TERMS = "/admin/authorizations/terms/"


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    """Logged in as an operator with all permissions."""
    client.force_login(User.objects.create_superuser("operadora"))
    return client


@pytest.fixture
def reader(db: None) -> Client:
    """Logged in as an operator who may see sessions, but no evidence."""
    return operator_with("view_session")


@pytest.fixture
def evidence(accepted: Session) -> Evidence:
    return accepted.evidence


def test_the_system_checks_ask_no_database() -> None:
    """They run before `migrate`, when there may be no table: any query fails in this test."""
    assert admin.site.check(None) == []


def history(session: Session) -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.filter(object_id=session.pk, model="authorizations.session").order_by("pk")
    return [(entry.who, entry.object_name, entry.detail) for entry in entries]


def test_a_sessions_page_shows_no_personal_data(operator: Client, evidence: Evidence) -> None:
    hidden = [CPF, NAME, str(evidence.session.phone), evidence.session.authorization_id, "127.0.0.1"]
    see(operator, evidence.session, f"nº {evidence.number}", hidden=hidden)
    assert history(evidence.session) == []


def test_reading_evidence_is_noted(operator: Client, evidence: Evidence) -> None:
    reply = operator.get(page_of(evidence.session, "read_evidence"))
    assert reply.status_code == 200
    html = reply.content.decode()
    for part in (CPF, NAME, evidence.hash, "operadora"):
        assert part in html
    assert "no-store" in reply["Cache-Control"]
    assert "default-src 'none'" in reply["Content-Security-Policy"]
    assert history(evidence.session) == [("operadora", f"sessão {evidence.session_id}", "Evidência lida.")]


def test_a_session_links_to_its_partner_and_terms(operator: Client, reader: Client, session: Session) -> None:
    links = [page_of(session.partner), page_of(session.terms)]
    see(operator, session, *(f'href="{link}"' for link in links))
    see(reader, session, str(session.terms))
    assert [reader.get(link).status_code for link in links] == [403, 403]


def test_a_pending_session_has_no_evidence_to_read(operator: Client, session: Session) -> None:
    see(operator, session, hidden=["Ler evidência"])
    for step in ("read_evidence", "export_dossier"):
        assert operator.get(page_of(session, step)).status_code == 404


# --- Terms ----------------------------------------------------------------------------------------------------


def test_terms_are_drafted_previewed_and_published(operator: Client) -> None:
    operator.post(f"{TERMS}add/", {"version": "2", "text": "1. Quem pede\r\nA empresa."})
    draft = Terms.objects.get(version="2")
    assert (draft.text, draft.published_at) == ("1. Quem pede\nA empresa.", None)
    operator.post(f"{TERMS}{draft.pk}/change/", {"version": "2", "text": "1. Quem\nA empresa."})

    preview = operator.get(page_of(draft, "preview"))
    html = preview.content.decode()
    assert "<summary><h3>1. Quem\n</h3></summary><div>A empresa.</div>" in html
    assert "Prévia para o operador" in html
    assert " inert>" in html
    assert "script-src 'nonce-" in preview["Content-Security-Policy"]

    assert "Uma versão publicada não pode ser alterada" in operator.get(page_of(draft, "publish")).content.decode()
    assert Terms.objects.get(pk=draft.pk).published_at is None
    operator.post(page_of(draft, "publish"))
    assert Terms.current() == draft
    assert AuditEntry.objects.latest("pk").detail == "Termos publicados: versão 2."


def test_a_new_version_starts_from_the_last_and_shows_the_difference(operator: Client) -> None:
    """Before the fix, the form of a new version was empty, and no page said what a version changes."""
    first = Terms.objects.create(version="2", text="1. Quem\nA empresa.\nFim <b>")
    first.publish()
    form = operator.get(f"{TERMS}add/").context["adminform"].form
    assert form.initial["text"] == first.text
    draft = Terms.objects.create(version="3", text="1. Quem\nO banco.\nFim <b>")
    see(operator, draft, "<del>A empresa.</del><ins>O banco.</ins>", "Fim &lt;b&gt;", "Diferença")
    draft.publish()
    see(operator, draft, "<ins>O banco.</ins>")


def test_terms_that_are_not_written_yet_show_no_digest(operator: Client) -> None:
    see(operator, f"{TERMS}add/", hidden=[seal.sha256(b""), "SHA-256"])
    draft = Terms.objects.create(version="2", text="texto")
    see(operator, draft, draft.sha256)


def test_published_terms_are_read_only(operator: Client) -> None:
    terms = Terms.current()
    see(operator, terms, terms.sha256, hidden=['name="text"'])
    assert operator.post(f"{TERMS}{terms.pk}/change/", {"version": "9", "text": "outro"}).status_code == 403
    assert operator.post(f"{TERMS}{terms.pk}/delete/", {"post": "yes"}).status_code == 403
    selection = {"action": "delete_selected", "_selected_action": [terms.pk], "post": "yes"}
    operator.post(TERMS, selection)
    assert operator.get(page_of(terms, "publish")).status_code in (302, 403)
    assert Terms.objects.get(pk=terms.pk).text == terms.text


def test_the_list_tells_which_version_holds(operator: Client) -> None:
    Terms.objects.create(version="2", text="texto").publish()
    Terms.objects.create(version="3", text="texto")
    see(operator, TERMS, "em vigor", "publicada", "rascunho")
