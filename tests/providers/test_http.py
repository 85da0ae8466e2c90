"""Requests to banks (`providers/http.py`, `foundation/http/`) against a server of plain sockets that misbehaves."""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from foundation.http import client
from foundation.http.client import Exchange, Request
from foundation.http.way import Rules, Way
from providers import http
from providers.errors import BankFailure, ProviderError, ProviderUnavailable
from providers.http import Reply, repeated, send
from tests.raw_server import OK, Server, breaking_off

WAY = Way(Rules(private_hosts=None), most_idle=4)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def ask(server: Server, *, safe: bool = False, seconds: float = 5, **changes: object) -> Reply:
    asked = {"method": "POST", "path": "/query", "body": b'{"a":1}', "headers": {"X-Request-Id": "r-1"}, **changes}
    request = Request(safe=safe, **asked)  # type: ignore[arg-type]
    end = time.monotonic() + seconds
    return repeated(lambda: send(request, server.url, [WAY], deadline=end, timeout_s=20), safe=safe)


def failure(server: Server, **options: object) -> ProviderUnavailable:
    with pytest.raises(ProviderUnavailable) as raised:
        ask(server, **options)  # type: ignore[arg-type]
    return raised.value


def test_a_request_goes_out_whole_and_its_connection_is_used_again(server: Server) -> None:
    replies = [ask(server) for _ in range(3)]
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"{}")] * 3
    assert replies[0].headers["content-type"] == "application/json"
    assert server.opened == 1
    host = server.url.split("/")[2]
    assert server.requests[0].decode() == (
        f"POST /bank/query HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
        'User-Agent: origination/1\r\nX-Request-Id: r-1\r\nContent-Length: 7\r\n\r\n{"a":1}'
    )


def test_a_get_has_no_length_and_an_empty_post_has_one(server: Server) -> None:
    ask(server, method="GET", body=b"")
    ask(server, body=b"")
    assert b"Content-Length" not in server.requests[0]
    assert b"Content-Length: 0\r\n" in server.requests[1]


def test_a_connection_that_the_bank_closed_is_not_used_again_even_by_an_unsafe_request(server: Server) -> None:
    ask(server)
    server.hang_up()
    assert ask(server).status == 200
    assert (server.opened, len(server.requests)) == (2, 2)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PIECES = b"".join(b"1\r\n%c\r\n" % digit for digit in b"[" + b"1" * 40_000 + b"]")


@pytest.mark.parametrize(
    ("answer", "body", "is_kept"),
    [
        pytest.param(OK + b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"another":1}', b"{}", False, id="one more"),
        (HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}", False),
        (CHUNKS + b'2\r\n{"\r\n5;x=y\r\na":1}\r\n0\r\n\r\n', b'{"a":1}', True),
        (CHUNKS + b"1\r\n{\r\n1\r\n}\r\n0\r\nX-Sum: 1\r\n\r\n", b"{}", True),
        pytest.param(CHUNKS + PIECES + b"0\r\n\r\n", b"[" + b"1" * 40_000 + b"]", True, id="many pieces"),
        (breaking_off(HEAD + b"\r\n{", b"}"), b"{}", False),  # without a length
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}", b"{}", True),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", b"{}", True),
        (b"HTTP/1.1 200 \xc9 isso\r\nX-Nome: Jos\xe9\r\nContent-Length:2\r\n\r\n{}", b"{}", True),
    ],
)
def test_what_is_valid_is_read_and_its_connection_kept_if_it_may_be(
    server: Server, answer: bytes | Callable[[socket.socket], None], body: bytes, is_kept: bool
) -> None:
    """An answer that nobody asked for is not taken for the next one's."""
    server.answers = [answer, OK]
    assert [ask(server).body, ask(server).body] == [body, b"{}"]
    assert server.opened == (1 if is_kept else 2)


