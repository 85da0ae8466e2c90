"""The operator's pages and commands: what happened to an event, and sending it again."""

import html
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.test import Client
from django.urls import reverse_lazy
from django.utils import timezone

from foundation.models import AuditEntry
from partners.models import Partner, WebhookEvent
from providers.types.proposal import ProposalStatus
from tests.operators import page_of, press, printed, rows_at, says, see
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import an_event, deliver_due, leave_attempts, leave_one_attempt, new_partner, send
from webhooks import outbox
from webhooks.admin import EventName
from webhooks.models import Event

LIST, RESEND = "/admin/webhooks/event/", reverse_lazy("admin:webhooks_event_resend_window")
CPF = "52998224725"
CAPABILITY = "Zk3vQ9tLm2Xw8RbYc5Hd7NpJ4sGf6TaU"


def resend(client: Client, *events: Event) -> str:
    """The page after the list's action on `events`."""
    chosen = {"action": "resend_selection", "_selected_action": [event.pk for event in events]}
    return client.post(LIST, chosen, follow=True).text


def test_list_shows_events_without_personal_data(admin_client: Client, partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(503, f"{CPF} unknown".encode())
    event = outbox.store(partner, "authorization_result", CPF, {"cpf": CPF})
    deliver_due()

    shown = (event.pk, partner.name, "authorization_result", "a entregar", "resposta fora de 2xx", "503")
    see(admin_client, LIST, *shown, "***.982.247-**", hidden=[CPF])


@pytest.mark.parametrize(
    ("model", "change", "told"),
    [
        (Partner, {"webhook_url": ""}, "parceiro sem URL de webhook"),
        (Partner, {"webhook_secret": None}, "parceiro sem segredo de webhook"),
        # Before the fix, an outage showed the calm blue of events that nobody had tried yet.
        (Event, {"fault": "refused", "failures": 1}, "a tentar de novo"),
    ],
)
def test_list_says_why_an_event_waits(
    admin_client: Client, partner: Partner, model: Any, change: dict[str, Any], told: str
) -> None:
    send(partner)
    see(admin_client, LIST, hidden=[told])
    model.objects.update(**change)
    see(admin_client, LIST, told)


def test_search_by_id_and_by_exact_reference(admin_user: User, partner: Partner) -> None:
    groups = [str(uuid.uuid4()), str(uuid.uuid4())]
    first, second = (outbox.store(partner, "lead", group, {}) for group in groups)
    for term, found in ((groups[0], first), (groups[1], second), (first.pk, first)):
        assert rows_at(admin_user, f"{LIST}?q={term}") == [found]


def test_neither_a_holder_nor_a_session_is_found_by_an_address(admin_client: Client, partner: Partner) -> None:
    """The search of the menu finds them (`tests/backoffice/test_search.py`)."""
    for name, reference in (("authorization_result", CPF), ("authorization.completed", CAPABILITY)):
        outbox.send(partner, name, reference, {})
    for typed in (CPF, "529.982.247-25", CAPABILITY, f" {CAPABILITY}"):
        reply = admin_client.get(LIST, {"q": typed})
        assert reply.context["cl"].result_count == 0
        assert "use a do menu" in reply.text


def test_the_filter_offers_every_event_that_is_sent() -> None:
    """Before the fix, it lacked `query.completed`, `webhook.test` and the ends of authorizations."""
    offered = [name for name, _ in EventName.choices_offered()]
    statuses = [f"proposal.{status}" for status in ProposalStatus]
    assert sorted(offered) == sorted([*(set(WebhookEvent.values) - {"proposal"}), *statuses, "webhook.test"])


def test_filters(admin_user: User, partner: Partner) -> None:
    lead, proposal = outbox.store(partner, "lead", "a", {}), outbox.store(partner, "proposal.signed", "b", {})
    outbox.store(new_partner(""), "lead", "c", {})
    Event.objects.filter(pk=lead.pk).update(state="failed", due_at=None)
    for query, found in (
        ("state__exact=failed", {lead}),
        ("name=proposal.signed", {proposal}),
        (f"partner__id__exact={partner.pk}", {lead, proposal}),
    ):
        assert set(rows_at(admin_user, f"{LIST}?{query}")) == found


def test_event_page_shows_attempts_and_masks_the_reference(
    admin_client: Client, partner: Partner, receiver: Receiver
) -> None:
    receiver.reply = Reply(410, b"subscription ended")
    event = outbox.store(partner, "lead", CPF, {})
    deliver_due()

    shown = ("***.982.247-**", receiver.url, "410", "subscription ended", "não receber mais", "Reenviar")
    see(admin_client, event, *shown, hidden=[CPF, str(partner.webhook_secret), 'name="_save"'])


def test_an_event_of_a_session_is_masked_everywhere_and_who_opens_it_is_recorded(
    admin_client: Client, partner: Partner, receiver: Receiver
) -> None:
    """Before the fix, all but `authorization.completed` showed the id that opens the holder's receipt, in pages and
    in exports, and no entry said who had read it."""
    personal = ("529.982.247-25", "maria@example.com", "11987654321", CPF)
    receiver.reply = Reply(503, f"unknown: {CAPABILITY} {' '.join(personal)} (code 17)".encode())
    told = f"unknown: {CAPABILITY[:6]}… [oculto] [oculto] [oculto] [oculto] (code 17)"
    names = [name for name in WebhookEvent.values if name.startswith("authorization.")]
    events = [outbox.store(partner, name, CAPABILITY, {"authorization_id": CAPABILITY}) for name in names]
    deliver_due()
    for name, event in zip(names, events, strict=True):
        see(admin_client, event, name, told, hidden=[CAPABILITY, *personal])
    see(admin_client, LIST, *names, hidden=[CAPABILITY])
    found, whole = (b"".join(admin_client.post(f"{LIST}export/{query}")).decode() for query in (f"?q={CAPABILITY}", ""))
    assert CAPABILITY not in found + whole
    assert [name for name in names if name not in whole] == []
    entries = AuditEntry.objects.all()
    viewed = {(each.who, each.object_id) for each in entries.filter(action="viewed")}
    assert viewed == {("admin", event.pk) for event in events}
    assert not any(CAPABILITY in f"{each.detail}{each.changes}{each.object_name}" for each in entries)


def test_event_page_shows_the_newest_attempts_only(admin_client: Client, partner: Partner) -> None:
    """Before the fix, the page of an event with 40,000 attempts never came."""
    [event] = send(partner)
    leave_attempts(event, 120)
    formset = admin_client.get(page_of(event)).context["inline_admin_formsets"][0].formset
    assert [form.instance.number for form in formset.initial_forms] == list(range(71, 121))


def test_resend_a_selection(admin_client: Client, partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(410)
    events = send(partner, 3)
    leave_one_attempt(*events)
    deliver_due()
    receiver.reply = Reply()

    assert "Colocados na fila de entrega: 2." in resend(admin_client, *events[:2])
    deliver_due()
    states = [Event.objects.get(pk=event.pk).state for event in events]
    assert states == ["delivered", "delivered", "failed"]
    assert AuditEntry.objects.filter(object_id__in=[event.pk for event in events], action="resent").count() == 2


# --- A time, and the body -----------------------------------------------------------------------------------------


def at(hour: int) -> str:
    """The time in so many hours, as a browser's field for date and time sends it."""
    return f"{timezone.localtime() + timedelta(hours=hour):%Y-%m-%dT%H:%M}"


def test_events_of_a_time_are_counted_first_and_then_sent_again(admin_client: Client, partner: Partner) -> None:
    other = new_partner("https://b.example/w")
    now = timezone.now()
    states = ["failed", "delivered", "due", "failed", "failed"]
    for hours, state in enumerate(states):
        an_event(partner, state=state, created_at=now - timedelta(hours=2 * hours))
    an_event(other, state="failed")
    an_event(partner, state="failed", body=None, purged_at=now)
    form = {"partner": str(partner.pk), "begin": at(-7), "end": at(1), "which": "failed"}
    assert "ainda não reenvia" in admin_client.get(RESEND).text
    counted = press(admin_client, str(RESEND), "Contar", **form, period="")
    assert "a reenviar 2 eventos" in counted.text
    assert "a reenviar 3 eventos" in admin_client.post(RESEND, {**form, "which": "all"}).text
    assert Event.objects.filter(state="due").count() == 1, "a count sends nothing"
    grown = f"Agora são mais do que os 1 contados. {partner}: a reenviar 2 eventos"
    says(admin_client.post(RESEND, {**form, "seen": "1"}), grown)
    assert "reenviados: 2, criados" in press(admin_client, counted, "Reenviar 2").text
    assert Event.objects.filter(partner=partner, state="due").count() == 3
    assert Event.objects.filter(partner=other, state="failed").count() == 1
    assert "reenviados: 2, criados" in AuditEntry.objects.filter(action="resent").latest("at").detail


def test_events_that_left_after_the_count_keep_no_other_from_being_sent(admin_client: Client, partner: Partner) -> None:
    """Before the fix, a delivery between the count and the button sent nothing, and the same page came without a
    word."""
    [first, _, _] = (an_event(partner, state="failed") for _ in range(3))
    chosen = admin_client.get(RESEND).context["form"]["period"].value()
    assert chosen == "failure", "a form that is left as it is counts"
    counted = admin_client.post(RESEND, {"partner": str(partner.pk), "period": chosen, "which": "failed"})
    Event.objects.filter(pk=first.pk).update(state="delivered")
    answer = press(admin_client, counted, "Reenviar 3")
    says(answer, "reenviados: 2, criados", "Contados eram 3: os outros já saíram.")
    assert Event.objects.filter(state="due").count() == 2


@pytest.mark.parametrize(
    ("period", "hours", "found"),
    [("hour", (0.9, 1.1), 1), ("failure", (30, 50), 2), ("today", (0, 25), 1)],
)
def test_a_chosen_period_sends_also_what_waits_for_a_retry(
    admin_client: Client, partner: Partner, period: str, hours: tuple[float, float], found: int
) -> None:
    """Before the fix, events that still retried could not be sent again by period, and there was no preset; and the
    trail told the end of the period in UTC."""
    now = timezone.now()
    later = {"due_at": now + timedelta(hours=5), "failures": 6, "fault": "status"}
    for age in hours:
        an_event(partner, created_at=now - timedelta(hours=age), **later)
    an_event(partner, created_at=now - timedelta(hours=60))  # due now
    form = {"partner": str(partner.pk), "period": period, "begin": "", "end": "", "which": "failed"}
    page = admin_client.post(RESEND, form)
    assert f"a reenviar {found} evento" in page.text
    confirmed = page.context["form"].data
    assert f"reenviados: {found}, criados" in press(admin_client, page, f"Reenviar {found}").text
    detail = AuditEntry.objects.filter(action="resent").latest("at").detail
    begin, end = (timezone.localtime(datetime.fromisoformat(confirmed[name])) for name in ("begin", "end"))
    assert detail.endswith(f"criados de {begin:%d/%m/%Y %H:%M} a {end:%d/%m/%Y %H:%M}.")
    assert Event.objects.filter(due_at__lte=timezone.now(), resent=True, failures=0).count() == found


def test_a_period_since_the_failure_needs_one(admin_client: Client, partner: Partner) -> None:
    form = {"partner": str(partner.pk), "period": "failure", "which": "all"}
    assert "Nenhum evento deste parceiro falhou" in admin_client.post(RESEND, form).text
    assert "ou escolha um dos períodos" in admin_client.post(RESEND, {**form, "period": ""}).text


def test_a_faulty_time_sends_nothing(admin_client: Client, partner: Partner) -> None:
    an_event(partner, state="failed")
    form = {"partner": str(partner.pk), "begin": at(-7), "end": at(1), "which": "failed", "seen": "1"}
    strange = ({name: "x"} for name in ("begin", "partner", "period", "which"))
    for wrong in ({"end": at(-9)}, {"partner": str(uuid.uuid4())}, *strange):
        assert admin_client.post(RESEND, {**form, **wrong}).status_code == 200
        assert Event.objects.get().state == "failed", wrong


def test_the_body_is_shown_without_what_is_personal(admin_client: Client, partner: Partner) -> None:
    payload = {
        "cpf": CPF,
        "authorization_id": CAPABILITY,
        "provider": "ipe",
        "offers": [{"loanValue": 5000.5, "employerName": "Metalúrgica Aurora", "registration": "100200"}],
        "action": {"url": "https://bank.example/s", "detail": f"Ligue para {CPF}"},
        "best_offer": None,
    }
    event = outbox.store(partner, "authorization_result", CPF, payload)
    told = map(html.escape, ('"provider": "ipe"', '"loanValue": 5000.5', '"best_offer": null', "***.982.247-**"))
    see(admin_client, event, *told, hidden=[CPF, CAPABILITY, "Metalúrgica", "100200", "bank.example"])
    Event.objects.update(body=None, purged_at=timezone.now())
    see(admin_client, event, "apagado")


# --- Commands -----------------------------------------------------------------------------------------------------


def test_list_events(partner: Partner, receiver: Receiver) -> None:
    sent = [event for _ in range(101) for event in send(partner)]
    sent += [an_event(partner, state=state, attempts=n) for state, n in (("failed", 9), ("delivered", 1))]
    failed, delivered = (event.pk for event in sent[-2:])
    send(new_partner(receiver.url))  # a stranger's

    rows = printed("list_events", partner.pk)["events"]
    assert rows[:3] == [
        {"id": delivered, "event": "lead", "state": "delivered", "attempts": 1, "next_attempt_at": None},
        {"id": failed, "event": "lead", "state": "failed", "attempts": 9, "next_attempt_at": None},
        {
            "id": sent[-3].pk,
            "event": "lead",
            "state": "due",
            "attempts": 0,
            "next_attempt_at": f"{sent[-3].due_at:%Y-%m-%dT%H:%M:%SZ}",
        },
    ]
    assert [row["id"] for row in rows] == [event.pk for event in sent[:2:-1]], "the newest hundred"
    of_state = {state: printed("list_events", partner.pk, "--state", state)["events"] for state in Event.State.values}
    assert of_state == {"due": of_state["due"], "delivered": rows[:1], "failed": rows[1:2]}
    assert {row["state"] for row in of_state["due"]} == {"due"}


def test_an_unknown_state_or_event_is_refused(partner: Partner) -> None:
    with pytest.raises(CommandError):
        printed("list_events", partner.pk, "--state", "lost")
    with pytest.raises(CommandError, match=r"^Não há evento com o id evt_unknown\.$"):
        printed("resend_webhook", "evt_unknown")
