"""The base classes of the API's routes."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.views import APIView

from foundation.errors import InvalidInput, MethodNotAllowed, UnsupportedMediaType
from foundation.fields import Block
from foundation.json import body_length, is_json, parse_json_object, read_body
from foundation.validation import ignored, validated
from partners import limits
from partners.authentication import key_of, while_active
from partners.limits import Usage
from partners.models import ApiKey, Partner

#: How many ignored fields a response names, and the longest name that it tells: proxies refuse long headers.
MOST_IGNORED, LONGEST_IGNORED = 20, 100


class ApiView(APIView):
    """A route of the API. The API reference is made of REST framework's class; requests and responses are Django's."""

    request: HttpRequest  # type: ignore[assignment]  # not wrapped into one of REST framework
    #: True if the caller is a partner, which has a key.
    needs_key = False
    # OPTIONS is treated like any other unsupported method: 405, and not listed in `Allow`.
    http_method_names = [name for name in APIView.http_method_names if name != "options"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            self.admit()
            name = (request.method or "").lower()
            method = getattr(self, name, None) if name in self.http_method_names else None
            if method is None:
                raise MethodNotAllowed
            response: HttpResponseBase = method(request, *args, **kwargs)
        except Exception as exc:
            response = self.fail(exc)
        self.finish(response)
        # Django adds this method if there is a method `get`. View and method refer to each other, so that only a
        # garbage collection would free them, which stops the process for up to a third of a second.
        self.__dict__.pop("head", None)
        return response

    def admit(self) -> None:
        """Check whether the caller may use the route, whatever its method. Raises ApiError."""

    def fail(self, exc: Exception) -> HttpResponse:
        """The answer to `exc`: the error object, unless the route has another."""
        return cast("HttpResponse", self.get_exception_handler()(exc, {"view": self}))

    def finish(self, response: HttpResponseBase) -> None:
        """Set the headers that every response of the route has."""
        response.headers["Allow"] = ", ".join(self.allowed_methods)


class PartnerView(ApiView):
    """A route that checks the key (401), the partner's limit of calls (429), and then the method (405). Its methods
    call `valid()`, which checks the body (413, 415, 422). A route that counts against other limits calls `usage`."""

    needs_key = True
    #: The key of the call.
    api_key: ApiKey
    #: The call's use of its partner's limits. None before the key is checked, and on a route without a key.
    _usage: Usage | None = None
    #: The fields of the body that the route ignores.
    _ignored: Sequence[str] = ()

    def admit(self) -> None:
        if self.needs_key:
            self.api_key = key_of(self.request)
            self._usage = Usage(self.partner)
            self._usage.count_call()

    def finish(self, response: HttpResponseBase) -> None:
        """Set the headers of the partner's limits, and `Cache-Control: no-store` unless the view set that header,
        because responses contain holders' data. A stream ends with its key (`while_active`)."""
        super().finish(response)
        response.headers.setdefault("Cache-Control", "no-store")
        for name, value in limits.headers(self._usage.quotas if self._usage else ()).items():
            response.headers[name] = value
        if self._ignored:
            response.headers["X-Ignored-Fields"] = ", ".join(self._ignored)
        if self._usage and isinstance(response, StreamingHttpResponse):
            response.streaming_content = while_active(self.api_key, iter(response))

    @property
    def usage(self) -> Usage:
        if self._usage is None:
            raise RuntimeError("no key was checked")
        return self._usage

    @property
    def partner(self) -> Partner:
        return self.api_key.partner

    @property
    def request_id(self) -> str:
        """The id that the log lines and bank calls of this request share, set by `config/middleware.py`."""
        return cast("str", self.request.request_id)  # type: ignore[attr-defined]

    def valid(self, block: type[Block], *, optional: bool = False) -> dict[str, Any]:
        """The validated JSON body. Raises InvalidInput that names the faults, and what `body` raises."""
        return validated(block, self.body(block, optional=optional))

    def body(self, block: type[Block], *, optional: bool = False) -> dict[str, Any]:
        """Read the JSON body, which `block` is to validate. With `optional`, a missing body counts as `{}`. Outside of
        production the response names the fields that `block` ignores. Raises UnsupportedMediaType, PayloadTooLarge, and
        InvalidInput if the body is not a JSON object."""
        is_empty = not body_length(self.request)
        if is_empty and optional:
            return {}
        if not is_json(self.request.headers.get("Content-Type")):
            raise UnsupportedMediaType
        if is_empty:
            raise InvalidInput("O corpo está vazio; envie um objeto JSON.")
        sent = parse_json_object(read_body(self.request))
        if not settings.PRODUCTION:
            names = (name for name in ignored(block, sent) if len(name) <= LONGEST_IGNORED)
            self._ignored = list(islice(names, MOST_IGNORED))
        return sent
