"""Bodies as each bank's manual shows them, for the tests of its adapter and those of its simulated bank."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal

import msgspec

from providers import registry
from providers.types.query import ActionType, QueryStatus

#: A random PIX key.
RANDOM_KEY = "8d6a6f0e-2f6e-4f5b-9a59-1c1f1f0f4c11"
#: What only some banks do: report the margin of an employment; issue the contract before it is asked for; tell of a
#: proposal number, moment and amount of the payment, the averbation, the end of the time for a withdrawal and one.
Fact = Literal["margin", "issues_itself", "payment", "averbation", "withdrawal"]
_BODIES = Path(__file__).parent / "bodies"


Changes = Mapping[str, Any | EllipsisType]


def submission_body(bank: str, changes: Changes | None = None) -> dict[str, Any]:
    """The body of a submission to `bank`, with other values under the dotted paths of `changes`; `...` leaves one
    out."""
    return changed(manual_of(bank).submission, changes or {})


def query_body(bank: str, changes: Changes | None = None) -> dict[str, Any]:
    """The body of a query to `bank`, changed in the same way."""
    return changed(manual_of(bank).query, changes or {})


def changed(body: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """A copy of `body`, changed in the same way. What is left out may be missing already."""
    body = copy.deepcopy(dict(body))
    for path, value in changes.items():
        *parents, last = path.split(".")
        place: Any = body
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        if value is ...:
            place.pop(last, None)
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return body


@dataclass(frozen=True, kw_only=True)
class Words:
    """Where a submission's body holds these values, and the bank's word for each word of the contract; an empty one
    stands for none. For a PIX key: the part of the body that holds it. For a query: where it holds the sex, and the
    words for unknown, man, woman. `whole` is what the body of `samples.a_whole_submission` has otherwise than the
    manual's."""

    sex: tuple[str, dict[str, Any]]
    sex_of_query: tuple[str, list[Any]]
    marital_status: tuple[str, dict[str, Any]]
    account_kind: tuple[str, dict[str, Any]]
    pix: tuple[str, dict[str, Any]] = ("", {})
    whole: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """What the bank requires of a holder before it makes offers: the kind of step, in the simulator's word, and what an
    open one is to the service. Then the reasons why there is no offer, and a word of the refusal to submit."""

    kind: str
    status: QueryStatus
    action: ActionType
    has_link: bool = True
    hours: int
    messages: int = 1
    refused: str
    expired: str | None
    unauthorized: str = ""
    #: False if each query gets a reference of its own to the same step.
    has_one_reference: bool = True
    #: The answer to a look at the step "s1" whose state is `{word}`, where the bank has such an answer.
    look: dict[str, Any] | None = None
    #: The status and body of each answer by which the bank refuses a holder who did what it required.
    no: list[tuple[int, dict[str, Any]]]

    def look_at(self, word: str) -> Any:
        """The answer to a look at a step in this state."""
        return json.loads(json.dumps(self.look).replace("{word}", word))


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer of the bank, and the name of the error that it means to the service; None if it is no refusal. `words`
    is what partners read, if the bank says it, and `field` the contract's name of what the bank refuses."""

    status: int
    body: Any
    error: str | None
    words: str | None = None
    field: str | None = None


@dataclass(frozen=True, kw_only=True)
class Manual:
    """The file `bodies/<bank>.json`. `facts` are those that hold for the bank."""

    submission: dict[str, Any]
    query: dict[str, Any]
    whole: dict[str, Any]
    bare: dict[str, Any]
    words: Words
    step: StepFacts | None = None
    facts: frozenset[Fact] = frozenset()
    refusals: tuple[Refusal, ...]


def banks_with(fact: Fact) -> list[str]:
    """The banks for which this fact holds."""
    return [name for name in registry.names() if fact in manual_of(name).facts]


@cache
def manual_of(bank: str) -> Manual:
    return msgspec.json.decode((_BODIES / f"{bank}.json").read_bytes(), type=Manual)
