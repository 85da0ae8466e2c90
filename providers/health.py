"""How a bank does now, told from how the service's calls to it end. This is the only definition: the first page, lists,
`GET /providers` and `/metrics` show it.

The first of these decides: the bank is switched off; it is in a window; an operator keeps it out; it said that our
log-in is refused or that it is closed; its breaker; its newest calls. These are the calls of this minute and the one
before, and of earlier minutes, up to an hour, until they are LEAST_CALLS. A bank fails if at least FAILING_LEAST of
them, and FAILING_PERCENT percent, failed; for one partner, if as many of that partner's failed. A partner whose last
calls of the hour all failed, at least FAILING_LEAST, while the others' succeeded, is judged by these calls alone. What
happened before the last change of the bank's settings does not count.

A failing bank answers again as soon as no call of this minute and the one before failed, and the partners that had
failures have had so many answers since that, at the earlier rate, FAILING_LEAST of them would have failed. A bank that
does not fail now, but by its calls of the last hour, or of successive minutes of that hour, has recovered.

It fails for some partners alone if the others, since failures began, had so many calls that at the same rate
_LONE_LEAST of them would have failed, and less than _LONE_PERCENT percent did: _MANY_PERCENT if FAILING_LEAST did.
Nobody knows that in the minute in which failures began, because its good calls may have come before them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import structlog
from django.utils import timezone
from redis.exceptions import RedisError

from foundation.formats import counted, share_of
from providers import outcomes
from providers.breaker import ALL, MINIMUM_CALLS, Breaker
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider
from providers.outcomes import LAST_HOUR, OPERATOR, Calls, Minutes, Outcome

log = structlog.get_logger(__name__)

LEAST_CALLS, FAILING_LEAST, FAILING_PERCENT = 20, 3, 10
#: What `Health.for_partner` may say.
STATUSES = AVAILABLE, DEGRADED, UNAVAILABLE = ("available", "degraded", "unavailable")
_LONGEST_MIN = 60
_LONE_LEAST, _LONE_PERCENT, _MANY_PERCENT = 2, 5, 1
#: The outcomes that are failures, in words for operators.
_FAILED = {
    Outcome.FAILED: "erro do banco (5xx)",
    Outcome.TIMED_OUT: "prazo esgotado",
    Outcome.UNREACHABLE: "conexão recusada ou interrompida",
    Outcome.UNREADABLE: "resposta ilegível",
    Outcome.LOGIN_REFUSED: "login recusado",
}
_RECENT, _EARLIER = LAST_HOUR, range(len(LAST_HOUR), outcomes.BLOCKS)
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
        return _number(self.newest, _FAILED)

    @property
    def failing(self) -> frozenset[str]:
        """The ids of the partners whose calls fail."""
        return frozenset(_failing_partners(self.newest) | _failing_partners(self.series))

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
        if self.kind is Kind.FAILING and not _is_failing(self.newest):
            return frozenset(each for each in failing if _is_failing(self._judged_of(each)))
        is_judged = self._spares_all_but(failing) and _is_failing(_summed(map(self._judged_of, failing)))
        return failing if is_judged else frozenset()

    @property
    def is_for_some(self) -> bool:
        """True if only the calls of the partners concerned fail, or failed."""
        return self._spares_all_but(self.concerned)

    def _spares_all_but(self, failing: Collection[str]) -> bool:
        """True if the calls of others than these partners hardly fail, and are enough to tell."""
        theirs, others = _only_of(self.series, failing), _only_of(self.series, self.calling - set(failing))
        is_enough = others.total() * _number(theirs, _FAILED) >= _LONE_LEAST * theirs.total()
        failed = _number(others, _FAILED)
        is_good = failed * 100 < (_LONE_PERCENT if failed < FAILING_LEAST else _MANY_PERCENT) * others.total()
        return bool(failing) and is_enough and is_good and not self.is_new

    @property
    def theirs(self) -> Calls:
        """The calls that fail: those of the partners concerned, or the newest of all."""
        if self.concerned and self.kind is Kind.FAILING:
            return _summed(map(self._judged_of, self.concerned))
        return _only_of(self.newest, self.concerned) if self.concerned else self.newest

    def _judged_of(self, partner: str) -> Calls:
        """The calls of the partner with this id by which it is failing: the newest, or those since failures began."""
        is_hidden = partner not in _failing_partners(self.newest) and partner in _failing_partners(self.series)
        return _only_of(self.series if is_hidden else self.newest, (partner,))

    def own(self, partner: str) -> Health:
        """The state for the calls of the partner with this id: another partner's failures do not count if only that
        partner's calls fail."""
        if self.kind not in (Kind.FINE, Kind.UNGUARDED, Kind.PARTIAL, *_BY_CALLS):
            return self
        mine = replace(self, newest=self._judged_of(partner), series=_only_of(self.series, (partner,)))
        if state := self.breakers.get(partner):
            return replace(self, breakers={partner: state})
        is_failing = _is_failing(mine.newest)
        if self.kind in _BY_CALLS and self._concerns(partner):
            return mine if is_failing else self
        fine = Kind.UNGUARDED if self.kind is Kind.UNGUARDED else Kind.FINE
        return replace(mine, kind=Kind.FAILING if is_failing else fine, since=None, breakers={})

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
                failed, calls = _number(self.theirs, _FAILED), counted(self.theirs.total(), "chamada", "chamadas", "0")
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
        total, failed = self.theirs.total(), _number(self.theirs, _FAILED)
        newest = "na última chamada" if total == 1 else f"nas últimas {total} chamadas"
        told = f"{counted(failed, 'falha', 'falhas', 'nenhuma falha')} {newest}"
        if not (self.kind.is_problem or self.kind is Kind.RECOVERED) or not self.failing:
            return told
        window = " desde a mudança da configuração" if self.changed_at else ""
        others = self._of_others() or f"nenhum outro o chamou{window}"
        commonest = max(_FAILED, key=lambda each: _number(self.theirs, (each,)))
        told = f"{told}, de {_named(self.concerned or self.failing, names)}; {others}; a maioria: {_FAILED[commonest]}"
        good = (_only_of(self.good_since, self.concerned) if self.concerned else self.good_since).total()
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
        calls = _only_of(self.newest | self.series, self.calling - (self.concerned or self.failing))
        failed, total = _number(calls, _FAILED), calls.total()
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
    failed, total = _number(calls, _FAILED), calls.total()
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


