"""The states of a bank, and their words: the first page, lists, `GET /providers` and `/metrics` show them.
`providers.judging` tells the state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.utils import timezone

from foundation.formats import counted, listed, share_of
from providers.outcomes import OPERATOR, Outcome

FAILING_LEAST, FAILING_PERCENT = 3, 10
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
_QUIET = timedelta(minutes=5)


class Count(NamedTuple):
    """A number of calls, and how many of them failed."""

    calls: int = 0
    failed: int = 0

    @property
    def share(self) -> float:
        return self.failed / max(1, self.calls)

    @property
    def is_tenth(self) -> bool:
        """True if at least FAILING_PERCENT percent failed."""
        return self.failed > 0 and self.failed * 100 >= FAILING_PERCENT * self.calls

    @property
    def is_failing(self) -> bool:
        return self.failed >= FAILING_LEAST and self.is_tenth


_NONE = Count()


class Kind(StrEnum):
    """The state of a bank. `recovered`: it failed within the hour, and answers now. `unguarded`: the breaker is
    ignored. `partial`: the breaker is open for some partners. `probing`: the breaker lets one call through."""

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
_UNREAD = "O Redis responde? Sem ele, ninguém sabe como vão os bancos, e todos são chamados."
_SAID = {
    Kind.FINE: _Said("no ar"),
    Kind.UNGUARDED: _Said("no ar, chamado mesmo que falhe"),
    Kind.RECOVERED: _Said("voltou{whom} {ago}; falhou {failed} de {calls} na última hora{again}"),
    Kind.FAILING: _Said("falhando{only}{whom} ({share})", DEGRADED, _IF_IT_LASTS),
    Kind.PARTIAL: _Said("fora{only}{whom}", DEGRADED, _IF_IT_LASTS),
    Kind.CREDENTIALS: _Said("credenciais recusadas", UNAVAILABLE, _CREDENTIALS),
    Kind.OUT: _Said("fora: falhas seguidas", UNAVAILABLE, _OUT),
    Kind.PROBING: _Said("fora, voltando: uma chamada de teste de cada vez", DEGRADED, _PROBING),
    Kind.WINDOW: _Said("{note}", UNAVAILABLE),
    Kind.OFF: _Said("{note}", UNAVAILABLE),
    Kind.UNREAD: _Said("desconhecido (Redis não responde)", AVAILABLE, _UNREAD),
}
#: What an operator does if only some partners' calls fail, or failed.
_ONLY_FAIL = "Só estas chamadas falham: não ponha o banco fora do ar para todos."
_ONLY_FAILED = "Só estas chamadas falharam."
_NAMED_FAIL = "Por ora falham as chamadas destes. Espere pelas dos demais antes de pôr o banco fora do ar para todos."
_LOOK = "Veja as consultas: dados ou carteira que o banco não aceita?"


@dataclass(frozen=True)
class Health:
    """A bank's state. Partners are named by their ids.

    `failing` holds the partners whose calls fail, or failed if the bank has recovered; `concerned` those by whose calls
    alone the bank is judged, none if it is judged by all calls; `is_for_some` is true if the others' calls are known
    not to fail. `theirs` counts the calls by which the bank is judged, or those of the hour if it has recovered;
    `commonest` is how most of them failed, `good` how many came after the last minute with a failure, and `last` the
    minute of the last one within twelve hours. `others` counts the calls of who is not named, and `own_failures` those
    of each partner whose own calls fail.

    `since` is when the state began, or when the bank came back. `breakers` holds the state of partners' own breakers
    that are not closed. `changed_at` is when the bank's settings were changed, if earlier calls do not count because
    of it. `failed_at` is the minute of the last failure of a bank that failed again since it came back."""

    kind: Kind
    note: str = ""
    since: datetime | None = None
    failed_at: datetime | None = None
    theirs: Count = _NONE
    last: datetime | None = None
    changed_at: datetime | None = None
    failing: frozenset[str] = frozenset()
    concerned: frozenset[str] = frozenset()
    is_for_some: bool = False
    others: Count = _NONE
    good: int = 0
    commonest: Outcome = Outcome.FAILED
    own_failures: Mapping[str, Count] = field(default_factory=dict)
    breakers: Mapping[str, str] = field(default_factory=dict)

    def own(self, partner: str) -> Health:
        """The state for the calls of the partner with this id: another partner's failures do not count if only that
        partner's calls fail."""
        is_by_calls = self.kind in (Kind.FAILING, Kind.RECOVERED)
        is_concerned = is_by_calls and (not self.concerned or partner in self.concerned)
        mine = self.own_failures.get(partner)
        if not (is_by_calls or self.kind is Kind.PARTIAL) or partner in self.breakers or (is_concerned and not mine):
            return self
        own = replace(self, theirs=mine or _NONE, concerned=frozenset(), is_for_some=False, breakers={})
        return own if is_concerned else replace(own, kind=Kind.FAILING if mine else Kind.FINE, since=None)

    def for_partner(self, partner: str) -> str:
        """One of STATUSES, for calls of the partner with this id."""
        own = self.own(partner)
        return UNAVAILABLE if own.breakers.get(partner) == "open" else _SAID[own.kind].status

    @property
    def advice(self) -> str:
        """What an operator does about it. Empty if nothing is to do."""
        if self.is_for_some:
            return f"{_ONLY_FAIL if self.kind.is_problem else _ONLY_FAILED} {_LOOK}"
        is_of_some = self.concerned and self.kind.is_problem and not self.others.is_tenth
        return _NAMED_FAIL if is_of_some else _SAID[self.kind].advice

    @property
    def began(self) -> str:
        """Since when, as `desde 23/11 14:03`. Empty if that is not known, or is among the words."""
        is_told = self.since is None or self.kind is Kind.RECOVERED
        return "" if is_told else f"desde {timezone.localtime(self.since):%d/%m %H:%M}"

    def words(self, names: Mapping[str, str] | None = None) -> str:
        """The state in a few words for operators. `names` are partners' names by id."""
        calls = counted(self.theirs.calls, "chamada", "chamadas", "0")
        share = share_of(self.theirs.failed, self.theirs.calls)
        return _SAID[self.kind].words.format(
            note=self.note,
            only=" só" if self.is_for_some else "",
            whom=f" para {_named(self.concerned, names)}" if self.concerned else "",
            ago=_ago(self.since),
            again=f"; a última falha {_ago(self.failed_at)}" if self.failed_at else "",
            failed=self.theirs.failed,
            calls=calls,
            share=f"{self.theirs.failed} de {calls}" if share is None else f"{share:.0f} %",
        )

    def detail(self, names: Mapping[str, str] | None = None) -> str:
        """How many calls failed, and of whom, and how most of them failed. When the last call was, if none is new."""
        calls, failed = self.theirs
        if not calls:
            return self._of_none()
        newest = "na última chamada" if calls == 1 else f"nas últimas {calls} chamadas"
        told = f"{counted(failed, 'falha', 'falhas', 'nenhuma falha')} {newest}"
        if not self.failing:
            return told
        whose = _named(self.concerned or self.failing, names)
        most = "a maior parte " if self.others.failed and not self.concerned else ""
        told = f"{told}, {most}de {whose}; {self._of_others()}; a maioria: {FAILED[self.commonest]}"
        if self.good:
            told += "; a última deu certo" if self.good == 1 else f"; as últimas {self.good} deram certo"
        is_quiet = self.last is not None and timezone.now() - self.last > _QUIET
        return f"{told}; nenhuma chamada {_ago(self.last)}" if is_quiet else told

    def _of_none(self) -> str:
        """Since when nobody called. Empty if that is not known."""
        if self.changed_at:
            seconds = int((timezone.now() - self.changed_at).total_seconds())
            return f"nenhuma chamada desde a alteração, {f'há {seconds} s' if seconds < 60 else _ago(self.changed_at)}"
        return f"nenhuma chamada recente, a última em {timezone.localtime(self.last):%d/%m %H:%M}" if self.last else ""

    def _of_others(self) -> str:
        """How the calls go of others than those who are named."""
        calls, failed = self.others
        if failed:
            return f"os demais: {counted(failed, 'falha', 'falhas', '')} em {counted(calls, 'chamada', 'chamadas', '')}"
        if calls:
            return "os demais sem falhas"
        return f"nenhum outro o chamou{' desde a mudança da configuração' if self.changed_at else ''}"


def _named(partners: Collection[str], names: Mapping[str, str] | None) -> str:
    known = sorted(names[each] for each in partners if each in names) if names else []
    number = len(partners)
    return listed(known, number) if known else counted(number, "parceiro", "parceiros", "nenhum parceiro")


def _ago(at: datetime | None) -> str:
    minutes = int((timezone.now() - at).total_seconds() // 60) if at else 0
    return f"há {minutes} min" if minutes else "agora"


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
