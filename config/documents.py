"""Serves the partners' guide at `/docs/guia/`, the clients at `/docs/clientes/`, and the team's pages to operators:
`config/local/guide.py` and `clients/build.py` make them. And the API's schema, which Redoc shows at `/docs/`.
"""

import json
import threading
from functools import cache
from pathlib import Path
from typing import Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp
from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.core.exceptions import SuspiciousFileOperation
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import cache_control
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe
from django.views.static import serve
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

from foundation.backoffice import gate

#: The back office's policy, for pages that evaluate nothing and have no inline styles.
_POLICY = {**gate.POLICY, "script-src": [SELF], "style-src": [SELF]}
#: The reference's, which the guide's search finds too. Redoc's styles are inline, its search is a worker.
_REFERENCE_POLICY = {**_POLICY, "worker-src": ["blob:"], "style-src": [SELF, UNSAFE_INLINE]}

#: The addresses that the pages are written with.
_SANDBOX, _LABORATORY = "https://sandbox.example", "https://simulador.example/lab/"

_YAML = OpenApiYamlRenderer.media_type
#: The media types for `Accept`, with their file endings. The first one is the default.
_FORMATS = {
    _YAML: "yaml",
    "application/yaml": "yaml",
    "application/json": "json",
    OpenApiJsonRenderer.media_type: "json",
}

_REDOC = "drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"
#: What Redoc says in English and has no setting for, with what surrounds it there, and its Portuguese. The last one:
#: nothing is loaded from another host.
PORTUGUESE: dict[str, str] = json.loads((settings.BASE_DIR / "locale/pt_BR/redoc.json").read_text("utf-8"))

_generating = threading.Lock()


@require_safe
@gzip_page
@csp(_POLICY)
def guide_page(request: HttpRequest, path: str = "index.html") -> HttpResponseBase:
    """A page of the guide or one of its files. 404 for any other path, and if the guide was not generated.

    Outside production, pages name this service and its laboratory in place of example hosts, for copying."""
    response = _file(request, path, settings.GUIDE_ROOT / "partners")
    file = response.file_to_stream if isinstance(response, FileResponse) else None
    if file is None or not path.endswith(".html") or not settings.LABORATORY_URL:
        return response
    with file:  # to close the response would tell everybody that the request has ended
        text = file.read().decode()
    for host, address in {_SANDBOX: settings.PUBLIC_BASE_URL, _LABORATORY: settings.LABORATORY_URL}.items():
        text = text.replace(host, address)
    return HttpResponse(text)


@require_safe
@gzip_page
@csp(_POLICY)
def team_page(request: HttpRequest, path: str = "index.html") -> HttpResponseBase:
    """As `guide_page`, for the operators' guide and the developers' pages, which partners do not see."""
    return _file(request, path, settings.GUIDE_ROOT / "team")


@require_safe
def client(request: HttpRequest, name: str) -> HttpResponseBase:
    """A client's package. 404 for any other name, and if the clients were not built."""
    response = _file(request, name, settings.CLIENTS_ROOT)
    # A `.tgz` is a file, not the encoding of one: a downloader would unpack it.
    response.headers.pop("Content-Encoding", None)
    return response


def _file(request: HttpRequest, path: str, root: Path) -> HttpResponseBase:
    """The file `path` below `root`. Raises Http404 if there is none, also for a name that no file can have."""
    try:
        return serve(request, path, document_root=str(root))
    except (OSError, SuspiciousFileOperation):  # the name is too long, or leads out of the folder
        raise Http404 from None


@require_safe
@gzip_page
@csp(_REFERENCE_POLICY)
def reference(request: HttpRequest) -> HttpResponse:
    """Redoc, which shows the schema with a menu and a search."""
    return render(request, "config/reference.html", {"laboratory": settings.LABORATORY_URL})


@require_safe
@gzip_page
@cache_control(public=True, max_age=86400)
def script(request: HttpRequest) -> HttpResponse:
    """Redoc, in Portuguese."""
    return HttpResponse(_redoc(), content_type="text/javascript; charset=utf-8")


@cache
def _redoc() -> str:
    text = Path(str(find(_REDOC))).read_text("utf-8")
    for english, portuguese in PORTUGUESE.items():
        text = text.replace(english, portuguese)
    return text


@require_safe
@gzip_page
def schema(request: HttpRequest) -> HttpResponse:
    """The OpenAPI schema, public: JSON if `Accept` or `?format=json` asks for it, otherwise YAML."""
    preferred = request.get_preferred_type(list(_FORMATS)) or _YAML
    ending = request.GET.get("format", _FORMATS[preferred])
    is_json = ending == "json"
    response = HttpResponse(
        _rendered(OpenApiJsonRenderer if is_json else OpenApiYamlRenderer),
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
def _rendered(renderer: type[OpenApiJsonRenderer | OpenApiYamlRenderer]) -> bytes:
    return bytes(renderer().render(document(), renderer_context={}))
