"""The API's schema, as `/docs/` shows it."""

from __future__ import annotations

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """The OpenAPI schema as YAML, for everybody."""
    return HttpResponse(
        _document(),
        content_type=f"{OpenApiYamlRenderer.media_type}; charset=utf-8",
        headers={"Content-Disposition": 'inline; filename="openapi.yaml"'},
    )


@cache
def _document() -> bytes:
    """Made once per process: it takes half a second of the CPU, and nobody needs a key to ask for it."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    return bytes(OpenApiYamlRenderer().render(document, renderer_context={}))
