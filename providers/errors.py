"""Failures and refusals of banks: the API errors that concern banks, and the exceptions that adapters raise."""

from dataclasses import replace
from typing import ClassVar

from foundation.errors import ApiError, InvalidInput, InvalidState, NotFound
from foundation.formats import sentence
from providers.reasons import OperatorCode, Reason, ReasonCode


class StepOwed(InvalidInput):
    """The bank wants a step of the holder first: no refusal. Of a submission, `as_submission_error` names the field."""


class ProviderRejected(ApiError):
    """The bank's decision was negative. The partner reads the bank's own message, cleaned by `formats.sentence`.

    `code` is the bank's own code, if it has one. An adapter gives the bank's own name of the `field` that the bank
    refuses; partners get the contract's (`Bodies.contract_names`).
    """

    code = "provider_rejected"
    http_status = 422
    default_message = "O banco recusou a solicitação."

    def __init__(self, message: str | None = None, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(sentence(message or ""), field=field)
        self.native_code = code


class Repairable(ProviderRejected):
    """The bank refused a submission, made nothing, and takes the same one once the adapter has repaired it."""


class OfferExpired(ApiError):
    """The offer's price table is no longer available: the partner has to query again."""

    code = "offer_expired"
    http_status = 409
    default_message = "A oferta não está mais disponível. Faça uma nova consulta."


class Conflict(InvalidState):
    """The bank says that its proposal's state forbids the call. `words`, `code` and `field` are the bank's, as in
    `ProviderRejected`. Partners read them only if the call was a submission."""

    def __init__(self, words: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__()
        self.refusal = ProviderRejected(words, code=code, field=field)


class ProviderNotAllowed(ApiError):
    code = "provider_not_allowed"
    http_status = 403
    default_message = "Banco não disponível neste contrato."


class BankFailure(ApiError):
    """Base class of failures on the bank's side that say nothing about the holder.

    `sent` is False only if the request certainly never reached the bank (connection refused, breaker open, no place in
    flight). Only then may a submission be sent again. `held_back` is True if the service itself kept the request back,
    which says nothing about the bank's health. `broken` is True if the connection broke before any answer, so that a
    safe request may be sent once more. `operator_code` is set if operators read another code than partners, and
    `operator_words` if they read more.
    """

    broken = False
    reason_code: ClassVar[ReasonCode] = ReasonCode.UNAVAILABLE
    operator_code: ClassVar[OperatorCode | None] = None
    operator_words = ""

    def __init__(
        self, message: str | None = None, *, field: str | None = None, sent: bool = True, held_back: bool = False
    ) -> None:
        super().__init__(message, field=field)
        self.sent = sent
        self.held_back = held_back

    @property
    def reason(self) -> Reason:
        spared = self.held_back and self.reason_code is ReasonCode.UNAVAILABLE
        return Reason.of(ReasonCode.HELD_BACK) if spared else Reason.of(self.reason_code, self.message)


class ProviderUnavailable(BankFailure):
    """The bank could not be reached, timed out or answered 5xx."""

    code = "provider_unavailable"
    http_status = 502
    retryable = True
    default_message = "Banco indisponível no momento. Tente novamente em instantes."


class ProviderError(BankFailure):
    """Another failure on the bank's side: an unreadable reply or an unknown native error."""

    code = "provider_error"
    http_status = 502
    default_message = "O banco respondeu de forma inesperada."
    reason_code = ReasonCode.UNREADABLE


class LoginRefused(ProviderError):
    """The bank refused our credentials, or what was made with them. Nothing was sent. Waiting is no cure."""

    operator_code = OperatorCode.LOGIN_REFUSED

    def __init__(self, message: str | None = None, *, sent: bool = False) -> None:
        super().__init__(message, sent=sent)


class BankHeldBack(ProviderUnavailable):
    """The service itself did not call the bank: its breaker is open, if no subclass says more. Nothing was sent."""

    def __init__(self) -> None:
        super().__init__(sent=False, held_back=True)


class BankKeptOut(BankHeldBack):
    """An operator's order keeps the service from calling the bank."""

    operator_code = OperatorCode.KEPT_OUT


class BankFull(BankHeldBack):
    """The bank has no place in flight for the call."""

    operator_code = OperatorCode.FULL


class BankBusy(ProviderUnavailable):
    """The bank answered 429: it gets too many requests. It did not work on the request."""

    default_message = "O banco recebe chamadas demais no momento. Tente novamente em instantes."


class BankTimedOut(ProviderUnavailable):
    """The bank gave no answer before its time-out or the operation's deadline."""

    default_message = "O banco não respondeu a tempo."
    reason_code = ReasonCode.TIMEOUT


class BankClosed(ProviderUnavailable):
    """The bank says that it is closed at this hour or on this day."""

    default_message = "O banco está fora do horário ou em virada de folha."
    reason_code = ReasonCode.BANK_CLOSED


class BankInWindow(BankClosed):
    """An operator's window keeps the service from calling the bank. Nothing was sent."""

    operator_code = OperatorCode.WINDOW

    def __init__(self, window: str) -> None:
        """`window` says until when and why, to partners too."""
        super().__init__(window, sent=False, held_back=True)
        self.operator_words = window


class BankSwitchedOff(BankHeldBack):
    """An operator disabled the bank, or its adapter left the registry. Nothing was sent."""

    default_message = "Banco desativado no momento."
    reason_code = ReasonCode.DISABLED


class BankPaused(BankSwitchedOff):
    """An operator has paused the partner at the bank for a time. Nothing was sent."""

    operator_code = OperatorCode.PAUSED

    def __init__(self, pause: str = "") -> None:
        """`pause` says until when and why, to operators."""
        super().__init__()
        self.operator_words = pause and f"Até {pause}"

    @property
    def reason(self) -> Reason:
        """The failure as a reason for partners. The same call may succeed after the pause."""
        return replace(super().reason, retryable=True)


def refusal_by_status(status: int, words: str, *, code: str | None = None, field: str | None = None) -> ApiError:
    """The error for a refusal whose meaning is in the HTTP status: 404 is NotFound, 409 a Conflict, every other status
    a negative decision. `words`, `code` and `field` are the bank's."""
    match status:
        case 404:
            return NotFound()
        case 409:
            return Conflict(words, code=code, field=field)
    return ProviderRejected(words, code=code, field=field)


def native_code(error: ApiError) -> str | None:
    return error.native_code if isinstance(error, ProviderRejected) else None


def as_submission_error(error: ApiError) -> ApiError:
    """The error for a bank's refusal of a submission.

    A submission refers only to the offer, so NotFound means that the offer is gone. The proposal does not exist yet, so
    a Conflict is a negative decision of the bank. A step that the holder owes is a fault of the offer.
    """
    match error:
        case NotFound():
            return OfferExpired()
        case Conflict():
            return error.refusal
        case StepOwed():
            return InvalidInput(error.message, field="offer_ref.offer_id")
    return error
