"""The limit of a request's body holds on every route, and no byte beyond it is written to a disk."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from partners.models import SANDBOX_KEY
from tests.processes import START_TIMEOUT_S, Programs, answers, wait_until

LIMIT = 256 * 1024
MIB = 1024 * 1024
PART = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\nContent-Type: text/plain\r\n\r\n'
MULTIPART = "multipart/form-data; boundary=x"
PATHS = ("/health/live", "/health/ready", "/admin/login/", "/admin/", "/docs/", "/schema/", "/metrics", "/", "/no-such")


def form(size: int) -> bytes:
    """A multipart body of exactly `size` bytes, with one file in it."""
    end = b"\r\n--x--\r\n"
    return PART + b"a" * (size - len(PART) - len(end)) + end


@pytest.mark.parametrize("path", PATHS)
def test_a_route_outside_the_api_refuses_by_the_announced_length(client: Client, db: None, path: str) -> None:
    """Before the fix, the body was read and spooled to the disk first."""
    response = client.post(path, form(LIMIT + 1), content_type=MULTIPART)
    assert (response.status_code, response.content.decode()) == (413, "O corpo da requisição excede 256 KiB.\n")
    assert len(response["X-Request-Id"]) == 32


def test_a_form_of_the_greatest_size_is_read_without_a_file(client: Client, db: None, settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = "/no-such-folder"
    settings.REFUSED_LOG_IN_WAIT_S = 0
    assert client.post("/admin/login/", form(LIMIT), content_type=MULTIPART).status_code == 200


@pytest.fixture
def web(sandbox: None, programs: Programs) -> tuple[str, int]:
    port = int(os.environ["PORT"])
    programs.ensure("web", WEB_CONCURRENCY="1")
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/health/live"), START_TIMEOUT_S, "the web process answers")
    return "127.0.0.1", port


def written(programs: Programs) -> int:
    """Bytes that the web's processes have written to the disk's layer."""
    parent = programs.pid("web")
    pids = [parent, *map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/io").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def chunked(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 65536):
        piece = body[start : start + 65536]
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


@pytest.mark.parametrize("way", ["announced", "chunks"])
@pytest.mark.parametrize("path", ["/health/live", "/admin/login/", "/partners/v1/consultas"])
def test_nothing_of_a_refused_body_is_written(web: tuple[str, int], programs: Programs, path: str, way: str) -> None:
    """Before the fix, four clients wrote 3.8 GB in 12 s. A refused body was also read to its end, and all other
    requests waited seconds for that."""
    body = form(20 * MIB)
    framing = f"Content-Length: {len(body)}" if way == "announced" else "Transfer-Encoding: chunked"
    kind = "application/json" if path.startswith("/partners") else MULTIPART
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Partner-Api-Key: {SANDBOX_KEY}\r\n"
    before = written(programs)
    with socket.create_connection(web, timeout=10) as client:
        client.sendall(f"{head}Content-Type: {kind}\r\n{framing}\r\n\r\n".encode())
        with contextlib.suppress(OSError):  # the server stops reading a body that it has refused
            for piece in [body] if way == "announced" else chunked(body):
                client.sendall(piece)
        reply = client.recv(4096)
        assert reply.startswith(b"HTTP/1.1 413")
        assert b"\r\nconnection: close\r\n" in reply.lower()
    assert written(programs) - before < MIB


def test_a_request_names_its_host(web: tuple[str, int]) -> None:
    """Before the fix, HTTP/1.1 without Host was answered where every host is allowed (RFC 9112, section 3.2)."""
    with socket.create_connection(web, timeout=10) as client:
        client.sendall(b"GET /schema/ HTTP/1.1\r\n\r\n")
        reply = client.recv(4096)
    assert reply.startswith(b"HTTP/1.1 422")
    assert b'"code": "invalid_input"' in reply
