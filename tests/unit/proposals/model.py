"""All that can happen to one submission, searched exhaustively.

The program is the service's own code: the source of `Leased`, `Proposal` and its bases, and of what the web process,
the workers and the sweep do with a row, compiled into a world in which the row, the clock, the bank and the network are
a model. Between any two of its steps (the kill points, a question to the bank, a read before a write) a process may be
held up, or die, and others go on. So there is no second table of the moves that could differ from the code.

One tick is ten seconds. A bank's time-out is five seconds and its processing time one tick. So a request waits one tick
for a worker, an attempt is leased for two, and what it sends arrives within one.
"""

from __future__ import annotations

import ast
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from django.db import IntegrityError
from django.db.models import Q
from greenlet import getcurrent, greenlet

from foundation import later
from proposals import attempts, claim, envelope, models, sending, sweep
from proposals.claim import OtherData
from providers.errors import ProviderRejected, ProviderUnavailable

#: What the code tells others: it changes no submission.
_TOLD = ("connection", "envelope", "log", "msgspec", "Offer", "query_json", "reasons", "structlog")
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
TICK = timedelta(seconds=10)
#: Ticks after which it no longer matters how long ago something was: a lease ended, or the bank had its time.
LONG_AGO = 1
ENDS = ("accepted", "refused", "not_sent")
#: The columns that decide. Times are ticks from now. `due_at` is left out: the sweep may look at any time.
COLUMNS = (
    "submission",
    "attempts",
    "taken_at",
    "lease_until",
    "sent_until",
    "worker",
    "error",
    "dataset",
    "next_dataset",
)
TIMES = ("taken_at", "lease_until", "sent_until")


