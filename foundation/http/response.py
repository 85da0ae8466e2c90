"""The response to one request, parsed by httptools."""

from collections.abc import Mapping
from http import HTTPStatus

from httptools import HttpParserError, HttpResponseParser
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import InvalidHeader
from urllib3.util import Retry

from foundation.http.errors import Malformed

#: The most bytes of a response, besides its body. A chunk of one byte takes six bytes more, so a body adds to them.
_MOST_AROUND = 65536
_AROUND_A_BYTE = 8
#: After this many interim responses (1xx) no final one is awaited.
_MOST_INTERIM = 10
#: Reads a `Retry-After`. It would cut seconds to six hours; whoever waits has a limit of its own.
_RETRY = Retry(retry_after_max=10**9)


class Response:
    """The final response to one request. The methods `on_…` are called by the parser."""

    def __init__(self) -> None:
        self.status = 0
        self.headers = HTTPHeaderDict()
        self.body: list[bytes] = []
        self.size = 0
        self.has_head = False
        self.is_complete = False
        #: True if no other request may use the connection.
        self.is_last = True
        #: How many bytes arrived.
        self.received = 0
        self.fault: Malformed | None = None
        self._interim = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        # RFC 9112, 2.2: a recipient may take a line feed alone for the end of a line.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)

    def feed(self, data: bytes) -> None:
        """Parse the bytes that arrived, empty at the end of the connection.

        Raises Malformed or, if the connection ended before an answer, ConnectionResetError. A fault behind the head is
        kept in `fault`, because the status counts nevertheless.
        """
        try:
            self._feed(data)
        except Malformed as fault:
            if not self.has_head:
                raise
            self.fault = fault

    def _feed(self, data: bytes) -> None:
        self.received += len(data)
        if not data:
            self._end()
        elif self._parser is not None:
            try:
                self._parser.feed_data(data)
            except HttpParserError:
                # What follows a complete response was sent without being asked for.
                if not self.is_complete:
                    raise Malformed from None
                self.is_last = True
        if self.received > _MOST_AROUND + self.size * _AROUND_A_BYTE:
            raise Malformed
        if not self.has_head and self._interim >= _MOST_INTERIM:
            raise Malformed
        if self.is_complete:
            self._parser = None  # parser and response refer to each other

    def _end(self) -> None:
        """The connection ended. That is the end of a body without a length."""
        if not self.has_head and not self.received:
            raise ConnectionResetError
        if not self.has_head or "content-length" in self.headers or "transfer-encoding" in self.headers:
            raise Malformed
        self.is_complete = True

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.is_last = True
        elif not self.has_head:
            self.headers = HTTPHeaderDict()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # not a field behind a body in chunks, or of another response
            self.headers.add(name.decode("latin-1"), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        """RFC 9110, 15.2: any number of interim responses (1xx) may come before the final one."""
        if self._parser is None or self.has_head:
            return
        self.status = self._parser.get_status_code()
        self.has_head = self.status >= HTTPStatus.OK
        self._interim += not self.has_head

    def on_body(self, data: bytes) -> None:
        if not self.is_complete:
            self.body.append(data)
            self.size += len(data)

    def on_message_complete(self) -> None:
        if self.has_head and not self.is_complete and self._parser is not None:
            self.is_complete, self.is_last = True, not self._parser.should_keep_alive()


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After`, a number or an HTTP date, as seconds from now. None if absent or unreadable."""
    try:
        return _RETRY.parse_retry_after(headers.get("Retry-After", ""))
    except (InvalidHeader, ValueError, OverflowError):
        return None
