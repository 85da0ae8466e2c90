"""The operator's pages for terms, sessions and evidence."""

import pytest
from django.contrib import admin
from django.test import Client

from authorizations import seal
from authorizations.models import Evidence, Session, Terms
from foundation.models import AuditEntry
from tests.authorizations.clients import CPF, NAME
from tests.operators import operator_with, page_of, says, see

TERMS = "/admin/authorizations/terms/"


@pytest.fixture
def evidence(accepted: Session) -> Evidence:
    return accepted.evidence


def test_the_system_checks_ask_no_database() -> None:
    """They run before `migrate`, when there may be no table: any query fails in this test."""
    assert admin.site.check(None) == []


def history(session: Session) -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.filter(object_id=session.pk, model="authorizations.session").order_by("pk")
    return [(entry.who, entry.object_name, entry.detail) for entry in entries]


def test_a_sessions_page_shows_no_personal_data(admin_client: Client, evidence: Evidence) -> None:
    hidden = [CPF, NAME, str(evidence.session.phone), evidence.session.authorization_id, "127.0.0.1"]
    see(admin_client, evidence.session, f"nº {evidence.number}", hidden=hidden)
    assert history(evidence.session) == []


def test_reading_evidence_is_noted(admin_client: Client, evidence: Evidence) -> None:
    reply = admin_client.get(page_of(evidence.session, "read_evidence"))
    says(reply, CPF, NAME, evidence.hash, "por admin em", status=200)
    assert "no-store" in reply["Cache-Control"]
    assert "default-src 'none'" in reply["Content-Security-Policy"]
    assert history(evidence.session) == [("admin", f"sessão {evidence.session_id}", "Evidência lida.")]


def test_a_session_links_to_its_partner_and_terms(admin_client: Client, session: Session) -> None:
    links, reader = [page_of(session.partner), page_of(session.terms)], operator_with("view_session")
    see(admin_client, session, *(f'href="{link}"' for link in links))
    see(reader, session, str(session.terms))
    assert [reader.get(link).status_code for link in links] == [403, 403]


def test_a_pending_session_has_no_evidence_to_read(admin_client: Client, session: Session) -> None:
    see(admin_client, session, hidden=["Ler evidência"])
    for step in ("read_evidence", "export_dossier"):
        assert admin_client.get(page_of(session, step)).status_code == 404


# --- Terms ----------------------------------------------------------------------------------------------------


def test_terms_are_drafted_previewed_and_published(admin_client: Client) -> None:
    admin_client.post(f"{TERMS}add/", {"version": "2", "text": "1. Quem pede\r\nA empresa."})
    draft = Terms.objects.get(version="2")
    assert (draft.text, draft.published_at) == ("1. Quem pede\nA empresa.", None)
    admin_client.post(f"{TERMS}{draft.pk}/change/", {"version": "2", "text": "1. Quem\nA empresa."})

    preview = admin_client.get(page_of(draft, "preview"))
    part = "<summary><h3>1. Quem\n</h3></summary><div>A empresa.</div>"
    says(preview, part, "Prévia para o operador", " inert>")
    assert "script-src 'nonce-" in preview["Content-Security-Policy"]

    see(admin_client, page_of(draft, "publish"), "Uma versão publicada não pode ser alterada")
    assert Terms.objects.get(pk=draft.pk).published_at is None
    admin_client.post(page_of(draft, "publish"))
    assert Terms.current() == draft
    assert AuditEntry.objects.latest("pk").detail == "Termos publicados: versão 2."


def test_a_new_version_starts_from_the_last_and_shows_the_difference(admin_client: Client) -> None:
    """Before the fix, the form of a new version was empty, and no page said what a version changes."""
    first = Terms.objects.create(version="2", text="1. Quem\nA empresa.\nFim <b>")
    first.publish()
    page = admin_client.get(f"{TERMS}add/")
    assert page.context["adminform"].form.initial["text"] == first.text
    says(page, hidden=[seal.sha256(b""), "SHA-256"])  # of a text that is not written yet
    draft = Terms.objects.create(version="3", text="1. Quem\nO banco.\nFim <b>")
    difference = "<del>A empresa.</del><ins>O banco.</ins>"
    see(admin_client, draft, difference, "Fim &lt;b&gt;", "Diferença", draft.sha256)
    see(admin_client, TERMS, "em vigor", "publicada", "rascunho")
    draft.publish()
    see(admin_client, draft, "<ins>O banco.</ins>")


def test_published_terms_are_read_only(admin_client: Client) -> None:
    terms = Terms.current()
    see(admin_client, terms, terms.sha256, hidden=['name="text"'])
    assert admin_client.post(f"{TERMS}{terms.pk}/change/", {"version": "9", "text": "outro"}).status_code == 403
    assert admin_client.post(f"{TERMS}{terms.pk}/delete/", {"post": "yes"}).status_code == 403
    selection = {"action": "delete_selected", "_selected_action": [terms.pk], "post": "yes"}
    admin_client.post(TERMS, selection)
    assert admin_client.get(page_of(terms, "publish")).status_code in (302, 403)
    assert Terms.objects.get(pk=terms.pk).text == terms.text


def test_who_may_only_look_reads_the_text_line_by_line(db: None) -> None:
    """Before the fix, only that of a published version."""
    draft = Terms.objects.create(version="2", text="1. Quem\nA <empresa>.")
    see(operator_with("view_terms"), draft, "1. Quem<br>A &lt;empresa&gt;.")
