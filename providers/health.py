"""The states of a bank, and their words: the first page, lists, `GET /providers` and `/metrics` show them.
`providers.judging` tells the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.utils import timezone

from foundation.formats import counted, listed, share_of
from providers.outcomes import OPERATOR, WHOLE, Outcome, Record, Series

#: What `Health.for_partner` may say.
STATUSES = AVAILABLE, DEGRADED, UNAVAILABLE = ("available", "degraded", "unavailable")
#: The outcomes that are failures, in words for operators.
FAILED = {
    Outcome.FAILED: "erro do banco (5xx)",
    Outcome.TIMED_OUT: "prazo esgotado",
    Outcome.UNREACHABLE: "conexão recusada ou interrompida",
    Outcome.UNREADABLE: "resposta ilegível",
    Outcome.LOGIN_REFUSED: "login recusado",
}
#: If the last call is older, the sentence about a failing bank says so.
_QUIET, _FORGOTTEN = timedelta(minutes=5), timedelta(hours=1)
#: Of how many partners' calls, if several are concerned, the numbers are told.
_TOLD = 3


class Kind(StrEnum):
    """The state of a bank. `recovered`: it failed within the hour, and answers now. `unguarded`: the breaker is
    ignored. `probing`: the breaker lets one call through."""

    FINE = "fine"
    RECOVERED = "recovered"
    UNGUARDED = "unguarded"
    FAILING = "failing"
    CREDENTIALS = "credentials"
    OUT = "out"
    PROBING = "probing"
    WINDOW = "window"
    OFF = "off"
    UNREAD = "unread"

    @property
    def is_problem(self) -> bool:
        """True if an operator has something to do. A window and an operator's own setting are no problem."""
        return bool(_SAID[self].advice)


class _Said(NamedTuple):
    """What a state says: to operators in `words`, whose fields `Health.words` fills; to partners one of STATUSES; and
    what an operator does about it, nothing if it is no problem."""

    words: str
    status: str = AVAILABLE
    advice: str = ""


_IF_IT_LASTS = "Se durar, ponha-o fora do ar com um motivo: os parceiros o leem."
_CREDENTIALS = "O banco recusa o nosso login: confira as credenciais na configuração do banco."
_OUT = "O serviço tenta de novo a cada 15 s e volta sozinho. Avise o banco; se durar, ponha-o fora do ar com um motivo."
_PROBING = "A próxima chamada decide: se der certo, o banco volta."
_UNREAD = "O Redis responde? Sem ele, ninguém sabe como vão os bancos, e nenhum é chamado."
_SAID = {
    Kind.FINE: _Said("no ar"),
    Kind.UNGUARDED: _Said("no ar, chamado mesmo que falhe"),
    Kind.RECOVERED: _Said("voltou{whom} {ago}; {counted}{again}"),
    Kind.FAILING: _Said("{failing}{only}{whom}{share}", DEGRADED, _IF_IT_LASTS),
    Kind.CREDENTIALS: _Said("credenciais recusadas", UNAVAILABLE, _CREDENTIALS),
    Kind.OUT: _Said("fora: falhas seguidas", UNAVAILABLE, _OUT),
    Kind.PROBING: _Said("fora, voltando: uma chamada de teste de cada vez", DEGRADED, _PROBING),
    Kind.WINDOW: _Said("{note}", UNAVAILABLE),
    Kind.OFF: _Said("{note}", UNAVAILABLE),
    Kind.UNREAD: _Said("desconhecido (Redis não responde)", UNAVAILABLE, _UNREAD),
}
#: What an operator does if only some partners' calls fail, or failed.
_ONLY_FAIL = "Os demais são atendidos: não ponha o banco fora do ar para todos."
_ONLY_FAILED = "Os demais foram atendidos."
_OTHERS_GOOD = "Nenhuma falha dos demais é conhecida: espere antes de pôr o banco fora do ar para todos."
_NEWEST_GOOD = "As últimas chamadas deram certo: espere."
_LAST_GOOD = "A última chamada deu certo: espere as próximas."
_LOOK = "Veja as consultas: dados ou carteira que o banco não aceita?"


