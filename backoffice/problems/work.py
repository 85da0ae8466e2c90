"""Work that nobody does: queries that do not come to the banks, steps and proposals that nobody checks, erasures that
nobody confirms."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Case, Exists, F, Q, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from backoffice.figures.models import UNTAKEN as FIGURE_OF_UNTAKEN
from backoffice.figures.models import ReasonHour
from backoffice.problems.problem import Problem, Waiting, overdue, waiting
from consultas.models import REPEATED_WITHIN, UNTAKEN, Query, Step
from foundation.backoffice.pages import list_of
from foundation.formats import counted, listed
from proposals.models import ErasureRequest, Proposal
from providers import registry

#: How far the page looks back for queries that no worker took.
UNTAKEN_SHOWN = timedelta(hours=1)
#: Why queries do not come to the banks, and what to do.
_UNTAKEN = {
    "redis": (
        "O Redis não respondia",
        "Este aviso sai com a próxima consulta que um worker tomar.",
    ),
    "workers": (
        "Nenhum processo as tomou em 10 segundos",
        "Confira os workers de banks: estão em execução, e bastam?",
    ),
}


def redis_away() -> Problem:
    """The problem while Redis does not answer. When that began is not known, but which query it stopped first."""
    lost = [found.since for found in _untaken() if found.group in _UNTAKEN]
    return Problem(
        "Redis não responde: as consultas não chegam aos bancos",
        list_of(Query),
        "Consultas",
        "Consultas de vários bancos recebem 502; na rota de um banco e em fluxo, cada banco tem um erro. Ninguém sabe "
        "como vão os bancos.",
        "Confira o Redis e a rede até ele. Quando ele voltar, o serviço volta sozinho.",
        min(lost, default=None),
    )


def _untaken() -> Iterator[Waiting]:
    """The queries of the hour that no worker took in time, by why not: those since the last one that a worker took; and
    as `over` those before that one, if the figures counted any. A query that repeats or follows another needs no
    worker."""
    now = timezone.now()
    since = now - UNTAKEN_SHOWN
    taken = Query.objects.filter(created_at__gt=since, takes__gt=0).order_by("-created_at")
    last_taken = Coalesce(Subquery(taken.values("created_at")[:1]), Value(since))
    some_counted = Exists(ReasonHour.objects.filter(hour__gt=now - 2 * UNTAKEN_SHOWN, bank="", code=FIGURE_OF_UNTAKEN))
    first = Case(When(some_counted, then=Value(since)), default=last_taken)
    needs_worker = Q(finished_at=None) | Q(finished_at__gt=F("created_at") + REPEATED_WITHIN)
    rows = Query.objects.filter(needs_worker, takes=0, follows=None, created_at__gt=first, created_at__lt=now - UNTAKEN)
    # Only a query whose task could not be published ends before its deadline.
    group = Case(
        When(created_at__lte=last_taken, then=Value("over")),
        When(finished_at__lt=F("deadline_at"), then=Value("redis")),
        default=Value("workers"),
    )
    return waiting(rows, group=group)


def untaken_queries() -> Iterator[Problem]:
    for found in _untaken():
        one, many = "consulta não chegou aos bancos", "consultas não chegaram aos bancos"
        if found.group in _UNTAKEN:
            cause, advice = _UNTAKEN[found.group]
            why = f"{cause}, e nenhum banco foi chamado. "
            yield found.problem((one, many), list_of(Query), "Consultas", advice, why)
        else:
            first, last = (f"{timezone.localtime(each):%H:%M}" for each in (found.since, found.until))
            when = f", de {first}" if first == last else f" entre {first} e {last}"
            yield found.planned((one + when, many + when), list_of(Query))


def unchecked_steps() -> Iterator[Problem]:
    for found in overdue(Step.objects.all()):
        yield found.problem(
            ("passo do titular sem verificação", "passos do titular sem verificação"),
            list_of(Step, "state__exact=open"),
            "Passos abertos",
            "As verificações estão em execução? Confira o beat e os workers de sweeps.",
        )


def unknown_proposals() -> Iterator[Problem]:
    """The submissions of unknown outcome. The second condition makes PostgreSQL use the index of due proposals."""
    for found in waiting(Proposal.objects.filter(submission=Proposal.Submission.UNKNOWN, due_at__isnull=False)):
        yield found.problem(
            ("proposta de resultado desconhecido", "propostas de resultado desconhecido"),
            list_of(Proposal, "submission__exact=unknown&due_at__isnull=False"),
            "Propostas sem resultado",
            "O serviço pergunta ao banco até saber. Conciliar agora, na página da proposta, pergunta já.",
        )


def unchecked_proposals() -> Iterator[Problem]:
    """The proposals that a sweep should have checked."""
    for found in overdue(Proposal.objects.filter(provider__in=registry.names())):
        yield found.problem(
            ("proposta sem acompanhamento", "propostas sem acompanhamento"),
            list_of(Proposal, "due_at__isnull=False"),
            "Propostas em andamento",
            "As verificações estão em execução? Confira o beat e os workers de sweeps.",
            "Ninguém pergunta ao banco: a situação mostrada pode ser antiga. ",
        )


def unconfirmed_erasures() -> Iterator[Problem]:
    """The erasures that wait for a second person. They have to be asked for again if nobody confirms them in time."""
    valid = ErasureRequest.VALID
    waits = ErasureRequest.objects.filter(erasure=None, asked_at__gt=timezone.now() - valid).order_by("asked_at")
    if settings.ERASURE_BY_TWO and (asked := list(waits.values_list("asked_at", "asked_by"))):
        first, names = asked[0][0], list(dict.fromkeys(who for _, who in asked))
        yield Problem(
            counted(len(asked), "exclusão de dados espera", "exclusões de dados esperam", "") + " por outra pessoa",
            list_of(ErasureRequest),
            "Pedidos de exclusão",
            f"Quem pediu: {listed(names, len(names))}",
            "Quem tem a permissão e não a pediu confirma em Exclusões de dados, com o CPF, "
            f"até {timezone.localtime(first + valid):%d/%m %H:%M}; depois é preciso pedir de novo.",
            first,
        )
