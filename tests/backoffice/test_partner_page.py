"""The page of a partner's activity."""

import contextlib
import html
import random
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.figures.charts import shown
from backoffice.figures.counting import hour_of
from backoffice.figures.models import BankHour, Progress, ReasonHour
from backoffice.figures.tables import part_of
from backoffice.partner_page import Use
from foundation.backoffice import admins
from foundation.models import AuditEntry
from partners import limits, registration
from partners.failed_calls import FailedCall
from partners.models import ApiKey, Partner
from tests.backoffice.story import Story
from tests.factories import PartnerFactory
from tests.operators import operator_with, page_of, press, says, see
from tests.plans import execute
from tests.webhooks.deliveries import an_event, leave_attempts
from webhooks.models import Attempt, Event

pytestmark = pytest.mark.django_db


def address(story: Story) -> str:
    return f"/admin/parceiro/{story.partner.pk}/"


def test_it_leads_to_each_list_with_its_count(
    admin_client: Client, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admins, "MOST", 2)
    links = {link.title: link for link in admin_client.get(address(story)).context["links"]}
    assert {title: link.value for title, link in links.items()} == {
        "Consultas": "1",
        "Ofertas": "1",
        "Propostas": "1",
        "Sessões de autorização": "1",
        "Eventos de webhook": "mais de 2",
    }
    for link in links.values():
        assert admin_client.get(link.address).context["cl"].result_count >= 1


def test_its_two_tabs_and_its_header_are_the_same(admin_client: Client, story: Story) -> None:
    """Before the fix, a partner had two pages that did not look like one."""
    settings = reverse("admin:partners_partner_change", args=[story.partner.pk])
    for own, other in ((address(story), settings), (settings, address(story))):
        page = admin_client.get(own).text
        tabs = page.partition('id="tabs-items"')[2].partition("</nav>")[0]
        assert re.findall(r'href="([^"]*)" class="([^"]*)"', tabs) == [
            (each, "active" if each == own else "") for each in (address(story), settings)
        ]
        assert reverse("admin:partners_partner_issue_key", args=[story.partner.pk]) in page
        assert other in page
    assert 'href=""' not in admin_client.get(reverse("admin:partners_partner_add")).text
    see(admin_client, reverse("admin:partners_partner_changelist"), f'href="{address(story)}"')


def test_its_numbers_are_what_sql_counts(admin_client: Client, story: Story) -> None:
    """Of the last day, neither those of another partner nor earlier ones. Of a closed bank no call failed."""
    chance, this_hour, other = random.Random(3), hour_of(timezone.now()), PartnerFactory()
    for _ in range(60):
        partner, at = chance.choice((story.partner, other)), this_hour - timedelta(minutes=chance.randint(0, 2400))
        call = {"method": "GET", "route": "r", "request_id": "r", "status": 404, "code": "not_found"}
        FailedCall.objects.create(partner=partner, at=at, times=chance.randint(1, 9), **call)
        an_event(partner, created_at=at, state=chance.choice(("delivered", "failed")))
    for ago in range(40):
        answers = {"ok": chance.randint(20, 50), "failed": chance.randint(0, 9)}
        BankHour.objects.create(hour=this_hour - timedelta(hours=ago), partner=story.partner, bank="ipe", **answers)
    closed = {"stage": "offer", "code": "bank_closed", "count": 2}
    ReasonHour.objects.create(hour=this_hour, partner=story.partner, bank="ipe", **closed)
    ApiKey.objects.filter(pk=story.key.pk).update(last_used_at=timezone.now() - timedelta(hours=3))
    until = Progress.objects.create(until=timezone.now() - timedelta(seconds=100)).until

    def sql(what: str, model: type[Model], column: str) -> tuple[int, ...]:
        where, since = f"WHERE partner_id = %s AND {column} >= %s", this_hour - timedelta(hours=23)
        [found] = execute(f"SELECT {what} FROM {model._meta.db_table} {where}", [story.partner.pk, since])
        return found

    told = {card.title: (card.value, card.note) for card in admin_client.get(address(story)).context["rates"]}
    [calls] = sql("sum(times)", FailedCall, "at")
    failed, answered = sql("sum(failed), sum(ok + failed)", BankHour, "hour")
    delivered, events = sql("count(*) FILTER (WHERE state = 'delivered'), count(*)", Event, "created_at")
    assert told["Última chamada aceita"] == ("há 3\xa0horas", "anotada uma vez por minuto")
    assert told["Chamadas com falha, 24 h"] == (
        shown(calls),
        f"a última há menos de um minuto: 422 invalid_input; a mais comum: 404 not_found ({shown(calls - 1)})",
    )
    assert told["Falhas de bancos, 24 h"] == (
        part_of(failed - 2, answered),
        f"{shown(failed - 2)} de {shown(answered)} respostas, contado até {timezone.localtime(until):%H:%M}",
    )
    assert told["Entregas, 24 h"] == (part_of(delivered, events), f"{delivered} de {events} eventos")


