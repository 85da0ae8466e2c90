"""The contracts of one bank and their state changes, shared by all banks."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from simulator.catalogue import Employment, Scenario
from simulator.numbers import Quote
from simulator.world import Step, World

SIGNATURE_LINK_S = 30 * 24 * 3600
DISBURSED_AFTER_S = 4.0
#: Where averbation fails: the first failure comes so long after the signature, and each further try after a pause.
FIRST_FAILURE_S, AVERBATION_PAUSE_S = 2.0, 6.0
WITHDRAWAL_TERM = timedelta(days=7)
WITHDRAWN = "withdrawn"
OPEN = ("created", "in_analysis", "awaiting_signature", "signed")
CHANNELS = {"sms": "sms", "whatsapp": "chat"}
WAY = ("created", "in_analysis", "awaiting_signature", "signed", "disbursed")
ENDS = ("rejected", "cancelled", "expired")
#: How the first submission of an offer fails: the fault, and whether the contract is created nevertheless.
STUMBLES = {"lost_answer": ("drop_after_accept", True), "unavailable_once": ("http_503", False)}


class ScenarioFailure(Exception):
    """The submission fails as the scenario says. `fault` is a word of `faults.FAULTS`. `worked` is True if the contract
    was created nevertheless."""

    def __init__(self, fault: str, *, worked: bool) -> None:
        super().__init__(fault)
        self.fault = fault
        self.worked = worked


class WrongState(Exception):
    """The contract's status does not allow the request. Each bank has its own answer for that."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer that a bank made. A submission refers to it by `key`. `table` is the bank's own code."""

    key: str
    cpf: str
    table: str
    quote: Quote
    first_due_date: date
    employment: Employment
    made_at: datetime

    @property
    def terms(self) -> tuple[object, ...]:
        """The values that identify the same offer under another key."""
        return self.cpf, self.employment.registration, self.table, self.quote


@dataclass(frozen=True)
class Averbation:
    """The reservation on the payroll, which the bank began at `since`. `failure` is the bank's sentence for its last
    try, which it repeats at `next_try_at`. `done_at` is when it succeeded."""

    since: datetime
    failure: str | None = None
    next_try_at: datetime | None = None
    done_at: datetime | None = None


@dataclass(eq=False)
class Contract:
    """One contract. `status` is created, in_analysis, awaiting_signature, signed, disbursed, rejected, cancelled or
    expired.

    `reference` is the caller's. `native_status`, if the scenario sets one, is shown instead of the bank's own word
    while the status is `created`. `refused_because` is the bank's sentence for refusing the contract, if it gives one.
    `averbation` is set from the signature on. `withdrawn_at` is when the holder withdrew from the disbursed contract.
    `data` is for the bank's file.
    """

    id: str
    reference: str
    cpf: str
    offer: Offer
    scenario: Scenario
    created_at: datetime
    status: str = "created"
    native_status: str | None = None
    signature: Step | None = None
    channel: str | None = None
    disbursed_at: datetime | None = None
    refused_because: str | None = None
    averbation: Averbation | None = None
    withdrawn_at: datetime | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> str | None:
        """The contract number, for banks that show one. None before the contract is issued."""
        if self.signature is None:
            return None
        return str(int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 10**10).zfill(10)

    @property
    def withdrawal_until(self) -> date | None:
        """The last day on which the holder may withdraw. None before the disbursement."""
        return self.disbursed_at and (self.disbursed_at + WITHDRAWAL_TERM).date()

    @property
    def signature_url(self) -> str | None:
        """The URL at which the holder signs, while it is valid."""
        if self.status == "awaiting_signature" and self.signature is not None and self.signature.status == "open":
            return self.signature.url
        return None


class Ledger:
    """Creates, finds and changes the contracts of one bank.

    `takes_withdrawals`: holders may withdraw after the disbursement. `changed` is called after each change of a
    contract from the signature on.
    `issues_after_s`: the bank issues the contract by itself this long after the submission. `desk_s`: the bank's desk
    analyses every submission first, for this long. Both are seconds of the simulator's clock.
    """

    def __init__(
        self,
        bank: str,
        world: World,
        new_id: Callable[[], str],
        *,
        issues_after_s: float | None = None,
        desk_s: float | None = None,
        takes_withdrawals: bool = False,
        changed: Callable[[Contract], None] = lambda _: None,
    ) -> None:
        self._takes_withdrawals = takes_withdrawals
        self._changed = changed
        self._bank = bank
        self._world = world
        self._new_id = new_id
        self._issues_after_s = issues_after_s
        self._desk_s = desk_s
        self._by_id: dict[str, Contract] = {}
        self._by_reference: dict[str, list[Contract]] = {}
        self._of_holder: defaultdict[str, list[Contract]] = defaultdict(list)
        self._stumbled: set[tuple[object, ...]] = set()

    def all(self) -> list[Contract]:
        """Oldest first."""
        return list(self._by_id.values())

    def of_holder(self, cpf: str) -> list[Contract]:
        """The contracts of one holder, oldest first."""
        return list(self._of_holder.get(cpf, ()))

    def forget(self, cpf: str) -> None:
        """Drop the contracts of one holder. They no longer change."""
        for contract in self._of_holder.pop(cpf, ()):
            contract.status = "cancelled"
            del self._by_id[contract.id]
            self._by_reference.pop(contract.reference, None)
        self._stumbled = {terms for terms in self._stumbled if terms[0] != cpf}

    def get(self, contract_id: str) -> Contract | None:
        return self._by_id.get(contract_id)

    def find(self, reference: str) -> list[Contract]:
        """All contracts with that reference, oldest first. More than one only if the bank does not deduplicate."""
        return list(self._by_reference.get(reference, ()))

    def create(self, reference: str, offer: Offer, scenario: Scenario, *, channel: str | None = None) -> Contract:
        """Create a contract, even if the reference exists. `channel` (sms, whatsapp) later delivers the signature URL.
        Raises `ScenarioFailure` at the first submission of an offer if the scenario says so, and ValueError for a
        channel that is a bank's own word."""
        _check_channel(channel)
        if scenario.submit not in STUMBLES or offer.terms in self._stumbled:
            return self._create(reference, offer, scenario, channel)
        self._stumbled.add(offer.terms)
        fault, worked = STUMBLES[scenario.submit]
        if worked:
            self._create(reference, offer, scenario, channel)
        raise ScenarioFailure(fault, worked=worked)

    def offered(self, offer: Offer) -> None:
        """Note that an offer was made in answer to a query. Its next submission counts as the first one."""
        self._stumbled.discard(offer.terms)

    def _create(self, reference: str, offer: Offer, scenario: Scenario, channel: str | None) -> Contract:
        now = self._world.clock.now()
        contract = Contract(
            self._new_id(),
            reference,
            offer.cpf,
            offer,
            scenario,
            now,
            native_status=scenario.native_status,
            channel=channel,
        )
        self._by_id[contract.id] = contract
        self._by_reference.setdefault(reference, []).append(contract)
        self._of_holder[contract.cpf].append(contract)
        if self._desk_s is not None:
            contract.status = "in_analysis"
            self._world.open_step(
                self._bank,
                contract.cpf,
                "desk",
                ttl_s=None,
                ends_after_s=self._desk_s,
                outcome=scenario.desk,
                contract=contract.id,
            )
        if self._issues_after_s is not None:
            self._world.clock.at(
                now + timedelta(seconds=self._issues_after_s), lambda at: self._issue_by_itself(contract, at)
            )
        return contract

    def formalize(self, contract: Contract, channel: str | None = None) -> Contract:
        """Issue the contract and its signature URL: the same URL while it is valid, else a new one.

        `channel` (sms, whatsapp) sends the URL to the holder's phone, once per URL. Raises `WrongState` before the desk
        has approved, and once the contract is signed or final; ValueError for a channel that is a bank's own word.
        """
        _check_channel(channel)
        if contract.status not in ("created", "awaiting_signature"):
            raise WrongState(contract.status)
        self._issue(contract, self._world.clock.now(), channel or contract.channel)
        return contract

    def cancel(self, contract: Contract) -> Contract:
        """Cancel the contract; no change if it is cancelled already. Raises `WrongState` if it is disbursed, rejected
        or expired."""
        if contract.status != "cancelled":
            if contract.status not in OPEN:
                raise WrongState(contract.status)
            contract.status = "cancelled"
            if contract.signature is not None:
                self._world.end_step(contract.signature, "expired")
        return contract

    def advance(self, contract: Contract, status: str, reason: str | None = None) -> None:
        """Move a contract to a status of `WAY` or `ENDS`, or `WITHDRAWN`, through all statuses before it, as if bank
        and holder had acted now. `reason` is the bank's sentence for a refusal. Raises `WrongState` if that status
        cannot be reached.
        """
        if status == WITHDRAWN:
            self._withdraw(contract)
            return
        if contract.status == status:
            return
        if contract.status not in OPEN or (status == "expired" and contract.status == "signed"):
            raise WrongState(contract.status)
        if status in ENDS:
            contract.status, contract.refused_because = status, reason
            self._end_steps(contract, "expired")
            return
        if WAY.index(status) < WAY.index(contract.status):
            raise WrongState(contract.status)
        if status == "in_analysis":
            contract.status = status
            return
        if contract.status != "signed":
            self._end_steps(contract, "approved", "desk")
            self._issue(contract, self._world.clock.now(), contract.channel)
        if status != "awaiting_signature":
            self._end_steps(contract, "approved", "signature")
        if status == "disbursed":
            self._disburse(contract, self._world.clock.now())

    def _withdraw(self, contract: Contract) -> None:
        if not self._takes_withdrawals:
            raise WrongState(contract.status)
        self.advance(contract, "disbursed")
        if contract.withdrawn_at is None:
            contract.withdrawn_at = self._world.clock.now()
            self._changed(contract)

    def _end_steps(self, contract: Contract, outcome: str, *kinds: str) -> None:
        for step in self._world.steps_of(contract.cpf):
            if (step.bank, step.contract) == (self._bank, contract.id) and (not kinds or step.kind in kinds):
                self._world.end_step(step, outcome)

    def step_ended(self, step: Step, at: datetime) -> None:
        """A desk or signature step of one of these contracts ended at that time."""
        contract = self.get(step.contract or "")
        if contract is None:
            return
        if step.kind == "desk" and contract.status == "in_analysis":
            contract.status = "awaiting_signature" if step.status == "approved" else "rejected"
        elif step.kind == "signature" and contract.status == "awaiting_signature":
            self._signature_ended(contract, step.status, at)

    def _issue_by_itself(self, contract: Contract, at: datetime) -> None:
        if contract.status == "created":
            self._issue(contract, at, contract.channel)

    def _issue(self, contract: Contract, at: datetime, channel: str | None) -> None:
        contract.status = "awaiting_signature"
        fresh = contract.signature is None or contract.signature.status != "open"
        if fresh:
            ends = contract.scenario.expires_after_s if contract.scenario.signature == "expires" else None
            contract.signature = self._world.open_step(
                self._bank,
                contract.cpf,
                "signature",
                ttl_s=ends or SIGNATURE_LINK_S,
                contract=contract.id,
                opened_at=at,
            )
        if channel is not None and (fresh or channel != contract.channel):
            contract.channel = channel
            text = f"{self._world.titles[self._bank]}: seu contrato está pronto. Assine pelo link."
            url = contract.signature.url if contract.signature else None
            self._world.send(self._bank, contract.cpf, CHANNELS[channel], text, url)

    def _signature_ended(self, contract: Contract, outcome: str, at: datetime) -> None:
        if outcome == "approved":
            self._begin_averbation(contract, at)
        elif outcome == "refused":
            contract.status = "rejected"
        elif contract.scenario.signature == "expires":
            contract.status = "expired"
        # otherwise only the URL has expired: the contract still waits, and formalize gives a new URL

    def _begin_averbation(self, contract: Contract, at: datetime) -> None:
        """Begin averbation, which fails as often as the scenario says. A success after failures is told before the
        payment."""
        contract.status, contract.averbation = "signed", Averbation(at)
        self._changed(contract)
        when, failures, clock = at, contract.scenario.averbation_failures, self._world.clock
        for number, words in enumerate(failures):
            when = at + timedelta(seconds=FIRST_FAILURE_S + number * AVERBATION_PAUSE_S)
            clock.at(when, partial(self._change_averbation, contract, words))
        if failures:
            when += timedelta(seconds=AVERBATION_PAUSE_S)
            clock.at(when, partial(self._change_averbation, contract, None))
        clock.at(when + timedelta(seconds=DISBURSED_AFTER_S), partial(self._disburse, contract))

    def _change_averbation(self, contract: Contract, failure: str | None, at: datetime) -> None:
        """The averbation failed at `at`, and will be tried again, or succeeded (None)."""
        if contract.status == "signed" and contract.averbation:
            again = at + timedelta(seconds=AVERBATION_PAUSE_S) if failure else None
            contract.averbation = Averbation(contract.averbation.since, failure, again, None if failure else at)
            self._changed(contract)

    def _disburse(self, contract: Contract, at: datetime) -> None:
        if contract.status == "signed":
            contract.status, contract.disbursed_at = "disbursed", at
            self._changed(contract)


def _check_channel(channel: str | None) -> None:
    """Raise ValueError for a channel that is neither None nor in `CHANNELS`: a handler passed the bank's own word."""
    if channel is not None and channel not in CHANNELS:
        raise ValueError(f"the channel {channel!r} is a bank's own word: expected {', '.join(CHANNELS)} or None")
