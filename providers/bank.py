"""The interface of a bank: the facts and hooks that an adapter sets, and helpers that several adapters need.

An adapter (`providers/banks/<bank>.py`) adds only facts and the mapping of the bank's formats. `providers.operation`
runs the operations; `providers.http` sends the requests.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Unpack

import structlog

from foundation.errors import ApiError, Detail, NotSupported
from foundation.http.way import Rules, Way
from providers.certificates import Certificates, identity_of, proxy_of
from providers.errors import BankTimedOut
from providers.http import Content, Draft, Reply, path_to
from providers.notation import Notations
from providers.reasons import Reason, ReasonCode, folded
from providers.templates import Answers, Bodies
from providers.tokens import Token
from providers.types.proposal import BankProposal, BankSubmission, Disbursement, ProposalStatus
from providers.types.query import BankOffer, BankQuery, BankResult, Employment, QueryStatus, StepOutcome
from providers.words import Proposals, Words, data_of

log = structlog.get_logger(__name__)

#: The fields of an identity document, for `required` of a bank that needs all of them.
WHOLE_DOCUMENT = ("documento.numero", "documento.orgao_emissor", "documento.uf_emissor", "documento.data_emissao")
#: The reason for "no offers" when the holder's step ended with this outcome.
STEP_REASONS = {
    StepOutcome.REFUSED: ReasonCode.AUTHORIZATION_REFUSED,
    StepOutcome.EXPIRED: ReasonCode.AUTHORIZATION_EXPIRED,
}


_ANYWHERE = Rules(private_hosts=None)


@dataclass(frozen=True)
class Connection:
    """An operator's settings for one bank, without the ORM. Times are in seconds."""

    base_url: str
    credentials: Mapping[str, str] = field(repr=False)
    timeout_s: float = 25
    max_in_flight: int = 512
    portfolio: str | None = None
    circuit: str = "auto"
    #: Set while an operator keeps the bank out of service: why and until when, for partners to read.
    closed: str | None = None
    #: Which addresses may be called.
    rules: Rules = _ANYWHERE
    #: Our client certificate (PEM) and, until the bank accepts it, the one before. `way_secrets` holds their private
    #: keys by fingerprint, and the proxy (`proxy_secret`). `authorities` may issue the bank's certificate.
    certificates: tuple[str, ...] = ()
    authorities: str = ""
    way_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: True until the bank accepts the present credentials: the ones before are kept until then.
    is_renewed: bool = False

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """The ways to the bank, by the newest certificate first."""
        secrets = self.way_secrets
        identities = [identity_of(each, secrets[Certificates(each).fingerprint]) for each in self.certificates]
        way = Way(self.rules, self.max_in_flight, "", self.authorities, proxy_of(secrets))
        return tuple(replace(way, identity=each) for each in identities or [""])

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the user of these credentials without revealing them: a SHA-256 digest, in hex."""
        parts = [self.base_url, *(f"{key}={value}" for key, value in sorted(self.credentials.items()))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Limits:
    """What a bank takes only up to a limit, or not at all. `providers.rules` applies them before any call.

    `texts` are the maximum lengths of a submission's texts, by dotted field name.
    `references` is the number of personal references that the bank requires, None where it takes none.
    `birth_cities` is the bank's own list, if it has one: state → unaccented name (`formats.unaccented`) → its code.
    `portfolios_without_pix` are portfolios of an offer (`native["portfolio"]`) that the bank does not pay by PIX.
    """

    texts: Mapping[str, int] = field(default_factory=dict)
    references: int | None = None
    birth_cities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    portfolios_without_pix: tuple[str, ...] = ()


def basic_auth(user: str, password: str) -> dict[str, str]:
    """The header of HTTP basic authentication, for a `login`."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Bank:
    """One bank. Facts are class attributes. Operations are methods that take and return dataclasses.

    An object serves one operation. The facts and the class methods need no object, and the web process uses only those.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    #: The credentials that an operator types, by name, and what the bank calls them.
    credentials: ClassVar[Mapping[str, str]] = {}
    #: How the holder is authorized: evidence, biometrics, chat or sms.
    authorization: ClassVar[str] = "evidence"
    #: True if a query may send the holder a message. Such a query is never repeated automatically.
    notifies_holder: ClassVar[bool] = False
    #: True if the bank sends callbacks about holders' steps or proposals. Such a bank implements `verify_callback`.
    calls_back: ClassVar[bool] = False
    #: The fields that `submit` needs beyond those that every bank needs, as dotted field names.
    required: ClassVar[tuple[str, ...]] = ()
    #: What the bank calls the contract's words. It stands in `banks/<bank>.json`, as do `reasons`, `templates` and
    #: `proposals`.
    words: ClassVar[Words] = Words()
    #: Where the proposals are. A bank overrides those operations that this does not suit.
    proposals: ClassVar[Proposals]
    #: How the bank writes amounts, rates, dates and phones.
    notations: ClassVar[Notations] = Notations()
    #: The forms of what the bank gets and answers, with the name of each value. `bodies` and `answers` follow them.
    templates: ClassVar[Mapping[str, Any]] = {}
    bodies: ClassVar[Bodies]
    answers: ClassVar[Answers]
    #: What the bank takes only up to a limit, or not at all.
    limits: ClassVar[Limits] = Limits()
    #: The evidence without which the bank makes no offer.
    needed_evidence: ClassVar[frozenset[str]] = frozenset()
    #: True if the bank still tells after the payment whether the holder withdrew from the contract.
    tells_withdrawals: ClassVar[bool] = False
    #: The bank's sentences and codes for a refusal or for no offer, as `reasons.folded` writes them, and our code of
    #: each. Others get the code `other`.
    reasons: ClassVar[Mapping[str, ReasonCode]] = {}
    #: The longest time the bank takes to show a new submission, in seconds. Before that, "not found" is not final.
    processing_time_s: ClassVar[int] = 60
    #: True if the bank answers a second submission under the same reference with the first proposal. For other banks, a
    #: submission may be sent again only after "not found" is final.
    deduplicates: ClassVar[bool] = False
    #: How many requests one token serves in how many seconds, where the bank limits it.
    token_budget: ClassVar[tuple[int, float] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name := vars(cls).get("name"):
            data = data_of(name)
            cls.words, cls.templates = data.words, vars(cls).get("templates", data.templates)
            cls.proposals = data.proposals
            cls.reasons = {**data.reasons, **vars(cls).get("reasons", {})}
            cls.bodies = Bodies(cls.templates, cls.notations, cls.words)
            cls.answers = Answers(cls.templates, cls.notations)

    def __init__(self, connection: Connection, send: Callable[[Bank, Draft], Reply], deadline: float) -> None:
        """`send` sends the adapter's requests. `deadline` is absolute, in `time.monotonic()` seconds."""
        self.connection = connection
        self._send = send
        self._deadline = deadline

    # --- Operations; a bank overrides those that it supports ----------------------------------------------

    def query(self, query: BankQuery) -> BankResult:
        """Ask for offers. The bank may open an external step. Raises an ApiError for a failure or a refusal."""
        raise NotSupported

    def check(self, query: BankQuery, reference: str) -> BankResult:
        """The state of the external step `reference`, or the offers for `query` once the step is approved. Has no side
        effects: the holder gets no second message."""
        raise NotSupported

    def submit(self, submission: BankSubmission) -> BankProposal:
        """Create the proposal. A BankFailure with `sent` leaves the outcome unknown: `find` comes before a repeat."""
        return self.proposed("POST", json=self.body("submission", submission))

    def find(self, reference: str) -> list[BankProposal]:
        """The proposals that the bank has under the service's own `reference`. An empty list or NotFound means that it
        has none."""
        place = self.proposals
        answer = self.call("GET", place.path, params={place.reference: reference}, safe=True)
        # An answer of another form does not say that the bank has none.
        if place.found is None:
            return [self.proposal(answer.read(dict))]
        found = answer.read(dict)[place.found] if place.found else answer.read(list)
        return [self.proposal(each) for each in found]

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        """Have the bank issue the contract and the signature link. `channel` is sms, whatsapp or None."""
        body = {self.proposals.channel: self.words.channels[channel]} if channel else {}
        return self.proposed("POST", native_id, self.proposals.issue, json=body, safe=True)

    def status(self, native_id: str) -> BankProposal:
        """The proposal's current state at the bank."""
        return self.proposed("GET", native_id, safe=True)

    def cancel(self, native_id: str, reason: str | None) -> BankProposal:
        """Cancel the proposal. A bank that does not support this keeps the default."""
        raise NotSupported("Este banco não permite cancelamento.")

    def auction_proposal(self, key: str) -> dict[str, Any]:
        """The auction record for `key`. Has no side effects. Raises NotFound."""
        raise NotSupported

    @classmethod
    def verify_callback(cls, secret: str, headers: Mapping[str, str], body: bytes) -> str:
        """What a callback of this bank is about: a step's reference (see `BankAction`) or a proposal's `native_id`.

        The method makes no request and needs nothing but `secret`, because the process that receives callbacks holds no
        credentials of the bank. Header names are compared without case. `body` is the raw body. Raises Unauthorized if
        the callback is not signed with `secret`, was altered, or is older than `callbacks.MAX_AGE`, and if `secret` is
        empty. A callback proves nothing. The caller asks `check` or `status`, so a replayed callback changes nothing.
        """
        raise NotSupported

    @classmethod
    def faults(cls, submission: BankSubmission) -> list[Detail]:
        """This bank's own rules on a submission that no attribute expresses, as far as broken. Before any call."""
        return []

    @classmethod
    def cancels(cls) -> bool:
        return cls.cancel is not Bank.cancel

    @classmethod
    def logs_in(cls) -> bool:
        """False for a bank without tokens, whose every request is signed."""
        return cls.login is not Bank.login

    @classmethod
    def disbursement(cls, submission: BankSubmission) -> Disbursement:
        """Where this bank pays the money of `submission`. A bank that pays to another key or kind of account than the
        one given overrides this and adds a remark for the partner. Its `submit` sends what this method returns."""
        return submission.paid

    # --- Hooks ----------------------------------------------------------------------------------------------

    def login(self, old: Token | None) -> Token:
        """A fresh token. `call` sends without a token here, and each request may arrive twice without harm. `old`, if
        given, may hold a refresh token."""
        raise NotSupported

    def authorize(self, token: Token | None, draft: Draft) -> Draft:
        """`draft` with what authenticates it. The default is a bearer token.

        Other headers are added by `draft.headed`. A ticket in the body is a copy of `draft.content` with it, by
        `draft.carrying`. A signature is made of `draft.encoded().body`. Each attempt authorizes anew.
        """
        return draft.headed({"Authorization": f"Bearer {token.value}"}) if token else draft

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        """The error for a `reply` that is a refusal; None for any other reply. LoginRefused means that the bank refused
        our token, or at a log-in our credentials, and did nothing. Not called for 401, which always means LoginRefused,
        for 429, and for a log-in's answers below 500."""
        return None

    @classmethod
    def step_outcome(cls, word: str) -> StepOutcome:
        """The step outcome for the bank's word. An unknown word is logged and means "open"."""
        outcome = cls.words.steps.get(word)
        if outcome is None:
            log.warning("bank_step_unknown", bank=cls.name, word=word[:60])
        return outcome or StepOutcome.OPEN

    def body(
        self, template: str, request: BankQuery | BankSubmission, own: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The body that a template makes of `request` (`providers.templates`). `own` are values that the adapter
        itself gives, by the name that the template has for them. `portfolio`, the requested one or the operator's
        default, and where the money goes are the base's."""
        if isinstance(request, BankSubmission):
            paid = self.disbursement(request)
            pix = paid.pix
            if pix is not None and pix["tipo_chave"] == "telefone":
                pix = {**pix, "chave": self.notations.phone(pix["chave"])}
            request = replace(request, recebimento={"conta_bancaria": paid.account, "pix": pix})
        portfolio = request.portfolio or self.connection.portfolio
        return self.bodies.body(template, request, {"portfolio": portfolio, **(own or {})})

    @classmethod
    def result(
        cls,
        offers: Iterable[Any],
        employments: Iterable[Any],
        reasons: Iterable[str | tuple[str, str] | None] = (),
        **facts: Any,
    ) -> BankResult:
        """The result of a bank that looked for offers. `offers` and `employments` have the forms of the templates
        `offer` and `employment` (`providers.templates`). An offer's employer is the one that it names, or that of the
        employment with its registration. For the rest see `BankResult.answer`. Raises KeyError for an offer of another
        employment."""
        works = [Employment(**cls.answers.read("employment", each)) for each in employments]
        employers: dict[str, dict[str, Any]] = {
            each.registration: {"employer_cnpj": each.employer_cnpj, "employer_name": each.employer_name}
            for each in works
        }
        told = (cls.answers.read("offer", each) for each in offers)
        made = (BankOffer(**{**employers[each["registration"]], **each}) for each in told)
        return BankResult.answer(made, works, reasons, **facts)

    @classmethod
    def proposal(cls, answer: Any, **facts: Any) -> BankProposal:
        """The proposal in `answer`, which has the form of the template `proposal` (`providers.templates`). `facts`
        are fields of `BankProposal` that the adapter finds out itself."""
        told = {**cls.answers.read("proposal", answer), **facts}
        return BankProposal(status=cls.proposal_status(told["native_status"]), **told)

    @classmethod
    def proposal_status(cls, word: str) -> ProposalStatus | None:
        """The normalized status for the bank's word. An unknown word is logged and gives None: no change."""
        status = cls.words.statuses.get(word)
        if status is None:
            log.warning("bank_status_unknown", bank=cls.name, word=word[:60])
        return status

    @classmethod
    def reason(cls, words: str, code: str | None = None) -> Reason:
        """The bank's sentence, and its code if it has one, as a reason for partners. What `reasons` does not know gets
        `other`; its text is shown."""
        known = (cls.reasons[told] for told in (folded(code or ""), folded(words)) if told in cls.reasons)
        return Reason.of(next(known, ReasonCode.OTHER), words)

    @classmethod
    def reasons_for(cls, result: BankResult) -> tuple[Reason, ...]:
        """Why `result` has no offer. Empty if it has offers or waits for the holder."""
        if result.status is not QueryStatus.NO_OFFERS:
            return ()
        reasons = tuple(cls.reason(words, result.codes.get(words)) for words in result.reasons)
        if result.step in STEP_REASONS and all(reason.code is ReasonCode.OTHER for reason in reasons):
            return (Reason.of(STEP_REASONS[result.step], next(iter(result.reasons), None)),)
        return reasons or (Reason.of(ReasonCode.OTHER, "O banco não fez oferta e não disse por quê."),)

    # --- Helpers --------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        *names: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        safe: bool = False,
        **content: Unpack[Content],
    ) -> Reply:
        """Send one request and return the bank's answer if it is not an error. Only in `login` it is not authenticated.

        `names` and `params` are quoted and follow `path`: `path/name/…?param=value`. `json`, `form` or `xml` is the
        body. Decimals become JSON numbers. `safe` means that the request may be sent again if the connection breaks
        before an answer. A request that the bank has no time for (429) is sent again after the bank's `Retry-After`, if
        the deadline allows. Raises ProviderUnavailable, ProviderError, or the error that `refusal` returned.
        """
        draft = Draft(method, path_to(path, names, params), content, headers or {}, safe)
        return self._send(self, draft)

    def proposed(self, method: str, *names: str, **request: Any) -> BankProposal:
        """The proposal in the answer to a `call` below the path of `proposals`."""
        return self.proposal(self.call(method, self.proposals.path, *names, **request).read(dict))

    def token(self, reply: Reply) -> Token:
        """The token in a log-in's answer, which has the form of the template `token` (`providers.templates`)."""
        return Token.lasting(**self.answers.read("token", reply.read(Any)))

    def wait(self, seconds: float) -> None:
        """Wait `seconds` before asking again. Raises BankTimedOut if the operation's deadline comes earlier."""
        if time.monotonic() + seconds >= self._deadline:
            raise BankTimedOut
        time.sleep(seconds)
