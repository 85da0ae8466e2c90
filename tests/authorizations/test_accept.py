"""POST /partners/v1/authorizations/public/{authorization_id}/accept"""

import json
import re
from datetime import timedelta
from http.cookies import Morsel
from typing import Any

import pytest
import structlog
from django.core import signing
from django.utils import timezone

from authorizations import dossier, marks, seal
from authorizations.models import Evidence, Session
from tests.authorizations.clients import CPF, FORM, NAME, OTHER_CPF, PHONE, UNKNOWN, HolderClient, open_session, public
from tests.factories import PartnerFactory
from tests.operators import says
from webhooks.models import Event

PLACE = {"lat": -23.55052, "lng": -46.633308, "accuracy": 12.5}
DEVICE = {
    "userAgent": "Mozilla/5.0 (Linux; Android 15)",
    "platform": "Android",
    "language": "pt-BR",
    "timezone": "America/Sao_Paulo",
    "screen": "360x740@3",
    "deviceModel": "SM-A156M",
}
#: What the record says of a browser that tells nothing.
NOTHING: dict[str, Any] = {"geolocation": None, "geolocation_status": None, "device": {}, "terms_unfolded": None}


def test_the_evidence_has_the_servers_request_id_and_not_the_callers(session: Session, holder: HolderClient) -> None:
    """Before the fix, the caller chose the id that the evidence names as the server's."""
    reply = holder.accept(session, HTTP_X_REQUEST_ID="chosen-by-the-caller")
    noted = Evidence.objects.get().content["observed_by_server"]["request_id"]
    assert reply["X-Request-Id"] == "chosen-by-the-caller"
    assert re.fullmatch(r"[0-9a-f]{32}", noted)
    assert structlog.contextvars.get_contextvars()["own_id"] == noted, "log lines bear both"


def test_a_json_caller_accepts(session: Session, holder: HolderClient) -> None:
    body = {
        "accepted": True,
        "terms_version": session.terms.version,
        "geolocation": PLACE,
        "geolocation_status": "granted",
        "device": DEVICE,
    }
    reply = holder.accept(session, body, REMOTE_ADDR="203.0.113.9", HTTP_USER_AGENT="Navegador/1.0")
    assert reply.status_code == 200
    evidence = Evidence.objects.get()
    assert reply.json() == {
        "authorization_id": session.authorization_id,
        "status": "authorized",
        "authorized_at": reply.json()["authorized_at"],
    }
    assert evidence.content == {
        "format": "evidence/1",
        "authorization_id": session.authorization_id,
        "observed_by_server": {
            "accepted_at": reply.json()["authorized_at"],
            "session_created_at": evidence.content["observed_by_server"]["session_created_at"],
            "ip": "203.0.113.9",
            "peer": "203.0.113.9",
            "x_forwarded_for": None,
            "x_forwarded_for_sha256": None,
            "user_agent": "Navegador/1.0",
            "request_id": reply["X-Request-Id"],
            "sent_as": "json",
            "from_api_address": False,
        },
        "told_by_browser": {
            "geolocation": {"lat": "-23.55052", "lng": "-46.633308", "accuracy": "12.5"},
            "geolocation_status": "granted",
            "geolocation_reason": None,
            "device": DEVICE,
            "terms_unfolded": None,
            "invalid": [],
        },
        "declared_by_partner": {
            "partner_id": str(session.partner.pk),
            "partner_name": session.partner.name,
            "cpf": CPF,
            "name": NAME,
            "phone": PHONE,
        },
        "shown_by_session": {
            "page_rendered_at": None,
            "declaration": None,
            "terms_layout": None,
            "holder_name": NAME,
            "masked_cpf": "***.982.247-**",
            "language": "pt-BR",
            "terms_version": session.terms.version,
            "terms_sha256": session.terms.sha256,
        },
        "phone_confirmation": None,
    }
    assert evidence.record_sha256 == seal.sha256(evidence.record.encode())
    assert evidence.record.encode() == seal.canonical(evidence.content)