def health_of(names: Collection[str] | None = None) -> dict[str, Health]:
    """The state of each bank of `names`, or of every bank, by name. Two statements, and at most three Redis calls."""
    rows = Provider.objects.only("name", "enabled", "circuit", "updated_at")  # credentials are not read
    banks = list(rows if names is None else rows.filter(name__in=names))
    windows = Maintenance.now([bank.name for bank in banks])
    set_by_hand = {bank.name: _set_by_hand(bank, windows.get(bank.name)) for bank in banks}
    called = {bank.name: bank for bank in banks if set_by_hand[bank.name] is None}
    try:
        told = _told_by_calls(called)
    except RedisError:
        log.warning("bank_calls_unreachable")
        told = dict.fromkeys(called, Health(Kind.UNREAD))
    return {bank.name: set_by_hand[bank.name] or told[bank.name] for bank in banks}


def _set_by_hand(bank: Provider, window: Maintenance | None) -> Health | None:
    if not bank.enabled:
        return Health(Kind.OFF, "desligado")
    if window is not None:
        return Health(Kind.WINDOW, str(window), window.starts_at)
    if bank.circuit == Circuit.OPEN:
        return Health(Kind.OFF, "fora do ar por ordem do operador, sem fim marcado")
    return None


def _told_by_calls(banks: Mapping[str, Provider]) -> dict[str, Health]:
    now = time.time()
    minutes = outcomes.read(banks, now, _RECENT)
    totals = {name: _summed(found.values()) for name, found in minutes.items()}
    unclear = [name for name, calls in totals.items() if _is_failing(calls) or calls.total() < LEAST_CALLS]
    for name, found in outcomes.read(unclear, now, _EARLIER).items():
        minutes[name].update(found)
    # Calls that count no more leave a zero (`providers.outcomes`).
    minutes = {
        name: {each: kept for each in found if (kept := _without_zeros(found[each]))} for name, found in minutes.items()
    }
    minute = int(now) // 60
    hours = {name: _hour(minutes[name], minute, bank.updated_at) for name, bank in banks.items()}
    scopes = {(name, scope) for name, hour in hours.items() for scope in (ALL, *_partners_with_failures(hour))}
    breakers = Breaker.states(scopes)
    of_bank = {name: {s: breakers[b, s] for b, s in scopes if b == name} for name in banks}
    return {name: _judged(bank, minutes[name], hours[name], minute, of_bank[name]) for name, bank in banks.items()}


