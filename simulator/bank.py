"""The base class of the simulated banks. A bank's own file holds only its formats. See `docs/banks/README.md`."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, NoReturn

from aiohttp import web

from simulator import catalogue, numbers
from simulator.catalogue import Employment, Scenario
from simulator.fields import Fields, Problem
from simulator.ledger import Contract, Ledger, Offer, WrongState
from simulator.messages import Request, answer
from simulator.numbers import Ask
from simulator.routes import Route
from simulator.tokens import Tokens
from simulator.world import Step, World

CALLS_KEPT = 20_000
OFFERS_KEPT = 50_000
STEP_TTL_S = {"liveness": 24 * 3600, "chat": 72 * 3600, "sms": 72 * 3600, "confirmation": 72 * 3600}


class Refusal(Exception):
    """The bank refuses: `response` is its answer. The request had no effect."""

    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


class CallerRefused(Refusal):
    """The bank refuses the caller, before looking at the request's content."""


@dataclass(slots=True)
class Call:
    """One request that arrived, as `GET /_control/banks/{name}/calls` shows it. `let_in`: the bank accepted the
    caller's credentials. `worked`: the bank did what was asked."""

    operation: str
    reference: str | None
    cpf: str | None
    request_id: str | None
    at: datetime
    body: str
    fault: str | None = None
    let_in: bool = True
    worked: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "at": iso(self.at)}


@dataclass
class Behaviour:
    """How a bank must behave: `latency_ms` before each answer, and `fault`, for calls of `operation`, `times` times
    (None: until it is replaced). `offers_times` repeats every offer that often, each time with a new id."""

    latency_ms: int = 0
    fault: str | None = None
    operation: str = "any"
    times: int | None = None
    offers_times: int = 1

    def concerns(self, operation: str) -> bool:
        """True if a call of `operation` that arrives now meets it."""
        return self.operation in ("any", operation) and self.times != 0

    def use_up(self) -> None:
        """Count one of `times`: it changed a call."""
        if self.times is not None:
            self.times -= 1


@dataclass
class RefusalOrder:
    """An order to refuse a holder's next `times` submissions with the sentence `words`, which means `reason` (a code of
    the service; None for a sentence of the caller's own)."""

    words: str
    reason: str | None
    times: int


@dataclass(frozen=True)
class Consultation:
    """The result of a query, independent of the bank: an unfinished `step`, `offers`, or the `reason` why there are
    none."""

    scenario: Scenario
    step: Step | None = None
    offers: tuple[Offer, ...] = ()
    employments: tuple[Employment, ...] = ()
    reason: str | None = None


