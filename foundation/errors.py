"""Errors of the API: the code, the HTTP status, and whether a repeat may succeed.

The class of a code is the only place that knows its HTTP status. `config/exceptions.py` renders the errors. Partners
read the messages: they are Brazilian Portuguese and never contain a bank's address, credentials, personal data or a
stack trace. Errors about banks are in `providers/errors.py`.
"""

from typing import Any, ClassVar, Self

import msgspec


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault of the input: the field's dotted name (None for the whole body), the message, the allowed names."""

    field: str | None
    message: str
    allowed: list[str] | None = None


class ApiError(Exception):
    """Base class of every error that a partner may see."""

    #: The error class of each code.
    by_code: ClassVar[dict[str, "type[ApiError]"]] = {}

    code: ClassVar[str]
    http_status: ClassVar[int]
    retryable: ClassVar[bool] = False
    default_message: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A subclass without its own code shares the code of its base class.
        if "code" in vars(cls):
            ApiError.by_code[cls.code] = cls

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        self.message = message or self.default_message
        self.field = field
        self.facts: dict[str, Any] = {}
        super().__init__(self.message)

    def with_facts(self, **facts: Any) -> Self:
        """This error with `facts` as additional members of its JSON object, such as an id."""
        self.facts |= facts
        return self

    def as_dict(self) -> dict[str, Any]:
        """The error object of the contract: `{code, message, retryable, field}`, followed by its facts."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "field": self.field,
            **self.facts,
        }


class InternalError(ApiError):
    code = "internal_error"
    http_status = 500
    retryable = True
    default_message = "Erro interno. Tente novamente em instantes."


#: The maximum number of faults in one reply. A body with more faults was not filled in by a person.
MOST_DETAILS = 100


class InvalidInput(ApiError):
    """The input has faults. `details` names every fault, at most `MOST_DETAILS`. `field` is the first fault's field."""

    code = "invalid_input"
    http_status = 422
    default_message = "Dados inválidos."

    def __init__(
        self, message: str | None = None, *, field: str | None = None, details: list[Detail] | None = None
    ) -> None:
        if details:
            message, field = message or details[0].message, details[0].field
        super().__init__(message, field=field)
        self.details = (details or [Detail(field, self.message)])[:MOST_DETAILS]

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "details": msgspec.to_builtins(self.details)}


class InvalidState(ApiError):
    code = "invalid_state"
    http_status = 409
    default_message = "O estado atual não permite esta operação."


class Unauthorized(ApiError):
    code = "unauthorized"
    http_status = 401
    default_message = "Chave de API ausente ou inválida."


class NotFound(ApiError):
    code = "not_found"
    http_status = 404
    default_message = "Recurso não encontrado."


class MethodNotAllowed(ApiError):
    code = "method_not_allowed"
    http_status = 405
    default_message = "Método não permitido neste endereço."


class Gone(ApiError):
    code = "gone"
    http_status = 410
    default_message = "Este link expirou."


class PayloadTooLarge(ApiError):
    code = "payload_too_large"
    http_status = 413
    default_message = "O corpo da requisição excede 256 KiB."


class UnsupportedMediaType(ApiError):
    code = "unsupported_media_type"
    http_status = 415
    default_message = "Envie o corpo como application/json em UTF-8."


class RateLimited(ApiError):
    """A rate limit refuses the call, which may be repeated after `Retry-After`. `limit` names it for operators."""

    code = "rate_limited"
    http_status = 429
    retryable = True
    default_message = "Muitas requisições. Tente novamente em instantes."

    def __init__(self, message: str | None = None, *, retry_after_s: int = 1, limit: str = "") -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.limit = limit


class NotSupported(ApiError):
    code = "not_supported"
    http_status = 501
    default_message = "Operação não suportada por este banco."


def api_errors() -> list[type[ApiError]]:
    """Every error with its own code, in the order of definition: the contract's table of codes."""
    return list(ApiError.by_code.values())


def error_from_dict(content: dict[str, Any]) -> ApiError:
    """The error that `as_dict` turned into `content`."""
    kind = ApiError.by_code[content["code"]]
    if kind is InvalidInput:
        return InvalidInput(content["message"], details=msgspec.convert(content["details"], list[Detail]))
    return kind(content["message"], field=content["field"])
