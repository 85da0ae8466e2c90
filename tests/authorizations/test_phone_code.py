"""The code that a holder gets on the declared phone before an acceptance or a revocation, if the partner wants it."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from authorizations import codes, dossier, seal, sessions
from authorizations.models import Evidence, PhoneCode, PhoneUse, Session
from authorizations.phone_code import CODES, LEASE, PAUSE, SESSION_TRIES, TRIES, VALIDITY, Stage
from foundation.errors import NotFound
from tests.authorizations.clients import (
    PHONE,
    HolderClient,
    PartnerClient,
    open_session,
    other_than,
    public,
    route,
    sent_code,
)
from tests.factories import PartnerFactory
from tests.operators import says, see
from tests.receiver import Receiver, Reply
from webhooks.models import Event

MASKED = "(11) *****-4321"
CPFS = ("52998224725", "90000000256", "90000000175", "90000000337")


@pytest.fixture
def session(db: None, gateway: Receiver) -> Session:
    """A pending session of a partner that asks for the code."""
    return open_session(PartnerFactory(name="Crédito Fácil & Cia", sms_code=True))


def test_the_code_opens_the_acceptance_and_stands_in_the_evidence(
    session: Session, holder: HolderClient, gateway: Receiver
) -> None:
    see(holder, public(session), "Receber o código por SMS", hidden=["Li e autorizo</button>"])
    asked = holder.answer(session, "code")
    assert (asked.status_code, asked["Location"]) == (303, f"{public(session)}#codigo")
    see(holder, public(session), "Estamos enviando")
    codes.send_due()
    (message,) = gateway.received
    code, row = sent_code(gateway), PhoneCode.objects.values().get()
    assert re.fullmatch(r"[0-9a-f]{64}", row["digest"])
    assert code not in str(row), "the digits are kept nowhere"
    assert seal.sha256(code.encode()) != row["digest"], "a keyed hash"
    assert message.json() == {
        "to": f"+55{PHONE}",
        "text": f"{code} é o seu código para autorizar Crédito Fácil & Cia a consultar seus dados. "
        "Vale por 10 minutos. Não o passe a ninguém.",
        "reference": message.headers["idempotency-key"],
    }
    assert message.headers["authorization"] == "Bearer gateway-token"
    field = ('autocomplete="one-time-code"', 'inputmode="numeric"', '<label for="code">')
    sent = f'Enviamos um código de seis dígitos por SMS para <strong class="whole">{MASKED}'
    see(holder, public(session), *field, sent, hidden=[PHONE])
    assert holder.confirm(session, f" {code[:3]} {code[3:]}").status_code == 303
    evidence = Evidence.objects.get()
    fact = evidence.content["phone_confirmation"]
    assert fact == {
        "number": MASKED,
        "sent_at": fact["sent_at"],
        "confirmed_at": evidence.content["observed_by_server"]["accepted_at"],
    }
    assert fact["sent_at"][:23] == row["sent_at"].isoformat()[:23]
    assert f'enviado a <span class="whole">{MASKED}' in holder.page(session)
    assert f"para {MASKED} em " in dossier.page(evidence, timezone.now(), "operadora")
    assert PartnerClient(session.partner).get(route(session)).json()["evidence"]["phone_confirmation"] == fact
    call_command("verify_evidence")


def test_a_wrong_code_five_times(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    code = holder.get_code(session, gateway)
    for left in range(TRIES - 1, 0, -1):
        reply = holder.confirm(session, other_than(code), browser='{"geolocation":{"lat":1,"lng":2}}')
        kept = "{&quot;geolocation&quot;:{&quot;lat&quot;:1,&quot;lng&quot;:2}}"
        told = f"O código não confere. Tentativas que restam: {left}."
        says(reply, told, 'aria-invalid="true"', kept, status=422)
        assert f"restam {left}" in holder.page(session), "also after a reload"
    assert holder.confirm(session, other_than(code)).status_code == 422
    says(holder.confirm(session, code), "Foram 5 tentativas", "Receber outro código", status=422)
    assert (Evidence.objects.count(), Event.objects.count(), Session.objects.get().status) == (0, 0, "pending")
    assert holder.confirm(session, holder.get_code(session, gateway)).status_code == 303


def test_a_malformed_code_costs_no_try(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    holder.get_code(session, gateway)
    for typed in ("", "12345", "1234567", "abcdef"):
        assert "Digite os 6 números" in holder.confirm(session, typed).text
    assert PhoneCode.objects.get().tries == 0


def test_a_session_that_is_deleted_behind_a_wrong_code_is_answered_by_a_page(
    session: Session, holder: HolderClient, gateway: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a session that was deleted between the wrong code and its page gave a 500."""
    code, find = holder.get_code(session, gateway), sessions.find

    def find_until_refused(*whose: Any) -> Session:
        if PhoneCode.objects.filter(tries__gt=0).exists():
            raise NotFound
        return find(*whose)

    monkeypatch.setattr(sessions, "find", find_until_refused)
    answered = holder.confirm(session, other_than(code))
    assert (answered.status_code, answered["Content-Type"]) == (422, "text/html; charset=utf-8")


