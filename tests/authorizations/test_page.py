"""GET /partners/v1/authorizations/public/{authorization_id}: the page as a client without a browser sees it."""

import re

import pytest
from django.utils import timezone

from authorizations.models import Evidence, PhoneCode, Session
from foundation.formats import iso_utc
from providers import registry
from tests.authorizations.clients import NAME, HolderClient, open_session, public
from tests.factories import PartnerFactory, update_encrypted
from tests.operators import see


def directives(policy: str) -> dict[str, str]:
    return dict(part.partition(" ")[::2] for part in policy.split("; "))


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
    """Its revocation is the only form. Nothing can be kept without a script. The evidence's number, which counts all
    authorizations, is not told."""
    holder.accept(session)
    evidence = Evidence.objects.get()
    receipt = f'<dt>Registro</dt><dd class="whole">{evidence.receipt}</dd>'
    shown = ("Autorização registrada", session.terms.sha256, 'id="keep" hidden>', receipt)
    html = see(holder, public(session), *shown, hidden=[f"nº {evidence.number}"])
    assert html.count("<form") == html.count(f'action="{public(session)}/revoke#codigo"') == 1
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
