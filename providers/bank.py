"""What a bank is: the interface, facts and hooks of an adapter, and the helpers that every dialect needs.

An adapter (`providers/banks/<bank>.py`) adds only facts and the mapping of its dialect. `providers.operation` runs the
operations; `providers.http` sends the requests.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import structlog

from foundation.errors import ApiError, Detail, NotSupported
from providers.errors import BankTimedOut, ProviderError, ProviderUnavailable
from providers.http import Body, Draft, Reply
from providers.reasons import Reason, ReasonCode, folded, refusals_of
from providers.tokens import Token
from providers.types import (
    BankProposal,
    BankQuery,
    BankResult,
    BankSubmission,
    Disbursement,
    ProposalStatus,
    QueryStatus,
    StepOutcome,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: Why there is nothing where the holder ended a step so.
STEP_REASONS = {
    StepOutcome.REFUSED: ReasonCode.AUTHORIZATION_REFUSED,
    StepOutcome.EXPIRED: ReasonCode.AUTHORIZATION_EXPIRED,
}


@dataclass(frozen=True)
class Connection:
    """How one bank is reached: an operator's settings, without the ORM. Times in seconds."""

    base_url: str
    credentials: Mapping[str, str] = field(repr=False)
    timeout_s: float = 25
    max_in_flight: int = 512
    portfolio: str | None = None
    circuit: str = "auto"
    #: Why and until when nobody calls the bank now, by an operator's word.
    closed: str | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Names the user whom the credentials belong to, without telling them."""
        parts = [self.base_url, *(f"{key}={value}" for key, value in sorted(self.credentials.items()))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def basic_auth(user: str, password: str) -> dict[str, str]:
    """The header of HTTP basic authentication, for `login`."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Line(Protocol):
    """What carries an adapter's requests to its bank. `deadline` is absolute, in `time.monotonic()` seconds."""

    deadline: float

    def send_authenticated(self, bank: Bank, draft: Draft) -> Reply: ...

    def send_plain(self, draft: Draft) -> Reply: ...


