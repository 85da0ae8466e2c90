"""The page of a partner's activity."""

from __future__ import annotations

import html
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice import partner_page
from foundation.models import AuditEntry
from partners import registration
from partners.failed_calls import FailedCall
from partners.models import Partner
from tests.backoffice.story import Story
from tests.factories import PartnerFactory
from tests.operators import operator_with
from tests.webhooks.deliveries import leave_attempts
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def address(story: Story) -> str:
    return f"/admin/parceiro/{story.partner.pk}/"


def test_it_leads_to_each_list_with_its_count(
    admin_client: Client, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partner_page, "MOST", 2)
    FailedCall.objects.bulk_create(
        FailedCall(partner=story.partner, method="GET", route="r", status=404, request_id=f"r-{n}") for n in range(5)
    )
    links = {link.title: link for link in admin_client.get(address(story)).context["links"]}
    assert {title: link.count for title, link in links.items()} == {
        "Consultas": "1",
        "Ofertas": "1",
        "Propostas": "1",
        "Sessões de autorização": "1",
        "Eventos de webhook": "mais de 2",
        "Chamadas com falha": "mais de 2",
        "Chaves de API": "1",
    }
    for link in links.values():
        assert admin_client.get(link.address).context["cl"].result_count >= 1
    lead = admin_client.get(reverse("admin:partners_partner_activity", args=[story.partner.pk]))
    assert lead["Location"] == address(story)


def test_it_says_that_the_partner_is_suspended(admin_client: Client, story: Story) -> None:
    told = []
    for hold in (None, False, True):
        if hold is not None:
            story.partner.suspend(hold_deliveries=hold)
        told += re.findall(r"Situação:</strong> <span[^>]*>([^<]*)<", admin_client.get(address(story)).content.decode())
    assert told == ["ativo", "suspenso", "suspenso, entregas retidas"]


def test_the_plot_has_the_events_of_a_day_by_hour_and_state(admin_client: Client, story: Story) -> None:
    Event.objects.filter(name="lead").update(created_at=timezone.now() - timedelta(hours=30))
    plot = admin_client.get(address(story)).context["plot"]
    assert plot.head == ["Hora", "entregue", "a entregar", "a tentar de novo", "falhou"]
    [row] = plot.rows
    assert row[1:] == ["0", "2", "0", "0"]


def test_it_tells_how_deliveries_go_and_leads_to_the_resend(admin_client: Client, story: Story) -> None:
    """Before the fix, an outage was only more of the calm blue."""
    assert "Entregas:" not in admin_client.get(address(story)).content.decode()
    leave_attempts(story.event, 5, "timeout")
    Event.objects.filter(pk=story.event.pk).update(fault="timeout", failures=5, state="due")
    page = admin_client.get(address(story))
    assert "não recebe: 5 das últimas 5 tentativas falharam (tempo esgotado), desde" in page.content.decode()
    assert page.context["plot"].rows[-1][3] == "1"
    [window] = re.findall(r'href="([^"]*)">reenviar desde a falha', page.content.decode())
    assert f'value="{story.partner.pk}" selected' in admin_client.get(window).content.decode()


def test_a_test_event_is_sent_and_noted(admin_client: Client, story: Story) -> None:
    answer = admin_client.post(address(story))
    event = Event.objects.get(name="webhook.test")
    assert answer["Location"] == reverse("admin:webhooks_event_change", args=[quote(event.pk)])
    assert AuditEntry.objects.filter(action="pushed", object_id=story.partner.pk).exists()
    mute = PartnerFactory()
    shown = admin_client.post(f"/admin/parceiro/{mute.pk}/", follow=True).content.decode()
    assert "não tem URL de webhook. Escreva-a em" in shown
    assert f'href="{reverse("admin:partners_partner_change", args=[mute.pk])}">Cadastro' in shown
    Partner.objects.filter(pk=mute.pk).update(webhook_url="https://dois.example/w", webhook_secret=None)
    shown = admin_client.post(f"/admin/parceiro/{mute.pk}/", follow=True).content.decode()
    assert "com Trocar segredo do webhook" in shown
    assert "ao operador" not in shown
    assert Event.objects.filter(name="webhook.test").count() == 1


def test_it_shows_what_the_registration_lacks(admin_client: Client, story: Story) -> None:
    assert "completo" in admin_client.get(address(story)).content.decode()
    mute = PartnerFactory(name="Muda")
    told = "sem chave, sem bancos, sem URL, sem segredo"
    for page in (
        f"/admin/parceiro/{mute.pk}/",
        reverse("admin:partners_partner_changelist"),
        reverse("admin:partners_partner_change", args=[mute.pk]),
    ):
        assert told in admin_client.get(page).content.decode()


def test_in_production_the_registration_lacks_what_the_holders_page_shows(settings: Any) -> None:
    settings.PRODUCTION = True
    partner = registration.with_facts(Partner.objects.filter(pk=PartnerFactory(cnpj="11222333000181").pk)).get()
    assert registration.gaps(partner)[-1] == "sem contato de privacidade"


def test_who_may_only_look_reads_lists_as_text(story: Story) -> None:
    """Before the fix, lists were shown as JSON."""
    Partner.objects.filter(pk=story.partner.pk).update(return_hosts=["chat.example", "loja.example"])
    story.partner.allowances.filter(provider="ipe").update(portfolios=["0123", "0456"])
    page = reverse("admin:partners_partner_change", args=[story.partner.pk])
    shown = html.unescape(operator_with("view_partner", "view_allowance").get(page).content.decode())
    for text in ("chat.example, loja.example", "0123, 0456", "lead: "):
        assert text in shown
    for json in ('["chat', '["0123', '["lead'):
        assert json not in shown


def test_each_sees_and_does_what_that_person_may(story: Story) -> None:
    looker = operator_with("view_partner", "view_query")
    shown = looker.get(address(story))
    assert [link.title for link in shown.context["links"]] == ["Consultas"]
    assert shown.context["plot"] is None
    assert "Enviar evento de teste" not in shown.content.decode()
    assert looker.post(address(story)).status_code == 403
    assert operator_with("view_query").get(address(story)).status_code == 403
    assert looker.get(f"/admin/parceiro/{uuid.uuid4()}/").status_code == 404
    assert not Event.objects.filter(name="webhook.test").exists()
    assert not [secret for secret in story.secrets if secret in shown.content.decode()]
