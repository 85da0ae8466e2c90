"""The operator's pages: what happened to an event, and sending it again."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from partners.models import Partner
from tests.receiver import Receiver, Reply
from tests.webhooks.deliveries import deliver_due, new_partner, send
from webhooks import outbox
from webhooks.models import Event

LIST = "/admin/webhooks/event/"
CPF = "52998224725"


@pytest.fixture
def operator(admin_client: Client) -> Client:
    return admin_client


def page_of(event: Event) -> str:
    return reverse("admin:webhooks_event_change", args=[quote(event.pk)])


def resend(client: Client, *events: Event) -> str:
    """The page after the list's action on `events`."""
    chosen = {"action": "resend_selection", "_selected_action": [event.pk for event in events]}
    return client.post(LIST, chosen, follow=True).content.decode()


def test_list_shows_events_without_personal_data(operator: Client, partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(503, f"{CPF} unknown".encode())
    event = outbox.send(partner, "authorization_result", CPF, {"cpf": CPF})
    assert event is not None
    deliver_due()

    page = operator.get(LIST).content.decode()
    for shown in (event.pk, partner.name, "authorization_result", "a entregar", "resposta fora de 2xx"):
        assert shown in page
    assert CPF not in page


def test_list_says_when_a_partner_has_no_address(operator: Client, db: None) -> None:
    send(new_partner(""))

    assert "parceiro sem URL de webhook" in operator.get(LIST).content.decode()


def test_list_says_when_a_partner_has_no_secret(operator: Client, partner: Partner) -> None:
    send(partner)
    assert "parceiro sem segredo" not in operator.get(LIST).content.decode()
    Partner.objects.update(webhook_secret=None)

    assert "parceiro sem segredo de webhook" in operator.get(LIST).content.decode()


def test_search_by_id_and_by_exact_reference(operator: Client, partner: Partner) -> None:
    first, second = (outbox.send(partner, "lead", reference, {}) for reference in ("group-1", "group-2"))
    assert first is not None
    assert second is not None

    for term, found, other in (("group-1", first, second), ("group-2", second, first), (first.pk, first, second)):
        page = operator.get(LIST, {"q": term}).content.decode()
        assert page_of(found) in page
        assert page_of(other) not in page


def test_a_holder_is_not_searched_for_in_an_url(operator: Client, partner: Partner) -> None:
    event = outbox.send(partner, "authorization_result", CPF, {})
    assert event is not None

    assert page_of(event) not in operator.get(LIST, {"q": CPF}).content.decode()


def test_filters(operator: Client, partner: Partner) -> None:
    lead, proposal = outbox.send(partner, "lead", "a", {}), outbox.send(partner, "proposal.signed", "b", {})
    stranger = outbox.send(new_partner(""), "lead", "c", {})
    assert lead is not None
    assert proposal is not None
    assert stranger is not None
    Event.objects.filter(pk=lead.pk).update(state="failed", next_attempt_at=None)

    for query, found in (
        ({"state__exact": "failed"}, {lead}),
        ({"name": "proposal.signed"}, {proposal}),
        ({"partner__id__exact": str(partner.pk)}, {lead, proposal}),
    ):
        page = operator.get(LIST, query).content.decode()
        assert {event for event in (lead, proposal, stranger) if page_of(event) in page} == found


def test_event_page_shows_attempts_and_masks_the_reference(
    operator: Client, partner: Partner, receiver: Receiver
) -> None:
    receiver.reply = Reply(410, b"subscription ended")
    event = outbox.send(partner, "lead", CPF, {})
    assert event is not None
    deliver_due()

    page = operator.get(page_of(event)).content.decode()
    for shown in ("***.982.247-**", receiver.url, "410", "subscription ended", "não receber mais", "Reenviar"):
        assert shown in page
    assert CPF not in page
    assert partner.webhook_secret not in page
    assert 'name="_save"' not in page


def test_resend_a_selection(operator: Client, partner: Partner, receiver: Receiver) -> None:
    receiver.reply = Reply(410)
    events = send(partner, 3)
    deliver_due()
    receiver.reply = Reply()

    assert "Colocados na fila de entrega: 2." in resend(operator, *events[:2])
    deliver_due()
    states = [Event.objects.get(pk=event.pk).state for event in events]
    assert states == ["delivered", "delivered", "failed"]
    assert LogEntry.objects.filter(object_id__in=[event.pk for event in events]).count() == 2


def test_resend_one_from_its_page(operator: Client, partner: Partner, receiver: Receiver) -> None:
    [event] = send(partner)
    deliver_due()
    answer = operator.post(
        page_of(event),
        {
            "webhooks_event_resend_one": "",
            "attempt_set-TOTAL_FORMS": "0",
            "attempt_set-INITIAL_FORMS": "0",
        },
        follow=True,
    )

    assert "Colocados na fila de entrega: 1." in answer.content.decode()
    event.refresh_from_db()
    assert event.state == "due"
    assert LogEntry.objects.filter(object_id=event.pk).count() == 1
    deliver_due()
    assert receiver.ids == [event.pk, event.pk]


def test_a_get_resends_nothing(operator: Client, partner: Partner, receiver: Receiver) -> None:
    [event] = send(partner)
    deliver_due()
    operator.get(page_of(event), {"webhooks_event_resend_one": ""})

    event.refresh_from_db()
    assert event.state == "delivered"


def test_posting_the_page_changes_nothing(operator: Client, partner: Partner) -> None:
    [event] = send(partner)
    form = {"state": "failed", "attempts": "7", "attempt_set-TOTAL_FORMS": "0", "attempt_set-INITIAL_FORMS": "0"}
    operator.post(page_of(event), form)

    event.refresh_from_db()
    assert (event.state, event.attempts) == ("due", 0)
    assert not LogEntry.objects.exists()


def test_erased_content_cannot_be_resent(operator: Client, partner: Partner) -> None:
    [event] = send(partner)
    Event.objects.update(
        state="failed", next_attempt_at=None, body=None, external_reference=None, purged_at=timezone.now()
    )

    assert "Não reenviados, pois o conteúdo já foi apagado: 1." in resend(operator, event)
    assert "apagada" in operator.get(page_of(event)).content.decode()


def test_nobody_adds_or_deletes(operator: Client, partner: Partner) -> None:
    [event] = send(partner)

    assert operator.get(LIST + "add/").status_code == 403
    assert operator.post(reverse("admin:webhooks_event_delete", args=[quote(event.pk)])).status_code == 403
    assert Event.objects.filter(pk=event.pk).exists()


def test_an_operator_who_may_only_look_cannot_resend(client: Client, partner: Partner) -> None:
    [event] = send(partner)
    Event.objects.update(state="failed", next_attempt_at=None)
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_event"))
    client.force_login(viewer)

    assert event.pk in client.get(LIST).content.decode()
    resend(client, event)
    client.post(page_of(event), {"webhooks_event_resend_one": ""})
    event.refresh_from_db()
    assert event.state == "failed"