def test_it_shows_the_state_of_its_banks_and_keys(admin_client: Client, story: Story) -> None:
    story.partner.allowances.filter(provider="cedro").update(
        paused_until=timezone.now() + timedelta(hours=1), pause_reason="auditoria"
    )
    page = admin_client.get(address(story))
    (_, cedro, pause), (_, ipe, not_paused) = page.context["banks"].rows
    assert (cedro, not_paused) == ("pausado", "não"), "whatever the bank does, it is not called for this partner"
    assert "virada de folha" in ipe
    assert re.fullmatch(r"\d\d/\d\d/\d{4} \d\d:\d\d: auditoria", pause)
    [key] = page.context["keys"].rows
    assert story.key.prefix in key[0]
    assert key[1:3] == ("ativa", "produção")
    assert page.context["rates"][0].value == "nenhuma", "call was accepted yet"
    assert reverse("admin:partners_apikey_revoke", args=[story.key.pk]) in key[-1]
    looker = operator_with("view_partner", "view_apikey").get(address(story))
    assert looker.context["keys"].rows[0][-1] == "—"
    assert looker.context["banks"] is None


def test_refused_calls_use_no_more_than_the_limit(admin_client: Client, story: Story) -> None:
    """Before the fix, five calls of which three were refused stood as `5 de 2`."""
    Partner.objects.filter(pk=story.partner.pk).update(rate_limit=2)
    usage = limits.Usage(Partner.objects.get(pk=story.partner.pk))
    for _ in range(5):
        with contextlib.suppress(limits.LimitReached):
            usage.count_call()
    assert admin_client.get(address(story)).context["uses"][0] == Use("Chamadas neste minuto", 2, 2, refused=3)


def test_the_plot_has_the_events_of_a_day_by_hour_and_state(admin_client: Client, story: Story) -> None:
    Event.objects.filter(name="lead").update(created_at=timezone.now() - timedelta(hours=30))
    plot = admin_client.get(address(story)).context["plot"]
    assert plot.head == ["Hora", "entregue", "a entregar", "a tentar de novo", "falhou"]
    [row] = plot.rows
    assert row[1:] == ["0", "2", "0", "0"]