def test_a_session_ends_after_ten_wrong_codes(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    """Before the fix, each of ten codes had five guesses, and each further session fifty more."""
    for _ in range(SESSION_TRIES // TRIES):
        code = holder.get_code(session, gateway)
        last = [holder.confirm(session, other_than(code)) for _ in range(TRIES)][-1]
    says(last, "Chegaram códigos errados demais", hidden=["72 horas"], status=410)
    session.refresh_from_db()
    assert session.status == Session.Status.EXPIRED
    assert holder.send(session, page="", accepted="true", code=code).status_code == 410, "a page that was kept"
    assert not Evidence.objects.exists()


def test_one_phone_has_a_number_of_codes_a_day_over_all_sessions(
    holder: HolderClient, gateway: Receiver, settings: Any, db: None, admin_client: Client
) -> None:
    """Before the fix, 30 sessions with one phone had 30 SMS sent within seconds."""
    settings.SMS_PER_PHONE_A_DAY = 3
    partners = [PartnerFactory(sms_code=True), PartnerFactory(sms_code=True)]
    opened = [open_session(partners[number % 2], cpf) for number, cpf in enumerate(CPFS)]
    replies = [holder.answer(each, "code") for each in opened]
    assert [reply.status_code for reply in replies] == [303, 303, 303, 429]
    assert 0 < int(replies[-1]["Retry-After"]) <= 24 * 3600
    assert "Por hoje chega de códigos" in replies[-1].text
    codes.send_due()
    assert len(gateway.received) == 3
    see(admin_client, f"/admin/parceiro/{partners[1].pk}/", "recusados: 1")
    assert codes.use_of(partners[0]).refused == 0  # type: ignore[union-attr]
    PhoneUse.objects.update(day=timezone.localdate() - timedelta(days=3))
    assert holder.answer(opened[-1], "code").status_code == 303, "the next day counts anew"
    codes.purge_uses()
    assert {use.day for use in PhoneUse.objects.all()} == {timezone.localdate()}


def test_wrong_answers_count_like_codes_and_hold_back_the_right_one(
    session: Session, holder: HolderClient, gateway: Receiver, settings: Any
) -> None:
    settings.SMS_PER_PHONE_A_DAY = 3
    code = holder.get_code(session, gateway)
    assert [holder.confirm(session, other_than(code)).status_code for _ in range(3)] == [422, 422, 422]
    assert holder.confirm(session, code).status_code == 429
    assert not Evidence.objects.exists()
    PhoneUse.objects.update(count=3)
    assert holder.confirm(session, code).status_code == 303


def test_all_phones_of_a_partner_have_a_number_a_day(
    session: Session, holder: HolderClient, gateway: Receiver, settings: Any
) -> None:
    settings.SMS_PER_PARTNER_A_DAY = 1
    holder.get_code(session, gateway)
    other, _ = sessions.open_session(Session(partner=session.partner, cpf=CPFS[1], name="Outra", phone="11912345678"))
    assert holder.answer(other, "code").status_code == 429
    stranger = open_session(PartnerFactory(sms_code=True))
    assert holder.answer(stranger, "code").status_code == 303, "the limit is this partner's"
    assert {PHONE, "11912345678"}.isdisjoint(PhoneUse.objects.values_list("of", flat=True))


def test_a_code_expires(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    code = holder.get_code(session, gateway)
    PhoneCode.objects.update(sent_at=timezone.now() - VALIDITY)
    says(holder.confirm(session, code), "O código expirou", status=422)
    assert not Evidence.objects.exists()


def test_a_further_code_takes_the_place_of_the_one_before(
    session: Session, holder: HolderClient, gateway: Receiver
) -> None:
    first = holder.get_code(session, gateway)
    second = holder.get_code(session, gateway)
    if first != second:
        assert holder.confirm(session, first).status_code == 422
    assert holder.confirm(session, second).status_code == 303


def test_codes_are_sent_at_most_every_30_seconds_and_ten_times(
    session: Session, holder: HolderClient, gateway: Receiver
) -> None:
    assert timedelta(seconds=30) == PAUSE
    holder.get_code(session, gateway)
    assert holder.answer(session, "code").status_code == 303
    codes.send_due()
    assert len(gateway.received) == 1
    PhoneCode.objects.update(number=CODES, requested_at=timezone.now() - PAUSE)
    assert "peça um novo link" in holder.page(session)
    assert holder.answer(session, "code").status_code == 303
    codes.send_due()
    assert len(gateway.received) == 1


def test_each_page_is_answered_once(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    """A double tap without script: the second request redirects to the page, which shows the current state."""
    code = holder.get_code(session, gateway)
    used = holder.hidden(session)["page"]
    assert holder.confirm(session, other_than(code), page=used).status_code == 422
    again = holder.confirm(session, code, page=used)
    assert (again.status_code, again["Location"]) == (303, public(session))
    assert (PhoneCode.objects.get().tries, Evidence.objects.count()) == (1, 0)


def test_nobody_but_the_page_has_a_code_sent(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    assert holder.send(session, "code").status_code == 422
    assert HolderClient().send(session, "code", **holder.hidden(session)).status_code == 422
    assert not PhoneCode.objects.exists()


@pytest.mark.parametrize("production", [True, False])
def test_no_code_is_no_acceptance(session: Session, holder: HolderClient, settings: Any, production: bool) -> None:
    settings.PRODUCTION = production
    says(holder.confirm(session, "123456"), "Peça o código por SMS", status=422)
    assert holder.accept(session, {}).status_code == 404, "JSON is no way around it"
    assert holder.send(session, accepted="true").status_code == 422
    assert not Evidence.objects.exists()


def test_a_partner_that_asks_for_no_code_has_no_such_route(holder: HolderClient, db: None, gateway: Receiver) -> None:
    session = open_session(PartnerFactory())
    assert holder.answer(session, "code").status_code == 404
    assert "SMS" not in holder.page(session)
    assert holder.confirm(session, "").status_code == 303
    assert Evidence.objects.get().phone_confirmation is None


def test_a_closed_session_sends_no_code(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    shown = holder.hidden(session)
    assert holder.answer(session, "code").status_code == 303
    Session.objects.update(expires_at=timezone.now())
    codes.send_due()
    assert gateway.received == []
    assert PhoneCode.objects.get().failed_at is not None
    assert holder.send(session, "code", **shown).status_code == 410


# --- Revocation on the receipt -----------------------------------------------------------------------------------


@pytest.fixture
def confirmed(holder: HolderClient, gateway: Receiver, db: None) -> Session:
    """A session that the holder accepted with a code."""
    session = open_session(PartnerFactory(sms_code=True))
    assert holder.confirm(session, holder.get_code(session, gateway)).status_code == 303
    return session


def state() -> tuple[str, str]:
    """The only session's status, and who revoked it."""
    session = Session.objects.get()
    return session.status_at(timezone.now()), session.revoked_by


def test_a_partner_that_asks_for_codes_gets_one_for_the_revocation(
    confirmed: Session, holder: HolderClient, gateway: Receiver
) -> None:
    assert "Receber o código por SMS" in holder.page(confirmed)
    refused = holder.confirm(confirmed, route="revoke", code=sent_code(gateway))
    says(refused, "Peça o código por SMS antes de decidir.", status=422)  # each code confirms one act
    new = holder.get_code(confirmed, gateway)
    assert "o seu código para revogar a autorização dada a Parceiro" in gateway.received[-1].json()["text"]
    wrong = holder.confirm(confirmed, route="revoke", code=other_than(new))
    says(wrong, "Tentativas que restam: 4.", status=422)
    assert state() == ("authorized", "")
    assert holder.confirm(confirmed, route="revoke", code=new).status_code == 303
    assert state() == ("revoked", "titular")
    assert f"confirmado por código enviado a {MASKED}" in str(Session.objects.get().revocation_reason)
    assert Evidence.objects.get().phone_confirmation is not None, "that of the acceptance"
    call_command("verify_evidence")


def test_with_codes_only_our_page_revokes(confirmed: Session, gateway: Receiver) -> None:
    elsewhere = HolderClient().send(confirmed, "revoke", code=HolderClient().get_code(confirmed, gateway))
    says(elsewhere, "<h1>Abra o pedido de novo</h1>", status=422)
    assert HolderClient().post(f"{public(confirmed)}/revoke").status_code == 422
    assert state() == ("authorized", "")


def test_too_many_wrong_codes_end_the_revocation_and_not_the_authorization(
    confirmed: Session, holder: HolderClient, gateway: Receiver
) -> None:
    for _ in range(SESSION_TRIES // TRIES):
        code = holder.get_code(confirmed, gateway)
        for _ in range(TRIES):
            last = holder.confirm(confirmed, route="revoke", code=other_than(code))
    assert "esta página não aceita outro" in last.text
    assert 'name="page"' not in holder.page(confirmed), "no form is left"
    row, now = PhoneCode.objects.get(), timezone.now()
    with pytest.raises(codes.WrongCode):  # even for the right one
        codes.check(confirmed, code, now)
    assert (row.stage(now), row.another_from(now)) == (Stage.USED_UP, None)
    assert state() == ("authorized", "")


# --- Sending --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "tried", "counts"),
    [
        ([Reply(503), Reply(202)], 2, True),
        *(([Reply(status)], 3, False) for status in (503, 500, 429)),
        *(([Reply(status)], 1, False) for status in (400, 401, 302)),
        # These may have arrived.
        *(([reply], 3, True) for reply in (Reply(reset=True), Reply(502), Reply(504))),
    ],
)
def test_a_gateway_that_fails(
    session: Session, holder: HolderClient, gateway: Receiver, replies: list[Reply], tried: int, counts: bool
) -> None:
    gateway.reply = lambda _: replies[min(len(gateway.received), len(replies)) - 1]
    code = holder.get_code(session, gateway)
    assert len({(sent.body, sent.headers["idempotency-key"]) for sent in gateway.received}) == 1
    assert len(gateway.received) == tried
    assert ("Não conseguimos enviar o SMS" in holder.page(session)) is not counts
    assert holder.confirm(session, code).status_code == (303 if counts else 422)
    if not counts:
        gateway.reply = Reply(202)
        assert holder.confirm(session, holder.get_code(session, gateway)).status_code == 303


def taken(session: Session) -> Any:
    """The code, taken by this worker."""
    PhoneCode.claim(PhoneCode.due(), 1, LEASE)
    return codes._take(session.pk)


def test_a_worker_that_died_is_followed_by_another(session: Session, holder: HolderClient, gateway: Receiver) -> None:
    holder.answer(session, "code")
    assert taken(session) is not None  # that worker died
    codes.send_due()
    assert gateway.received == [], "while the lease lasts nobody else sends it"
    PhoneCode.objects.update(lease_until=timezone.now())
    codes.send_due()
    codes.send_due()
    assert len(gateway.received) == 1
    assert holder.confirm(session, sent_code(gateway)).status_code == 303


def test_a_slow_worker_changes_nothing_of_a_later_code(
    session: Session, holder: HolderClient, gateway: Receiver
) -> None:
    holder.answer(session, "code")
    late = taken(session)
    assert late is not None
    code = holder.get_code(session, gateway)
    late[0].mark_failed(timezone.now())
    assert holder.confirm(session, code).status_code == 303


def test_without_a_gateway(session: Session, holder: HolderClient, settings: Any) -> None:
    settings.SMS_GATEWAY_URL = ""
    holder.answer(session, "code")
    codes.send_due()
    assert "Não conseguimos enviar o SMS" in holder.page(session)


def test_number_and_text_stay_out_of_the_logs(
    session: Session, holder: HolderClient, gateway: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.reply = Reply(503)
    code = holder.get_code(session, gateway)
    told = caplog.text
    assert "text_message_failed" in told
    assert not [secret for secret in (PHONE, code, "gateway-token", "Crédito") if secret in told]
