"""The API's schema, as `/docs/` shows it and as generators fetch it."""

from __future__ import annotations

from functools import cache
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

#: What the page of the reference may load: its own files. Its styles stand in the page.
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
#: What may stand in `Accept`, the one that counts where nothing is preferred first; each with its ending.
_FORMATS = {
    _YAML: "yaml",
    "application/yaml": "yaml",
    "application/json": "json",
    OpenApiJsonRenderer.media_type: "json",
}


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """The OpenAPI schema, for everybody: JSON where `Accept` or `?format=json` asks for it, else YAML."""
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


@cache
def document() -> dict[str, Any]:
    """The schema, made once per process: it costs half a second of CPU time, and anybody may ask without a key."""
    made: dict[str, Any] = SchemaGenerator(urlconf="config.urls").get_schema(request=None, public=True)
    return made


@cache
def _as_yaml() -> bytes:
    return bytes(OpenApiYamlRenderer().render(document(), renderer_context={}))


@cache
def _as_json() -> bytes:
    return bytes(OpenApiJsonRenderer().render(document(), renderer_context={}))
