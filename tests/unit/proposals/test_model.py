"""A submission's states, searched exhaustively; and the code's guards, without which the search finds a fault."""

from typing import NamedTuple

import pytest

from tests.unit.proposals.model import Program, Search


class World(NamedTuple):
    """The datasets that the partner submits, the workers and sweeps at work at once, the bank's fact."""

    requests: str
    workers: int
    sweeps: int
    deduplicates: bool = False


@pytest.mark.parametrize(
    "world",
    [World("aa", 1, 1), World("aa", 1, 1, True), World("aa", 2, 0), World("aa", 2, 0, True), World("ab", 1, 1)],
    ids=lambda world: "-".join(map(str, world)),
)
def test_no_order_of_events_doubles_a_contract_revives_a_refusal_or_leaves_an_outcome_unknown(world: World) -> None:
    """A row that is accepted has the bank's one contract with the row's data; one that is refused or not sent has none,
    whatever still arrives; and from every state the sweep alone leads to one of these."""
    program = Program(deduplicates=world.deduplicates)
    assert Search(program, world.requests, workers=world.workers, sweeps=world.sweeps).run() > 1_000


_ASKED_LATER = (
    """    is_final = is_not_found_final(proposal)
    try:
        reported = find(proposal)
""",
    """    try:
        reported = find(proposal)
        is_final = is_not_found_final(proposal)
""",
)
#: Per guard: its text in the code, what stands there without it, where the search finds a fault then, and which.
GUARDS = {
    "a task that comes twice is taken once": (
        "row.taken_at is not None or not row.is_held(now)",
        "not row.is_held(now)",
        World("a", 2, 0),
        "that is not_sent",
    ),
    "the bank is asked before anything is sent again": (
        "proposal.sent_until is None or _settle_earlier(proposal)",
        "True",
        World("aa", 1, 0),
        "two contracts",
    ),
    "only a final not-found lets another attempt be sent": (
        "if is_final or adapter(proposal.provider).deduplicates:",
        "if True:",
        World("aa", 1, 0),
        "two contracts",
    ),
    "a bank needs time to show what it has": (
        ">= proposal.sent_until + longest",
        ">= proposal.sent_until",
        World("a", 1, 1),
        "that is not_sent",
    ),
    "an answer to an earlier question is not final (repeat)": (
        _ASKED_LATER[0] + "    except ApiError:\n        proposal",
        _ASKED_LATER[1] + "    except ApiError:\n        proposal",
        World("aa", 1, 0),
        "that is not_sent",
    ),
    "an answer to an earlier question is not final (sweep)": (
        _ASKED_LATER[0] + "    except ApiError:\n        reported",
        _ASKED_LATER[1] + "    except ApiError:\n        reported",
        World("a", 1, 1),
        "that is not_sent",
    ),
    "nothing is sent after the lease": (
        "min(longest_s, lease_s)",
        "10.0",
        World("a", 1, 1),
        "that is not_sent",
    ),
    "of two claims of one attempt one wins": (
        "self._rows().filter(pk=self.pk, attempts=self.attempts, submission=self.submission)",
        "self._rows().filter(pk=self.pk)",
        World("aab", 1, 0),
        "differs",
    ),
    "the outcome of an overtaken attempt changes nothing": (
        "filter(pk=self.pk, attempts=self.attempts, submission=self.Submission.SENDING)",
        "filter(pk=self.pk)",
        World("aa", 2, 0),
        "that is not_sent",
    ),
    "the refusal of an overtaken attempt changes nothing": (
        "if row.attempts != self.attempts or row.submission != self.Submission.SENDING:",
        "if False:",
        World("aa", 2, 0),
        "that is refused",
    ),
    "a refusal waits while an earlier attempt may arrive": (
        "            if self.sent_until is None:\n                row._end_as_refused",
        "            if True:\n                row._end_as_refused",
        World("aa", 1, 0, True),
        "that is refused",
    ),
    "a check of an earlier attempt settles nothing": (
        "if row.attempts != self.attempts or row.submission != self.Submission.UNKNOWN:",
        "if False:",
        World("aa", 1, 1),
        "that is not_sent",
    ),
    "a dead worker may have sent": (
        "lapsed.filter(sent_until__isnull=True).update",
        "lapsed.update",
        World("a", 1, 0),
        "that is not_sent",
    ),
    "a silent worker may still send": (
        "lapsed.filter(sent_until__isnull=False).update(**unknown",
        "lapsed.filter(sent_until__isnull=False).update(sent_until=timezone.now(), **unknown",
        World("a", 1, 1),
        "that is not_sent",
    ),
    "not sent says nothing of an earlier attempt": (
        "        if self.sent_until is None:\n            self._current_attempt",
        "        if True:\n            self._current_attempt",
        World("aa", 1, 0, True),
        "that is not_sent",
    ),
    "what was cut off may have been sent": ("if failure.sent:", "if False:", World("a", 1, 0), "that is not_sent"),
    "of two last arrivals the later one counts": (
        "return max(moment, self.sent_until or moment)",
        "return moment",
        World("aa", 1, 1, True),
        "that is not_sent",
    ),
    "other data replace only what the bank certainly lacks": (
        "if not live.is_replaceable(now):",
        "if False:",
        World("ab", 1, 0, True),
        "differs",
    ),
    "a final not-found settles": ("    elif is_final:\n", "    elif False:\n", World("a", 1, 1), "never ends"),
    "a lost lease ends": (
        "lapsed.filter(sent_until__isnull=False).update",
        "lapsed.none().update",
        World("a", 1, 1),
        "never ends",
    ),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_without_a_guard_the_search_finds_a_fault(guard: str) -> None:
    """The model is not blind: each guard of the code is needed, and none is only believed to be."""
    text, without, world, fault = GUARDS[guard]
    program = Program(deduplicates=world.deduplicates, edits=[(text, without)])
    with pytest.raises(AssertionError, match=fault):
        Search(program, world.requests, workers=world.workers, sweeps=world.sweeps).run()
