"""Queries that did not come to the banks."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Case, Exists, F, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from redis.exceptions import RedisError

from backoffice.figures.models import UNTAKEN as FIGURE_OF_UNTAKEN
from backoffice.figures.models import ReasonHour
from backoffice.problems.problem import Problem, Waiting, together
from consultas.models import REPEATED_WITHIN, UNTAKEN, Query
from foundation.backoffice.pages import list_of
from foundation.redis import redis

#: How far the page looks back for queries that no worker took.
UNTAKEN_SHOWN = timedelta(minutes=10)
#: How far it looks back for those before the last one that a worker took.
MISSED_SHOWN = timedelta(hours=1)


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


def redis_away() -> Problem:
    return Problem(
        "Redis não responde: as consultas não chegam aos bancos",
        "Os parceiros recebem 502, e ninguém sabe como vão os bancos.",
        list_of(Query),
        "Consultas",
        "Confira o Redis e a rede até ele. Quando ele voltar, o serviço volta sozinho.",
    )


def untaken() -> Iterator[Problem]:
    try:
        redis().ping()
    except RedisError:
        yield redis_away()
    else:
        yield from together(*_UNTAKEN_QUERIES)
