"""Serves the partners' guide at `/docs/guia/`, the clients at `/docs/clientes/`, and the team's pages to operators.
`config/local/guide.py` and `clients/build.py` make them."""

from pathlib import Path

from csp.constants import SELF
from csp.decorators import csp
from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe
from django.views.static import serve

from foundation.backoffice import gate

#: The back office's policy, for pages that evaluate nothing and have no inline styles.
POLICY = {**gate.POLICY, "script-src": [SELF], "style-src": [SELF]}

#: The addresses that the pages are written with.
_SANDBOX, _LABORATORY = "https://sandbox.example", "https://simulador.example/lab/"


@require_safe
@gzip_page
@csp(POLICY)
def page(request: HttpRequest, path: str = "index.html") -> HttpResponseBase:
    """A page of the guide or one of its files. 404 for any other path, and if the guide was not generated.

    Outside production, pages name this service and its laboratory where they were written with example hosts, so that
    a reader can copy each call."""
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
@csp(POLICY)
def team_page(request: HttpRequest, path: str = "index.html") -> HttpResponseBase:
    """As `page`, for the operators' guide and the developers' pages, which partners do not see."""
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
    except OSError:  # the name is too long
        raise Http404 from None
