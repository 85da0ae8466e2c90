"""The states of a bank, and their words: the first page, lists, `GET /providers` and `/metrics` show them.
`providers.judging` tells the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from django.utils import timezone

from foundation.formats import counted, share_of
from providers.outcomes import OPERATOR, Calls, Outcome

FAILING_LEAST, FAILING_PERCENT = 3, 10
#: What `Health.for_partner` may say.
STATUSES = AVAILABLE, DEGRADED, UNAVAILABLE = ("available", "degraded", "unavailable")
_LONE_LEAST, _LONE_PERCENT, _MANY_PERCENT = 2, 5, 1
#: The outcomes that are failures, in words for operators.
FAILED = {
    Outcome.FAILED: "erro do banco (5xx)",
    Outcome.TIMED_OUT: "prazo esgotado",
    Outcome.UNREACHABLE: "conexão recusada ou interrompida",
    Outcome.UNREADABLE: "resposta ilegível",
    Outcome.LOGIN_REFUSED: "login recusado",
}
#: If the last call is older, the sentence about a failing bank says so.
_QUIET = timedelta(minutes=5)
#: The maximum number of partners that a sentence names.
_NAMES = 5


class Kind(StrEnum):
    """The state of a bank. `recovered`: it failed within the hour, and answers now. `unguarded`: the breaker is
    ignored. `probing`: the breaker lets one call through."""

    FINE = "fine"
    RECOVERED = "recovered"
    UNGUARDED = "unguarded"
    FAILING = "failing"
    CREDENTIALS = "credentials"
    PARTIAL = "partial"
    OUT = "out"
    PROBING = "probing"
    WINDOW = "window"
    OFF = "off"
    UNREAD = "unread"

    @property
    def is_problem(self) -> bool:
        """True if an operator has something to do. A window and an operator's own setting are no problem."""
        return self not in (Kind.FINE, Kind.RECOVERED, Kind.UNGUARDED, Kind.WINDOW, Kind.OFF)


#: The states in which a tenth of calls failed.
_BY_CALLS = (Kind.FAILING, Kind.RECOVERED)
#: What an operator does about it.
ADVICE = {
    Kind.FAILING: "Se durar, ponha-o fora do ar com um motivo: os parceiros o leem.",
    Kind.CREDENTIALS: "O banco recusa o nosso login: confira as credenciais na configuração do banco.",
    Kind.PARTIAL: "Só estas chamadas falham: não ponha o banco fora do ar para todos. Veja as consultas: dados ou "
    "carteira que o banco não aceita?",
    Kind.OUT: "O serviço tenta de novo a cada 15 s e volta sozinho. Avise o banco; se durar, ponha-o fora do ar com um "
    "motivo.",
    Kind.PROBING: "A próxima chamada decide: se der certo, o banco volta.",
    Kind.UNREAD: "O Redis responde? Sem ele, ninguém sabe como vão os bancos, e todos são chamados.",
}
_ONLY_THESE_FAILED = "Só estas chamadas falharam. Veja as consultas: dados ou carteira que o banco não aceita?"