def _judged(bank: Provider, minutes: Minutes, hour: Minutes, now: int, breakers: Mapping[str, str]) -> Health:
    """What the calls and the breakers' states say. `breakers` are by scope: ALL, and each partner that had failures in
    the hour. `now` is a minute."""
    newest = _after_recovery(hour, _newest(hour, now), now)
    is_guarded = bank.circuit != Circuit.CLOSED
    own = {scope: state for scope, state in breakers.items() if is_guarded and scope != ALL and state != "closed"}
    for partner, calls in _lone_failures(hour).items():
        newest = newest - _only_of(newest, (partner,)) + calls
        if is_guarded and calls.total() >= MINIMUM_CALLS and _may_have_opened(hour, partner):
            own.setdefault(partner, "half_open")  # Redis forgets a breaker that nobody tries
    word = _word_of_bank(minutes, bank.updated_at)
    kind = Kind.FINE if is_guarded else Kind.UNGUARDED
    if word:
        kind = Kind.WINDOW if word is Outcome.CLOSED else Kind.CREDENTIALS
    elif is_guarded and breakers[ALL] != "closed":
        kind = Kind.OUT if breakers[ALL] == "open" else Kind.PROBING
    elif own:
        kind = Kind.PARTIAL
        for partner in own:
            newest |= _newest({minute: _only_of(calls, (partner,)) for minute, calls in hour.items()})
    elif _has_failing(newest):
        kind = Kind.FAILING
    elif len(breakers) > 1 and (_has_failing(_summed(hour.values())) or _recovery(hour)[1]):
        return _recovered(kind, hour, newest)
    series = _since_failures(minutes, newest) if kind.is_problem else {}
    health = Health(
        kind,
        "fechado agora, segundo o banco" if kind is Kind.WINDOW else "",
        None,
        newest,
        own,
        bank.updated_at if newest.total() < LEAST_CALLS and _leaves_out_calls(minutes, bank.updated_at) else None,
        _at(max(minutes, default=None)),
        series=_summed(series.values()),
        is_new=min(series, default=None) == now,
    )
    if not kind.is_problem and not word:
        return health
    if health.concerned:
        minutes = {minute: _only_of(calls, health.concerned) for minute, calls in minutes.items()}
    since = _since(minutes, (word,) if word else _FAILED, health.theirs)
    last = _at(max((each for each, calls in minutes.items() if calls), default=None))
    return replace(health, since=since, good_since=_good_since(hour), last=last)


def _recovered(kind: Kind, hour: Minutes, newest: Calls) -> Health:
    """The state of a bank that does not fail now. It has recovered if calls of those for whom it failed do not."""
    calls = _summed(hour.values())
    failing = _failing_partners(calls) | _failing_partners(_recovery(hour)[1])
    series = _summed(found for found in hour.values() if _number(_only_of(found, failing), _FAILED))
    health = Health(Kind.RECOVERED, newest=calls, series=series, good_since=_good_since(hour), last=_at(max(hour)))
    if health.concerned:
        hour = {minute: _only_of(found, health.concerned) for minute, found in hour.items()}
    back, failed = _recovery(hour)
    return replace(health, since=_at(back)) if back and failed else Health(kind, newest=newest, last=health.last)