class Bank:
    """Base class of the simulated banks. Facts are class attributes; routes are methods marked with `@route`.

    A subclass must define how it checks the caller (`authenticate`), and its refusals of a token (`token_refused`), a
    field (`bad_field`), an unknown contract (`no_contract`), and a call that the contract's status does not allow
    (`wrong_state`).
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""  # the name for holders, if it is not the capitalized `name`
    rate: ClassVar[Decimal]  # percent a month
    tables: ClassVar[tuple[str, str]]  # the codes without and with insurance
    ceiling: ClassVar[tuple[int, int]]  # the largest amount in reais, and the longest term
    refusals: ClassVar[Mapping[str, str]]  # by code of the service: the manual's sentence for refusing a holder
    due_day: ClassVar[int] = 10
    issues_after_s: ClassVar[float | None] = None
    desk_s: ClassVar[float | None] = None
    takes_withdrawals: ClassVar[bool] = False  # the laboratory can have holders withdraw after the disbursement
    cost_fields: ClassVar[tuple[str, ...]] = ()  # JSON names of the CET, for a bank that may leave it out

    def __init__(self, world: World) -> None:
        self.world = world
        world.on_step_end[self.name] = self._step_ended
        world.titles[self.name] = f"Banco {self.title or self.name.capitalize()}"
        self.tokens = Tokens(world.clock)
        self.reset()

    def reset(self, keep_tokens: bool = False) -> None:
        """Forget calls, faults, offers and contracts, and the tokens too unless `keep_tokens`."""
        self.tokens.reset(keep_tokens)
        self.calls: deque[Call] = deque(maxlen=CALLS_KEPT)
        self.behaviour = Behaviour()
        self.behaviours_of: dict[str, dict[str, Behaviour]] = {}  # by CPF and operation
        self.refusals_of: dict[str, RefusalOrder] = {}  # by CPF, of submissions
        self.offers: OrderedDict[str, Offer] = OrderedDict()
        self.ledger = Ledger(
            self.name,
            self.world,
            self.new_contract_id,
            issues_after_s=self.issues_after_s,
            desk_s=self.desk_s,
            takes_withdrawals=self.takes_withdrawals,
            changed=self.contract_changed,
        )

    def forget_holder(self, cpf: str) -> None:
        """Forget one holder's offers, contracts and faults. Calls and tokens stay, because they do not belong to the
        holder."""
        self.expire_offers(cpf)
        self.ledger.forget(cpf)
        self.clear_faults(cpf)

    def clear_faults(self, cpf: str) -> None:
        """Forget the faults that are set for one holder."""
        self.behaviours_of.pop(cpf, None)
        self.refusals_of.pop(cpf, None)

    def expire_offers(self, cpf: str) -> None:
        """Make all earlier offers to this holder unusable for submissions. Override if an offer can be named by more
        than its key."""
        for key in [key for key, offer in self.offers.items() if offer.cpf == cpf]:
            del self.offers[key]

    def behaviours_for(self, operation: str, cpf: str | None) -> list[Behaviour]:
        """What a call that arrives now meets: the bank's own, and the one for this holder unless that has a fault."""
        ordered = self.behaviours_of.get(cpf or "", {})
        of_holder = ordered.get(operation) or ordered.get("any")
        found = [each for each in (self.behaviour, of_holder) if each is not None and each.concerns(operation)]
        return found[:1] if found and found[0].fault else found

    @classmethod
    def routes(cls) -> list[Route]:
        """All marked methods' routes, in the order of the file."""
        return [each for member in vars(cls).values() for each in getattr(member, "routes", ())]

    # --- defined by each bank

    def authenticate(self, request: Request) -> None:
        """Raise `Refusal` (mostly with `token_refused`) unless the caller is accepted. Not called for public routes."""
        raise NotImplementedError

    def token_refused(self) -> web.Response:
        """The answer to an expired, unknown or missing token, and to the fault `expired_token`."""
        raise NotImplementedError

    def bad_field(self, field: str | None, problem: Problem) -> web.Response:
        """The answer to an invalid field. `field` is its dotted name, None for the body as a whole."""
        raise NotImplementedError

    def no_contract(self) -> web.Response:
        """The answer for a contract that this bank does not have."""
        raise NotImplementedError

    def wrong_state(self, contract: Contract) -> web.Response:
        """The answer if the contract's status does not allow the call."""
        raise NotImplementedError

    def new_contract_id(self) -> str:
        """The bank's id for a new contract."""
        return secrets.token_hex(8)

    def new_offer_key(self) -> str:
        """The bank's id for a new offer."""
        return secrets.token_hex(12)

    def step_ended(self, step: Step) -> None:
        """Called when an external step of a query (not desk or signature) has ended. Banks with callbacks send one
        here."""

    def contract_changed(self, contract: Contract) -> None:
        """Called after each change of a contract from the signature on. Banks with callbacks about contracts send one
        here."""

    # --- answering

    def handle(self, matched: Route, request: Request) -> web.Response:
        """Answer a request. Raises `Refusal`; `CallerRefused` if the caller is refused."""
        if not matched.public:
            try:
                self.authenticate(request)
            except Refusal as refusal:
                raise CallerRefused(refusal.response) from None
        response: web.Response = getattr(self, matched.handler)(request)
        return response

    def identify(self, matched: Route, request: Request) -> tuple[str | None, str | None]:
        """(reference, cpf) of a request, if it contains them. Override if a route names the holder indirectly."""
        contract = self.ledger.get(request.look_up(matched.contract) or "") if matched.contract else None
        if contract is not None:
            return contract.reference, contract.cpf
        reference = request.look_up(matched.reference) if matched.reference else None
        cpf = request.look_up(matched.cpf) if matched.cpf else None
        if cpf is not None:
            cpf = "".join(filter(str.isdigit, cpf))
        elif reference is not None and (contracts := self.ledger.find(reference)):
            cpf = contracts[-1].cpf
        return reference, cpf

    def json_fields(self, request: Request, media_type: str = "application/json") -> Fields:
        """The body as a JSON object with that media type. Raises the bank's refusal otherwise."""
        return self._fields(request, media_type, request.json)

    def xml_fields(self, request: Request, root: str, media_type: str = "text/xml") -> Fields:
        """The content of the XML body's root element `root`. Raises the bank's refusal otherwise. An element without
        children is always text; read it by `text` with a pattern."""

        def read() -> Any:
            return request.xml().get(root)

        return self._fields(request, media_type, read)

    def form_fields(self, request: Request) -> Fields:
        """The body as a URL-encoded form. Raises the bank's refusal otherwise."""
        return self._fields(request, "application/x-www-form-urlencoded", request.form)

    def query_fields(self, request: Request) -> Fields:
        return Fields(request.query, self.refuse_field)

    def refuse_field(self, field: str | None, problem: Problem) -> NoReturn:
        raise Refusal(self.bad_field(field, problem))

    def _fields(self, request: Request, media_type: str, read: Callable[[], Any]) -> Fields:
        if request.media_type != media_type:
            self.refuse_field(None, Problem.TYPE)
        try:
            data = read()
        except ValueError:
            self.refuse_field(None, Problem.FORMAT)
        if not isinstance(data, dict):
            self.refuse_field(None, Problem.FORMAT)
        return Fields(data, self.refuse_field)

    def without_cet(self, response: web.Response) -> web.Response:
        """The JSON answer `response` without the CET of its offers. Unchanged for a bank that always tells it."""
        if not self.cost_fields:
            return response

        def kept(item: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in item.items() if name not in self.cost_fields}

        return answer(json.loads(response.text or "null", parse_float=Decimal, object_hook=kept), response.status)

    # --- queries

    def scenario(self, cpf: str) -> Scenario:
        return catalogue.scenario(self.world.plays(cpf), self.name)

    def scenario_of_submission(self, cpf: str) -> Scenario:
        """The scenario for a submission that the bank has found valid. An ordered refusal replaces it, and is used
        up."""
        scenario, refusing = self.scenario(cpf), self.refusals_of.get(cpf)
        if refusing is None:
            return scenario
        refusing.times -= 1
        if refusing.times == 0:
            del self.refusals_of[cpf]
        return replace(scenario, submit="rejected", message=refusing.words)

    def consult(
        self,
        cpf: str,
        ask: Ask,
        *,
        ceiling_factor: Decimal = Decimal(1),
        opens: bool = True,
        for_submission: bool = False,
    ) -> Consultation:
        """Ask for offers.

        Opens the scenario's external step, unless one is open or was approved. With `opens=False` (a poll) no step is
        opened; the result then holds the newest step, which may be refused or expired, or None. With `for_submission`,
        an earlier offer is only priced again.
        """
        scenario = self.scenario(cpf)
        if scenario.answer == "no_offers":
            return Consultation(scenario, reason=scenario.reason)
        step = self._step(cpf, scenario)
        if opens and scenario.needs and (step is None or step.status in ("refused", "expired")):
            step = self._open_step(cpf, scenario, scenario.needs)
        if scenario.needs and (step is None or step.status != "approved"):
            return Consultation(scenario, step=step)
        offers = self._make_offers(cpf, scenario, ask, ceiling_factor)
        if not for_submission:
            for offer in offers:
                self.ledger.offered(offer)
        if not offers:
            return Consultation(scenario, step=step, reason=scenario.reason)
        return Consultation(scenario, step=step, offers=offers, employments=scenario.employments)

    def authorized(self, cpf: str) -> bool:
        """True if the scenario has no external step, or if its step was approved."""
        scenario = self.scenario(cpf)
        step = self._step(cpf, scenario)
        return scenario.needs is None or (step is not None and step.status == "approved")

    def announce(self, step: Step) -> None:
        """Notify the holder of a new step. SMS and chat messages go to the phone; other URLs are in the API's
        answer."""
        bank = self.world.titles[self.name]
        if step.kind == "sms":
            text = f"{bank}: responda SIM para autorizar a consulta dos seus dados de folha."
            self.world.send(self.name, step.cpf, "sms", text)
        elif step.kind in ("chat", "confirmation"):
            text = f"{bank}: toque no link para confirmar a autorização."
            self.world.send(self.name, step.cpf, "chat", text, step.url)

    def _step(self, cpf: str, scenario: Scenario) -> Step | None:
        return self.world.newest_step(self.name, cpf, scenario.needs) if scenario.needs else None

    def _open_step(self, cpf: str, scenario: Scenario, kind: str) -> Step:
        step = self.world.open_step(
            self.name,
            cpf,
            kind,
            ttl_s=STEP_TTL_S[kind],
            ends_after_s=scenario.auto_complete_s,
            outcome=scenario.outcome,
        )
        self.announce(step)
        return step

    def _make_offers(self, cpf: str, scenario: Scenario, ask: Ask, ceiling_factor: Decimal) -> tuple[Offer, ...]:
        now = self.world.clock.now()
        due = numbers.first_due_date(now.date(), self.due_day)
        amount, term = self.ceiling
        offers = tuple(
            Offer(self.new_offer_key(), cpf, self.tables[quote.insured], quote, due, employment, now)
            for employment in scenario.employments
            for quote in numbers.quotes(amount * ceiling_factor, term, self.rate, ask)
            for _ in range(self.behaviour.offers_times)
        )
        for offer in offers:
            self.offers[offer.key] = offer
        while len(self.offers) > OFFERS_KEPT:
            self.offers.popitem(last=False)
        return offers

    # --- contracts

    def contract(self, contract_id: str) -> Contract:
        """The bank's contract with that id. Raises the bank's refusal if there is none."""
        contract = self.ledger.get(contract_id)
        if contract is None:
            raise Refusal(self.no_contract())
        return contract

    def formalized(self, contract: Contract, channel: str | None) -> Contract:
        """The issued contract, with its signature URL sent by `channel` (sms, whatsapp). Raises the bank's refusal."""
        return self._moved(contract, lambda: self.ledger.formalize(contract, channel))

    def cancelled(self, contract: Contract) -> Contract:
        """The cancelled contract. Raises the bank's refusal."""
        return self._moved(contract, lambda: self.ledger.cancel(contract))

    def _moved(self, contract: Contract, move: Callable[[], Contract]) -> Contract:
        try:
            return move()
        except WrongState as wrong:
            raise Refusal(self.wrong_state(contract)) from wrong

    def status_word(self, contract: Contract, words: Mapping[str, str]) -> str:
        """The bank's word for the contract's status, or the scenario's unknown word if it has one."""
        if contract.native_status is not None and contract.status == "created":
            return contract.native_status
        return words[contract.status]

    def why_refused(self, contract: Contract, field: str) -> dict[str, str]:
        """The bank's sentence for refusing the contract, under the name `field`. Empty if it has none."""
        return {field: contract.refused_because} if contract.refused_because else {}

    def _step_ended(self, step: Step, at: datetime) -> None:
        if step.contract is not None:
            self.ledger.step_ended(step, at)
        else:
            self.step_ended(step)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`, the controls' format of times."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