@dataclass(frozen=True)
class Health:
    """A bank's state. Partners are named by their ids.

    `since` is when the state began, or when the bank came back; None if it has failed for partners who have not called
    since. `told` are the series by which the bank is judged: that of all calls (WHOLE), or those of some partners.
    `good` is how many calls succeeded since, and `last` when the last one ended. `failed_at` is the last failure of a
    bank that failed again since it came back. `changed_at` is when the bank's settings were changed, if no call has
    ended since.

    `failing` holds the partners whose calls failed; `is_for_some` is true if the others' calls are known hardly to
    fail. `others_called` is true if a partner that is not among them has called since the first failure,
    `others_failed` if such a call failed, and `others_served` if their newest calls are good. `own_records` holds those
    of the partners whose own calls fail, `breakers` the states of partners' own breakers that are not closed. `names`
    has partners' names by id (`named`); the words count those without one."""

    kind: Kind
    note: str = ""
    since: datetime | None = None
    failed_at: datetime | None = None
    told: Mapping[str, Series] = field(default_factory=dict)
    last: datetime | None = None
    changed_at: datetime | None = None
    failing: frozenset[str] = frozenset()
    is_for_some: bool = False
    others_called: bool = False
    others_failed: bool = False
    others_served: bool = False
    good: int = 0
    own_records: Mapping[str, Record] = field(default_factory=dict)
    breakers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def concerned(self) -> frozenset[str]:
        """The partners by whose calls alone the bank is judged. None if it is judged by all calls."""
        return frozenset() if WHOLE in self.told else frozenset(self.told)

    def own(self, partner: str) -> Health:
        """The state for the calls of the partner with this id: another partner's failures do not count if only that
        partner's calls fail."""
        mine, state = self.own_records.get(partner), self.breakers.get(partner)
        own = replace(self, breakers={partner: state} if state else {})
        is_by_calls = self.kind in (Kind.FAILING, Kind.RECOVERED)
        if is_by_calls and mine:
            told = {partner if mine.alone or self.concerned or state == "open" else WHOLE: mine}
            since = datetime.fromtimestamp(mine.began, UTC)
            return replace(own, kind=Kind.FAILING, told=told, since=since, failing=frozenset({partner}))
        if is_by_calls and partner in self.concerned:
            return replace(own, told={partner: self.told[partner]})
        if is_by_calls and self.concerned:
            own = replace(own, kind=Kind.FINE, since=None)
        is_held = state == "open" and own.kind in (Kind.FINE, Kind.RECOVERED)
        return replace(own, kind=Kind.OUT, since=None) if is_held else own

    def for_partner(self, partner: str) -> str:
        """One of STATUSES, for calls of the partner with this id."""
        own = self.own(partner)
        return UNAVAILABLE if own.breakers.get(partner) == "open" else _SAID[own.kind].status

    @property
    def advice(self) -> str:
        """What an operator does about it. Empty if nothing is to do."""
        if self.is_for_some:
            return f"{_ONLY_FAIL if self.kind.is_problem else _ONLY_FAILED} {_LOOK}"
        if self.concerned and self.kind.is_problem and self.others_served:
            return f"{_ONLY_FAIL} {_LOOK}"
        good = self.told[WHOLE].good if WHOLE in self.told else self.good
        if self.kind is Kind.FAILING and good:
            return _LAST_GOOD if good == 1 else _NEWEST_GOOD
        is_of_some = self.concerned and self.kind.is_problem and not self.others_failed
        return _OTHERS_GOOD if is_of_some else _SAID[self.kind].advice

    @property
    def began(self) -> str:
        """Since when, as `desde 23/11 14:03`. Empty if that is not known, or is among the words."""
        is_told = self.since is None or self.kind is Kind.RECOVERED
        return "" if is_told else f"desde {timezone.localtime(self.since):%d/%m %H:%M}"

    def words(self) -> str:
        """The state in a few words for operators."""
        whom = f" para {self._named(self.concerned)}" if self.concerned else ""
        series = next(iter(self.told.values()), Series())
        is_out = self.kind is Kind.FAILING and self.concerned and self.concerned <= self.breakers.keys()
        refused = [each for each, state in self.breakers.items() if state == "open"]
        is_told = is_out or self.kind is Kind.OUT or not refused
        held = "" if is_told else f"; fora para {self._named(refused)}"
        if self.kind is Kind.RECOVERED and self.since is None:
            last = _clock(series.failed_at)
            return f"falhou {last}{whom}, sem chamada desde então; os demais deram certo depois{held}"
        said = _SAID[self.kind].words.format(
            note=self.note,
            failing="fora" if is_out else "falhando",
            only=" só" if self.is_for_some else "",
            whom=whom,
            ago=_ago(self.since),
            again=f"; a última falha {_ago(self.failed_at)}" if self.failed_at else "",
            counted="; ".join(_counted(each) for each in self._first_told().values()),
            share=f" ({_share(series)})" if len(self.told) == 1 or not self.concerned else "",
        )
        return said + held

    def detail(self) -> str:
        """How many calls failed, from when to when, and of whom, and how they failed; how the calls of others, and the
        newest ones, went. When the last call was, if none is new."""
        told = self._of_failures() if any(each.failed for each in self.told.values()) else []
        if self.good:
            told.append("a última deu certo" if self.good == 1 else f"as últimas {_calls(self.good)} deram certo")
        return "; ".join([*told, *self._of_silence()])

    def _named(self, partners: Collection[str]) -> str:
        known, number = sorted(self.names[each] for each in partners if each in self.names), len(partners)
        return listed(known, number) if known else counted(number, "parceiro", "parceiros", "nenhum parceiro")

    def _first_told(self) -> Mapping[str, Series]:
        failed = {each: series for each, series in self.told.items() if series.failed}
        return dict(list(failed.items())[:_TOLD])

    def _of_failures(self) -> list[str]:
        ends = sum((Counter(each.ends) for each in self.told.values()), Counter[Outcome]())
        number, [(commonest, times)] = ends.total(), ends.most_common(1)
        how = "" if number == 1 else "todas: " if times == number else "a maioria: " if 2 * times > number else "mais: "
        counted = [
            f"{_counted(series)}, de {self._named(series.who if name == WHOLE else {name})}{self._of_next(series)}"
            for name, series in self._first_told().items()
        ]
        return [*counted, self._of_others(), f"{how}{FAILED[commonest]}"]

    def _of_next(self, series: Series) -> str:
        """How many calls of one of several series have succeeded since its last failure."""
        if not series.good or len(self.told) == 1 or not self.kind.is_problem:
            return ""
        return " (a seguinte deu certo)" if series.good == 1 else f" (as {_number(series.good)} seguintes deram certo)"

    def _of_others(self) -> str:
        """How the calls of others than those who are named have gone since the first failure."""
        if not self.others_called:
            return "nenhum outro o chamou desde então"
        return "os demais: algumas falhas" if self.others_failed else "os demais sem falhas desde então"

    def _of_silence(self) -> Iterable[str]:
        """When the last call was, if none is new, or none since a change of the settings."""
        now = timezone.now()
        if self.changed_at:
            seconds = int((now - self.changed_at).total_seconds())
            ago = f"há {seconds} s" if seconds < 60 else _ago(self.changed_at)
            yield f"configuração mudada {ago}, nenhuma chamada desde então"
        elif self.last is not None and now - self.last > _FORGOTTEN:
            yield f"nenhuma chamada recente, a última em {timezone.localtime(self.last):%d/%m %H:%M}"
        elif self.last is not None and now - self.last > _QUIET:
            yield f"nenhuma chamada {'destes ' if self.concerned else ''}{_ago(self.last)}"


