"""What is wrong now, for the back office's first page: each problem with its cause, since when, whom it concerns, where
to see it and what to do. A check reads few rows, by an index of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Case, CharField, Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Cast, Coalesce
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince
from redis.exceptions import RedisError

from backoffice.figures.models import UNTAKEN as FIGURE_OF_UNTAKEN
from backoffice.figures.models import ReasonHour
from consultas.models import REPEATED_WITHIN, UNTAKEN, Query, Step
from foundation.backoffice.pages import list_of, page_of
from foundation.formats import LISTED, counted, listed
from foundation.models import Action, AuditEntry
from foundation.redis import redis
from partners.models import Allowance, ApiKey, Partner
from proposals.models import Proposal
from providers import registry
from providers.health import Health, Kind, partner_names
from providers.judging import health_of
from providers.maintenance import Maintenance
from providers.models import Provider, client_certificates
from webhooks import health as deliveries
from webhooks.models import Event

#: Sweeps run every few seconds. If a row has been due for longer, a process is probably not running.
OVERDUE = timedelta(minutes=2)
#: How far the page looks back for queries that no worker took.
UNTAKEN_SHOWN = timedelta(minutes=10)
#: How far it looks back for those before the last one that a worker took.
MISSED_SHOWN = timedelta(hours=1)
#: The figures are a few minutes old. If they are older, nobody counts them.
UNCOUNTED = timedelta(minutes=5)
#: What leads to a bank besides its address, as the form and the command name it in the trail.
_WAY = {
    "new_certificate": "certificado de cliente",
    "certificate": "certificado de cliente",
    "new_authorities": "autoridades",
    "authorities": "autoridades",
    "new_proxy": "proxy",
    "way_secrets": "proxy ou chave",
}
#: A window that begins sooner is on the page.
TO_COME = timedelta(days=1)
#: For how long a change of a bank's account stays on the page.
MOVED_SHOWN = timedelta(days=1)
#: A key without expiry that is older should be replaced.
OLD_KEY = timedelta(days=365)
#: A bank's certificate that ends sooner has to be renewed.
CERTIFICATE_ENDS = timedelta(days=30)
#: What an operator does about deliveries that fail, and about those that failed before the last ones.
_TELL_PARTNER = "Avise o parceiro. O serviço repete as entregas por umas 28 horas."
_RESEND = "A última entrega deu certo. O que espera nova tentativa pode sair já: reenvie desde a falha."
_BANK = "Página do banco"


@dataclass(frozen=True)
class Problem:
    """One line of the page. `address` leads to what it is about, and `link` names that; `more` has further links
    as addresses and names. A neutral line is no problem: somebody planned it."""

    title: str
    cause: str
    address: str
    link: str
    advice: str = ""
    since: datetime | None = None
    is_neutral: bool = False
    more: Sequence[tuple[str, str]] = ()

    @property
    def waited(self) -> str:
        """How long ago it began."""
        return waited(self.since) if self.since else ""


@dataclass(frozen=True)
class Check:
    """Looks for problems, for users with `permission`. `well` names what is well if there are none."""

    permission: str
    well: str
    find: Callable[[], Iterator[Problem]]
    more: Sequence[Callable[[], Iterator[Problem]]] = ()


def waited(since: datetime) -> str:
    """How long ago that was: `menos de um minuto`, `3 horas, 12 minutos`."""
    is_short = timezone.now() - since < timedelta(minutes=1)
    return "menos de um minuto" if is_short else timesince(since)


def _planned(title: str, address: str) -> Problem:
    return Problem(title, "", address, "", is_neutral=True)


def _banks() -> Iterator[Problem]:
    yield from _moved_banks()
    banks = health_of()
    names = partner_names(banks.values())
    if any(bank.kind is Kind.UNREAD for bank in banks.values()):
        yield _redis_away()
    for name, bank in sorted(banks.items()):
        if bank.kind in (Kind.FINE, Kind.UNGUARDED, Kind.UNREAD):
            continue
        yield Problem(
            f"{registry.label(name)}: {bank.words(names)}",
            bank.detail(names),
            page_of(Provider, name),
            _BANK,
            bank.advice,
            None if bank.kind is Kind.RECOVERED else bank.since,
            is_neutral=not bank.kind.is_problem,
            more=[
                (reverse("figures:bank", args=[name]), "Desempenho: tempos e motivos"),
                *queries_of_concerned(name, bank, names),
            ],
        )


def _windows_to_come() -> Iterator[Problem]:
    now = timezone.now()
    for window in Maintenance.objects.filter(starts_at__gt=now, starts_at__lte=now + TO_COME).order_by("starts_at"):
        start = f"{timezone.localtime(window.starts_at):%d/%m/%Y %H:%M}"
        title = f"{registry.label(window.provider_id)}: de {start} em diante, {window}"
        yield _planned(title, page_of(Provider, window.provider_id))


def _suspended() -> Iterator[Problem]:
    suspended = Partner.Status.SUSPENDED
    names = list(Partner.objects.filter(status=suspended).order_by("name").values_list("name", flat=True))
    if names:
        title = f"{counted(len(names), 'parceiro suspenso', 'parceiros suspensos', '')}: {listed(names, len(names))}"
        yield _planned(title, list_of(Partner, f"status__exact={suspended}"))


def _held() -> Iterator[Problem]:
    """The events that an operator holds, by partner, and who held them when. One statement."""
    orders = AuditEntry.objects.filter(
        model="partners.partner",
        object_id=Cast(OuterRef("pk"), CharField()),
        changes__has_key="deliveries_held",
    ).order_by("-at")
    mine = _DUE_EVENTS.filter(partner=OuterRef("pk")).order_by().values("partner")
    partners = (
        Partner.objects.filter(deliveries_held=True)
        .exclude(webhook_url="")
        .annotate(held=Subquery(mine.annotate(found=Count("pk")).values("found")))
        .annotate(oldest=Subquery(mine.annotate(found=Min("created_at")).values("found")))
        .annotate(who=Subquery(orders.values("who")[:1]), at=Subquery(orders.values("at")[:1]))
    )
    found = partners.filter(held__gt=0).order_by("name").values_list("pk", "name", "held", "oldest", "who", "at")
    for key, name, held, oldest, who, at in found:
        by = f"por {who} em {timezone.localtime(at):%d/%m %H:%M}" if who else "por um operador"
        yield Problem(
            f"{name}: {counted(held, 'evento retido', 'eventos retidos', '')} {by}",
            "",
            list_of(Event, f"partner__id__exact={key}&state__exact=due"),
            "",
            "Saem quando alguém reativa o parceiro.",
            oldest,
            is_neutral=True,
        )


def _pauses() -> Iterator[Problem]:
    for each in Allowance.objects.filter(paused_until__gt=timezone.now()).select_related("partner"):
        title = f"{registry.label(each.provider_id)}: em pausa para {each.partner.name} até {each.pause}"
        yield _planned(title, reverse("partner", args=[each.partner_id]))


def queries_of_concerned(name: str, bank: Health, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Links to the queries at the bank `name` of the partners for whom alone it fails."""
    concerned = sorted((names[each], each) for each in bank.concerned if each in names)[:LISTED]
    return [
        (list_of(Query, f"partner__id__exact={key}&bank={name}"), f"Consultas de {partner} neste banco")
        for partner, key in concerned
    ]


