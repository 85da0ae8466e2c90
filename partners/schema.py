"""The partner's key and the errors in the OpenAPI schema."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from msgspec import UNSET, UnsetType
from rest_framework import serializers

from foundation.errors import ApiError, InternalError, PayloadTooLarge, Unauthorized, UnsupportedMediaType, api_errors
from foundation.shapes import Shape, described
from partners.authentication import HEADER
from partners.limits import LimitReached
from partners.models import SANDBOX_KEY
from providers.reasons import ReasonCode, ReasonSource

F = TypeVar("F", bound=Callable[..., Any])
_plain = msgspec.to_builtins
#: The contract's table of codes.
ERROR_CODES = tuple(sorted({error.code for error in api_errors()}))
#: How a route says that it needs the partner's key.
_NEEDS_KEY: dict[str, list[str]] = {"ApiKey": []}
_KEY = {
    "type": "apiKey",
    "in": "header",
    "name": HEADER,
    "description": f"Chave do parceiro, emitida pelo operador do serviço. No sandbox vale `{SANDBOX_KEY}`.",
}


@extend_schema_field({"anyOf": [{"type": "string", "enum": [code.value for code in ReasonCode]}, {"type": "string"}]})
class _ReasonCodeField(serializers.CharField):
    """A reason's code. Codes may be added, so generated clients must take any text beside those of today."""


@extend_schema_field({"oneOf": [{"$ref": "#/components/schemas/Offer"}, {"type": "null"}]})
class _OfferField(serializers.JSONField):
    """An offer as queries answer it, or null. By its component's name, because this floor knows no offers."""


class ErrorDetail(Shape):
    field: Annotated[str | None, "Nome com pontos, como `titular.nome_mae`."]
    message: Annotated[str, "O que está errado, em português."]
    allowed: Annotated[list[str] | UnsetType, "Os valores que valem, onde são uma lista."] = UNSET


class Reason(Shape):
    code: Annotated[
        Annotated[str, _ReasonCodeField],
        "O código pelo qual o seu programa decide; o guia diz o que cada um significa e o que fazer. Novos códigos "
        "podem surgir: trate um que você não conhece como `other`.",
    ]
    source: Annotated[
        ReasonSource, "De que lado está o motivo, e com isso de quem é a vez: do banco, do titular, sua ou do serviço."
    ]
    message: Annotated[str, "O motivo em português, para pessoas."]
    retryable: Annotated[bool, "Se a mesma chamada pode dar certo mais tarde."]


class Error(Shape):
    code: Annotated[Annotated[str, ERROR_CODES], "O código pelo qual o seu programa decide."]
    message: Annotated[str, "O que houve, em português, para pessoas."]
    retryable: Annotated[bool, "Se vale repetir a mesma chamada."]
    field: Annotated[str | None, "O primeiro campo com falha, com pontos; nulo se nenhum."]
    details: Annotated[list[ErrorDetail] | UnsetType, "Só com `invalid_input`: todas as falhas."] = UNSET
    proposal_id: Annotated[UUID | UnsetType, "Só quando o erro trata de uma proposta guardada."] = UNSET
    status: Annotated[
        str | UnsetType, "Só com `invalid_state` de uma proposta que o banco já tem: a última situação conhecida dela."
    ] = UNSET
    next_actions: Annotated[list[str] | UnsetType, "Ao lado de `status`: o que se pode fazer agora."] = UNSET
    reason: Annotated[
        Reason | UnsetType,
        "Só quando o erro trata de uma proposta que acabou por um motivo.",
    ] = UNSET
    replacement: Annotated[
        Annotated[dict[str, Any], _OfferField] | UnsetType,
        "Só com `offer_expired`: a oferta mais próxima do mesmo banco na consulta mais nova do titular, como a "
        "consulta a deu; nulo se o banco não deu nenhuma depois da que venceu.",
    ] = UNSET


