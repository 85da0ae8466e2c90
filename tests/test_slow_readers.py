"""A client that never reads its answer loses its connection. A client that keeps sending a refused body delays
nobody."""

import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import gevent
import pytest
import requests
from gevent import socket as gsocket

from authorizations.models import ID_LENGTH
from config import gunicorn
from partners.models import SANDBOX_KEY
from tests.processes import Programs, wait_until, web_alone

PATIENCE_S = 1.0


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[gsocket.socket, gsocket.socket]]:
    monkeypatch.setattr(gunicorn, "SEND_TIMEOUT_S", 0.3)
    ours, theirs = gsocket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_an_answer_has_its_time_as_a_whole(pair: tuple[gsocket.socket, gsocket.socket]) -> None:
    ours, theirs = pair
    gevent.spawn(lambda: [(gevent.sleep(0.05), theirs.recv(20_000)) for _ in range(1000)])  # keeps sending slowly
    client, began = gunicorn.TimedSocket(ours), time.monotonic()
    with pytest.raises(BrokenPipeError):
        deque((client.sendall(b"a" * 10_000) for _ in range(1000)), maxlen=0)
    assert 0.2 < time.monotonic() - began < 2


def test_each_write_of_a_stream_has_its_own_time(pair: tuple[gsocket.socket, gsocket.socket]) -> None:
    ours, theirs = pair
    client = gunicorn.TimedSocket(ours)
    client.is_stream = True
    for _ in range(3):
        client.sendall(b"event")
        gevent.sleep(0.2)  # in total longer than one write may take
    began = time.monotonic()
    with pytest.raises(BrokenPipeError):
        client.sendall(b"a" * 10_000_000)
    assert 0.2 < time.monotonic() - began < 2
    assert theirs.recv(5) == b"event"


def test_a_request_to_go_on_has_its_own_time(pair: tuple[gsocket.socket, gsocket.socket]) -> None:
    """Before the fix, a client that sent `Expect: 100-continue` and never read kept its connection without a limit."""
    ours, theirs = pair
    client = gunicorn.TimedSocket(ours)
    client.send(b"continue ")
    gevent.sleep(0.4)  # a query takes longer than its response may take to be sent
    deque(map(client.sendall, (b"head ", b"body")), maxlen=0)
    assert theirs.recv(100) == b"continue head body"
    with pytest.raises(BrokenPipeError):
        deque(map(gunicorn.TimedSocket(ours).sendall, (b"head", b"a" * 10_000_000)), maxlen=0)
    with gevent.Timeout(2), pytest.raises(BrokenPipeError):
        gunicorn.TimedSocket(ours).send(b"continue")


def test_the_rest_of_a_refused_body_is_read_with_pauses_and_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fix, gunicorn read the rest without a pause: four clients that sent fast kept a process busy."""
    monkeypatch.setattr(gunicorn, "LINGER_BYTES", 4 * 65536)
    ours, theirs = gsocket.socketpair()
    turns = 0

    def others() -> None:
        nonlocal turns
        while True:
            gevent.sleep(0.001)
            turns += 1

    with ours, theirs:
        sender, neighbour = gevent.spawn(lambda: theirs.sendall(b"a" * 10_000_000)), gevent.spawn(others)
        gunicorn._read_out(SimpleNamespace(reader=SimpleNamespace(length=None)), ours)
        assert turns >= 4, "the others had a turn after each read"
        assert not sender.dead, "no more is read than the bound says"
        gevent.killall([sender, neighbour])


def test_a_body_that_was_read_is_not_looked_for(pair: tuple[gsocket.socket, gsocket.socket]) -> None:
    ours, theirs = pair
    gunicorn._read_out(SimpleNamespace(reader=SimpleNamespace(length=0)), ours)
    ours.sendall(b"still open")
    assert theirs.recv(20) == b"still open"


def test_a_head_leaves_with_its_body_and_alone_where_there_is_none(pair: tuple[gsocket.socket, gsocket.socket]) -> None:
    ours, theirs = pair
    client = gunicorn.TimedSocket(ours)
    client.sendall(b"head ")
    assert not select.select([theirs], [], [], 0)[0]
    client.sendall(b"body ")
    client.sendall(b"more")
    assert theirs.recv(100) == b"head body more"
    empty = gunicorn.TimedSocket(ours)
    empty.sendall(b"head")
    empty.flush()
    empty.flush()
    assert theirs.recv(100) == b"head"


def test_a_client_that_never_reads_loses_its_connection(sandbox: None, programs: Programs) -> None:
    """Before the fix, it kept the connection without a limit."""
    address = web_alone(programs, SEND_TIMEOUT_S=str(PATIENCE_S))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.sendall(b"GET /schema/ HTTP/1.1\r\nHost: x\r\n\r\n" * 40)  # more than the kernel buffers
        ended = select.poll()
        ended.register(client, select.POLLHUP | select.POLLERR)
        wait_until(lambda: ended.poll(0), 20 + PATIENCE_S, "the connection was reset")


@pytest.mark.parametrize(
    "path",
    ["/partners/v1/banks", f"/partners/v1/authorizations/public/{'A' * ID_LENGTH}"],
    ids=["with a key", "without a key"],
)
def test_no_connection_to_the_database_is_held_while_an_answer_is_sent(
    sandbox: None, programs: Programs, path: str
) -> None:
    """Before the fix, clients that never read held every connection in the pool: everybody else got 500 after 10 s."""
    address = web_alone(programs, DATABASE_POOL_SIZE="1")
    key = f"X-Partner-Api-Key: {SANDBOX_KEY}"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        client.setblocking(False)
        while select.select([], [client], [], 2)[1]:  # until the process waits for this client
            client.send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\n\r\n".encode() * 40)
        url = f"http://127.0.0.1:{address[1]}/partners/v1/banks"
        banks = requests.get(url, headers=dict([key.split(": ")]), timeout=30)
        assert banks.status_code == 200
        select.select([client], [], [], 0)
        assert client.recv(8).startswith(b"HTTP/1.1"), "the connection is still open"
