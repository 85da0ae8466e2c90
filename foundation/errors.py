"""Errors that a caller of the API may see: code, HTTP status, and whether a repeat is worthwhile.

A code has its HTTP status in its class and nowhere else. `config/exceptions.py` renders the errors.
Callers read the messages, so they are Brazilian Portuguese and never carry an address, credentials, personal
data or a stack trace. The errors that speak of banks are in `providers/errors.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self


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


class ApiError(Exception):
    """Base of every error that a partner may see."""

    #: The error class of each code.
    by_code: ClassVar[dict[str, type[ApiError]]] = {}

    code: ClassVar[str] = "internal_error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = True
    default_message: ClassVar[str] = "Erro interno. Tente novamente em instantes."

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A subclass without a code of its own has its base's code.
        if "code" in vars(cls):
            ApiError.by_code[cls.code] = cls

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        self.message = message or self.default_message
        self.field = field
        self.facts: dict[str, Any] = {}
        super().__init__(self.message)

    def with_facts(self, **facts: Any) -> Self:
        """This error, with `facts` as further members of its object, such as the id of the thing it is about."""
        self.facts |= facts
        return self

    def as_dict(self) -> dict[str, Any]:
        """The error object of the contract: `{code, message, retryable, field}`, and behind them its facts."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "field": self.field,
            **self.facts,
        }


class InternalError(ApiError):
    """An unforeseen failure of the service itself."""

    code = "internal_error"


#: Faults that one reply names. What is wrong in more places than these is no form that a person filled in.
MOST_DETAILS = 100


class InvalidInput(ApiError):
    """The input is at fault. `details` names every fault found, at most `MOST_DETAILS`; the first one is `field`."""

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
        self.details = (details or [Detail(field, self.message)])[:MOST_DETAILS]

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "details": [detail.as_dict() for detail in self.details]}


class InvalidState(ApiError):
    """The state of the proposal or session forbids the call."""

    code = "invalid_state"
    http_status = 409
    retryable = False
    default_message = "O estado atual não permite esta operação."


class Unauthorized(ApiError):
    code = "unauthorized"
    http_status = 401
    retryable = False
    default_message = "Chave de API ausente ou inválida."


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
    """A limit refuses the call. The reply says in `Retry-After` when it may be sent again, in seconds."""

    code = "rate_limited"
    http_status = 429
    retryable = True
    default_message = "Muitas requisições. Tente novamente em instantes."

    def __init__(self, message: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotSupported(ApiError):
    """The bank does not offer the operation."""

    code = "not_supported"
    http_status = 501
    retryable = False
    default_message = "Operação não suportada por este banco."


def api_errors() -> list[type[ApiError]]:
    """Every error with a code of its own, in the order of their definition: the contract's table."""
    return list(ApiError.by_code.values())


def error_from_dict(told: dict[str, Any]) -> ApiError:
    """The error whose `as_dict` is `told`, as a row keeps it."""
    kind = ApiError.by_code[told["code"]]
    if kind is InvalidInput:
        return InvalidInput(told["message"], details=[_detail(each) for each in told["details"]])
    return kind(told["message"], field=told["field"])


def _detail(told: dict[str, Any]) -> Detail:
    allowed = told.get("allowed")
    return Detail(told["field"], told["message"], None if allowed is None else tuple(allowed))
