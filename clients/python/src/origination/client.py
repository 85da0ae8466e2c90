"""The calls of the API. Each goes on after whatever cut it off."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import requests

from origination import types
from origination.calls import ApiError, Http, NoAnswer, OriginationError, Patience, answering
from origination.webhooks import Event

#: Milliseconds until a query tells its `queryId`, with what has come by then; seconds between later looks.
FIRST_LOOK_MS, LOOK_EVERY_S = 5000, 1.0
#: A query's answer where every bank failed: its result, and no reason to ask all of them again at once.
ALL_BANKS_FAILED = "provider_unavailable"


class OutcomeUnknown(OriginationError):
    """The submission may have reached the bank. Call `submit` again with the same body, now or later: nothing is sent
    twice. `proposal_id` is None where the service never told it."""

    retryable = True

    def __init__(self, proposal_id: str | None) -> None:
        super().__init__(f"the outcome of proposal {proposal_id or '(not told)'} is not known yet")
        self.proposal_id = proposal_id


class Client:
    """The API with one key. Threads may share it.

    A call that gets no answer, 429, or an error that may pass is made again for `patience_s` seconds: first after about
    `pause_s` seconds, and never before `Retry-After`. Then its last error is raised. `session` is for proxies and
    certificates of your own.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience_s: float = 300,
        pause_s: float = 1,
        session: requests.Session | None = None,
    ) -> None:
        self._http = Http(url, key, session)
        self._patience_s, self._pause_s = patience_s, pause_s

    def call(self, method: str, path: str, body: Any = None, params: Any = None) -> Any:
        """The JSON of any route below `/partners/v1`: `call("GET", "/providers")`. Raises ApiError or NoAnswer."""
        return self._patience().run(f"{method} {path}", partial(self._http.json, method, path, body, params))

    def query(self, body: types.AggregatedQueryRequest) -> types.AggregatedResponse:
        """The query with every bank's result. If `body` has `max_wait_ms`: with the results that came by then.

        Raises ApiError, with the code `provider_unavailable` if every bank failed.
        """
        begin = partial(self._http.json, "POST", "/consultas", {"max_wait_ms": FIRST_LOOK_MS, **body})
        begun: types.AggregatedResponse = self._patience().run("POST /consultas", begin, final=(ALL_BANKS_FAILED,))
        return begun if begun["complete"] or "max_wait_ms" in body else self.resume(begun["queryId"])

    def resume(self, query_id: str) -> types.AggregatedResponse:
        """The query `query_id` once every bank has its result, whoever began it and by whichever route."""
        until = time.monotonic() + self._patience_s
        while True:
            found: types.AggregatedResponse = self.call("GET", f"/consultas/{query_id}")
            if found["complete"]:
                return found
            if time.monotonic() > until:
                raise NoAnswer(f"the query {query_id} has not ended")
            time.sleep(LOOK_EVERY_S)

    def stream(self, body: types.QueryRequest | None = None, *, query_id: str = "", last_event_id: str = "") -> Stream:
        """A query's events as they come, each once: of a new query with `body`, or of the query `query_id`, after its
        event `last_event_id`."""
        return Stream(self._http, self._patience, body, query_id, last_event_id)

    def submit(self, body: types.SubmissionRequest) -> types.Proposal:
        """The proposal as the bank has it. The same body gives the same proposal, also after a crash.

        Raises ApiError if there is no proposal, and OutcomeUnknown if that could not be learnt in time.
        """
        patience, is_open, proposal_id = self._patience(), False, None
        while True:
            try:
                return cast("types.Proposal", self._http.json("POST", "/proposals", body))
            except OriginationError as fault:
                proposal_id = fault.proposal_id or proposal_id
                is_open = _stays_open(fault, is_open)
                try:
                    patience.wait(fault, "POST /proposals")
                except OriginationError:
                    if is_open:
                        raise OutcomeUnknown(proposal_id) from fault
                    raise

    def formalize(self, proposal_id: str, body: types.FormalizeRequest | None = None) -> types.Proposal:
        """Have the bank issue the contract. The holder signs at `action["url"]`."""
        return cast("types.Proposal", self.call("POST", f"/proposals/{proposal_id}/formalize", body or {}))

    def cancel(self, proposal_id: str, body: types.CancelRequest | None = None) -> types.Proposal:
        """Cancel the proposal, where the bank can. Raises ApiError with the code `not_supported` where it can't."""
        return cast("types.Proposal", self.call("POST", f"/proposals/{proposal_id}/cancel", body or {}))

    def proposal(self, proposal_id: str) -> types.ProposalDetail:
        """The proposal with its history. `status` is `unknown` while nobody knows whether the bank has it."""
        return cast("types.ProposalDetail", self.call("GET", f"/proposals/{proposal_id}"))

    def events(self, cursor: str = "", *, wait_s: int = 25, **filters: str) -> Iterator[Event]:
        """Your events in order, each once, from the oldest kept or after `cursor`. Without end; with `wait_s=0`, up to
        the newest.

        Store `event.cursor` together with what you do for the event, and begin there next time. `filters` are those of
        `GET /webhook-events`, such as `event="proposal"`. A broken network is waited out, however long. Raises ApiError
        where waiting can't help.
        """
        page_cursor, _, handled = cursor.partition(",")
        while True:
            params = {"order": "asc", "include": "body", "wait_s": wait_s, "cursor": page_cursor, **filters}
            read = partial(self._http.json, "GET", "/webhook-events", params=params)
            page = Patience(None, self._pause_s).run("GET /webhook-events", read)
            ids = [row["id"] for row in page["events"]]
            for row in page["events"][ids.index(handled) + 1 if handled in ids else 0 :]:
                # Inside a page, the page's own cursor and the event after which to go on.
                here = page["next_cursor"] if row["id"] == ids[-1] else f"{page_cursor},{row['id']}"
                yield Event(row["id"], row["event"], row["body"], cursor=here)
            if not ids and not wait_s:
                return
            page_cursor, handled = page["next_cursor"], ""

    def _patience(self) -> Patience:
        return Patience(self._patience_s, self._pause_s)