@dataclass(frozen=True)
class Health:
    """A bank's state. `newest` counts the newest calls, or those of the hour if the bank has recovered; `good_since`
    those in minutes after the last failure. `breakers` holds the state of partners' own breakers that are not closed,
    `half_open` for one that Redis forgot because nobody called. `changed_at` is when the bank's settings were changed,
    if earlier calls do not count because of it. `last` is the minute of the last call of twelve hours, of those
    concerned. `series` counts the newest calls since failures began, or those of the minutes in which it failed if the
    bank has recovered: good calls before them hide no partner whose calls fail now. `is_new` is true if failures began
    in this minute."""

    kind: Kind
    note: str = ""
    since: datetime | None = None
    newest: Calls = field(default_factory=Counter)
    breakers: Mapping[str, str] = field(default_factory=dict)
    changed_at: datetime | None = None
    last: datetime | None = None
    good_since: Calls = field(default_factory=Counter)
    series: Calls = field(default_factory=Counter)
    is_new: bool = False

    @property
    def calls(self) -> int:
        """The number of the newest calls."""
        return self.newest.total()

    @property
    def failed(self) -> int:
        """How many of the newest calls failed."""
        return number(self.newest, FAILED)

    @property
    def failing(self) -> frozenset[str]:
        """The ids of the partners whose calls fail."""
        return frozenset(failing_partners(self.newest) | failing_partners(self.series))

    @property
    def calling(self) -> frozenset[str]:
        """The ids of all partners that called."""
        return frozenset(partner for _, partner in self.newest)

    @property
    def concerned(self) -> frozenset[str]:
        """The ids of the partners by whose calls alone the bank is judged. Empty if it is judged by all calls."""
        if self.kind is Kind.PARTIAL:
            return frozenset(self.breakers)
        failing = self.failing if self.kind in _BY_CALLS else frozenset()
        if self.kind is Kind.FAILING and not is_failing(self.newest):
            return frozenset(each for each in failing if is_failing(self._judged_of(each)))
        is_judged = self._spares_all_but(failing) and is_failing(summed(map(self._judged_of, failing)))
        return failing if is_judged else frozenset()

    @property
    def is_for_some(self) -> bool:
        """True if only the calls of the partners concerned fail, or failed."""
        return self._spares_all_but(self.concerned)

    def _spares_all_but(self, failing: Collection[str]) -> bool:
        """True if the calls of others than these partners hardly fail, and are enough to tell."""
        theirs, others = only_of(self.series, failing), only_of(self.series, self.calling - set(failing))
        is_enough = others.total() * number(theirs, FAILED) >= _LONE_LEAST * theirs.total()
        failed = number(others, FAILED)
        is_good = failed * 100 < (_LONE_PERCENT if failed < FAILING_LEAST else _MANY_PERCENT) * others.total()
        return bool(failing) and is_enough and is_good and not self.is_new

    @property
    def theirs(self) -> Calls:
        """The calls that fail: those of the partners concerned, or the newest of all."""
        if self.concerned and self.kind is Kind.FAILING:
            return summed(map(self._judged_of, self.concerned))
        return only_of(self.newest, self.concerned) if self.concerned else self.newest

    def _judged_of(self, partner: str) -> Calls:
        """The calls of the partner with this id by which it is failing: the newest, or those since failures began."""
        is_hidden = partner not in failing_partners(self.newest) and partner in failing_partners(self.series)
        return only_of(self.series if is_hidden else self.newest, (partner,))

    def own(self, partner: str) -> Health:
        """The state for the calls of the partner with this id: another partner's failures do not count if only that
        partner's calls fail."""
        if self.kind not in (Kind.FINE, Kind.UNGUARDED, Kind.PARTIAL, *_BY_CALLS):
            return self
        mine = replace(self, newest=self._judged_of(partner), series=only_of(self.series, (partner,)))
        if state := self.breakers.get(partner):
            return replace(self, breakers={partner: state})
        fails = is_failing(mine.newest)
        if self.kind in _BY_CALLS and self._concerns(partner):
            return mine if fails else self
        fine = Kind.UNGUARDED if self.kind is Kind.UNGUARDED else Kind.FINE
        return replace(mine, kind=Kind.FAILING if fails else fine, since=None, breakers={})

    def _concerns(self, partner: str) -> bool:
        """True if the failures of a bank that fails, or failed, concern the partner with this id."""
        return not self.concerned or partner in self.concerned

    @property
    def advice(self) -> str:
        """What an operator does about it. Empty if nothing is to do."""
        if self.is_for_some:
            return _ONLY_THESE_FAILED if self.kind is Kind.RECOVERED else ADVICE[Kind.PARTIAL]
        return ADVICE.get(Kind.FAILING if self.kind is Kind.PARTIAL else self.kind, "")

    @property
    def began(self) -> str:
        """Since when, as `desde 23/11 14:03`. Empty if that is not known, or is among the words."""
        is_told = self.since is None or self.kind is Kind.RECOVERED
        return "" if is_told else f"desde {timezone.localtime(self.since):%d/%m %H:%M}"

    def words(self, names: Mapping[str, str] | None = None) -> str:
        """The state in a few words for operators. `names` are partners' names by id."""
        whom = f" para {_named(self.concerned, names)}" if self.concerned else ""
        only = " só" if self.is_for_some else ""
        match self.kind:
            case Kind.FINE:
                return "no ar"
            case Kind.RECOVERED:
                failed, calls = number(self.theirs, FAILED), counted(self.theirs.total(), "chamada", "chamadas", "0")
                return f"voltou{whom} {_ago(self.since)}; falhou {failed} de {calls} na última hora"
            case Kind.UNGUARDED:
                return "no ar, chamado mesmo que falhe"
            case Kind.FAILING:
                return f"falhando{only}{whom} ({_failed_of(self.theirs)})"
            case Kind.CREDENTIALS:
                return "credenciais recusadas"
            case Kind.PARTIAL:
                return f"fora{only}{whom}"
            case Kind.OUT:
                return "fora: falhas seguidas"
            case Kind.PROBING:
                return "fora, voltando: uma chamada de teste de cada vez"
            case Kind.UNREAD:
                return "desconhecido (Redis não responde)"
        return self.note

    def detail(self, names: Mapping[str, str] | None = None) -> str:
        """How many calls failed, and of whom, and how most of them failed. When the last call was, if none is new."""
        if not self.calls:
            return self._of_none()
        total, failed = self.theirs.total(), number(self.theirs, FAILED)
        newest = "na última chamada" if total == 1 else f"nas últimas {total} chamadas"
        told = f"{counted(failed, 'falha', 'falhas', 'nenhuma falha')} {newest}"
        if not (self.kind.is_problem or self.kind is Kind.RECOVERED) or not self.failing:
            return told
        window = " desde a mudança da configuração" if self.changed_at else ""
        others = self._of_others() or f"nenhum outro o chamou{window}"
        commonest = max(FAILED, key=lambda each: number(self.theirs, (each,)))
        told = f"{told}, de {_named(self.concerned or self.failing, names)}; {others}; a maioria: {FAILED[commonest]}"
        good = (only_of(self.good_since, self.concerned) if self.concerned else self.good_since).total()
        if good:
            told += "; a última deu certo" if good == 1 else f"; as últimas {good} deram certo"
        is_quiet = self.last is not None and timezone.now() - self.last > _QUIET
        return f"{told}; nenhuma chamada {_ago(self.last)}" if is_quiet else told

    def _of_none(self) -> str:
        """Since when nobody called. Empty if that is not known."""
        if self.changed_at:
            seconds = int((timezone.now() - self.changed_at).total_seconds())
            return (
                f"nenhuma chamada desde a alteração, há {seconds} s"
                if seconds < 60
                else (f"nenhuma chamada desde a alteração, {_ago(self.changed_at)}")
            )
        last = f"{timezone.localtime(self.last):%d/%m %H:%M}" if self.last else ""
        return f"nenhuma chamada recente, a última em {last}" if last else ""

    def _of_others(self) -> str:
        """How the calls go of others than those who are named. Empty if there is none."""
        calls = only_of(self.newest | self.series, self.calling - (self.concerned or self.failing))
        failed, total = number(calls, FAILED), calls.total()
        if failed:
            return f"os demais: {counted(failed, 'falha', 'falhas', '')} em {counted(total, 'chamada', 'chamadas', '')}"
        return "os demais sem falhas" if total else ""

    def for_partner(self, partner: str) -> str:
        """One of STATUSES, for calls of the partner with this id."""
        own = self.own(partner)
        match own.kind:
            case Kind.OUT | Kind.CREDENTIALS | Kind.WINDOW | Kind.OFF:
                return UNAVAILABLE
            case Kind.PARTIAL:
                return UNAVAILABLE if own.breakers[partner] == "open" else DEGRADED
            case Kind.PROBING | Kind.FAILING:
                return DEGRADED
        return AVAILABLE


