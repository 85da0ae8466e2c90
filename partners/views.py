"""The base class of every route that needs a partner's key."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.views import APIView

from foundation.errors import InvalidInput, UnsupportedMediaType
from foundation.fields import Block
from foundation.json import is_json, parse_json_object, read_body
from foundation.validation import ignored, validated
from partners import limits
from partners.authentication import while_active
from partners.limits import Usage
from partners.models import ApiKey, Partner

#: How many ignored fields a response names, and the longest name that it tells: proxies refuse long headers.
MOST_IGNORED, LONGEST_IGNORED = 20, 100


class PartnerView(APIView):
    """A route that checks the key (401), the partner's limit of calls (429), and then the method (405). Its methods
    call `valid()`, which checks the body (413, 415, 422). A route that counts against other limits calls `usage`."""

    #: The call's use of its partner's limits. None before the key is checked, and on a route without a key.
    _usage: Usage | None = None
    #: The fields of the body that the route ignores.
    _ignored: Sequence[str] = ()

    # OPTIONS is treated like any other unsupported method: 405, and not listed in `Allow`.
    http_method_names = [name for name in APIView.http_method_names if name != "options"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer `request`.

        Request and view of REST framework refer to each other. That is undone here, so that they are freed
        when the response has been sent. Otherwise thousands of calls would be freed together by a garbage collection,
        which stops the process for up to a third of a second.
        """
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        self.request.parser_context = {}
        self.__dict__.pop("head", None)  # the view's own method, which Django adds if there is a method `get`
        return response

    def finalize_response(  # type: ignore[override]  # DRF accepts any HttpResponse, its stubs only DRF's own
        self, request: Request, response: HttpResponseBase, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """The response with the headers of the partner's limits, and with `Cache-Control: no-store` unless the view set
        that header, because responses contain holders' data. A stream ends at the first event after its key's
        end or its partner's suspension."""
        response = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[arg-type]
        response.headers.setdefault("Cache-Control", "no-store")
        for name, value in limits.headers(self._usage.quotas if self._usage else ()).items():
            response.headers[name] = value
        if self._ignored:
            response.headers["X-Ignored-Fields"] = ", ".join(self._ignored)
        if self._usage and isinstance(response, StreamingHttpResponse):
            response.streaming_content = while_active(self.api_key, iter(response))
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the key, then count the call. The holder's routes have no key and no limit of calls."""
        super().initial(request, *args, **kwargs)
        if self.authentication_classes:
            self._usage = Usage(self.partner)
            self._usage.count_call()

    @property
    def usage(self) -> Usage:
        """The call's use of its partner's limits."""
        if self._usage is None:
            raise RuntimeError("no key was checked")
        return self._usage

    @property
    def partner(self) -> Partner:
        """The calling partner."""
        return cast("Partner", self.request.user)

    @property
    def api_key(self) -> ApiKey:
        """The key of the call."""
        return cast("ApiKey", self.request.auth)

    @property
    def request_id(self) -> str:
        """The id that the log lines and bank calls of this request share, set by `config/middleware.py`."""
        return cast("str", self.request.request_id)  # type: ignore[attr-defined]

    def valid(self, block: type[Block], *, optional: bool = False) -> dict[str, Any]:
        """The validated JSON body. With `optional`, a missing body counts as `{}`.

        Raises UnsupportedMediaType, PayloadTooLarge, and InvalidInput that names the faults.
        """
        return validated(block, self.body(block, optional=optional))

    def body(self, block: type[Block], *, optional: bool = False) -> dict[str, Any]:
        """Read the JSON body, which `block` is to validate. With `optional`, a missing body counts as `{}`. Outside of
        production the response names the fields that `block` ignores.

        Raises UnsupportedMediaType, PayloadTooLarge, and InvalidInput if the body is not a JSON object.
        """
        stream = self.request.stream
        if stream is None and optional:
            return {}
        if not is_json(self.request.content_type):
            raise UnsupportedMediaType
        if stream is None:
            raise InvalidInput("O corpo está vazio; envie um objeto JSON.")
        sent = parse_json_object(read_body(stream))
        if not settings.PRODUCTION:
            names = (name for name in ignored(block, sent) if len(name) <= LONGEST_IGNORED)
            self._ignored = list(islice(names, MOST_IGNORED))
        return sent
