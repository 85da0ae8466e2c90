"""One HTTP call to the service, and when it is made again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from random import uniform
from typing import Any, TypeVar

import requests
from requests import exceptions

T = TypeVar("T")
#: Seconds to connect, and seconds in which a byte must come. The service answers within 35 s; a stream tells every few
#: seconds that it lives.
TIMEOUT_S = (5, 60)
LONGEST_PAUSE_S = 30.0

_log = logging.getLogger("origination")
_RETRYABLE = (408, 429, 500, 502, 503, 504)


class OriginationError(Exception):
    """Base of this package's errors. Their texts have no personal data."""

    code = ""
    retryable = False
    #: Seconds that the service asks to wait.
    retry_after_s = 0.0
    #: The stored proposal that the error is about.
    proposal_id: str | None = None


class NoAnswer(OriginationError):
    """The service could not be reached, or its answer was cut off. What the call did is not known."""

    retryable = True


class ApiError(OriginationError):
    """The service refused. `body` is its whole JSON object (`types.Error`), with `details` or `replacement`. Name the
    `request_id` when you ask about the call."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.status, self.body, self.request_id = status, body, headers.get("X-Request-Id", "")
        told = headers.get("Retry-After", "")
        self.retry_after_s = float(told) if told.isascii() and told.isdecimal() else 0.0
        #: `http_503`, for example, where something between client and service answered.
        self.code = body.get("code") or f"http_{status}"
        self.message: str = body.get("message") or ""
        self.field: str | None = body.get("field")
        self.retryable = bool(body.get("retryable", status in _RETRYABLE))
        self.proposal_id = body.get("proposal_id")
        super().__init__(" ".join(filter(None, (f"{status} {self.code}", self.field, self.message, self.request_id))))


class Patience:
    """The pauses between tries: at first `pause_s`, doubled each time, as long as the service asks for, with some
    chance. `seconds` is the whole time; None never ends."""

    def __init__(self, seconds: float | None, pause_s: float) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self._pause_s = pause_s

    def wait(self, fault: OriginationError, what: str) -> None:
        """Sleep before the next try. Raises `fault` if another try can't help, or if it would come too late."""
        pause_s = max(self._pause_s * uniform(0.5, 1), fault.retry_after_s * uniform(1, 1.1))  # noqa: S311 - no secret
        if not fault.retryable or (self._until is not None and time.monotonic() + pause_s > self._until):
            raise fault
        _log.warning("%s again in %.1f s: %s", what, pause_s, fault)
        time.sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def run(self, what: str, call: Callable[[], T], final: Collection[str] = ()) -> T:
        """What `call` returns, made again while that may help. Raises its last error, and at once one whose code is
        among `final`."""
        while True:
            try:
                return call()
            except OriginationError as fault:
                if fault.code in final:
                    raise
                self.wait(fault, what)


class Http:
    """The service's address, the key, and the connections."""

    def __init__(self, url: str, key: str, session: requests.Session | None) -> None:
        self._base = f"{url.rstrip('/')}/partners/v1"
        self._key = key
        self._session = session or requests.Session()

    def open(
        self, method: str, path: str, body: Any = None, params: Any = None, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        """The response, not yet read. Raises NoAnswer, or ApiError unless its status is 2xx."""
        with answering(f"{method} {path}"):
            response = self._session.request(
                method,
                self._base + path,
                json=body,
                params=params,
                headers={"X-Partner-Api-Key": self._key, **(headers or {})},
                timeout=TIMEOUT_S,
                stream=True,
                allow_redirects=False,
            )
            if response.status_code // 100 == 2:
                return response
            with response:
                raise ApiError(response.status_code, _object(response), response.headers)

    def json(self, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        """The reply's JSON. Raises NoAnswer, or ApiError unless its status is 2xx."""
        with answering(f"{method} {path}"), self.open(method, path, body, params) as response:
            return response.json()


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Raises NoAnswer in place of what `requests` raises where the answer does not come, or not whole."""
    try:
        yield
    except requests.RequestException as fault:
        if isinstance(fault, ValueError) and not isinstance(fault, exceptions.JSONDecodeError):
            raise  # an address or a header that can't be sent
        # The fault's own text has the address, which may have a password.
        raise NoAnswer(f"{what}: {type(fault).__name__}") from None


def _object(response: requests.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except exceptions.JSONDecodeError:
        return {}  # a proxy's page
    return found if isinstance(found, dict) else {}