def describe(
    tag: str,
    *,
    answers: Mapping[int, Mapping[str, msgspec.Struct]] | None = None,
    responses: Mapping[Any, Any] | None = None,
    refusals: Sequence[ApiError] = (),
    sent: Mapping[str, Any] | None = None,
    **told: Any,
) -> Callable[[F], F]:
    """`extend_schema` for a route. `answers` are examples by status and name, whose shapes are the answers' own;
    `responses` are answers without a shape; `refusals` the route's own errors. `sent` are bodies by name that the
    sandbox accepts: ids in them must be replaced by those of an earlier response. `told` are further options of
    `extend_schema`."""
    examples = [OpenApiExample(name, value=_plain(body), request_only=True) for name, body in (sent or {}).items()]
    shaped: dict[int, Any] = {}
    for status, named in (answers or {}).items():
        shown: dict[str, Any] = {"response_only": True, "status_codes": [str(status)]}
        examples += [OpenApiExample(name, value=_plain(value), **shown) for name, value in named.items()]
        shaped[status] = described(type(next(iter(named.values()))))
    auth = told.setdefault("auth", [_NEEDS_KEY])
    refused = errors(*refusals, key=bool(auth), body=told.get("request") is not None)
    return extend_schema(tags=[tag], responses={**(responses or {}), **shaped, **refused}, examples=examples, **told)


def in_path(name: str, description: str, examples: Mapping[str, str] | None = None) -> OpenApiParameter:
    """The parameter `name` of a route's path. `examples` are values by title."""
    shown = [OpenApiExample(title, value=value) for title, value in (examples or {}).items()]
    return OpenApiParameter(name, str, OpenApiParameter.PATH, description=description, examples=shown)


def errors(*answered: ApiError, key: bool = True, body: bool = True) -> dict[int, OpenApiResponse]:
    """A route's error responses, for `extend_schema(responses=…)`: the named errors, each with an example; the errors
    of every route with a `key` or a `body`; and 500."""
    common: list[ApiError] = [InternalError()]
    if key:
        common += [Unauthorized(), LimitReached()]
    if body:
        common += [PayloadTooLarge(), UnsupportedMediaType()]
    by_status: dict[int, list[ApiError]] = {}
    for error in sorted([*answered, *common], key=lambda each: each.http_status):
        by_status.setdefault(error.http_status, []).append(error)
    return {status: _response(same_status) for status, same_status in by_status.items()}


def tell_key_and_limits(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook that adds the partner's key, and the headers of a partner's limits to every route that may answer 429."""
    result["components"] |= {"securitySchemes": {"ApiKey": _KEY}, "headers": _HEADERS}
    for item in result["paths"].values():
        for operation in item.values():
            if "429" not in operation["responses"]:
                continue
            for status, response in operation["responses"].items():
                names = _HEADERS if status == "429" else _HEADERS.keys() - {"Retry-After"} if status < "300" else ()
                if names:
                    response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in sorted(names)}
    return result


_HEADERS: dict[str, dict[str, Any]] = {
    "Retry-After": {
        "description": "Segundos até que a chamada possa ser repetida.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimit-Policy": {
        "description": "Os limites do parceiro que valem para a chamada (draft-ietf-httpapi-ratelimit-headers); "
        "ausente se não há nenhum.",
        "schema": {"type": "string"},
        "example": '"per-minute";q=600;w=60, "in-flight";q=128;qu="concurrent-requests"',
    },
    "RateLimit": {
        "description": "O que resta (`r`) de cada um deles e em quantos segundos ele volta inteiro (`t`).",
        "schema": {"type": "string"},
        "example": '"per-minute";r=598;t=41, "in-flight";r=127',
    },
}


def _response(same_status: list[ApiError]) -> OpenApiResponse:
    examples: dict[str, OpenApiExample] = {}
    for error in same_status:
        name = f"{error.code} ({error.field})" if error.field else error.code
        if name in examples:
            name = f"{name} {len(examples) + 1}"
        examples[name] = OpenApiExample(name, value=error.as_dict(), response_only=True)
    codes = dict.fromkeys(error.code for error in same_status)
    return OpenApiResponse(described(Error), description=" / ".join(codes), examples=[*examples.values()])
