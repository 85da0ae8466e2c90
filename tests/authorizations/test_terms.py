"""GET /partners/v1/authorizations/public/{authorization_id}/terms, and the life of a version."""

import hashlib

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, transaction

from authorizations.models import Session, Terms
from foundation.formats import iso_utc
from tests.authorizations.clients import NAME, HolderClient, public


def test_the_terms_of_a_pending_session(session: Session, holder: HolderClient) -> None:
    reply = holder.get(f"{public(session)}/terms")
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "pending",
        "holder_name": NAME,
        "masked_cpf": "***.982.247-**",
        "terms": {
            "version": session.terms.version,
            "sha256": hashlib.sha256(session.terms.text.encode()).hexdigest(),
            "text": session.terms.text,
        },
        "expires_at": iso_utc(session.expires_at),
    }
    assert reply["Cache-Control"] == "no-store"
    assert reply["Referrer-Policy"] == "no-referrer"
    assert reply["X-Robots-Tag"] == "noindex, nofollow"


def test_a_draft_changes_and_is_not_shown(db: None) -> None:
    current = Terms.current()
    draft = Terms.objects.create(version="2", text="um\r\ndois  \rtrês\n\n")
    assert draft.text == "um\ndois\ntrês"
    draft.text = "outro"
    draft.save()
    assert Terms.current() == current


def test_a_published_version_never_changes(db: None) -> None:
    terms = Terms.objects.create(version="2", text="texto")
    terms.publish()
    assert Terms.current() == terms
    terms.text = "outro"
    for change in (terms.save, terms.publish, terms.delete):
        with pytest.raises(ValidationError, match="não muda"):
            change()
    for change in (
        lambda: Terms.objects.filter(pk=terms.pk).update(text="outro"),
        lambda: Terms.objects.filter(pk=terms.pk).delete(),
        lambda: Terms.objects.bulk_update([terms], ["text"]),
        lambda: _sql("UPDATE authorizations_terms SET published_at = NULL"),
        lambda: _sql("TRUNCATE authorizations_terms CASCADE"),
    ):
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            change()
    assert Terms.objects.get(pk=terms.pk).text == "texto"


def test_headings_are_told_apart_without_changing_the_text() -> None:
    terms = Terms(text="1. Quem\nA empresa.\n\n2. O quê\nTudo em 3. lugar")
    assert terms.headings == ["1. Quem", "2. O quê"]
    assert "".join(piece for part in terms.parts for piece in part) == terms.text


def test_terms_without_a_heading_are_one_part() -> None:
    assert Terms(text="Tudo.\n\nSempre.").parts == [("", "Tudo.\n\nSempre.", "")]
    assert Terms(text="Antes.\n1. Só título").parts == [("", "Antes.", "\n"), ("1. Só título", "", "")]


def _sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