def test_the_partner_gets_the_event(session: Session, holder: HolderClient) -> None:
    reply = holder.accept(session)
    event = Event.objects.get()
    body = json.loads(event.body)
    assert body == {
        "partner_id": str(session.partner.pk),
        "external_reference": session.authorization_id,
        "event": "authorization.completed",
        "authorization_id": session.authorization_id,
        "cpf": CPF,
        "status": "authorized",
        "authorized_at": reply.json()["authorized_at"],
        "partner_reference": None,
        "timestamp": body["timestamp"],
    }
    holder.accept(session)
    assert Event.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "device"),
    [
        (None, {}),
        ({}, {}),
        ({"accepted": True}, {}),
        ({"geolocation": None, "device": None}, {}),
        ({"device": {"platform": "Linux", "deviceModel": "", "timezone": None, "foo": "bar"}}, {"platform": "Linux"}),
    ],
)
def test_everything_is_optional(session: Session, holder: HolderClient, body: Any, device: dict[str, str]) -> None:
    assert holder.accept(session, body).status_code == 200
    told = {"geolocation_reason": "not_told", "device": device, "invalid": []}
    assert Evidence.objects.get().content["told_by_browser"] == NOTHING | told


def test_a_repeat_gives_the_same_and_changes_nothing(session: Session, holder: HolderClient) -> None:
    first = holder.accept(session, {"geolocation": PLACE}, REMOTE_ADDR="203.0.113.9")
    before = Evidence.objects.values().get()
    Session.objects.update(expires_at=timezone.now())
    repeat = holder.accept(session, {"geolocation": None, "device": DEVICE}, REMOTE_ADDR="198.51.100.1")
    assert (repeat.status_code, repeat.json()) == (200, first.json())
    assert Evidence.objects.values().get() == before


def test_a_holder_may_accept_while_the_partner_is_suspended(session: Session, holder: HolderClient) -> None:
    session.partner.suspend()
    assert holder.get(public(session)).status_code == 200
    assert holder.accept(session).status_code == 200


FAULTY: list[tuple[Any, ...]] = [
    ({"accepted": False}, "accepted"),
    ({"accepted": "true"}, "accepted"),
    ({"terms_version": "999"}, "terms_version"),
    ({"terms_version": 1}, "terms_version"),
    ({"geolocation": "aqui"}, "geolocation"),
    ({"geolocation": {"lat": -23.5}}, "geolocation.lng"),
    ({"geolocation": {"lat": 90.5, "lng": 0}}, "geolocation.lat"),
    ({"geolocation": {"lat": 0, "lng": -180.5}}, "geolocation.lng"),
    ({"geolocation": {"lat": 0, "lng": 0, "accuracy": -1}}, "geolocation.accuracy"),
    ({"geolocation": PLACE, "geolocation_status": "denied"}, "geolocation"),
    ({"geolocation_status": "maybe"}, "geolocation_status"),
    ({"device": "celular"}, "device"),
    ({"device": {"userAgent": "x" * 513}}, "device.userAgent"),
    ({"device": {"platform": "x" * 121}}, "device.platform"),
    ({"device": {"screen": {"w": 1}}}, "device.screen"),
]


def test_a_faulty_body(session: Session, holder: HolderClient) -> None:
    """A body's fields are checked first, as on every route."""
    assert holder.post(f"{UNKNOWN}/accept", {"accepted": "yes"}, format="json").status_code == 422
    for body, field in FAULTY:
        reply = holder.accept(session, body)
        told = reply.json()
        assert (reply.status_code, told["code"], told["field"]) == (422, "invalid_input", field), body
        assert not Evidence.objects.exists()
        assert Session.objects.get().status == "pending"


def test_other_content_types(session: Session, holder: HolderClient) -> None:
    path, large = f"{public(session)}/accept", '{"x":"' + "y" * 2**18 + '"}'
    json_, text = "application/json", "text/plain"
    for body, kind, status in (("<x/>", "text/xml", 415), ("a=1", text, 415), ("{", json_, 422), (large, json_, 413)):
        assert holder.post(path, body, content_type=kind).status_code == status
    form = holder.post(path, "x=" + large, content_type=FORM)
    assert (form.status_code, form["Content-Type"]) == (413, "text/html; charset=utf-8")
    assert not Evidence.objects.exists()


# --- The page's form ------------------------------------------------------------------------------------------


def test_the_form_of_the_page(session: Session, holder: HolderClient) -> None:
    collected = json.dumps({"geolocation": PLACE, "geolocation_status": "granted", "device": DEVICE})
    reply = holder.answer(session, browser=collected)
    assert (reply.status_code, reply["Location"]) == (303, public(session))
    content = Evidence.objects.get().content
    assert content["observed_by_server"]["sent_as"] == "form"
    assert content["told_by_browser"]["geolocation"] == {"lat": "-23.55052", "lng": "-46.633308", "accuracy": "12.5"}
    assert content["told_by_browser"]["device"] == DEVICE
    shown = content["shown_by_session"]
    assert shown["declaration"] == session.declaration
    assert shown["page_rendered_at"] <= content["observed_by_server"]["accepted_at"]


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"accepted": "no"}, "Este envio não autorizou nada"),
        ({"browser": '{"accepted":false}'}, "Este envio não autorizou nada"),
        ({"terms_version": "999"}, "Os termos são de outra versão"),
        ({"terms_version": ""}, "Os termos são de outra versão"),
        ({f"f{n}": "x" for n in range(30)}, "Não deu para ler o envio"),
    ],
)
def test_a_faulty_form_is_answered_by_a_page_that_says_what_is_true(
    session: Session, holder: HolderClient, fields: dict[str, str], title: str
) -> None:
    reply = holder.send(session, **fields)
    assert reply["Content-Type"].startswith("text/html")
    says(reply, f"<h1>{title}</h1>", f'href="{public(session)}"', hidden=["em instantes"], status=422)
    assert not Evidence.objects.exists()