def _moved_banks() -> Iterator[Problem]:
    """A change of a bank's address is a problem to confirm, because its credentials and holders' data go there. Changes
    of the way there alone, such as a renewed certificate, are neutral: somebody who may planned them. A trial of one
    that was not kept is told likewise."""
    entries = AuditEntry.objects.filter(
        model="providers.provider", at__gt=timezone.now() - MOVED_SHOWN, changes__has_any_keys=["base_url", *_WAY]
    )
    newest = {entry.request_id or entry.pk: entry for entry in entries.order_by("at")}  # what is kept follows its trial
    for entry in reversed(newest.values()):
        old, new = entry.changes.get("base_url", ("", ""))
        bank, page = registry.label(entry.object_id), page_of(Provider, entry.object_id)
        is_trial = entry.action == Action.TRIED
        if old != new:
            yield Problem(
                f"{bank}: {'teste de ' if is_trial else ''}novo endereço",
                f"De {old or 'nenhum'} para {new}, por {entry.who}",
                page,
                _BANK,
                "Para lá vão as credenciais e os dados dos titulares. Confirme o endereço com o banco.",
                entry.at,
            )
        elif changed := ", ".join(dict.fromkeys(words for name, words in _WAY.items() if name in entry.changes)):
            by = f"{changed}, por {entry.who} em {timezone.localtime(entry.at):%d/%m %H:%M}"
            yield _planned(f"{bank}: {'teste' if is_trial else 'mudança'} de {by}", page)