class Body(str):
    """A dataset, of which only its name matters."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return {} if key == "evidencia" else super().__getitem__(key)


class Anything:
    """Stands for what the code tells others. Calls cost less than those of a `Mock`."""

    def __getattr__(self, _: str) -> Anything:
        return self

    def __call__(self, *_: Any, **__: Any) -> Anything:
        return self


class Stored:
    """What Django's `Model` is to the real classes: an object with the row's columns."""

    Submission = models.Proposal.Submission
    pk = id = reference = partner_id = "p"
    provider = cpf_index = request_id = partner_reference = status = ""
    native_id = "1"
    reconciles, due_at, _changed = 0, None, frozenset[str]()
    offer = Anything()
    offer_id = origin_query_id = ""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        vars(self).update(columns)

    def save(self, update_fields: list[str]) -> None:
        Rows().update(**{name: getattr(self, name) for name in update_fields if name != "updated_at"})


class Rows:
    """What a queryset is to the real code, for the one row that there is."""

    made: Callable[..., Any]
    row: dict[str, Any] | None = None

    def __init__(self, *conditions: Q) -> None:
        self.conditions = conditions

    def filter(self, *conditions: Q, **columns: Any) -> Rows:
        return Rows(*self.conditions, *conditions, Q(**columns))

    def exclude(self, **columns: Any) -> Rows:
        return Rows(*self.conditions, ~Q(**columns))

    def all(self, *_: Any, **__: Any) -> Rows:
        return self

    select_for_update = select_related = all

    def none(self) -> Rows:
        return Rows(*self.conditions, Q(submission=None))

    def _found(self) -> bool:
        return Rows.row is not None and all(_holds(Rows.row, each) for each in self.conditions)

    def update(self, **columns: Any) -> int:
        if self._found():
            Rows.row |= columns  # type: ignore[operator] # found, so there is one
            return 1
        return 0

    def create(self, **columns: Any) -> Any:
        if Rows.row is not None:
            raise IntegrityError
        Rows.row = {**dict.fromkeys(COLUMNS), "submission": "sending", "attempts": 1, "worker": "", **columns}
        return Rows.made(Rows.row)

    def get(self, **_: Any) -> Any:
        return Rows.made(Rows.row)

    def first(self) -> Any:
        found = Rows.made(Rows.row) if self._found() else None
        _pause("read")  # others may write before the reader does
        return found


class Banks(Anything):
    """What a queryset of banks is to the real code."""

    timeout_s = 5


def _holds(row: Mapping[str, Any], condition: Any) -> bool:
    """True if the row fulfils a `Q`, as SQL understands it."""
    if isinstance(condition, Q):
        parts = (_holds(row, each) for each in condition.children)
        return (any(parts) if condition.connector == Q.OR else all(parts)) != condition.negated
    (name, wanted), lookups = condition, {"isnull": lambda a, b: (a is None) == b, "in": lambda a, b: a in b}
    lookups |= {"lte": lambda a, b: a is not None and a <= b, "": lambda a, b: a == b}
    column, _, lookup = name.partition("__")
    if column in ("pk", "partner", "offer"):
        return True
    if column == "status":
        return row["submission"] == "refused"  # the only end that a submission has by itself
    value = row["lease_until"] or EPOCH - TICK if column == "due_at" else row[column]  # without a lease due at any time
    return lookups[lookup](value, wanted)


def _refuse_other_data(_: Any, stored: str, submitted: str) -> None:
    if stored != submitted:
        raise OtherData("p", "field")


def _pause(*label: Any) -> Any:
    """Let others go on. Returns what the search answers."""
    return getcurrent().parent.switch(label)


class _Client(NamedTuple):
    """A bank as `call_bank` hands it to the real code."""

    seconds: float | None

    def submit(self, body: str, **_: Any) -> Any:
        return self._answered(_pause("submit", int((self.seconds or 0) / TICK.total_seconds()) or None, body))

    def find(self, _: str) -> Any:
        return self._answered(_pause("find"))

    @staticmethod
    def _answered(answer: Any) -> Any:
        if answer == "refusal":
            raise ProviderRejected
        if answer in ("unknown", "not sent"):
            raise ProviderUnavailable(sent=answer == "unknown")
        return SimpleNamespace(native_id=answer, status="", data={}) if answer else None


class Program:
    """The real code in the model's world, with the bank's fact `deduplicates`. `edits` are (old, new) texts of its
    source: each old one must be there exactly once."""

    def __init__(self, *, deduplicates: bool, edits: Sequence[tuple[str, str]] = ()) -> None:
        self.now, self.edits = EPOCH, list(edits)
        self.known: dict[tuple[Process, Row], tuple[Row, Process | None]] = {}
        self.aged: dict[Process, Process] = {}
        self.processes: dict[tuple[Any, ...], Process] = {}
        #: What a process met until now, at each step: ticks ago, the row before, the answer. Of two processes that
        #: remember the same, one stands for both.
        self.met: dict[Process, tuple[tuple[int, Row, Any], ...]] = defaultdict(tuple)
        Stored._default_manager = Stored.objects = Rows()  # type: ignore[attr-defined]
        self.stubs: dict[str, Any] = {
            "adapter": lambda _: SimpleNamespace(processing_time_s=10, deduplicates=deduplicates),
            "call_bank": lambda _row, ask, seconds=None: ask(_Client(seconds)),
            **{name: Anything() for name in _TOLD},
            "dataset": SimpleNamespace(to_bank=lambda body, *_, **__: body, check_authorized=lambda _: None),
            "die_at": lambda point: point == "after_commit" and _pause("go"),  # the others: see `Search._answers`
            "models": SimpleNamespace(Model=Stored),
            "Provider": SimpleNamespace(objects=Banks()),
            "refuse_other_data": _refuse_other_data,
            "sealed": lambda _row, _column, value: value,
            "settings": SimpleNamespace(PROPOSAL_WAIT_S=10, BANK_TIMEOUT_S=5),
            "timezone": SimpleNamespace(now=lambda: self.now),
            "transaction": SimpleNamespace(atomic=nullcontext),
            "worker_id": lambda: "worker",
            "_row": lambda *_: None,
        }
        self.code: dict[str, Any] = {}
        for module in (later, attempts, envelope, models, sending, sweep, claim):
            self._compile(module)
        assert not self.edits, f"the code has changed: {self.edits}"
        self.proposal = Rows.made = self.code["Proposal"]
        # What partners are told, and when an accepted proposal is looked at, changes no submission.
        for told in ("_record", "_move", "_keep", "_take_over", "plan_refresh"):
            setattr(self.proposal, told, lambda *_, **__: None)

    def _compile(self, module: ModuleType) -> None:
        source = Path(module.__file__ or "").read_text("utf-8")
        for edit in [each for each in self.edits if source.count(each[0]) == 1]:
            self.edits.remove(edit)
            source = source.replace(*edit)
        tree = ast.parse(source)
        tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        for node in tree.body:
            if isinstance(node, ast.ClassDef):  # the fields are `COLUMNS`
                node.body = [each for each in node.body if isinstance(each, ast.FunctionDef)] or [ast.Pass()]
        space = {**vars(module), **self.code, **self.stubs}
        exec(compile(tree, module.__file__ or "", "exec", annotations.compiler_flag), space)
        space |= self.stubs
        self.code |= {node.name: space[node.name] for node in tree.body}  # type: ignore[attr-defined]

    # --- What runs ----------------------------------------------------------------------------------------------

    def worker_runs(self, _: Any) -> None:
        self.code["run"]("p")

    def sweep_looks(self, _: Any) -> None:
        self.code["reconcile"](self.proposal.objects.get())

    def partner_asks(self, data: Any) -> None:
        """`submit` without the waiting."""
        try:
            claimed, is_ours = self.code["claim_attempt"](self.proposal.offer, data, "", "r")
        except OtherData:
            return
        if is_ours:
            _pause("go")
            if self.proposal.objects.get().submission == "sending":
                claimed.give_back_attempt()

    def leases_lapse(self, _: Any) -> None:
        self.proposal.end_expired_attempts()

    def silence_is_noticed(self, _: Any) -> None:
        self.proposal.end_leases_of(["worker"])

    def process(self, kind: str, waits: Any = ("go",), answer: Any = "go", remembers: tuple[Any, ...] = ()) -> Process:
        """The one process with these facts."""
        facts = (kind, waits, answer, remembers)
        if facts not in self.processes:
            self.processes[facts] = Process(*facts)
        return self.processes[facts]

    def step(self, process: Process, row: Row) -> tuple[Row, Process | None]:
        """The row and the process after its next step; no process if that was its last one.

        A process is a greenlet, which can't be copied: so it is run again from its beginning, with what it met.
        """
        key = (process, row)
        if key not in self.known:
            met = self.met[process]
            label = None
            run = greenlet(getattr(self, process.kind))
            for ago, before, answer in (*met, (0, row, process.answer)):
                self.now = EPOCH - ago * TICK
                Rows.row = _absolute(before, self.now)
                label = run.switch(answer)
            waits = None if run.dead else label
            answer = "go" if waits in (("go",), ("read",)) else None
            following = self.process(process.kind, waits, answer, tuple(self._remembered(run.gr_frame)))
            self.met.setdefault(following, (*met, (0, row, process.answer)))
            self.known[key] = _relative(Rows.row, self.now), following if waits else None
        return self.known[key]

    def answered(self, process: Process, answer: Any, waits: Any = None) -> Process:
        """`process` with an answer to what it waits for; None if it now waits for `waits`."""
        following = self.process(process.kind, waits or process.waits, answer, process.remembers)
        self.met.setdefault(following, self.met[process])
        return following

    def older(self, process: Process) -> Process:
        """`process` a tick later."""
        if process in self.aged:
            return self.aged[process]
        waits, remembers = process.waits, tuple(map(_aged, process.remembers))
        if waits[0] in ("submit", "sent"):
            waits = (waits[0], waits[1] - 1 if waits[1] else None, waits[2])
        following = self.process(process.kind, waits, process.answer, remembers)
        self.met.setdefault(following, tuple((ago + 1, row, answer) for ago, row, answer in self.met[process]))
        self.aged[process] = following
        return following

    def _remembered(self, frame: FrameType | None) -> Iterator[Any]:
        """The variables of the code that waits: its line, and in each the rows, times and truths."""
        while frame is not None:
            if frame.f_code.co_filename in (sending.__file__, sweep.__file__, claim.__file__, __file__):
                yield frame.f_lineno
                for name, value in sorted(frame.f_locals.items()):
                    if isinstance(value, Stored):
                        yield name, _relative(vars(value), self.now)
                    elif isinstance(value, datetime):
                        yield name, ("at", (value - self.now) // TICK)
                    elif isinstance(value, bool | str):
                        yield name, value
            frame = frame.f_back


Row = tuple[Any, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class Process:
    """`waits` is what it waits for, `answer` what it got (None: nothing yet), `remembers` its code's variables. Of a
    request that it sent `waits` tells in how many ticks it may still arrive; None if it arrived, or was too late.

    Equal processes are one object (`Program.process`), so that a state's hash need not visit what they remember."""

    kind: str
    waits: Any
    answer: Any
    remembers: tuple[Any, ...]