@pytest.mark.parametrize(
    ("browser", "status", "reason", "invalid"),
    [
        ("", None, "no_script", []),
        ("{", None, "invalid", ["browser"]),
        ("[1]", None, "invalid", ["browser"]),
        (
            '{"geolocation":{"lat":100,"lng":0},"geolocation_status":"granted"}',
            "granted",
            "invalid",
            ["geolocation.lat"],
        ),
        ('{"geolocation":{"lat":1,"lng":2},"geolocation_status":"denied"}', "denied", "invalid", ["geolocation"]),
        ('{"geolocation":"aqui","geolocation_status":"maybe"}', None, "invalid", ["geolocation", "geolocation_status"]),
        ('{"device":"celular"}', None, "not_shared", ["device"]),
        ('{"device":{"platform":"Linux"},"terms_unfolded":[1,0]}', None, "not_shared", ["terms_unfolded.1"]),
        (
            '{"device":{"platform":"Linux","screen":{"w":1},"userAgent":"' + "x" * 513 + '"}}',
            None,
            "not_shared",
            ["device.userAgent", "device.screen"],
        ),
    ],
)
def test_faults_of_the_pages_script_do_not_prevent_the_acceptance(
    session: Session, holder: HolderClient, browser: str, status: str | None, reason: str, invalid: list[str]
) -> None:
    assert holder.answer(session, browser=browser).status_code == 303
    told = {"geolocation_status": status, "geolocation_reason": reason, "invalid": invalid}
    device = {"platform": "Linux"} if "Linux" in browser else {}
    assert Evidence.objects.get().content["told_by_browser"] == NOTHING | told | {"device": device}


def test_a_form_from_elsewhere_gives_no_reason_for_a_missing_location(session: Session, holder: HolderClient) -> None:
    """It says neither that there was no script nor that the holder did not answer a question, because nobody knows."""
    for each, browser in ((session, ""), (open_session(session.partner, OTHER_CPF), '{"device":{"platform":"A"}}')):
        assert holder.send(each, accepted="true", browser=browser).status_code == 303
        assert each.evidence.facts["geolocation_reason"] == "not_told"


def test_a_failure_of_ours_is_to_be_tried_again(session: Session, holder: HolderClient, settings: Any) -> None:
    settings.EVIDENCE_SIGNING_KEY = "no key at all"
    says(holder.send(session, accepted="true"), "Tente de novo em instantes", status=500)


@pytest.mark.parametrize("method", ["get", "head"])
def test_a_browser_that_loads_the_address_of_the_form_gets_the_page(
    session: Session, holder: HolderClient, method: str
) -> None:
    """As after a reload of the page that answers a refused form. Others are refused (test_states.py)."""
    accept = "text/html,application/xhtml+xml,*/*;q=0.8"
    reply = getattr(holder, method)(f"{public(session)}/accept", HTTP_ACCEPT=accept)
    assert (reply.status_code, reply["Location"]) == (303, public(session))
    assert not Evidence.objects.exists()


# --- A form from our own page, in the browser that opened it ------------------------------------------------------


