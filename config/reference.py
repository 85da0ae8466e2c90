"""The API's schema, for `/docs/` and for generators."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

#: The page of the reference may load only its own files. Its styles are inline.
POLICY = {
    "default-src": [NONE],
    "script-src": [SELF],
    "style-src": [SELF, UNSAFE_INLINE],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [NONE],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
}
_YAML = OpenApiYamlRenderer.media_type
#: The media types for `Accept`, with their file endings. The first one is the default.
_FORMATS = {
    _YAML: "yaml",
    "application/yaml": "yaml",
    "application/json": "json",
    OpenApiJsonRenderer.media_type: "json",
}

_generating = threading.Lock()


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """The OpenAPI schema, public: JSON if `Accept` or `?format=json` asks for it, otherwise YAML."""
    preferred = request.get_preferred_type(list(_FORMATS)) or _YAML
    ending = request.GET.get("format", _FORMATS[preferred])
    is_json = ending == "json"
    response = HttpResponse(
        _as_json() if is_json else _as_yaml(),
        content_type="application/json" if is_json else f"{_YAML}; charset=utf-8",
        headers={"Content-Disposition": f'inline; filename="openapi.{"json" if is_json else "yaml"}"'},
    )
    patch_vary_headers(response, ["Accept"])
    return response


def document() -> dict[str, Any]:
    """The schema, generated once per process: it takes half a second of CPU time, and anyone may request it without a
    key. Threads wait for the first one, because drf-spectacular cannot generate two schemas at the same time."""
    with _generating:
        return _document()


@cache
def _document() -> dict[str, Any]:
    schema: dict[str, Any] = SchemaGenerator(urlconf="config.urls").get_schema(request=None, public=True)
    return schema


@cache
def _as_yaml() -> bytes:
    return bytes(OpenApiYamlRenderer().render(document(), renderer_context={}))


@cache
def _as_json() -> bytes:
    return bytes(OpenApiJsonRenderer().render(document(), renderer_context={}))