class Stream:
    """A query's events. To go on elsewhere, store `query_id` and `last_event_id` with each event's results."""

    def __init__(
        self, http: Http, patience: Callable[[], Patience], body: Any, query_id: str, last_event_id: str
    ) -> None:
        self._http, self._patience, self._body = http, patience, body
        self.query_id, self.last_event_id = query_id, last_event_id
        self._is_complete = False

    def __iter__(self) -> Iterator[types.StreamEvent]:
        patience = self._patience()
        while not self._is_complete:
            try:
                for event in self._connected():
                    patience = self._patience()
                    yield event
            except (NoAnswer, ApiError) as fault:
                patience.wait(fault, "the stream")

    def _connected(self) -> Iterator[types.StreamEvent]:
        """The events of one connection. Raises NoAnswer where it ends before the query."""
        with answering("the stream"), self._opened() as response:
            self._is_complete = response.status_code == requests.codes.no_content
            event_id = data = b""
            for line in response.iter_lines():
                name, _, value = line.partition(b": ")
                if name == b"id":
                    event_id = value
                elif name == b"data":
                    data = value
                elif not line and data:  # an event counts once its empty line has come
                    event: types.StreamEvent = json.loads(data)
                    data = b""
                    self.query_id, self.last_event_id = event["queryId"], event_id.decode()
                    self._is_complete = event["event"] == "complete"
                    yield event
        if not self._is_complete:
            raise NoAnswer("the stream ended before the query")

    def _opened(self) -> requests.Response:
        if not self.query_id:
            return self._http.open("POST", "/consultas/stream", self._body)
        after = {"Last-Event-ID": self.last_event_id} if self.last_event_id else {}
        return self._http.open("GET", f"/consultas/{self.query_id}/stream", headers=after)


def _stays_open(fault: OriginationError, was_open: bool) -> bool:
    """True if nobody knows whether the bank has the proposal, after a try that ended in `fault`."""
    if not isinstance(fault, ApiError):
        return True
    if fault.status == requests.codes.too_many_requests:
        return was_open  # this try did nothing
    if fault.retryable:
        return True
    # A refusal of this proposal settles it. Any other, of the key for example, tells nothing about an earlier try.
    return was_open and fault.proposal_id is None