def _named(partners: Collection[str], names: Mapping[str, str] | None) -> str:
    known = sorted(names[each] for each in partners if each in names)[:_NAMES] if names else []
    rest = len(partners) - len(known)
    if not known:
        return counted(rest, "parceiro", "parceiros", "nenhum parceiro")
    return ", ".join(known) + (f" e mais {rest}" if rest else "")


def _ago(at: datetime | None) -> str:
    minutes = int((timezone.now() - at).total_seconds() // 60) if at else 0
    return f"há {minutes} min" if minutes else "agora"


def _failed_of(calls: Calls) -> str:
    failed, total = number(calls, FAILED), calls.total()
    share = share_of(failed, total)
    return f"{failed} de {counted(total, 'chamada', 'chamadas', '0')}" if share is None else f"{share:.0f} %"


class _Partners:
    """Finds partners' names by id. The app of partners says how (`find_names_with`): this app knows no partner."""

    names_of: Callable[[Collection[str]], Mapping[str, str]] = staticmethod(lambda ids: {})


def find_names_with(names_of: Callable[[Collection[str]], Mapping[str, str]]) -> None:
    """From now on `partner_names` finds names by calling `names_of` with ids."""
    _Partners.names_of = staticmethod(names_of)


def partner_names(healths: Iterable[Health]) -> Mapping[str, str]:
    """The names, by id, of the partners whose calls fail. At most one statement."""
    ids = {each for health in healths for each in (*health.failing, *health.breakers)}
    return {**_Partners.names_of(ids), OPERATOR: "um teste da conexão"} if ids else {}


def is_failing(calls: Calls, bad: Collection[Outcome] = FAILED, percent: int = FAILING_PERCENT) -> bool:
    failed = number(calls, bad)
    return failed >= FAILING_LEAST and failed * 100 >= percent * calls.total()


def number(calls: Calls, wanted: Collection[Outcome]) -> int:
    return sum(count for (outcome, _), count in calls.items() if outcome in wanted)


def failing_partners(calls: Calls) -> set[str]:
    """The partners of whose calls FAILING_PERCENT percent failed."""
    totals, failed = Counter[str](), Counter[str]()
    for (outcome, partner), count in calls.items():
        totals[partner] += count
        failed[partner] += count if outcome in FAILED else 0
    return {each for each, total in totals.items() if failed[each] and failed[each] * 100 >= FAILING_PERCENT * total}


def only_of(calls: Calls, partners: Collection[str]) -> Calls:
    return Counter({each: count for each, count in calls.items() if each[1] in partners})


def summed(each_calls: Iterable[Calls]) -> Calls:
    total: Calls = Counter()
    for calls in each_calls:
        total.update(calls)
    return total
