"""The clients of these tests: a partner and a holder's browser."""

import html
import re
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from rest_framework.test import APIClient

from authorizations import codes, sessions
from authorizations.models import PhoneCode, Session
from authorizations.phone_code import PAUSE
from partners.models import Partner
from tests.factories import issue_key
from tests.receiver import Receiver

CPF, OTHER_CPF = "52998224725", "11144477735"
NAME = "Maria Aparecida da Silva"
PHONE = "11987654321"
FORM = "application/x-www-form-urlencoded"
#: The path of no session's page.
UNKNOWN = "/partners/v1/authorizations/public/" + "x" * 32


class PartnerClient(APIClient):
    """Calls with a key of one partner: the one given, or a new one."""

    def __init__(self, partner: Partner, key: str | None = None) -> None:
        super().__init__(raise_request_exception=False)
        self.partner = partner
        self.credentials(HTTP_X_PARTNER_API_KEY=key or issue_key(partner)[1])


class HolderClient(APIClient):
    """Calls without a key, as the holder's browser does."""

    def __init__(self) -> None:
        super().__init__(raise_request_exception=False)

    def accept(self, session: Session, body: Any = None, **options: Any) -> Any:
        """POST …/accept, as JSON if there is a body."""
        return self.post(f"{public(session)}/accept", body, format="json" if body is not None else None, **options)

    def page(self, session: Session, query: str = "") -> str:
        """The page's HTML."""
        return str(self.get(public(session) + query).text)

    def hidden(self, session: Session, query: str = "") -> dict[str, str]:
        """The hidden fields of the page that is shown now."""
        found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', self.page(session, query))
        return {name: html.unescape(value) for name, value in found}

    def send(self, session: Session, route: str = "accept", **fields: str) -> Any:
        """POST a form with these fields alone."""
        return self.post(f"{public(session)}/{route}", urlencode(fields), content_type=FORM)

    def answer(self, session: Session, route: str = "accept", *, query: str = "", **fields: str) -> Any:
        """POST the form of the page that is shown now."""
        return self.send(session, route, **self.hidden(session, query) | fields)

    def confirm(self, session: Session, code: str, route: str = "accept", **fields: str) -> Any:
        """POST the form of the page that is shown now, with a code."""
        return self.answer(session, route, **{"accepted": "true", "code": code} | fields)

    def get_code(self, session: Session, gateway: Receiver) -> str:
        """Ask for a code, and do the worker's task that sends it. Returns the code."""
        PhoneCode.objects.update(requested_at=timezone.now() - PAUSE)
        assert self.answer(session, "code").status_code == 303
        codes.send_due()
        return sent_code(gateway)


def public(session: Session) -> str:
    """The path of the session's page."""
    return f"/partners/v1/authorizations/public/{session.authorization_id}"


def route(session: Session, last: str = "") -> str:
    """The path of the session for its partner."""
    return f"/partners/v1/authorizations/{session.authorization_id}{last}"


def open_session(partner: Partner, cpf: str = CPF) -> Session:
    """A pending session of the partner."""
    return sessions.open_session(Session(partner=partner, cpf=cpf, name=NAME, phone=PHONE))[0]


def sent_code(gateway: Receiver) -> str:
    """The code in the newest text message."""
    found = re.match(r"\d{6}\b", gateway.received[-1].json()["text"])
    assert found
    return found[0]


def other_than(code: str) -> str:
    """A wrong code."""
    return f"{(int(code) + 1) % 10**6:06}"