def _certificates() -> Iterator[Problem]:
    soon = timezone.now() + CERTIFICATE_ENDS
    for each in client_certificates():
        bank, former, refused_at = registry.label(each.bank), each.former_ends_at, each.refused_at
        if not refused_at and min(each.ends_at, former or each.ends_at) >= soon:
            continue
        page = page_of(Provider, each.bank), _BANK
        if former is None:
            yield Problem(
                f"{bank}: o certificado de cliente {_end_in_words(each.ends_at)}",
                "Depois disso o banco recusa as nossas conexões.",
                *page,
                "Peça outro ao banco e ponha-o ao lado deste: este serve até o banco aceitar o novo.",
            )
            continue
        said = (
            f"recusou o certificado novo em {timezone.localtime(refused_at):%d/%m %H:%M}"
            if refused_at
            else "ainda não aceitou o certificado novo, e não se sabe se o recusou"
        )
        yield Problem(
            f"{bank}: o banco {said}; o anterior ({_end_in_words(former)}) segue em uso",
            f"O novo {_end_in_words(each.ends_at)}. Sem um certificado válido que ele aceite, o banco recusa as nossas "
            "conexões.",
            *page,
            "Pergunte ao banco por que não aceita o novo." if refused_at else "A próxima chamada ao banco o prova.",
        )


def _end_in_words(ends_at: datetime) -> str:
    """When a certificate ends, as `vence em 25/12/2026 (faltam 30 dias)`."""
    day = f"{timezone.localtime(ends_at):%d/%m/%Y}"
    if ends_at <= timezone.now():
        return f"venceu em {day}"
    days = (timezone.localdate(ends_at) - timezone.localdate()).days
    left = f"{'falta' if days == 1 else 'faltam'} {counted(days, 'dia', 'dias', '')}" if days else "hoje"
    return f"vence em {day} ({left})"


def _partners() -> Iterator[Problem]:
    resend = reverse("admin:webhooks_event_resend_window")
    titles = {deliveries.State.DOWN: "não recebe eventos", deliveries.State.FAILING: "entregas falham"}
    for partner in sorted(deliveries.of_partners(), key=lambda each: each.failing_since or timezone.now()):
        if partner.state in titles:
            title = titles[partner.state] if partner.failed else "eventos esperam nova tentativa"
            mine = f"partner__id__exact={partner.partner_id}"
            waiting = (f"{mine}&state__exact=due", "Eventos à espera")
            filters, link = waiting if partner.is_waited_for else (mine, "Eventos do parceiro")
            yield Problem(
                f"{partner.name}: {title}",
                partner.words,
                list_of(Event, filters),
                link,
                _RESEND if partner.has_recovered else _TELL_PARTNER,
                partner.failing_since,
                more=[
                    (reverse("partner", args=[partner.partner_id]), "Página do parceiro"),
                    (f"{resend}?partner={partner.partner_id}&period=failure", "Reenviar desde a falha"),
                ],
            )


@dataclass(frozen=True)
class Waiting:
    """Rows of partners that wait for somebody: one problem for all of them, with their number in `words`, which may
    name the times `since` and `until`; their partners after `cause`; and since when, by the column `oldest`. `filters`
    are those of the list. `only` chooses among `rows`, which others may share (`_together`). One statement."""

    rows: Callable[[datetime], QuerySet[Any]]
    words: tuple[str, str]
    filters: str
    link: str
    advice: str
    cause: str = ""
    oldest: str = "created_at"
    is_neutral: bool = False
    only: Callable[[datetime], Q] | None = None

    def __call__(self) -> Iterator[Problem]:
        return _together(self)


def _together(*shares: Waiting) -> Iterator[Problem]:
    """The problems of several that wait among the same rows. One statement."""
    now, asked = timezone.now(), dict[str, Any]()
    for n, share in enumerate(shares):
        only = share.only(now) if share.only else None
        asked[f"count{n}"] = Count("pk", filter=only)
        asked[f"since{n}"] = Min(share.oldest, filter=only)
        asked[f"until{n}"] = Max(share.oldest, filter=only)
        asked[f"names{n}"] = ArrayAgg("partner__name", distinct=True, default=[], filter=only)
    rows = shares[0].rows(now)
    found = rows.order_by().aggregate(**asked)
    for n, share in enumerate(shares):
        if count := found[f"count{n}"]:
            times = {name: timezone.localtime(found[f"{name}{n}"]) for name in ("since", "until")}
            title, partners = counted(count, *share.words, "").format(**times), found[f"names{n}"]
            names = listed(partners, len(partners))
            yield Problem(
                f"{title}: {names}" if share.is_neutral else title,
                f"{share.cause}De {names}",
                list_of(rows.model, share.filters),
                share.link,
                share.advice,
                found[f"since{n}"],
                share.is_neutral,
            )


