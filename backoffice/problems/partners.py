"""Partners that do not get their events, are suspended, or have old keys."""

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.problem import OVERDUE, Problem, changed_by, waiting
from foundation.backoffice.pages import list_of
from foundation.formats import counted, listed
from partners.models import ApiKey, Partner
from webhooks import health
from webhooks.models import Event

#: A key without expiry that is older should be replaced.
OLD_KEY = timedelta(days=365)
#: The second condition makes PostgreSQL use the index of due events.
_DUE_EVENTS = Event.objects.filter(state=Event.State.DUE, due_at__isnull=False)


def failing_deliveries() -> Iterator[Problem]:
    """The partners to which deliveries fail, the longest trouble first."""
    titles = {health.State.DOWN: "não recebe eventos", health.State.FAILING: "entregas falham"}
    resend = reverse("admin:webhooks_event_resend_window")
    for each in sorted(health.of_partners(), key=lambda each: each.failing_since or timezone.now()):
        if each.state is health.State.RECEIVING:
            continue
        mine, advice = (
            f"partner__id__exact={each.partner_id}",
            "Avise o parceiro. O serviço repete as entregas por umas 28 horas.",
        )
        if each.has_recovered:
            advice = "A última entrega deu certo. O que espera nova tentativa pode sair já: reenvie desde a falha."
        yield Problem(
            f"{each.name}: {titles[each.state] if each.failed else 'eventos esperam nova tentativa'}",
            list_of(Event, f"{mine}&state__exact=due" if each.is_waited_for else mine),
            "Eventos à espera" if each.is_waited_for else "Eventos do parceiro",
            each.words,
            advice,
            each.failing_since,
            more=[
                (reverse("partner", args=[each.partner_id]), "Página do parceiro"),
                (f"{resend}?partner={each.partner_id}&period=failure", "Reenviar desde a falha"),
            ],
        )


def overdue_events() -> Iterator[Problem]:
    now = timezone.now()
    for found in waiting(_DUE_EVENTS.filter(Event.is_due(now), due_at__lt=now - OVERDUE), "due_at"):
        yield found.problem(
            ("evento de webhook atrasado", "eventos de webhook atrasados"),
            list_of(Event, "state__exact=due"),
            "Eventos à espera",
            "A entrega está em execução? Confira beat, sweeps e webhooks.",
        )


def undelivered_events() -> Iterator[Problem]:
    for found in waiting(Event.objects.filter(state=Event.State.FAILED, purged_at=None)):
        yield found.problem(
            ("evento de webhook não foi entregue", "eventos de webhook não foram entregues"),
            list_of(Event, "state__exact=failed"),
            "Eventos falhados",
            "As tentativas acabaram. Quando o parceiro voltar a receber, reenvie-os: por período, ou todos os dele.",
        )


def unsendable_events() -> Iterator[Problem]:
    """The events that wait for their partner's URL or secret. A partner without a URL may read them from the API."""
    has_no_url = Q(partner__webhook_url="")
    has_no_secret = Q(partner__webhook_secret__isnull=True, partner__deliveries_held=False)
    for found in waiting(_DUE_EVENTS.filter(has_no_url | has_no_secret), group=has_no_url):
        if found.group:
            yield found.planned(
                ("evento sem URL para onde sair", "eventos sem URL para onde sair"),
                list_of(Event, "state__exact=due&partner__webhook_url__exact="),
                "Se o parceiro não os lê pela API, escreva a URL no Cadastro dele.",
            )
        else:
            yield found.problem(
                ("evento não pode sair", "eventos não podem sair"),
                list_of(Event, "state__exact=due"),
                "Eventos à espera",
                "Emita um: na página do parceiro, Trocar segredo do webhook.",
                "Falta o segredo de webhook do parceiro. ",
            )


def held_events() -> Iterator[Problem]:
    """The events that an operator holds, by partner, and who held them when."""
    held = _DUE_EVENTS.filter(partner__deliveries_held=True).exclude(partner__webhook_url="")
    for found in sorted(waiting(held, group=F("partner")), key=lambda each: each.whose):
        by = changed_by(Partner, found.group, "deliveries_held") or "por um operador"
        yield Problem(
            f"{found.whose}: {counted(found.number, 'evento retido', 'eventos retidos', '')} {by}",
            list_of(Event, f"partner__id__exact={found.group}&state__exact=due"),
            advice="Saem quando alguém reativa o parceiro.",
            since=found.since,
            is_neutral=True,
        )


def suspended() -> Iterator[Problem]:
    status = Partner.Status.SUSPENDED
    names = list(Partner.objects.filter(status=status).order_by("name").values_list("name", flat=True))
    if names:
        title = f"{counted(len(names), 'parceiro suspenso', 'parceiros suspensos', '')}: {listed(names, len(names))}"
        yield Problem(title, list_of(Partner, f"status__exact={status}"), is_neutral=True)


def old_keys() -> Iterator[Problem]:
    since = timezone.now() - OLD_KEY
    for found in waiting(ApiKey.objects.filter(expires_at=None, revoked_at=None, created_at__lt=since)):
        yield found.problem(
            ("chave sem validade tem mais de um ano", "chaves sem validade têm mais de um ano"),
            list_of(ApiKey, "o=5"),
            "Chaves de API",
            "Emita outra para o parceiro, espere que ele a use, e revogue a antiga.",
        )
