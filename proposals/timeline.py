"""A proposal's events in order of time: its query, the holder's steps, calls to the bank, moves and webhooks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from authorizations.models import Session
from consultas.models import Query, Step
from foundation.backoffice.cells import link
from foundation.backoffice.pages import page_of
from foundation.errors import InvalidInput, InvalidState, NotSupported
from proposals.models import Proposal
from proposals.statuses import WITHDRAWN
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from webhooks.models import Event, newest_attempts, reference_index

#: How a call to the bank ended, in words for operators.
OUTCOMES = {
    "": "sem resposta",
    "ok": "respondida",
    "not_found": "não encontrada no banco",
    ProviderUnavailable.code: "banco indisponível",
    ProviderError.code: "erro do banco ou resposta ilegível",
    ProviderRejected.code: "recusada pelo banco",
    OfferExpired.code: "oferta não está mais disponível",
    InvalidState.code: "a situação no banco não permite",
    InvalidInput.code: "dados recusados",
    NotSupported.code: "o banco não oferece a operação",
}
#: A step that was done longer than this before the submission is not part of the timeline.
_BEFORE = timedelta(days=7)


@dataclass(frozen=True)
class Moment:
    """One line: when it began, what it is, how it ended, how long it took, and the bank's word."""

    at: datetime
    what: str | SafeString
    outcome: str
    took: timedelta | None = None
    word: str = ""
    measure: str = ""  # what `took` measures, where it is not the line's own action


def measured(moment: Moment) -> str:
    """The moment's duration, and what it measures: `5 minutos desde que foi aberto`. Empty without a duration."""
    return f"{_readable(moment.took)} {moment.measure}".strip() if moment.took is not None else ""


def _readable(duration: timedelta) -> str:
    """A duration as text: `812 ms`, `3,4 s`, `5 minutos`, `2 dias, 3 horas`."""
    seconds = max(0.0, duration.total_seconds())
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".", ",")
    now = timezone.now()
    return timesince(now - duration, now)


def origin_of(proposal: Proposal) -> Query | None:
    """The query that gave the offer as it was sent, without its encrypted columns. None if it is deleted."""
    return Query.objects.defer("answers", "request").filter(pk=proposal.origin_query_id).first()


def moments(proposal: Proposal, query: Query | None, may: Callable[[str], bool]) -> list[Moment]:
    """The lines about `proposal`, which was sent from `query`, oldest first. `may` says whether the reader has a
    permission. Lines that the reader may not see are left out."""
    entries = [*_moves(proposal), *_calls(proposal)]
    if query is not None and may("consultas.view_query"):
        entries.append(_query(query))
    if query is not None and query.authorization_id and may("authorizations.view_session"):
        entries += _session(query.authorization_id)
    if may("consultas.view_step"):
        entries += _steps(proposal)
    if may("webhooks.view_event"):
        entries += _webhooks(proposal)
    return sorted(entries, key=lambda moment: moment.at)


def _moves(proposal: Proposal) -> Iterator[Moment]:
    """Each move, with the time that the proposal had spent in the previous status."""
    names = {**dict(Proposal._meta.get_field("status").flatchoices), WITHDRAWN: "desistência do titular"}
    before = proposal.created_at
    for each in sorted(proposal.moves.all(), key=lambda move: (move.at, move.pk)):
        what = f"{names.get(each.from_status, '(nova)')} → {names[each.to_status]}"
        cause, spent = each.get_cause_display(), each.at - before
        yield Moment(each.at, what, cause, spent, each.native_word, "na situação anterior")
        before = each.at


def _calls(proposal: Proposal) -> Iterator[Moment]:
    for each in proposal.calls.all():
        duration = None if each.ms is None else timedelta(milliseconds=each.ms)
        outcome = OUTCOMES.get(each.outcome, each.outcome)
        yield Moment(each.at, f"chamada ao banco: {each.get_operation_display()}", outcome, duration)


def _query(query: Query) -> Moment:
    what = link(page_of(query), f"consulta {query.get_kind_display()}")
    if query.finished_at is None:
        return Moment(query.created_at, what, "em andamento ou interrompida")
    return Moment(query.created_at, what, "concluída", query.finished_at - query.created_at)


def _session(authorization_id: str) -> Iterator[Moment]:
    sessions = Session.objects.select_related("evidence").defer("evidence__record", "cpf", "name", "phone")
    session = sessions.filter(authorization_id=authorization_id).first()
    if session is None:
        return
    page = link(page_of(session), "autorização pedida ao titular")
    yield Moment(session.created_at, page, session.get_status_display())
    if hasattr(session, "evidence"):
        accepted = session.evidence.accepted_at
        yield Moment(accepted, "o titular autorizou", "aceita", accepted - session.created_at, measure="desde o pedido")
    if session.revoked_at is not None:
        yield Moment(session.revoked_at, "autorização revogada", "revogada")


def _steps(proposal: Proposal) -> Iterator[Moment]:
    mine = Step.objects.filter(cpf_index=proposal.cpf_index, partner=proposal.partner_id, provider=proposal.provider)
    for step in mine.filter(opened_at__gte=proposal.created_at - _BEFORE):
        page = link(page_of(step), f"passo do titular: {step.type}")
        yield Moment(step.opened_at, page, "aberto")
        if step.closed_at is not None:
            duration = step.closed_at - step.opened_at
            yield Moment(step.closed_at, page, step.get_state_display(), duration, measure="desde que foi aberto")


def _webhooks(proposal: Proposal) -> Iterator[Moment]:
    """A line for each event, with the results of its attempts: `entregue: tempo esgotado (2×), HTTP 200`."""
    mine = Event.objects.filter(partner=proposal.partner_id, reference_index=reference_index(str(proposal.pk)))
    events = list(mine.only("pk", "name", "state", "created_at", "delivered_at"))
    results: dict[str, list[str]] = {}
    for attempt in newest_attempts(events).defer("excerpt"):
        answer = f"HTTP {attempt.status}" if attempt.status else attempt.get_fault_display()
        results.setdefault(attempt.event_id, []).append(answer)
    for event in events:
        page = link(page_of(event), f"webhook {event.name}")
        outcome = ": ".join(filter(None, (event.get_state_display(), _in_groups(results.get(event.pk, ())))))
        waited = event.delivered_at - event.created_at if event.delivered_at else None
        yield Moment(event.created_at, page, outcome, waited, measure="até ser entregue")


def _in_groups(answers: Iterable[str]) -> str:
    """Equal answers that follow each other, told once with their number."""
    groups = ((answer, len(list(same))) for answer, same in groupby(answers))
    return ", ".join(f"{answer} ({number}×)" if number > 1 else answer for answer, number in groups)