def _at(minute: int | None) -> datetime | None:
    return datetime.fromtimestamp(minute * 60, UTC) if minute is not None else None


def _leaves_out_calls(minutes: Minutes, changed_at: datetime) -> bool:
    """True if a change of the bank's settings at that time leaves out calls that an hour would have."""
    is_recent = timezone.now() - changed_at < timedelta(minutes=_LONGEST_MIN)
    return is_recent and len(_newest_first(minutes, changed_at)) < len(minutes)


def _hour(minutes: Minutes, now: int, changed_at: datetime) -> Minutes:
    """The calls of the last hour of a bank whose settings were changed at that time, the newest minute first. `now` is
    a minute."""
    return {each: minutes[each] for each in _newest_first(minutes, changed_at) if each > now - _LONGEST_MIN}


def _newest(hour: Minutes, now: float = math.inf) -> Calls:
    """The newest calls: those of the minute `now` and the one before it, and more until they are LEAST_CALLS."""
    calls: Calls = Counter()
    for minute, found in hour.items():
        if minute < now - 1 and calls.total() >= LEAST_CALLS:
            break
        calls += found
    return calls


def _after_recovery(hour: Minutes, newest: Calls, now: int) -> Calls:
    """Those of the `newest` calls that came after the last failure, if they say that the bank answers again. `now` is a
    minute."""
    good = _good_since(hour)
    before = newest - good
    before = _only_of(before, {partner for outcome, partner in before if outcome in _FAILED})
    answers = _number(_only_of(good, {partner for _, partner in before}), (Outcome.ANSWERED,))
    is_enough = answers * _number(before, _FAILED) >= FAILING_LEAST * before.total() > 0
    is_calm = not any(_number(hour.get(each, Counter()), _FAILED) for each in (now, now - 1))
    return good if is_enough and is_calm else newest


def _recovery(hour: Minutes) -> tuple[int | None, Calls]:
    """The first minute of the newest ones that do not fail, None if none; and the calls of those before that do: all
    since then, or of successive minutes. Empty if none did."""
    calls: Calls = Counter()
    run: Calls = Counter()
    back = None
    for minute, found in hour.items():
        is_bad = _number(found, _FAILED) * 100 >= FAILING_PERCENT * found.total()
        calls, run = calls + found, run + found if is_bad else Counter()
        if failed := next(filter(_is_failing, (run, calls)), None):
            return back, failed
        if not is_bad:
            back = minute
    return back, Counter()


def _lone_failures(hour: Minutes) -> dict[str, Calls]:
    """The last calls of each partner, if all of them, at least FAILING_LEAST, failed while most of the others' calls,
    from the minute before on, did not."""
    lone: dict[str, Calls] = {}
    for partner in _partners_with_failures(hour):
        calls: Calls = Counter()
        failed_in: list[int] = []
        for minute, found in hour.items():
            theirs = _only_of(found, (partner,))
            if _number(theirs, _FAILED) < theirs.total():
                break
            calls += theirs
            failed_in += [minute] if theirs else []
        if calls.total() >= FAILING_LEAST:
            others = _summed(hour[each] for each in hour if failed_in[-1] - 1 <= each <= failed_in[0]) - calls
            if others.total() > 2 * _number(others, _FAILED):
                lone[partner] = calls
    return lone


def _may_have_opened(hour: Minutes, partner: str) -> bool:
    """True if the failures of two successive minutes were enough for this partner's breaker (its WINDOW_S)."""
    failed = {each: _number(_only_of(calls, (partner,)), _FAILED) for each, calls in hour.items()}
    return any(count + failed.get(each - 1, 0) >= MINIMUM_CALLS for each, count in failed.items())


def _good_since(hour: Minutes) -> Calls:
    """The calls of the newest minutes without a failure."""
    good: Calls = Counter()
    for calls in hour.values():
        if _number(calls, _FAILED):
            break
        good += calls
    return good


