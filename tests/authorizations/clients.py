"""The clients of these tests: a partner and a holder's browser."""

from __future__ import annotations

from typing import Any

from rest_framework.test import APIClient

from authorizations import sessions
from authorizations.models import Session
from partners.models import Partner
from tests.factories import issue_key

CPF = "52998224725"
NAME = "Maria Aparecida da Silva"
PHONE = "11987654321"


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


def public(session: Session) -> str:
    """The path of the session's page."""
    return f"/partners/v1/authorizations/public/{session.authorization_id}"


def open_session(partner: Partner, cpf: str = CPF) -> Session:
    """A pending session of the partner."""
    return sessions.open_session(partner, sessions.Opening(cpf, NAME, PHONE))[0]
