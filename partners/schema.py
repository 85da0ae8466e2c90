"""How the OpenAPI schema tells of the partner's key. Loaded by the app's `ready()`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from partners.authentication import HEADER, ApiKeyAuthentication


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