def _counted(series: Series) -> str:
    """As `falharam 3 de 5 chamadas, de 14:03:07 a 14:05:12`."""
    first, last = _clock(series.began), _clock(series.failed_at)
    when = f"às {last}" if first == last else f"de {first} a {last}"
    verb = "falhou" if series.failed == 1 else "falharam"
    return f"{verb} {_number(series.failed)} de {_calls(series.calls)}, {when}"


def _share(series: Series) -> str:
    share = share_of(series.failed, series.calls)
    return f"{series.failed} de {_calls(series.calls)}" if share is None else f"{share:.0f} %"


def _calls(number: int) -> str:
    return counted(number, "chamada", "chamadas", "0")


def _number(number: int) -> str:
    return f"{number:,}".replace(",", ".")


def _clock(seconds: float) -> str:
    return f"{timezone.localtime(datetime.fromtimestamp(seconds, UTC)):%H:%M:%S}"


def _ago(at: datetime | None) -> str:
    minutes = int((timezone.now() - at).total_seconds() // 60) if at else 0
    return f"há {minutes} min" if minutes else "agora"


class _Partners:
    """Finds partners' names by id. The app of partners says how (`find_names_with`): this app knows no partner."""

    names_of: Callable[[Collection[str]], Mapping[str, str]] = staticmethod(lambda ids: {})


def find_names_with(names_of: Callable[[Collection[str]], Mapping[str, str]]) -> None:
    """From now on `named` finds names by calling `names_of` with ids."""
    _Partners.names_of = staticmethod(names_of)


def named(states: Mapping[str, Health]) -> dict[str, Health]:
    """The banks' states with the names of the partners whose calls fail. At most one statement."""
    ids = {each for health in states.values() for each in (*health.failing, *health.breakers)}
    names = {**_Partners.names_of(ids), OPERATOR: "um teste da conexão"} if ids else {}
    return {bank: replace(health, names=names) for bank, health in states.items()}