class Bank:
    """One bank: facts as class attributes, the operations as methods: dataclass in, dataclass out.

    An object does one operation. The facts and the class methods need no object: the web process uses only them.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    #: How the holder is authorized: evidence, biometrics, chat or sms.
    authorization: ClassVar[str] = "evidence"
    #: Whether a query may send the holder a message; such a query is never repeated blindly.
    notifies_holder: ClassVar[bool] = False
    #: Whether the bank calls back when a holder's step ended; such a bank has `verify_callback`.
    calls_back: ClassVar[bool] = False
    #: Whether the auction look-up is asked here: the service's own bank.
    runs_auctions: ClassVar[bool] = False
    #: What `submit` needs beyond the blocks required of all, in dotted field names.
    required: ClassVar[tuple[str, ...]] = ()
    #: The bank's code of each word of the contract. A submission with a word that is not here is refused by its field's
    #: name, before any call. Without account types (PIX keys) the bank does not pay that way; without marital statuses
    #: the bank is not told any.
    account_types: ClassVar[Mapping[str, Any]] = {}
    pix_keys: ClassVar[Mapping[str, Any]] = {}
    marital_statuses: ClassVar[Mapping[str, Any]] = {}
    #: The bank's code of each channel by which it delivers the signature link itself.
    channels: ClassVar[Mapping[str, Any]] = {}
    #: How long a text of a submission may be, by its dotted name (`providers.rules.SUBMISSION_TEXTS`).
    longest_texts: ClassVar[Mapping[str, int]] = {}
    #: How long a text of a query may be, by the name of the `BankQuery` field. A device's description is cut; a name
    #: that is too long is a refusal.
    longest_in_query: ClassVar[Mapping[str, int]] = {}
    #: Fields of `BankQuery` with evidence that the bank has no place for: the adapter leaves them out.
    evidence_without_place: ClassVar[frozenset[str]] = frozenset()
    #: The evidence of a query without which the bank makes no offer.
    needed_evidence: ClassVar[frozenset[str]] = frozenset()
    #: How many personal references the bank wants; None where it has no use for them.
    exact_references: ClassVar[int | None] = None
    #: The bank's own list of birth cities, where it has one: by state, its code of each name (`formats.unaccented`).
    birth_cities: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    #: Portfolios of an offer (`native["portfolio"]`) that the bank does not pay by PIX.
    portfolios_without_pix: ClassVar[tuple[str, ...]] = ()
    #: Native status words; a word that is not here means "unknown" and moves nothing.
    statuses: ClassVar[Mapping[str, ProposalStatus]] = {}
    #: Native words of an external step; a word that is not here means "open" and is logged.
    steps: ClassVar[Mapping[str, StepOutcome]] = {}
    #: What the bank says where it has no offer or refuses, as `reasons.folded` leaves it: our code. Other words are
    #: `other`. From `banks/refusals.json`, unless the bank says otherwise.
    reasons: ClassVar[Mapping[str, ReasonCode]] = {}
    #: The longest time the bank takes to show a submission: only then is "not found" final.
    processing_time_s: ClassVar[int] = 60
    #: Whether a second submission under one reference is answered with the first proposal. Where it is not, sending
    #: again has to wait until "not found" is final.
    deduplicates: ClassVar[bool] = False
    #: False where requests are signed one by one instead of bearing a token from `login`.
    uses_token: ClassVar[bool] = True
    #: (requests, seconds) that one token serves, where the bank limits it.
    token_budget: ClassVar[tuple[int, float] | None] = None
    #: Whether all processes use one token, for a bank that allows a user few of them or ends the earlier ones at a
    #: login. Not together with `token_budget`.
    shares_token: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "reasons" not in vars(cls):
            cls.reasons = refusals_of(vars(cls).get("name", ""))

    def __init__(self, connection: Connection, line: Line) -> None:
        self.connection = connection
        self._line = line

    # --- The calls; a bank overrides what it supports ---------------------------------------------------

    def query(self, query: BankQuery) -> BankResult:
        """Ask for offers. May open an external step. Raises an ApiError for a failure or a refusal."""
        raise NotSupported

    def check(self, query: BankQuery, reference: str) -> BankResult:
        """How the external step `reference` stands, without side effects (no second message to the
        holder); where it is approved, with the offers for `query`."""
        raise NotSupported

    def submit(self, submission: BankSubmission) -> BankProposal:
        """Create the proposal. A BankFailure with `sent` leaves the outcome unknown: ask `find` first."""
        raise NotSupported

    def find(self, reference: str) -> BankProposal | None:
        """The proposal that was submitted under the service's own `reference`, None where there is none."""
        raise NotSupported

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        """Have the contract issued and the signature link made; `channel` is sms, whatsapp or None."""
        raise NotSupported

    def status(self, native_id: str) -> BankProposal:
        """The proposal as it stands at the bank."""
        raise NotSupported

    def cancel(self, native_id: str, reason: str | None) -> BankProposal:
        """Cancel the proposal. Banks that can't keep this default."""
        raise NotSupported("Este banco não permite cancelamento.")

    def auction_proposal(self, key: str) -> dict[str, Any]:
        """The auction's record behind `key`, without side effects. Raises NotFound."""
        raise NotSupported

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        """The reference of the step (see `BankAction`) that a callback of this bank is about.

        No request is made and nothing but `secret` is needed, so that the process that takes callbacks holds no
        credentials of the bank. `headers` are looked up in any case of letters, `body` is the raw one. Raises
        Unauthorized where the callback is not the bank's, was altered or is older than `callbacks.MAX_AGE`, and
        where `secret` is empty. The callback does not prove how the step ended: the caller asks `check` with the
        reference, so that a replay changes nothing.
        """
        raise NotSupported

    @classmethod
    def faults(cls, submission: BankSubmission) -> list[Detail]:
        """Rules of this bank on a submission that no fact tells, checked before any call. Empty: all well."""
        return []

    @classmethod
    def cancels(cls) -> bool:
        """Whether a proposal can be cancelled at the bank."""
        return cls.cancel is not Bank.cancel

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        """Where this bank pays the money of `submission`. A bank that replaces the key or the kind of account that it
        was given overrides this with a remark, and its `submit` sends what this returns: partners are told."""
        return Disbursement(submission.account, submission.pix)

    # --- The dialect's hooks ------------------------------------------------------------------------------

    def login(self, old: Token | None) -> Token:
        """A fresh token by way of `exchange`. `old`, where given, may hold a refresh token."""
        raise NotSupported

    def login_refused(self, reply: Reply) -> bool:
        """True where the bank says that our credentials are wrong. That is no outage, and it does not pass by
        itself."""
        return 400 <= reply.status < 500

    def authorize_body(self, token: Token | None, content: Any) -> Any:
        """The content of a request's body with what authenticates it, for banks that want a ticket in the body.

        `content` is what `call` was given as `json`, `form` or `xml`. Return a copy with the ticket in
        it, since the same content is authorized again where the bank refuses the token. Called before encoding.
        """
        return content

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        """The headers that authenticate a request; `body` is the encoded one. The base sends a bearer token."""
        return {"Authorization": f"Bearer {token.value}"} if token else {}

    def token_refused(self, reply: Reply) -> bool:
        """True where the bank says that the token is not valid. The bank has done nothing then."""
        return reply.status == 401

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        """The error for a `reply` by which the bank says no; None for any other reply."""
        return None

    def portfolio_of(self, asked: BankQuery | BankSubmission) -> str | None:
        """The origination portfolio to name: the one that is asked for, else the operator's default."""
        return asked.portfolio or self.connection.portfolio

    @classmethod
    def first_of(cls, found: Sequence[T], reference: str) -> T | None:
        """The first of what the bank has under our `reference`, None where it has nothing. Several are logged: the
        bank took one submission twice."""
        if len(found) > 1:
            log.error("bank_submission_doubled", bank=cls.name, reference=reference, count=len(found))
        return found[0] if found else None

    @classmethod
    def step_outcome(cls, word: str) -> StepOutcome:
        """How a step with that native word stands; an unknown word is logged and ends nothing."""
        outcome = cls.steps.get(word)
        if outcome is None:
            log.warning("bank_step_unknown", bank=cls.name, word=word[:60])
        return outcome or StepOutcome.OPEN

    def proposal(
        self,
        native_id: str,
        word: str,
        *,
        link: str | None = None,
        link_ends_at: datetime | None = None,
        contract_number: str | None = None,
        disbursed_at: datetime | None = None,
        disbursed_amount: Decimal | None = None,
        data: dict[str, Any] | None = None,
    ) -> BankProposal:
        """A proposal of the bank; `word` is the bank's own status, `link` where the holder signs until
        `link_ends_at`, `disbursed_amount` the reais paid at `disbursed_at`. What the bank does not say is None."""
        return BankProposal(
            native_id,
            word,
            self.proposal_status(word),
            signature_url=link,
            signature_expires_at=link_ends_at,
            contract_number=contract_number,
            disbursed_at=disbursed_at,
            disbursed_amount=disbursed_amount,
            data=data or {},
        )

    @classmethod
    def proposal_status(cls, word: str) -> ProposalStatus | None:
        """The normalized status of a native word. An unknown word is logged, and None leaves the proposal as it is."""
        status = cls.statuses.get(word)
        if status is None:
            log.warning("bank_status_unknown", bank=cls.name, word=word[:60])
        return status

    @classmethod
    def reason(cls, words: str) -> Reason:
        """A sentence of the bank as a reason for partners; one that it is not known for is `other`, and is shown."""
        return Reason.of(cls.reasons.get(folded(words), ReasonCode.OTHER), words)

    @classmethod
    def why(cls, result: BankResult) -> tuple[Reason, ...]:
        """Why `result` has no offer; empty where it has some, or waits for the holder."""
        if result.status is not QueryStatus.NO_OFFERS:
            return ()
        told = tuple(cls.reason(words) for words in result.reasons)
        if result.step in STEP_REASONS and all(reason.code is ReasonCode.OTHER for reason in told):
            return (Reason.of(STEP_REASONS[result.step], next(iter(result.reasons), None)),)
        return told or (Reason.of(ReasonCode.OTHER, "O banco não fez oferta e não disse por quê."),)

    # --- Helpers --------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        xml: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        safe: bool = False,
    ) -> Reply:
        """One authenticated request; returns the bank's answer where it is not an error.

        `json`, `form` or `xml` (see `providers.xml`) is the body; Decimals become JSON numbers. `safe` tells that the
        request may be sent again where a connection broke before an answer. Raises ProviderUnavailable, ProviderError
        or whatever `refusal` made of the answer.
        """
        body = Body.of(json=json, form=form, xml=xml)
        reply = self._line.send_authenticated(self, Draft(method, path, body, headers or {}, safe))
        if error := self.refusal(reply):
            raise error
        if reply.status >= 500:
            raise ProviderUnavailable
        if not 200 <= reply.status < 300:
            raise ProviderError
        return reply

    def exchange(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        xml: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        safe: bool = True,
    ) -> Reply:
        """One request without a token, for `login`. Answers of 400 and above raise."""
        reply = self._line.send_plain(Draft(method, path, Body.of(json=json, form=form, xml=xml), headers or {}, safe))
        if self.login_refused(reply):
            log.error("bank_login_refused", bank=self.name, status=reply.status)
            raise ProviderError(sent=False)
        if reply.status >= 500:
            raise ProviderUnavailable(sent=False)
        return reply

    def wait(self, seconds: float) -> None:
        """Wait before another look. Raises BankTimedOut where the operation's deadline comes first."""
        if time.monotonic() + seconds >= self._line.deadline:
            raise BankTimedOut
        time.sleep(seconds)
