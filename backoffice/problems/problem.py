"""A line of the first page, and how rows of partners that wait for somebody become one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Min, Model, QuerySet, Value
from django.utils import timezone
from django.utils.timesince import timesince

from foundation.formats import counted, listed
from foundation.models import Action, AuditEntry

#: Sweeps run every few seconds. If a row has been due for longer, a process is probably not running.
OVERDUE = timedelta(minutes=2)
_ALL = Value(0)


class Link(NamedTuple):
    """A link for users with `permission`, or for all who see the line."""

    address: str
    name: str
    permission: str = ""


@dataclass(frozen=True)
class Problem:
    """One line of the page. `address` leads to what it is about, and `link` names that; `more` are further links. A
    neutral line is no problem: somebody planned it."""

    title: str
    address: str
    link: str = ""
    cause: str = ""
    advice: str = ""
    since: datetime | None = None
    is_neutral: bool = False
    more: Sequence[Link] = ()

    @property
    def waited(self) -> str:
        """How long ago it began."""
        return waited(self.since) if self.since else ""


def waited(since: datetime) -> str:
    """How long ago that was: `menos de um minuto`, `3 horas, 12 minutos`."""
    is_short = timezone.now() - since < timedelta(minutes=1)
    return "menos de um minuto" if is_short else timesince(since)


@dataclass(frozen=True)
class Waiting:
    """Rows of one group that wait for somebody: how many, since when, until when, and the names of their partners."""

    group: Any
    number: int
    since: datetime
    until: datetime
    names: list[str]

    @property
    def whose(self) -> str:
        return listed(self.names, len(self.names))

    def problem(self, words: tuple[str, str], address: str, link: str, advice: str, why: str = "") -> Problem:
        """The rows as a problem. `words` are those for one row, and for several."""
        return Problem(counted(self.number, *words, ""), address, link, f"{why}De {self.whose}", advice, self.since)

    def planned(self, words: tuple[str, str], address: str, advice: str = "") -> Problem:
        """The rows as a neutral line."""
        title = f"{counted(self.number, *words, '')}: {self.whose}"
        return Problem(title, address, advice=advice, since=self.since, is_neutral=True)


def waiting(rows: QuerySet[Any], at: Any = "created_at", group: Any = _ALL) -> Iterator[Waiting]:
    """The `rows` by the value of the expression `group`, with their times, the expression `at`. One statement."""
    names = ArrayAgg("partner__name", distinct=True, default=[])
    groups = rows.order_by().annotate(group=group).values("group").order_by("group")
    found = groups.annotate(number=Count("pk"), since=Min(at), until=Max(at), names=names).filter(number__gt=0)
    yield from (Waiting(**each) for each in found)


def overdue(rows: QuerySet[Any]) -> Iterator[Waiting]:
    """Those of `rows`, which are of a `Leased` model, that nobody took although they are due. One statement."""
    now = timezone.now()
    return waiting(rows.filter(rows.model.is_due(now), due_at__lt=now - OVERDUE), "due_at")


def changed_by(model: type[Model], key: Any, *names: str) -> str:
    """Who changed one of these fields of a row last, and when: `por ana em 26/11 10:00`. Empty if the audit trail does
    not say. One statement."""
    entries = AuditEntry.objects.filter(model=model._meta.label_lower, object_id=key, changes__has_any_keys=names)
    entry = entries.exclude(action=Action.TRIED).order_by("-at").first()
    return f"por {entry.who} em {timezone.localtime(entry.at):%d/%m %H:%M}" if entry else ""
