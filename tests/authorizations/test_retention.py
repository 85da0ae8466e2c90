"""Sessions that nobody accepted are deleted after their retention time; accepted sessions stay."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from authorizations.models import Evidence, Session
from authorizations.retention import purge
from tests.authorizations.clients import OTHER_CPF, HolderClient, PartnerClient, open_session, route
from tests.plans import assert_indexed


def end(session: Session, days: int) -> None:
    """Set the session's end back by so many days."""
    Session.objects.filter(pk=session.pk).update(expires_at=timezone.now() - timedelta(days=days))


@pytest.mark.parametrize("status", ["pending", "expired"])
@pytest.mark.control("LGPD 15")
def test_a_session_that_nobody_accepted_goes_30_days_after_its_end(
    holder: HolderClient, session: Session, status: str
) -> None:
    Session.objects.update(status=status)
    for days, stays in ((-1, True), (29, True), (31, False)):
        end(session, days)
        purge()
        assert Session.objects.exists() is stays, days
    assert holder.accept(session).status_code == 404


def test_an_authorized_session_stays_with_its_evidence(
    api: PartnerClient, session: Session, holder: HolderClient
) -> None:
    holder.accept(session)
    end(session, 4000)
    other = open_session(session.partner, cpf=OTHER_CPF)
    end(other, 31)
    purge()
    purge()
    assert Session.objects.get().pk == session.pk
    shown = api.get(route(session)).json()
    assert (shown["status"], shown["evidence"]["ip"]) == ("authorized", "127.0.0.1")
    assert Evidence.objects.get().content["declared_by_partner"]["cpf"] == session.cpf


def test_every_statement_is_served_by_an_index(session: Session) -> None:
    end(session, 31)
    with CaptureQueriesContext(connection) as captured:
        purge()
    asked = [each["sql"] for each in captured if each["sql"].startswith(("SELECT", "DELETE"))]
    assert any("FOR UPDATE" in sql for sql in asked)
    assert_indexed(asked)
