"""A client that never reads its answer does not keep its connection."""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Iterator

import gevent
import pytest
from gevent import socket as gsocket

from config import gunicorn
from tests.processes import START_TIMEOUT_S, Programs, answers, wait_until

PATIENCE_S = 1.0


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[gsocket.socket, gsocket.socket]]:
    monkeypatch.setattr(gunicorn, "SEND_TIMEOUT_S", 0.3)
    ours, theirs = gsocket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_an_answer_has_its_time_as_a_whole(pair: tuple[gsocket.socket, gsocket.socket]) -> None:
    ours, theirs = pair
    gevent.spawn(lambda: [(gevent.sleep(0.05), theirs.recv(20_000)) for _ in range(1000)])  # drips on
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
        gevent.sleep(0.2)  # longer in all than one write may take
    began = time.monotonic()
    with pytest.raises(BrokenPipeError):
        client.sendall(b"a" * 10_000_000)
    assert 0.2 < time.monotonic() - began < 2
    assert theirs.recv(5) == b"event"


def test_a_client_that_never_reads_loses_its_connection(sandbox: None, programs: Programs) -> None:
    """Before the fix, it kept the connection for as long as it liked."""
    port = int(os.environ["PORT"])
    programs.ensure("web", SEND_TIMEOUT_S=str(PATIENCE_S))
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/health/live"), START_TIMEOUT_S, "the web process answers")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /schema/ HTTP/1.1\r\nHost: x\r\n\r\n" * 40)  # more than the kernel holds for one
        ended = select.poll()
        ended.register(client, select.POLLHUP | select.POLLERR)
        wait_until(lambda: ended.poll(0), 20 + PATIENCE_S, "the connection was reset")
