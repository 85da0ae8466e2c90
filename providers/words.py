"""What a bank calls the words of the contract. They stand in its data file, `providers/banks/<bank>.json`."""

from pathlib import Path
from typing import Any

import msgspec

from providers.reasons import ReasonCode, folded
from providers.types.proposal import ProposalStatus
from providers.types.query import StepOutcome

_BANKS = Path(__file__).with_name("banks")
QUERY_SEXES = {1: "M", 2: "F"}


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bank's code for each word of the contract. A submission with a word that is missing here is refused before
    any call, with the field's name.

    A bank without `account_types` does not pay to accounts, and one without `pix_keys` not by PIX. A bank without
    `marital_statuses` is not sent any. `channels` are those by which the bank itself delivers the signature link.

    `wishes` are the words for what a query asks for (`BankQuery.wish`), where the bank has such words.

    `statuses` and `steps` are the bank's words for a proposal's and an external step's state. A word that is missing is
    logged: it leaves the proposal as it is, and the step open. `ended` are our sentences for partners why a step ended
    without offers, where the bank has none.
    """

    sexes: dict[str, Any] = msgspec.field(default_factory=lambda: {"M": "M", "F": "F"})
    account_types: dict[str, Any] = {}
    pix_keys: dict[str, Any] = {}
    marital_statuses: dict[str, Any] = {}
    channels: dict[str, str] = {}
    wishes: dict[str, str] = {}
    statuses: dict[str, ProposalStatus] = {}
    steps: dict[str, StepOutcome] = {}
    ended: dict[StepOutcome, str] = {}

    def sex(self, told: str | int | None) -> Any:
        """The bank's code of a submission's sex (M, F) or a query's (1, 2). None if there is none."""
        return self.sexes.get(told if isinstance(told, str) else QUERY_SEXES.get(told or 0, ""))


class Proposals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a bank that has its proposals at one `path` takes and shows them, for the operations of `Bank`.

    `reference` is the parameter of the search by the service's own reference, and `found` the list in its answer: empty
    where the answer is a list, null where it is one proposal. `path/<id>/<issue>` has the contract issued, by a body
    with the field `channel`.
    """

    path: str = ""
    reference: str = ""
    issue: str = ""
    channel: str = ""
    found: str | None = None


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bank's data file. `sandbox` are its values of the simulator. `templates` are those of what the bank gets and
    answers (`providers.templates`). `refusals` are its words for a refusal or no offer, by our code."""

    sandbox: dict[str, Any] = {}
    words: Words = Words()
    proposals: Proposals = Proposals()
    templates: dict[str, Any] = {}
    refusals: dict[ReasonCode, list[str]] = {}

    @property
    def reasons(self) -> dict[str, ReasonCode]:
        """`refusals` by the sentence or code, folded."""
        return {folded(words): code for code, sentences in self.refusals.items() for words in sentences}


def data_of(bank: str) -> Data:
    """The bank's data file; empty for a bank without one. Raises msgspec.ValidationError, which names the place."""
    file = _BANKS / f"{bank}.json"
    return msgspec.json.decode(file.read_bytes(), type=Data) if file.exists() else Data()
