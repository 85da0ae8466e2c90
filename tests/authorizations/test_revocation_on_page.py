"""POST /partners/v1/authorizations/public/{authorization_id}/revoke: the holder's own revocation, on the receipt."""

import json

import pytest
from django.core.management import call_command
from django.utils import timezone

from authorizations import codes, dossier, retention
from authorizations.models import Evidence, PhoneCode, Session
from authorizations.phone_code import SESSION_TRIES, TRIES, Stage
from partners.models import Partner, WebhookEvent
from tests.authorizations.clients import HolderClient, open_session, other_than, public, sent_code
from tests.factories import PartnerFactory
from tests.operators import see
from tests.receiver import Receiver
from webhooks.models import Event

BUTTON = "Revogar esta autorização"
MASKED = "(11) *****-4321"


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(webhook_events=[WebhookEvent.AUTHORIZATION_REVOKED])


@pytest.fixture
def confirmed(holder: HolderClient, gateway: Receiver, db: None) -> Session:
    """A session that the holder accepted with a code."""
    session = open_session(PartnerFactory(sms_code=True))
    assert holder.confirm(session, holder.get_code(session, gateway)).status_code == 303
    return session


def state() -> tuple[str, str]:
    session = Session.objects.get()
    return session.status_at(timezone.now()), session.revoked_by


def test_the_holder_revokes_the_authorization(accepted: Session, holder: HolderClient) -> None:
    """Before the fix, the holder had to write to the partner."""
    see(holder, public(accepted), BUTTON)
    reply = holder.answer(accepted, "revoke")
    assert (reply.status_code, reply["Location"]) == (303, public(accepted))
    assert state() == ("revoked", "titular")
    see(holder, public(accepted), "<h1>Autorização revogada</h1>", hidden=[BUTTON])
    before = Session.objects.values().get()
    assert holder.post(f"{public(accepted)}/revoke").status_code == 303
    assert Session.objects.values().get() == before
    event = Event.objects.get()
    assert json.loads(event.body)["status"] == "revoked"
    read = dossier.page(Evidence.objects.select_related("session").get(), timezone.now(), "operadora")
    assert "por titular. Motivo: “pedido do titular na página da autorização”" in read
    call_command("verify_evidence")


@pytest.mark.parametrize("end", ["expired link", "erased"])
def test_it_ends_with_the_link(accepted: Session, holder: HolderClient, end: str) -> None:
    if end == "erased":
        retention.erase(accepted.cpf_index)
    else:
        Session.objects.update(expires_at=timezone.now())
    see(holder, public(accepted), "Para revogar a autorização ou pedir seus dados, fale com", hidden=[BUTTON])
    assert holder.post(f"{public(accepted)}/revoke").status_code == 303
    assert state() == ("authorized", "")


def test_a_partner_that_asks_for_codes_gets_one_for_the_revocation(
    confirmed: Session, holder: HolderClient, gateway: Receiver
) -> None:
    assert "Receber o código por SMS" in holder.page(confirmed)
    refused = holder.confirm(confirmed, route="revoke", code=sent_code(gateway))
    assert refused.status_code == 422
    assert "Peça o código por SMS antes de decidir." in refused.content.decode(), "each code confirms one act"
    new = holder.get_code(confirmed, gateway)
    assert "o seu código para revogar a autorização dada a Parceiro" in gateway.received[-1].json()["text"]
    wrong = holder.confirm(confirmed, route="revoke", code=other_than(new))
    assert wrong.status_code == 422
    assert "Tentativas que restam: 4." in wrong.content.decode()
    assert state() == ("authorized", "")
    assert holder.confirm(confirmed, route="revoke", code=new).status_code == 303
    assert state() == ("revoked", "titular")
    assert f"confirmado por código enviado a {MASKED}" in str(Session.objects.get().revocation_reason)
    assert Evidence.objects.get().phone_confirmation is not None, "that of the acceptance"
    call_command("verify_evidence")


def test_with_codes_only_our_page_revokes(confirmed: Session, gateway: Receiver) -> None:
    elsewhere = HolderClient().send(confirmed, "revoke", code=HolderClient().get_code(confirmed, gateway))
    assert elsewhere.status_code == 422
    assert "<h1>Abra o pedido de novo</h1>" in elsewhere.content.decode()
    assert HolderClient().post(f"{public(confirmed)}/revoke").status_code == 422
    assert state() == ("authorized", "")


def test_too_many_wrong_codes_end_the_revocation_and_not_the_authorization(
    confirmed: Session, holder: HolderClient, gateway: Receiver
) -> None:
    for _ in range(SESSION_TRIES // TRIES):
        code = holder.get_code(confirmed, gateway)
        for _ in range(TRIES):
            last = holder.confirm(confirmed, route="revoke", code=other_than(code))
    assert "esta página não aceita outro" in last.content.decode()
    assert 'name="page"' not in holder.page(confirmed), "no form is left"
    row, now = PhoneCode.objects.get(), timezone.now()
    with pytest.raises(codes.WrongCode):  # even for the right one
        codes.check(confirmed, code, now)
    assert (row.stage(now), row.another_from(now)) == (Stage.USED_UP, None)
    assert state() == ("authorized", "")
