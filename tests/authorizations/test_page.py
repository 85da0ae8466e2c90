"""GET /partners/v1/authorizations/public/{authorization_id}: the page as a client without a browser sees it. Its route
/terms, and the life of a version of the terms."""

import hashlib
import re

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone

from authorizations.models import Evidence, PhoneCode, Session, Terms
from foundation.formats import iso_utc
from providers import registry
from tests.authorizations.clients import NAME, HolderClient, open_session, public
from tests.factories import PartnerFactory, update_encrypted
from tests.operators import see
from tests.plans import execute


def test_the_page(session: Session, holder: HolderClient) -> None:
    reply, ends = holder.get(public(session)), f"{timezone.localtime(session.expires_at):%H:%M} (horário de Brasília)"
    assert (reply.status_code, reply["Content-Type"]) == (200, "text/html; charset=utf-8")
    asks = "Crédito Fácil &amp; Cia pede a sua autorização"
    shown = ('<html lang="pt-BR">', asks, NAME, "***.982.247-**", f'action="{public(session)}/accept"', ends)
    see(holder, public(session), *shown, hidden=[session.cpf, "https://", iso_utc(session.expires_at)])


@pytest.mark.parametrize("query", ["", "?termos=abertos"])
def test_the_heaviest_page_is_light(holder: HolderClient, db: None, query: str) -> None:
    """A registration of everything, the terms of the migrations and the widest step."""
    registered = {"cnpj": "11222333000181", "privacy_contact": "privacidade@exemplo.com.br", "sms_code": True}
    session = open_session(PartnerFactory(**registered, providers=sorted(registry.names())))
    PhoneCode(session=session).request(timezone.now())
    assert len(holder.get(public(session) + query).content) <= 25 * 1000


@pytest.mark.control("V3")
def test_its_headers(session: Session, holder: HolderClient) -> None:
    reply = holder.get(public(session))
    html = reply.text
    [nonce] = set(re.findall(r'nonce="([^"]+)"', html))
    assert dict(part.partition(" ")[::2] for part in reply["Content-Security-Policy"].split("; ")) == {
        "default-src": "'none'",
        "script-src": f"'nonce-{nonce}'",
        "style-src": f"'nonce-{nonce}'",
        "img-src": "data:",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert nonce not in holder.get(public(session)).text
    assert reply["X-Frame-Options"] == "DENY"
    assert reply["Referrer-Policy"] == "no-referrer"
    assert reply["Cache-Control"] == "no-store"
    assert reply["X-Robots-Tag"] == "noindex, nofollow"
    assert reply["X-Content-Type-Options"] == "nosniff"
    assert reply["Permissions-Policy"] == "geolocation=(self), camera=(), microphone=(), payment=()"
    assert set(reply.cookies) == {"holder"}


def test_an_accepted_session(accepted: Session, holder: HolderClient) -> None:
    """Its revocation is the only form. Nothing can be kept without a script. The evidence's number, which counts all
    authorizations, is not told."""
    evidence = Evidence.objects.get()
    receipt = f'<dt>Registro</dt><dd class="whole">{evidence.receipt}</dd>'
    shown = ("Autorização registrada", accepted.terms.sha256, 'id="keep" hidden>', receipt)
    html = see(holder, public(accepted), *shown, hidden=[f"nº {evidence.number}"])
    assert html.count("<form") == html.count(f'action="{public(accepted)}/revoke#codigo"') == 1
    assert evidence.hash.upper().startswith(evidence.receipt.replace("-", ""))


@pytest.mark.control("V1")
def test_names_can_not_inject_markup(session: Session, holder: HolderClient) -> None:
    update_encrypted(Session.objects.all(), name="<script>alert(1)</script>")
    see(holder, public(session), "&lt;script&gt;alert(1)", hidden=["<script>alert"])


def test_the_page_names_the_banks_the_company_and_its_contact(holder: HolderClient, db: None) -> None:
    registered = {"cnpj": "11222333000181", "privacy_contact": "privacidade@exemplo.com.br"}
    session = open_session(PartnerFactory(providers=["ipe", "jatoba"], **registered))
    see(holder, public(session), "(Ipê, Jatobá)", "11.222.333/0001-81", "privacidade@<wbr>exemplo.com.br")
    see(holder, public(open_session(PartnerFactory())), hidden=["CNPJ"])


# --- Terms --------------------------------------------------------------------------------------------------------


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
    for change in (
        terms.save,
        terms.publish,
        terms.delete,
        lambda: Terms.objects.filter(pk=terms.pk).update(text="outro"),
        lambda: Terms.objects.filter(pk=terms.pk).delete(),
        lambda: Terms.objects.bulk_update([terms], ["text"]),
        lambda: execute("UPDATE authorizations_terms SET published_at = NULL"),
        lambda: execute("TRUNCATE authorizations_terms CASCADE"),
    ):
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            change()
    assert Terms.objects.get(pk=terms.pk).text == "texto"


def test_terms_without_a_heading_are_one_part() -> None:
    assert Terms(text="Tudo.\n\nSempre.").parts == [("", "Tudo.\n\nSempre.", "")]
    assert Terms(text="Antes.\n1. Só título").parts == [("", "Antes.", "\n"), ("1. Só título", "", "")]