@pytest.mark.parametrize("interim", [b"102 Processing", b"103 Early Hints", b"100 Continue"])
def test_the_answer_behind_an_interim_one_is_the_requests_own(server: Server, interim: bytes) -> None:
    """Before the fix, a 103 counted as the answer, and the next request on its connection got this one's answer."""

    def late(sock: socket.socket) -> None:
        sock.sendall(b"HTTP/1.1 " + interim + b"\r\nLink: </x>\r\n\r\n")
        time.sleep(0.1)
        sock.sendall(OK.replace(b"{}", b"[]"))

    server.answers = [late, OK]
    assert ask(server).body == b"[]"
    assert (ask(server).body, server.opened) == (b"{}", 1)


TOO_LARGE = http.MAX_REPLY_BYTES + 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", ProviderUnavailable, id="another protocol"),
        pytest.param(b"HTTP/1.1 103 \r\n\r\n" * 20, ProviderUnavailable, id="interim without end"),
        pytest.param(HEAD + b"X-Endless: " + b"x" * 70_000, ProviderUnavailable, id="header without end"),
        pytest.param(HEAD + b"X-Many: x\r\n" * 7000, ProviderUnavailable, id="headers without end"),
        pytest.param(
            CHUNKS + b"2\r\n{}\r\n0\r\nX-Trailer: " + b"x" * 70_000, ProviderUnavailable, id="endless trailer"
        ),
        pytest.param(
            HEAD + b"Content-Length: %d\r\n\r\n" % TOO_LARGE + b"x" * TOO_LARGE, ProviderError, id="too large"
        ),
        pytest.param(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", ProviderError, id="encoding"),
    ],
)
def test_what_is_no_answer_is_given_up_at_once_and_its_connection_not_used_again(
    server: Server, answer: bytes, error: type[BankFailure]
) -> None:
    server.answers = [answer, OK]
    with pytest.raises(error) as raised:
        ask(server)
    assert (type(raised.value), raised.value.sent, raised.value.message) == (error, True, error.default_message)
    assert (ask(server).body, server.opened) == (b"{}", 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{}",
    ],
)
def test_a_body_that_breaks_off_is_no_answer_and_not_asked_for_again(server: Server, answer: bytes) -> None:
    server.answers = [breaking_off(answer)]
    fault = failure(server, safe=True)
    assert (fault.sent, fault.broken, len(server.requests)) == (True, False, 1)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200", b"what\r\n\r\n"])
@pytest.mark.parametrize("safe", [True, False])
def test_only_a_safe_request_is_sent_again_where_the_answer_never_began(
    server: Server, answer: bytes, safe: bool
) -> None:
    server.answers = [breaking_off(answer), OK]
    if safe:
        assert ask(server, safe=True).status == 200
    else:
        assert failure(server).sent
    assert len(server.requests) == 1 + safe


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nX-Drip: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_a_bank_that_drips_is_given_up_at_the_deadline(server: Server, begin: bytes) -> None:
    def drip(sock: socket.socket) -> None:
        sock.sendall(begin)
        while True:
            sock.sendall(b"x")
            time.sleep(0.05)

    server.answers = [drip]
    began = time.monotonic()
    fault = failure(server, seconds=0.5, safe=True)
    assert 0.4 < time.monotonic() - began < 2
    assert (fault.message, fault.sent) == ("O banco não respondeu a tempo.", True)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": {"X-Token": "a\r\nX-Other: b"}},
        {"headers": {"X-Token": "a\nb"}},
        {"headers": {"X-Token": "a\0b"}},
        {"path": "/a b"},
        {"path": "/a\r\nX-Other: b"},
        {"path": "/ação"},
    ],
)
def test_what_would_be_another_request_is_not_sent(server: Server, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="can't be sent"):
        ask(server, **changes)  # type: ignore[arg-type]
    assert (server.opened, server.requests) == (0, [])


def test_at_most_so_many_connections_are_kept_and_none_for_long(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = replace(WAY, most_idle=2)
    end = time.monotonic() + 5

    def begin() -> Exchange:
        return http.request(Request("GET", "/", b"", {}), server.url, way, connect_s=5, end=end)

    under_way = [begin() for _ in range(4)]
    pool = under_way[0]._pool
    for each in under_way:
        each.read(10)
    assert (server.opened, len(pool._idle)) == (4, 2)
    monkeypatch.setattr(client, "IDLE_S", 0.0)
    begin().read(10)
    assert len(pool._idle) == 1