def foreign(session: Session, holder: HolderClient, case: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The reply to a form whose token is not that of this page in this browser, for the reason that `case` names."""
    own = holder.hidden(session)["page"]
    match case:
        case "another browser":
            return HolderClient().send(session, accepted="true", page=own)
        case "a page of another browser":
            other = HolderClient()
            other.page(session)
            return other.send(session, accepted="true", page=own)
        case "another session":
            token = holder.hidden(open_session(PartnerFactory()))["page"]
        case "too old":
            with monkeypatch.context() as clock:
                long_ago = (timezone.now() - marks.VALIDITY - timedelta(minutes=1)).timestamp()
                clock.setattr(signing.time, "time", lambda: long_ago)
                token = holder.hidden(session)["page"]
        case "told by the script":
            return holder.send(session, accepted="true", browser=json.dumps({"page": own}))
        case forged:
            token = forged
    return holder.send(session, accepted="true", page=token)


NOT_OURS = ["", "forged", "eyJhdCI6IjIwMDAifQ:1abc:xyz"]
NOT_THIS = ["another browser", "a page of another browser", "another session", "too old", "told by the script"]


@pytest.mark.parametrize("case", [*NOT_OURS, *NOT_THIS])
@pytest.mark.control("API6")
def test_in_production_a_form_without_our_token_is_refused(
    session: Session, holder: HolderClient, settings: Any, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """And one with the token of another page. Outside production such a form only proves nothing."""
    settings.PRODUCTION = True
    refused = foreign(session, holder, case, monkeypatch)
    assert (refused.status_code, "<h1>Abra o pedido de novo</h1>" in refused.text) == (422, True)
    assert not Evidence.objects.exists()
    settings.PRODUCTION = False
    assert foreign(session, holder, case, monkeypatch).status_code == 303
    shown = Evidence.objects.get().content["shown_by_session"]
    assert (shown["page_rendered_at"], shown["declaration"]) == (None, None)


@pytest.mark.parametrize("body", [None, {}, {"accepted": False}, {"geolocation": 1}])
def test_in_production_json_finds_no_route(session: Session, holder: HolderClient, settings: Any, body: Any) -> None:
    """Before the fix, the partner, who has the link too, could accept for the holder."""
    settings.PRODUCTION = True
    unknown = holder.post(f"{public(session)}/acept", body, format="json")
    reply = holder.accept(session, body)
    assert (reply.status_code, reply.json()) == (404, unknown.json())
    assert Session.objects.get().status == "pending"


def test_in_production_json_is_taken_where_the_registration_allows_it(
    session: Session, holder: HolderClient, settings: Any
) -> None:
    settings.PRODUCTION = session.partner.json_acceptance = True
    session.partner.save()
    assert holder.accept(session, {}).status_code == 200
    assert Evidence.objects.get().content["shown_by_session"]["page_rendered_at"] is None


def test_in_production_the_page_is_answered_once(session: Session, holder: HolderClient, settings: Any) -> None:
    """A repeat, for example by a double tap, redirects to the page and changes nothing."""
    settings.PRODUCTION = True
    fields = holder.hidden(session)
    cookie: Morsel[str] = holder.cookies["__Host-holder"]
    flags = {name: cookie[name] for name in ("path", "secure", "httponly", "samesite", "domain", "max-age")}
    assert flags == {"path": "/", "secure": True, "httponly": True, "samesite": "Lax", "domain": "", "max-age": ""}
    assert holder.send(session, **fields).status_code == 303
    shown = Evidence.objects.get().content["shown_by_session"]
    assert (shown["declaration"], shown["page_rendered_at"] is None) == (session.declaration, False)
    before = Evidence.objects.values().get()
    assert holder.send(session, **fields).status_code == 303
    assert Evidence.objects.values().get() == before


def test_the_browsers_mark_stays_and_tells_nothing(session: Session, holder: HolderClient) -> None:
    holder.page(session)
    first = holder.cookies["holder"].value
    holder.page(session)
    assert holder.cookies["holder"].value == first
    assert session.authorization_id not in first
    assert HolderClient().get(public(session)).cookies["holder"].value != first


# --- The client's address, and the headers that name it -----------------------------------------------------------


@pytest.mark.parametrize("header", ["1.2.3.4, 198.51.100.1", "1.1.1.1, " * 300 + "198.51.100.1"])
def test_the_evidence_keeps_the_header_or_its_end_which_proxies_wrote(
    settings: Any, session: Session, holder: HolderClient, header: str
) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.0/8", "2001:db8:ffff::/48"]
    told = {"HTTP_X_FORWARDED_FOR": header, "HTTP_USER_AGENT": "é" * 600}
    holder.accept(session, {"client_ip": "9.9.9.9"}, REMOTE_ADDR="10.0.0.1", **told)
    evidence = Evidence.objects.get()
    observed = evidence.content["observed_by_server"]
    assert (observed["ip"], observed["peer"]) == ("198.51.100.1", "10.0.0.1")
    kept = header if len(header) < 1024 else "…" + header[-1023:]
    assert (observed["x_forwarded_for"], observed["x_forwarded_for_sha256"]) == (kept, seal.sha256(header.encode()))
    assert len(observed["user_agent"]) == 512
    page = dossier.page(evidence, timezone.now(), "operadora")
    for shown in (kept, observed["x_forwarded_for_sha256"]):
        assert shown in page