def _newest_first(minutes: Minutes, changed_at: datetime) -> list[int]:
    return [each for each in sorted(minutes, reverse=True) if each >= int(changed_at.timestamp()) // 60]


def _since(minutes: Minutes, bad: Collection[Outcome], newest: Calls) -> datetime | None:
    """The first minute of the present series of `bad` outcomes: the one since which these most exceed half of their
    share of the newest calls. A failure with enough good calls after it is earlier. LEAST_CALLS calls that together are
    not failing end the series."""
    first, most, exceeded = None, 0.0, 0.0
    share = _number(newest, bad) / max(1, newest.total())
    calls: Calls = Counter()
    for minute in sorted(minutes, reverse=True):
        calls += minutes[minute]
        exceeded += _number(minutes[minute], bad) - share / 2 * minutes[minute].total()
        if exceeded > most:
            first, most, calls = minute, exceeded, Counter()
        elif calls.total() >= LEAST_CALLS and not _is_failing(calls, bad):
            break
    return _at(first)


def _since_failures(minutes: Minutes, newest: Calls) -> Minutes:
    """The minutes from the first one on of the present series of failures of those whose calls fail, and those before
    it that had failures."""
    failing = _failing_partners(newest)
    theirs = {minute: _only_of(calls, failing) for minute, calls in minutes.items()}
    began = _since(theirs, _FAILED, _only_of(newest, failing))
    first, series = began.timestamp() // 60 if began else math.inf, {}
    for minute in sorted(minutes, reverse=True) if began else ():
        if minute < first and not _number(minutes[minute], _FAILED):
            break
        series[minute] = minutes[minute]
    return series


def _word_of_bank(minutes: Minutes, changed_at: datetime) -> Outcome | None:
    """What the bank said in the newest minute with calls, at least as often as it answered: that our log-in is wrong,
    or that it is closed."""
    newest = next(iter(_newest_first(minutes, changed_at)), None)
    calls = minutes[newest] if newest is not None else Counter()
    for outcome in (Outcome.LOGIN_REFUSED, Outcome.CLOSED):
        if 0 < _number(calls, (outcome,)) >= _number(calls, (Outcome.ANSWERED,)):
            return outcome
    return None


def _is_failing(calls: Calls, bad: Collection[Outcome] = _FAILED, percent: int = FAILING_PERCENT) -> bool:
    failed = _number(calls, bad)
    return failed >= FAILING_LEAST and failed * 100 >= percent * calls.total()


def _has_failing(calls: Calls) -> bool:
    """True if all calls together, or those of a partner, fail."""
    return _is_failing(calls) or any(_is_failing(_only_of(calls, (each,))) for each in _failing_partners(calls))


def _number(calls: Calls, wanted: Collection[Outcome]) -> int:
    return sum(count for (outcome, _), count in calls.items() if outcome in wanted)


def _partners_with_failures(minutes: Minutes) -> set[str]:
    return {partner for calls in minutes.values() for outcome, partner in calls if outcome in _FAILED}


def _failing_partners(calls: Calls) -> set[str]:
    """The partners of whose calls FAILING_PERCENT percent failed."""
    totals, failed = Counter[str](), Counter[str]()
    for (outcome, partner), count in calls.items():
        totals[partner] += count
        failed[partner] += count if outcome in _FAILED else 0
    return {each for each, total in totals.items() if failed[each] and failed[each] * 100 >= FAILING_PERCENT * total}


def _only_of(calls: Calls, partners: Collection[str]) -> Calls:
    return Counter({each: count for each, count in calls.items() if each[1] in partners})


def _without_zeros(calls: Calls) -> Calls:
    """`calls` without those that count no more."""
    return calls if min(calls.values()) > 0 else +calls


def _summed(each_calls: Iterable[Calls]) -> Calls:
    total: Calls = Counter()
    for calls in each_calls:
        total.update(calls)
    return total
