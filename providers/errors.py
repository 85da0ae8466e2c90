"""The API's errors: one class per code, each with its HTTP status and whether a retry is worthwhile.

This table is the only place where a code meets a status. `config/exceptions.py` renders it.
Messages are read by partners, so they are Brazilian Portuguese and never carry a bank's address,
credentials, personal data or a stack trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from providers.formats import sentence


@dataclass(frozen=True)
class Detail:
    """One fault of the input: the dotted name of the field (None for the body as a whole), the
    message, and for `providers` the names that would be allowed."""

    field: str | None
    message: str
    allowed: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"field": self.field, "message": self.message}
        if self.allowed is not None:
            row["allowed"] = list(self.allowed)
        return row


def too_long(field: str, text: str | None, longest: int) -> list[Detail]:
    """The fault of a text that is longer than its bank takes it; empty where it fits or is not there."""
    if text is None or len(text) <= longest:
        return []
    return [Detail(field, f"Este banco aceita no máximo {longest} caracteres neste campo.")]


class ApiError(Exception):
    """Base of every error that a partner may see."""

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True
    default_message: ClassVar[str] = "Erro interno. Tente novamente em instantes."

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        self.message = message or self.default_message
        self.field = field
        super().__init__(self.message)

    def as_dict(self) -> dict[str, Any]:
        """The error object of the contract: `{code, message, retryable, field}`."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "field": self.field,
        }


class InternalError(ApiError):
    """An unforeseen failure of the service itself."""


class InvalidInput(ApiError):
    """The input is at fault. `details` names every fault found; the first one is `field`."""

    code = "invalid_input"
    http_status = 422
    retryable = False
    default_message = "Dados inválidos."

    def __init__(
        self,
        message: str | None = None,
        *,
        field: str | None = None,
        details: list[Detail] | None = None,
    ) -> None:
        if details:
            message, field = message or details[0].message, details[0].field
        super().__init__(message, field=field)
        self.details = details or [Detail(field, self.message)]

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "details": [detail.as_dict() for detail in self.details]}


class StepOwed(InvalidInput):
    """The bank wants a step of the holder first. It has not refused anything; only of a submission can be said
    which field that is a matter of."""


class ProviderRejected(ApiError):
    """A bank refused on the merits. Its own message is passed on, as `formats.sentence` leaves it."""

    code = "provider_rejected"
    http_status = 422
    retryable = False
    default_message = "O banco recusou a solicitação."

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(sentence(message or ""), field=field)


class OfferExpired(ApiError):
    """The chosen table is no longer eligible: the partner has to query again."""

    code = "offer_expired"
    http_status = 409
    retryable = False
    default_message = "A oferta não está mais disponível. Faça uma nova consulta."


class InvalidState(ApiError):
    """The state of the proposal or session forbids the call."""

    code = "invalid_state"
    http_status = 409
    retryable = False
    default_message = "O estado atual não permite esta operação."


class Conflict(InvalidState):
    """A bank says so of a proposal of its own. `words` are the bank's; a partner sees them only where it was a
    submission that met them."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words


class Unauthorized(ApiError):
    code = "unauthorized"
    http_status = 401
    retryable = False
    default_message = "Chave de API ausente ou inválida."


class ProviderNotAllowed(ApiError):
    code = "provider_not_allowed"
    http_status = 403
    retryable = False
    default_message = "Banco não disponível neste contrato."


class NotFound(ApiError):
    code = "not_found"
    http_status = 404
    retryable = False
    default_message = "Recurso não encontrado."


class MethodNotAllowed(ApiError):
    code = "method_not_allowed"
    http_status = 405
    retryable = False
    default_message = "Método não permitido neste endereço."


class Gone(ApiError):
    code = "gone"
    http_status = 410
    retryable = False
    default_message = "Este link expirou."


class PayloadTooLarge(ApiError):
    code = "payload_too_large"
    http_status = 413
    retryable = False
    default_message = "O corpo da requisição excede 256 KiB."


class UnsupportedMediaType(ApiError):
    code = "unsupported_media_type"
    http_status = 415
    retryable = False
    default_message = "Envie o corpo como application/json em UTF-8."


class RateLimited(ApiError):
    """Reserved by the contract; no limit is enforced."""

    code = "rate_limited"
    http_status = 429
    retryable = True
    default_message = "Muitas requisições. Tente novamente em instantes."


class NotSupported(ApiError):
    """The bank does not offer the operation."""

    code = "not_supported"
    http_status = 501
    retryable = False
    default_message = "Operação não suportada por este banco."


class BankFailure(ApiError):
    """Base of the failures on a bank's side that say nothing about the holder.

    `sent` is False only where the request certainly never reached the bank (connection refused,
    breaker open, no free place in flight): what follows a submission hangs on it. `held_back` tells that
    the service itself kept the request back, which says nothing about the bank's health; `broken` that the
    connection broke before any answer, so that a safe request may be sent once more.
    """

    broken = False

    def __init__(
        self,
        message: str | None = None,
        *,
        field: str | None = None,
        sent: bool = True,
        held_back: bool = False,
    ) -> None:
        super().__init__(message, field=field)
        self.sent = sent
        self.held_back = held_back


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
    retryable = False
    default_message = "O banco respondeu de forma inesperada."


@contextmanager
def at_submit() -> Iterator[None]:
    """Around the request of a submission: what means something else there than for a proposal that exists.

    Of all that it names only the offer can be unknown; it has no state yet that could forbid anything, so that
    a conflict is a refusal on the merits; and a step that the holder owes is a matter of the offer.
    """
    try:
        yield
    except NotFound:
        raise OfferExpired from None
    except Conflict as conflict:
        raise ProviderRejected(conflict.words) from None
    except StepOwed as owed:
        raise InvalidInput(owed.message, field="offer_ref.offer_id") from None


def _with_code(base: type[ApiError]) -> Iterator[type[ApiError]]:
    for error in base.__subclasses__():
        if "code" in vars(error):
            yield error
        yield from _with_code(error)


#: Every error with a code of its own, in the order of this file: the contract's table.
API_ERRORS: tuple[type[ApiError], ...] = (InternalError, *_with_code(ApiError))
