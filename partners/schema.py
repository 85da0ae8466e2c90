"""How the OpenAPI schema tells of the partner's key and of errors. Loaded by the app's `ready()`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework import serializers

from partners.authentication import HEADER, ApiKeyAuthentication
from providers.errors import API_ERRORS


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = ApiKeyAuthentication
    name = "ApiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": HEADER,
            "description": "Chave do parceiro, emitida pelo operador do serviço.",
        }


class OperationSchema(AutoSchema):
    """Tells partners only what a route's own `schema.py` says: docstrings are for developers."""

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's own signature, not DRF's
        return ""


def drop_docstrings(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook that does the same for the bodies' objects, which would bear their serializers' docstrings."""
    for component in result["components"]["schemas"].values():
        if component.get("type") == "object":
            component.pop("description", None)
    return result


class DetailSchema(serializers.Serializer[Any]):
    field = serializers.CharField(allow_null=True, help_text="Nome com pontos, como `titular.nome_mae`.")
    message = serializers.CharField()
    allowed = serializers.ListField(child=serializers.CharField(), required=False)

    class Meta:
        ref_name = "ErrorDetail"


class ErrorSchema(serializers.Serializer[Any]):
    code = serializers.ChoiceField(sorted({error.code for error in API_ERRORS}))
    message = serializers.CharField()
    retryable = serializers.BooleanField()
    field = serializers.CharField(allow_null=True)
    details = DetailSchema(many=True, required=False, help_text="Só com `invalid_input`: todas as falhas.")

    class Meta:
        ref_name = "Error"


def errors(*statuses: int, key: bool = True, body: bool = True) -> dict[int, OpenApiResponse]:
    """The error replies of a route, for `extend_schema(responses=…)`: `statuses`, what every route with a `key`
    or a `body` may answer besides, and 500. Each with an example of its code."""
    common = {500, *({401} if key else ()), *({413, 415, 422} if body else ())}
    return {status: _response(status) for status in sorted({*statuses, *common})}


def _response(status: int) -> OpenApiResponse:
    kinds = [error for error in API_ERRORS if error.http_status == status]
    examples = [OpenApiExample(kind.code, value=kind().as_dict(), response_only=True) for kind in kinds]
    return OpenApiResponse(ErrorSchema, description=" / ".join(kind.code for kind in kinds), examples=examples)