class State(NamedTuple):
    """`orphans` are requests whose sender was killed: ticks in which each may still arrive, and the dataset.
    `contracts` are the bank's: age in ticks, at most 1, and dataset. `asked` counts the partner's requests."""

    row: Row = None
    processes: tuple[Process, ...] = ()
    orphans: tuple[tuple[int, str], ...] = ()
    contracts: tuple[tuple[int, str], ...] = ()
    asked: int = 0


def _absolute(row: Row, now: datetime) -> dict[str, Any] | None:
    if row is None:
        return None
    columns = dict(zip(COLUMNS, row, strict=True))
    times = {name: None if columns[name] is None else now + columns[name] * TICK for name in TIMES}
    return {**columns, **times, "error": columns["error"] and {"code": columns["error"]}}


def _relative(columns: dict[str, Any] | None, now: datetime) -> Row:
    if columns is None:
        return None
    ticks = {name: columns[name] and max(-LONG_AGO, (columns[name] - now) // TICK) for name in TIMES}
    ticks["taken_at"] = columns["taken_at"] and 0  # compared with nothing
    plain = {"submission": str(columns["submission"]), "error": (columns["error"] or {}).get("code")}
    return tuple({**columns, **ticks, **plain}[name] for name in COLUMNS)


@cache
def _older(row: Row) -> Row:
    if row is None:
        return None
    pairs = zip(COLUMNS, row, strict=True)
    times = ("lease_until", "sent_until")
    return tuple(max(-LONG_AGO, at - 1) if name in times and at is not None else at for name, at in pairs)


def _aged(remembered: Any) -> Any:
    """One thing that a process remembers, a tick later."""
    if not isinstance(remembered, tuple):
        return remembered
    name, value = remembered
    if isinstance(value, tuple):
        return name, ("at", max(-LONG_AGO, value[1] - 1)) if value[0] == "at" else _older(value)
    return remembered


class Search:
    """Every state that `program` can reach, breadth first, with the shortest way to each. `requests` are the datasets
    that the partner submits, `workers` and `sweeps` how many of them are at work at once."""

    def __init__(self, program: Program, requests: str, *, workers: int, sweeps: int) -> None:
        self.program, self.requests = program, tuple(map(Body, requests))
        self.workers, self.sweeps = workers, sweeps
        self.deduplicates = program.stubs["adapter"]("").deduplicates
        self.came_from: dict[State, tuple[State | None, str]] = {State(): (None, "")}

    def run(self) -> int:
        """The number of states. Raises AssertionError, with the way, where an invariant does not hold."""
        calm: list[tuple[State, State]] = []
        queue = deque(self.came_from)
        while queue:
            state = queue.popleft()
            for name, following, is_calm in self._moves(state):
                if is_calm:
                    calm.append((state, following))
                if following not in self.came_from:
                    self.came_from[following] = state, name
                    self._check(following)
                    queue.append(following)
        if self.sweeps:
            self._check_that_all_end(calm)
        return len(self.came_from)

    def _check_that_all_end(self, calm: list[tuple[State, State]]) -> None:
        """From every state, moves that are `calm` lead to an end."""
        calmly: dict[State, list[State]] = {}
        for state, following in calm:
            calmly.setdefault(following, []).append(state)
        ended = {state for state in self.came_from if state.row is None or state.row[0] in ENDS}
        queue = deque(ended)
        while queue:
            before = [each for each in calmly.get(queue.popleft(), ()) if each not in ended]
            ended.update(before)
            queue.extend(before)
        for state in self.came_from:
            assert state in ended, self._told("an unknown outcome never ends", state)

    def _check(self, state: State) -> None:
        assert len(state.contracts) <= 1, self._told("two contracts", state)
        if state.row is None or state.row[0] in ("sending", "unknown"):
            return
        has = [data for _, data in state.contracts]
        if state.row[0] == "accepted":
            assert has == [state.row[COLUMNS.index("dataset")]], self._told("the row differs from the bank's", state)
        else:
            assert has == [], self._told(f"a contract of a submission that is {state.row[0]}", state)

    def _told(self, what: str, state: State) -> str:
        way: list[str] = []
        at: State | None = state
        while at is not None:
            at, name = self.came_from[at]
            way.insert(0, name)
        return f"{what}: {'; '.join(way[1:])}"

    # --- What may happen next -----------------------------------------------------------------------------------

    def _moves(self, state: State) -> Iterator[tuple[str, State, bool]]:
        """(name, state after it, whether it also happens where nothing fails and nobody asks). A process that is killed
        is one that never goes on: another takes its place."""
        yield "time passes", self._tick(state), True
        for kind in ("leases_lapse", "silence_is_noticed"):
            row, _ = self.program.step(self.program.process(kind), state.row)
            if row != state.row:
                yield kind, state._replace(row=row), kind == "leases_lapse"
        if state.asked < len(self.requests) and (state.row is None or state.row[0] != "refused"):
            data = self.requests[state.asked]
            asked = self._resumed(state, None, self.program.process("partner_asks", answer=data))
            yield f"partner asks {data}", asked._replace(asked=state.asked + 1), False
        if state.row is not None:
            for room in self._with_room(state, "worker_runs", self.workers):
                yield "a task comes", self._resumed(room, None, self.program.process("worker_runs")), False
            if state.row[0] == "unknown" and self.sweeps:
                for room in self._with_room(state, "sweep_looks", self.sweeps):
                    yield "the sweep looks", self._resumed(room, None, self.program.process("sweep_looks")), True
        for process in set(state.processes):
            if process.answer is not None:
                yield f"{process.kind}, goes on", self._resumed(state, process, process), True
            else:
                for what, after, is_calm in self._answers(state, process):
                    yield f"{process.kind}, {what}", after, is_calm
        for orphan in set(state.orphans):
            orphans = list(state.orphans)
            orphans.remove(orphan)
            yield "an orphan arrives", self._arrived(state._replace(orphans=tuple(orphans)), orphan[1]), False

    @staticmethod
    def _with_room(state: State, kind: str, room: int) -> Iterator[State]:
        """The state with room for one more process of this kind: if there is none, each without one that is killed."""
        alike = [process for process in state.processes if process.kind == kind]
        if len(alike) < room:
            yield state
            return
        for killed in set(alike):
            sent, left, data = (*killed.waits, None, None)[:3]
            orphans = [(left, data)] if sent == "sent" and left is not None else []
            yield state._replace(
                processes=_with(state, killed, None), orphans=tuple(sorted([*state.orphans, *orphans]))
            )

    def _tick(self, state: State) -> State:
        """One tick later. What did not arrive in time never does."""
        return State(
            row=_older(state.row),
            processes=tuple(sorted(map(self.program.older, state.processes), key=id)),
            orphans=tuple((left - 1, data) for left, data in state.orphans if left),
            contracts=tuple((1, data) for _, data in state.contracts),
            asked=state.asked,
        )

    def _resumed(self, state: State, instead_of: Process | None, process: Process) -> State:
        row, following = self.program.step(process, state.row)
        processes = _with(state, instead_of, following)
        return State(row, processes, state.orphans, state.contracts, state.asked)

    def _answers(self, state: State, process: Process) -> Iterator[tuple[str, State, bool]]:
        """What the bank and the network do with what `process` asks. An answer that the process could as well get later
        is one that it gets when it goes on; only these wait for it: "not found", an acceptance, a refusal."""

        def answered(answer: Any, waits: Any = None, at: State = state) -> State:
            processes = _with(at, process, self.program.answered(process, answer, waits))
            return State(at.row, processes, at.orphans, at.contracts, at.asked)

        def goes_on(answer: Any) -> State:
            return self._resumed(state, process, self.program.answered(process, answer))

        kind, left, data = (*process.waits, None, None)[:3]
        if kind == "find":
            yield "learns nothing", goes_on("unknown"), False
            if state.contracts:
                yield "finds it", goes_on("1"), True
            if not any(age for age, _ in state.contracts):
                yield "does not find it", answered(""), not state.contracts
        elif kind == "submit":
            yield "does not reach the bank", goes_on("not sent"), True
            if left is not None:
                yield f"sends {data}", answered(None, ("sent", left, data)), True
        else:
            yield "learns nothing", goes_on("unknown"), False
            if left is not None:
                arrived, gone = ("sent", None, data), self._arrived(state, data)
                yield "the bank accepts it", answered("1", arrived, gone), True
                yield "the bank accepts it, and the answer is lost", answered(None, arrived, gone), False
                yield "the bank refuses it", answered("refusal", arrived), True

    def _arrived(self, state: State, data: str) -> State:
        """The bank accepts a request."""
        is_known = self.deduplicates and state.contracts
        return state if is_known else state._replace(contracts=(*state.contracts, (0, data)))


def _with(state: State, process: Process | None, following: Process | None) -> tuple[Process, ...]:
    """The processes, with `following` instead of `process`; either may be none."""
    others = list(state.processes)
    if process is not None:
        others.remove(process)
    return tuple(sorted([*others, *([following] if following else [])], key=id))
