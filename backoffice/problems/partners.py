"""Partners that do not get their events, whose calls are refused, that are suspended, or that have old keys."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import CharField, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Cast, Least
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.problem import Link, Problem, changed_by, overdue, waiting
from foundation.backoffice.pages import list_of
from foundation.errors import RateLimited, Unauthorized
from foundation.formats import counted, listed
from foundation.models import Action, AuditEntry
from partners import limits, registration
from partners.authentication import LAST_USED_EVERY
from partners.failed_calls import FailedCall
from partners.models import ApiKey, Partner
from webhooks import health
from webhooks.models import Event

#: A key without expiry that is older should be replaced.
OLD_KEY = timedelta(days=365)
#: How far the page looks back for refused calls, and how new the last one of a limit is that still refuses.
REFUSED_SHOWN, STILL_REFUSED = timedelta(hours=1), timedelta(minutes=5)
#: From so many on they are a problem: those of keys, and of a limit that stays used up until midnight.
REFUSED_LEAST = 3
#: The same for a limit that lets calls pass again within a minute.
REFUSED_BRIEFLY_LEAST = 60
#: The second condition makes PostgreSQL use the index of due events.
_DUE_EVENTS = Event.objects.filter(state=Event.State.DUE, due_at__isnull=False)


def failing_deliveries() -> Iterator[Problem]:
    """The partners to which deliveries fail, the longest trouble first."""
    titles = {health.State.DOWN: "não recebe eventos", health.State.FAILING: "entregas falham"}
    resend = reverse("admin:webhooks_event_resend_window")
    again = []
    for each in sorted(health.of_partners(), key=lambda each: each.failing_since or timezone.now()):
        if each.state is health.State.RECEIVING:
            again += [each] if each.waiting else []
            continue
        mine, advice = (
            f"partner__id__exact={each.partner_id}",
            "Avise o parceiro. O serviço repete as entregas por umas 28 horas.",
        )
        if each.has_recovered:
            advice = "A última entrega deu certo. O que espera nova tentativa pode sair já: reenvie desde a falha."
        yield Problem(
            f"{each.name}: {'eventos esperam nova tentativa' if each.has_recovered else titles[each.state]}",
            list_of(Event, f"{mine}&state__exact=due" if each.waiting else mine),
            "Eventos à espera" if each.waiting else "Eventos do parceiro",
            each.words,
            advice,
            each.failing_since,
            more=[
                _page(each.partner_id),
                Link(
                    f"{resend}?partner={each.partner_id}&period=failure",
                    "Reenviar desde a falha",
                    "webhooks.change_event",
                ),
            ],
        )

    if again:
        number = counted(sum(each.waiting for each in again), "evento espera", "eventos esperam", "")
        title = f"{number} nova tentativa: {listed([each.name for each in again], len(again))}"
        yield Problem(title, list_of(Event, "state__exact=due"), is_neutral=True)


def overdue_events() -> Iterator[Problem]:
    for found in overdue(_DUE_EVENTS):
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
            advice=f"O mais antigo é de {_moment(found.since)}. Saem quando alguém reativa o parceiro.",
            is_neutral=True,
        )


def refused_keys() -> Iterator[Problem]:
    """The partners of which no call was accepted since one was refused for its key; and how many calls of others
    were."""
    used = ApiKey.objects.filter(partner=OuterRef("partner"), last_used_at__isnull=False).order_by().values("partner")
    # A use is noted once a minute. Until a minute after the last noted one, others may have followed while the key was
    # valid.
    until = used.annotate(until=Max(Least(F("last_used_at") + LAST_USED_EVERY, "revoked_at", "expires_at")))
    found = _refused(Unauthorized.code, first=Min("at"), prefixes=ArrayAgg("key_prefix", distinct=True))
    found = found.annotate(used=Subquery(used.annotate(used=Max("last_used_at")).values("used")))
    others = []
    for each in found.annotate(until=Subquery(until.values("until")), resumed=_newest(_RESUMED)):
        is_none_accepted = each["used"] is None or (each["used"] < each["first"] and each["until"] < each["last"])
        was_suspended = each["resumed"] is not None and each["last"] <= each["resumed"]
        if not is_none_accepted or was_suspended or each["number"] < REFUSED_LEAST:
            others.append(each)
            continue
        keys = ApiKey.objects.filter(partner=each["partner"], prefix__in=each["prefixes"])
        accepted = (
            f"a última aceita foi em {_moment(each['used'])} ou no minuto seguinte"
            if each["used"]
            else "nenhuma foi aceita até hoje"
        )
        yield _refusal(
            each,
            "; ".join([*map(_why_refused, keys), accepted]),
            "Emita outra na página do parceiro. Se ele devia ter trocado de chave, avise-o.",
        )
    yield from _some_refused(others, "com 401")


def used_up_limits() -> Iterator[Problem]:
    """The partners whose calls a limit refuses that operators have set, and has not been changed since; and how many
    calls of others were refused so."""
    least = {limits.CPFS_PER_DAY: REFUSED_LEAST}
    policies = {each.name: each for each in (limits.PER_MINUTE, limits.IN_FLIGHT, limits.CPFS_PER_DAY)}
    now = timezone.localtime()
    since = max(now - STILL_REFUSED, now.replace(hour=0, minute=0, second=0, microsecond=0))
    others = []
    found = _refused(RateLimited.code, "field").filter(field__in=policies)
    for each in found.annotate(changed=_newest(Q(changes__has_any_keys=[*registration.LIMITS]))):
        policy = policies[each["field"]]
        is_refusing = each["last"] > max(since, each["changed"] or since)
        if is_refusing and each["number"] >= least.get(policy, REFUSED_BRIEFLY_LEAST):
            yield _refusal(each, policy.message, "Aumente o limite no Cadastro do parceiro, ou avise-o.")
        else:
            others.append(each)
    yield from _some_refused(others, "por um limite")


#: By the page's button, or by a command.
_RESUMED = Q(action=Action.RESUMED) | Q(changes__has_key="status")


def _newest(which: Q) -> Subquery:
    """The time of the newest of these entries of the trail about a row's partner."""
    mine = AuditEntry.objects.filter(which, model=Partner._meta.label_lower)
    mine = mine.filter(object_id=Cast(OuterRef("partner"), CharField()))
    return Subquery(mine.order_by("-at").values("at")[:1])


