"""The API's schema, for generators and for `/docs/`, where Redoc shows it (docs/decisions/0070)."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp
from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import cache_control
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer

from config.guide import POLICY

#: As the guide's pages, whose search finds the reference too. Redoc's styles are inline, its search is a worker.
_POLICY = {**POLICY, "worker-src": ["blob:"], "style-src": [SELF, UNSAFE_INLINE]}
_YAML = OpenApiYamlRenderer.media_type
#: The media types for `Accept`, with their file endings. The first one is the default.
_FORMATS = {
    _YAML: "yaml",
    "application/yaml": "yaml",
    "application/json": "json",
    OpenApiJsonRenderer.media_type: "json",
}

_REDOC = "drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"
#: What Redoc says in English and has no setting for, with what surrounds it there, and its Portuguese.
PORTUGUESE = {
    'placeholder:"Search...","aria-label":"Search"': 'placeholder:"Buscar…","aria-label":"Buscar"',
    '"Copied":"Not supported in your browser",open:t},"Copy")': '"Copiado":"O navegador não copia",open:t},"Copiar")',
    '" Expand all "': '" Abrir tudo "',
    '" Collapse all "': '" Fechar tudo "',
    'pg,null,"Content type")': 'pg,null,"Tipo do corpo")',
    'pg,null,"Example")': 'pg,null,"Exemplo")',
    'label:"Payload",source': 'label:"Corpo",source',
    '"Authorizations:"': '"Chave:"',
    '"Request Body schema: "': '"Corpo da chamada: "',
    '"Response Schema: "': '"Corpo da resposta: "',
    '" Response Headers "': '" Cabeçalhos da resposta "',
    'vp,null,e," Parameters")': 'vp,null,{path:"Na rota",query:"Na busca",header:"Nos cabeçalhos"}[e]||e)',
    'oneOfType="One of"': 'oneOfType="Um de"',
    'Jg,null,"required")': 'Jg,null,"obrigatório")',
    'qv,null,"required")': 'qv,null,"obrigatório")',
    'Bv,null,"optional")': 'Bv,null,"opcional")',
    '" or "': '" ou "',
    "+=` or ${": "+=` ou ${",
    'Zg,null,"additional property")': 'Zg,null,"outra chave")',
    '"Loading ..."': '"Carregando…"',
    'ca("characters",': 'ca("caracteres",',
    'ca("items",': 'ca("itens",',
    '"non-empty"': '"não vazio"',
    '"Hide pattern":"Show pattern"': '"Esconder o padrão":"Mostrar o padrão"',
    '"property name").concat': '"nome").concat',
    'enum:"Enum",enumSingleValue:"Value",enumArray:"Items",default:"Default",deprecated:"Deprecated",example:"Example",'
    'examples:"Examples",recursive:"Recursive",arrayOf:"Array of ",webhook:"Event",const:"Value",'
    'noResultsFound:"No results found",download:"Download",downloadSpecification:"Download OpenAPI specification",'
    'responses:"Responses",callbackResponses:"Callback responses",requestSamples:"Request samples",'
    'responseSamples:"Response samples"': 'enum:"Valores",enumSingleValue:"Valor",enumArray:"Itens",default:"Padrão",'
    'deprecated:"Em desuso",example:"Exemplo",examples:"Exemplos",recursive:"Recursivo",arrayOf:"Lista de ",'
    'webhook:"Evento",const:"Valor",noResultsFound:"Nada encontrado",download:"Baixar",'
    'downloadSpecification:"O documento OpenAPI",responses:"Respostas",callbackResponses:"Respostas",'
    'requestSamples:"Exemplos da chamada",responseSamples:"Exemplos da resposta"',
    '"https://cdn.redoc.ly/redoc/logo-mini.svg"': '"data:,"',  # nothing is loaded from another host
}

_generating = threading.Lock()


@require_safe
@gzip_page
@csp(_POLICY)
def page(request: HttpRequest) -> HttpResponse:
    """The reference, with a menu and a search."""
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