def _last_taken(now: datetime) -> Coalesce:
    """An SQL expression for when the newest query began that a worker took, within `UNTAKEN_SHOWN`."""
    first = now - UNTAKEN_SHOWN
    taken = Query.objects.filter(created_at__gt=first, takes__gt=0).order_by("-created_at").values("created_at")[:1]
    return Coalesce(Subquery(taken), Value(first))


def _untaken(now: datetime) -> QuerySet[Query]:
    """The newest queries that no worker took in time; those of the last hour, if the figures counted any. A query that
    repeats or follows another needs no worker."""
    counted_ones = ReasonHour.objects.filter(hour__gt=now - 2 * MISSED_SHOWN, bank="", code=FIGURE_OF_UNTAKEN)
    since = Case(When(Exists(counted_ones), then=Value(now - MISSED_SHOWN)), default=_last_taken(now))
    waited = Q(finished_at=None) | Q(finished_at__gt=F("created_at") + REPEATED_WITHIN)
    return Query.objects.filter(waited, takes=0, follows=None, created_at__gt=since, created_at__lt=now - UNTAKEN)


_UNTAKEN_QUERIES = (
    Waiting(
        _untaken,
        ("consulta não chegou aos bancos", "consultas não chegaram aos bancos"),
        "",
        "Consultas",
        "Confira os workers de banks: estão em execução, e bastam?",
        cause="Nenhum processo as tomou em 10 segundos, e nenhum banco foi chamado. ",
        only=lambda now: Q(created_at__gt=_last_taken(now)),
    ),
    Waiting(
        _untaken,
        (
            "consulta não chegou aos bancos, de {since:%H:%M}",
            "consultas não chegaram aos bancos entre {since:%H:%M} e {until:%H:%M}",
        ),
        "",
        "",
        "",
        is_neutral=True,
        only=lambda now: Q(created_at__lte=_last_taken(now)),
    ),
)


def _redis_away() -> Problem:
    return Problem(
        "Redis não responde: as consultas não chegam aos bancos",
        "Os parceiros recebem 502, e ninguém sabe como vão os bancos.",
        list_of(Query),
        "Consultas",
        "Confira o Redis e a rede até ele. Quando ele voltar, o serviço volta sozinho.",
    )


def _queries() -> Iterator[Problem]:
    try:
        redis().ping()
    except RedisError:
        yield _redis_away()
    else:
        yield from _together(*_UNTAKEN_QUERIES)


_UNKNOWN = Q(submission=Proposal.Submission.UNKNOWN)


def _unchecked(now: datetime) -> Q:
    """The condition of proposals that a sweep should have checked."""
    return Proposal.is_due(now) & Q(due_at__lt=now - OVERDUE, provider__in=registry.names())


def _unsettled(now: datetime) -> QuerySet[Proposal]:
    """The submissions of unknown outcome, and the proposals that a sweep should have checked. PostgreSQL finds both by
    an index."""
    return Proposal.objects.filter(_UNKNOWN | _unchecked(now), due_at__isnull=False)


def uncounted(until: datetime | None) -> Iterator[Problem]:
    """A problem if the figures, which are counted until then, stand still. None before the first count."""
    if until and timezone.now() - until > UNCOUNTED:
        yield Problem(
            "Os números pararam",
            f"Estão contados até {timezone.localtime(until):%d/%m %H:%M}.",
            reverse("figures:banks"),
            "Desempenho dos bancos",
            "Confira o beat e o worker de default: sem o beat nada se repete, e nada se verifica de novo.",
            until,
        )


#: The second condition makes PostgreSQL use the index of due events.
_DUE_EVENTS = Event.objects.filter(state=Event.State.DUE, due_at__isnull=False)
#: The partner may read its events from the API.
_HAS_NO_URL = Q(partner__webhook_url="")
_HAS_NO_SECRET = Q(partner__webhook_secret__isnull=True)


def _unsendable(now: datetime) -> QuerySet[Event]:
    """The events that wait for their partner's URL or secret."""
    return _DUE_EVENTS.filter(_HAS_NO_URL | _HAS_NO_SECRET)