def _page(partner_id: UUID) -> Link:
    return Link(reverse("partner", args=[partner_id]), "Página do parceiro", "partners.view_partner")


def _refused(code: str, *by: str, **more: Any) -> QuerySet[Any, dict[str, Any]]:
    """How many calls of each active partner were refused with this code, and when the last one was."""
    active = FailedCall.objects.filter(partner__status=Partner.Status.ACTIVE, code=code)
    groups = active.filter(at__gt=timezone.now() - REFUSED_SHOWN).order_by("partner__name")
    return groups.values("partner", "partner__name", "code", *by).annotate(number=Sum("times"), last=Max("at"), **more)


def _refusal(refused: dict[str, Any], cause: str, advice: str) -> Problem:
    number = counted(refused["number"], "chamada recusada", "chamadas recusadas", "")
    return Problem(
        f"{refused['partner__name']}: {number} na última hora",
        list_of(FailedCall, f"partner__id__exact={refused['partner']}&code={refused['code']}"),
        "Chamadas com falha",
        cause,
        advice,
        more=[_page(refused["partner"])],
    )


def _some_refused(refused: list[dict[str, Any]], why: str) -> Iterator[Problem]:
    """A line about calls that are refused while others are accepted."""
    if refused:
        names = list(dict.fromkeys(each["partner__name"] for each in refused))
        number = counted(sum(each["number"] for each in refused), "chamada recusada", "chamadas recusadas", "")
        title = f"{number} {why} na última hora: {listed(names, len(names))}"
        yield Problem(title, list_of(FailedCall, f"code={refused[0]['code']}"), is_neutral=True)


def _why_refused(key: ApiKey) -> str:
    """Why the key is refused, as `A chave cpk_live_Ab3… foi revogada em 26/11 10:00`."""
    if key.revoked_at:
        return f"A chave {key} foi revogada em {_moment(key.revoked_at)}"
    if key.expires_at and not key.is_live(timezone.now()):
        return f"A chave {key} expirou em {_moment(key.expires_at)}"
    return f"A chave {key} {'só vale de alguns endereços' if key.networks else 'vale agora'}"


def _moment(at: datetime) -> str:
    return f"{timezone.localtime(at):%d/%m %H:%M}"


def suspended() -> Iterator[Problem]:
    status = Partner.Status.SUSPENDED
    names = list(Partner.objects.filter(status=status).order_by("name").values_list("name", flat=True))
    if names:
        title = f"{counted(len(names), 'parceiro suspenso', 'parceiros suspensos', '')}: {listed(names, len(names))}"
        yield Problem(title, list_of(Partner, f"status__exact={status}"), is_neutral=True)


def old_keys() -> Iterator[Problem]:
    old = ApiKey.objects.filter(expires_at=None, revoked_at=None, created_at__lt=timezone.now() - OLD_KEY)
    for found in waiting(old, F("created_at") + OLD_KEY):
        yield found.problem(
            ("chave sem validade tem mais de um ano", "chaves sem validade têm mais de um ano"),
            list_of(ApiKey, "o=5"),
            "Chaves de API",
            "Emita outra para o parceiro, espere que ele a use, e revogue a antiga.",
        )