def test_it_tells_how_deliveries_go_and_leads_to_the_resend(admin_client: Client, story: Story) -> None:
    """Before the fix, an outage was only more of the calm blue, and the resend began with no period."""
    assert "Entregas:" not in admin_client.get(address(story)).text
    leave_attempts(story.event, 5, "timeout")
    Event.objects.filter(pk=story.event.pk).update(fault="timeout", failures=5, state="due")
    page = admin_client.get(address(story))
    assert "não recebe: 5 das últimas 5 tentativas falharam (tempo esgotado); falhas desde" in page.text
    assert page.context["plot"].rows[-1][3] == "1"
    [window] = re.findall(r'href="([^"]*)">reenviar desde a falha', page.text)
    see(admin_client, html.unescape(window), f'value="{story.partner.pk}" selected', 'value="failure" selected')


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        (None, "nenhuma tentativa em 24 h; o problema é nosso"),
        (("", 9), "nenhuma tentativa desde {last}; o problema é nosso"),
        (("timeout", 9), "nenhuma tentativa desde {last}; o problema é nosso"),
        (("", 0), "a última tentativa começou às {last}"),
    ],
)
def test_no_partner_receives_while_its_events_are_overdue(
    admin_client: Client, story: Story, attempts: tuple[str, int] | None, told: str
) -> None:
    """Before the fix, the page said `Entregas: recebe` while the process that delivers stood still."""
    last = ""
    if attempts:
        leave_attempts(story.event, 5, attempts[0], minutes_ago=attempts[1])
        last = f"{timezone.localtime(Attempt.objects.order_by('-at')[0].at):%H:%M}"
    Event.objects.filter(pk=story.event.pk).update(due_at=timezone.now() - timedelta(minutes=5))
    page = admin_client.get(address(story)).text
    assert f"1 evento espera há 5\xa0minutos: {told.format(last=last)}" in page
    assert (">recebe" in page, ">não recebe" in page) == (False, attempts == ("timeout", 9))


def test_a_test_event_is_sent_and_noted(admin_client: Client, story: Story) -> None:
    answer = press(admin_client, address(story), "Enviar evento de teste")
    event = Event.objects.get(name="webhook.test")
    assert answer.redirect_chain == [(page_of(event), 302)]
    assert AuditEntry.objects.filter(action="pushed", object_id=story.partner.pk).exists()
    mute = PartnerFactory()
    shown = admin_client.post(f"/admin/parceiro/{mute.pk}/", follow=True)
    says(shown, "não tem URL de webhook. Escreva-a em", f'href="{page_of(mute)}">Cadastro')
    Partner.objects.filter(pk=mute.pk).update(webhook_url="https://dois.example/w", webhook_secret=None)
    shown = admin_client.post(f"/admin/parceiro/{mute.pk}/", follow=True)
    says(shown, "com Trocar segredo do webhook", hidden=["ao operador"])
    assert Event.objects.filter(name="webhook.test").count() == 1


def test_it_shows_what_the_registration_lacks(admin_client: Client, story: Story) -> None:
    see(admin_client, address(story), "completo")
    mute = PartnerFactory(name="Muda")
    for page in (f"/admin/parceiro/{mute.pk}/", reverse("admin:partners_partner_changelist"), page_of(mute)):
        see(admin_client, page, "sem chave, sem bancos, sem URL, sem segredo")


def test_in_production_the_registration_lacks_what_the_holders_page_shows(settings: Any) -> None:
    settings.PRODUCTION = True
    partner = registration.with_facts(Partner.objects.filter(pk=PartnerFactory(cnpj="11222333000181").pk)).get()
    assert registration.gaps(partner)[-1] == "sem contato de privacidade"


def test_who_may_only_look_reads_lists_as_text(story: Story) -> None:
    """Before the fix, lists were shown as JSON."""
    Partner.objects.filter(pk=story.partner.pk).update(return_hosts=["chat.example", "loja.example"])
    story.partner.allowances.filter(provider="ipe").update(portfolios=["0123", "0456"])
    json = map(html.escape, ('["chat', '["0123', '["lead'))
    looker = operator_with("view_partner", "view_allowance")
    see(looker, story.partner, "chat.example, loja.example", "0123, 0456", "lead, authorization_result", hidden=json)


def test_each_sees_and_does_what_that_person_may(story: Story) -> None:
    looker = operator_with("view_partner", "view_query")
    shown = looker.get(address(story))
    assert [link.title for link in shown.context["links"]] == ["Consultas"]
    assert (shown.context["plot"], shown.context["keys"], shown.context["rates"]) == (None, None, [])
    assert "Enviar evento de teste" not in shown.text
    assert looker.post(address(story)).status_code == 403
    assert operator_with("view_query").get(address(story)).status_code == 403
    assert looker.get(f"/admin/parceiro/{uuid.uuid4()}/").status_code == 404
    assert not Event.objects.filter(name="webhook.test").exists()
    assert not [secret for secret in story.secrets if secret in shown.text]
