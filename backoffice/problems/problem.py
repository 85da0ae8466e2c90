"""What a line of the first page's problems is, and how rows of partners that wait become one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Min, Q, QuerySet
from django.utils import timezone
from django.utils.timesince import timesince

from foundation.backoffice.pages import list_of
from foundation.formats import counted, listed

#: Sweeps run every few seconds. If a row has been due for longer, a process is probably not running.
OVERDUE = timedelta(minutes=2)


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


def planned(title: str, address: str) -> Problem:
    return Problem(title, "", address, "", is_neutral=True)


@dataclass(frozen=True)
class Waiting:
    """Rows of partners that wait for somebody: one problem for all of them, with their number in `words`, which may
    name the times `since` and `until`; their partners after `cause`; and since when, by the column `oldest`. `filters`
    are those of the list. `only` chooses among `rows`, which others may share (`together`). One statement."""

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
        return together(self)


def together(*shares: Waiting) -> Iterator[Problem]:
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
