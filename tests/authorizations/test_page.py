"""GET /partners/v1/authorizations/public/{authorization_id}: the page as a client without a browser sees it."""

import re

import pytest
from django.utils import timezone

from authorizations.models import Evidence, PhoneCode, Session
from foundation.formats import iso_utc
from providers import registry
from tests.authorizations.clients import NAME, HolderClient, open_session, public
from tests.factories import PartnerFactory, update_encrypted


def directives(policy: str) -> dict[str, str]:
    return dict(part.partition(" ")[::2] for part in policy.split("; "))


def test_the_page(session: Session, holder: HolderClient) -> None:
    reply = holder.get(public(session))
    assert reply.status_code == 200
    assert reply["Content-Type"] == "text/html; charset=utf-8"
    html = reply.content.decode()
    assert '<html lang="pt-BR">' in html
    assert "Crédito Fácil &amp; Cia pede a sua autorização" in html
    assert NAME in html
    assert "***.982.247-**" in html
    assert session.cpf not in html
    assert f'action="{public(session)}/accept"' in html
    assert "https://" not in html
    assert f"{timezone.localtime(session.expires_at):%H:%M} (horário de Brasília)" in html
    assert iso_utc(session.expires_at) not in html


@pytest.mark.parametrize("query", ["", "?termos=abertos"])
def test_the_heaviest_page_is_light(holder: HolderClient, db: None, query: str) -> None:
    """A registration of everything, the terms of the migrations and the widest step."""
    registered = {"cnpj": "11222333000181", "privacy_contact": "privacidade@exemplo.com.br", "sms_code": True}
    session = open_session(PartnerFactory(**registered, providers=sorted(registry.names())))
    PhoneCode(session=session).request(timezone.now())
    assert len(holder.get(public(session) + query).content) <= 25 * 1000


def test_its_headers(session: Session, holder: HolderClient) -> None:
    reply = holder.get(public(session))
    html = reply.content.decode()
    [nonce] = set(re.findall(r'nonce="([^"]+)"', html))
    assert directives(reply["Content-Security-Policy"]) == {
        "default-src": "'none'",
        "script-src": f"'nonce-{nonce}'",
        "style-src": f"'nonce-{nonce}'",
        "img-src": "data:",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert nonce not in holder.get(public(session)).content.decode()
    assert reply["X-Frame-Options"] == "DENY"
    assert reply["Referrer-Policy"] == "no-referrer"
    assert reply["Cache-Control"] == "no-store"
    assert reply["X-Robots-Tag"] == "noindex, nofollow"
    assert reply["X-Content-Type-Options"] == "nosniff"
    assert reply["Permissions-Policy"] == "geolocation=(self), camera=(), microphone=(), payment=()"
    assert set(reply.cookies) == {"holder"}


def test_an_accepted_session(session: Session, holder: HolderClient) -> None:
    holder.accept(session)
    html = holder.get(public(session)).content.decode()
    assert "Autorização registrada" in html
    assert session.terms.sha256 in html
    assert html.count("<form") == 1, "the revocation alone"
    assert 'id="keep" hidden>' in html, "nothing can be kept without a script"
    assert f'action="{public(session)}/revoke#codigo"' in html
    evidence = Evidence.objects.get()
    assert f'<dt>Registro</dt><dd class="whole">{evidence.receipt}</dd>' in html
    assert evidence.hash.upper().startswith(evidence.receipt.replace("-", ""))
    assert f"nº {evidence.number}" not in html, "it counts all authorizations"


@pytest.mark.control("V1")
def test_names_can_not_inject_markup(session: Session, holder: HolderClient) -> None:
    update_encrypted(Session.objects.all(), name="<script>alert(1)</script>")
    html = holder.get(public(session)).content.decode()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_other_methods_are_refused_as_on_every_route(session: Session, holder: HolderClient) -> None:
    for path in (public(session), f"{public(session)}/terms"):
        reply = holder.post(path, {}, format="json")
        assert (reply.status_code, reply.json()["code"]) == (405, "method_not_allowed")


def test_the_page_names_the_banks_the_company_and_its_contact(holder: HolderClient, db: None) -> None:
    registered = {"cnpj": "11222333000181", "privacy_contact": "privacidade@exemplo.com.br"}
    html = holder.page(open_session(PartnerFactory(providers=["ipe", "jatoba"], **registered)))
    for shown in ("(Ipê, Jatobá)", "11.222.333/0001-81", "privacidade@<wbr>exemplo.com.br"):
        assert shown in html
    assert "CNPJ" not in holder.page(open_session(PartnerFactory()))