CHECKS = (
    Check("providers.view_provider", "Nenhum banco falha.", _banks, (_windows_to_come, _pauses)),
    Check(
        "consultas.view_query",
        "As consultas chegam aos bancos.",
        _queries,
    ),
    Check("providers.view_provider", "Nenhum certificado para bancos vence em 30 dias.", _certificates),
    Check(
        "webhooks.view_event",
        "Os parceiros recebem os seus eventos, e nenhum está atrasado.",
        _partners,
        (
            Waiting(
                lambda now: _DUE_EVENTS.filter(Event.is_due(now), due_at__lt=now - OVERDUE),
                ("evento de webhook atrasado", "eventos de webhook atrasados"),
                "state__exact=due",
                "Eventos à espera",
                "A entrega está em execução? Confira beat, sweeps e webhooks.",
                oldest="due_at",
            ),
            _suspended,
        ),
    ),
    Check(
        "webhooks.view_event",
        "Nenhum evento ficou sem entrega.",
        Waiting(
            lambda now: Event.objects.filter(state=Event.State.FAILED, purged_at=None),
            ("evento de webhook não foi entregue", "eventos de webhook não foram entregues"),
            "state__exact=failed",
            "Eventos falhados",
            "As tentativas acabaram. Quando o parceiro voltar a receber, reenvie-os: por período, ou todos os dele.",
        ),
    ),
    Check(
        "webhooks.view_event",
        "Nenhum evento com destino espera pelo segredo do parceiro.",
        partial(
            _together,
            Waiting(
                _unsendable,
                ("evento não pode sair", "eventos não podem sair"),
                "state__exact=due",
                "Eventos à espera",
                "Emita um: na página do parceiro, Trocar segredo do webhook.",
                cause="Falta o segredo de webhook do parceiro. ",
                only=lambda now: ~_HAS_NO_URL & Q(partner__deliveries_held=False),
            ),
            Waiting(
                _unsendable,
                ("evento sem URL para onde sair", "eventos sem URL para onde sair"),
                "state__exact=due&partner__webhook_url__exact=",
                "Eventos à espera",
                "Se o parceiro não os lê pela API, escreva a URL no Cadastro dele.",
                is_neutral=True,
                only=lambda now: _HAS_NO_URL,
            ),
        ),
        (_held,),
    ),
    Check(
        "consultas.view_step",
        "Os passos dos titulares são verificados.",
        Waiting(
            lambda now: Step.objects.filter(state=Step.State.OPEN, due_at__lt=now - OVERDUE),
            ("passo do titular sem verificação", "passos do titular sem verificação"),
            "state__exact=open",
            "Passos abertos",
            "As verificações estão em execução? Confira o beat e os workers de sweeps.",
            oldest="due_at",
        ),
    ),
    Check(
        "proposals.view_proposal",
        "As propostas são acompanhadas, e de todos os envios se sabe o resultado.",
        partial(
            _together,
            Waiting(
                _unsettled,
                ("proposta de resultado desconhecido", "propostas de resultado desconhecido"),
                "submission__exact=unknown&due_at__isnull=False",
                "Propostas sem resultado",
                "O serviço pergunta ao banco até saber. Conciliar agora, na página da proposta, pergunta já.",
                only=lambda now: _UNKNOWN,
            ),
            Waiting(
                _unsettled,
                ("proposta sem acompanhamento", "propostas sem acompanhamento"),
                "due_at__isnull=False",
                "Propostas em andamento",
                "As verificações estão em execução? Confira o beat e os workers de sweeps.",
                cause="Ninguém pergunta ao banco: a situação mostrada pode ser antiga. ",
                oldest="due_at",
                only=_unchecked,
            ),
        ),
    ),
    Check(
        "partners.view_apikey",
        "Nenhuma chave é antiga demais.",
        Waiting(
            lambda now: ApiKey.objects.filter(expires_at=None, revoked_at=None, created_at__lt=now - OLD_KEY),
            ("chave sem validade tem mais de um ano", "chaves sem validade têm mais de um ano"),
            "o=5",
            "Chaves de API",
            "Emita outra para o parceiro, espere que ele a use, e revogue a antiga.",
        ),
    ),
)


def look(may: Callable[[str], bool]) -> tuple[list[Problem], list[str]]:
    """All problems, and what is well, as far as somebody may see it."""
    problems, well = [], []
    for check in CHECKS:
        if may(check.permission):
            found = [each for find in (check.find, *check.more) for each in find()]
            problems += [each for each in found if each not in problems]
            if all(each.is_neutral for each in found):
                well.append(check.well)
    return problems, well
