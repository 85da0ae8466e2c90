"""Tests that need a real server and a real socket: framing of bodies, hostile headers, answers that must arrive."""

import contextlib
import datetime
import http.client
import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from partners.models import SANDBOX_KEY
from tests.processes import Programs, wait_until, web_alone

PATH = "/partners/v1/consultas"
LIMIT = 256 * 1024
#: How long the web process of `impatient` waits for a body.
PATIENCE_S = 5
KEY = {"X-Partner-Api-Key": SANDBOX_KEY}
JSON = {**KEY, "Content-Type": "application/json"}


@pytest.fixture
def address(sandbox: None, programs: Programs) -> tuple[str, int]:
    return web_alone(programs)


@pytest.fixture
def impatient(sandbox: None, programs: Programs) -> tuple[str, int]:
    """A web process with a short time-out for bodies, behind a proxy on this machine."""
    return web_alone(programs, BODY_TIMEOUT_S=str(PATIENCE_S), TRUSTED_PROXIES="127.0.0.1")


def head_of(headers: dict[str, str], method: str = "POST", path: str = PATH) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode("latin-1")


def answer_of(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.status, dict(response.headers), response.read()


def exchange(address: tuple[str, int], headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
    """Sends exactly these bytes, ends the sending side, and reads the whole answer."""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head_of(headers) + body)
        connection.shutdown(socket.SHUT_WR)
        status, _, answer = answer_of(connection)
        return status, answer


def chunks(body: bytes) -> bytes:
    pieces = (body[start : start + 9_000] for start in range(0, len(body), 9_000))
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def test_a_body_in_chunks_counts_like_any_other(address):
    for connection in ["close", "keep-alive"]:
        chunked = {**JSON, "Transfer-Encoding": "chunked", "Connection": connection}
        status, answer = exchange(address, chunked, chunks(b'{"cpf": "1"}'))
        assert (status, b'"field":"cpf"' in answer) == (422, True)
        status, answer = exchange(address, chunked, chunks(b" " * 12 * LIMIT))
        assert (status, b"payload_too_large" in answer) == (413, True)


def test_the_refusal_of_a_large_body_arrives(address):
    """Closing a socket with unread data resets the connection, and the answer would be lost."""
    body = b" " * (6 * 1024 * 1024)

    def refusal(headers: dict[str, str], connection: str) -> int:
        return exchange(address, {**headers, "Content-Length": str(len(body)), "Connection": connection}, body)[0]

    cases = [*product([JSON, {**JSON, "X-Partner-Api-Key": "x"}, KEY], ["close", "keep-alive"])]
    with ThreadPoolExecutor(len(cases)) as pool:
        assert [*pool.map(refusal, *zip(*cases, strict=True))] == [413, 413, 401, 401, 415, 415]


PAGES = [
    ("/partners/v1/banks", SANDBOX_KEY, 200),
    ("/partners/v1/banks", "wrong", 401),
    ("/partners/v1/no-such", SANDBOX_KEY, 404),
    (PATH, SANDBOX_KEY, 405),
    ("/health/live", SANDBOX_KEY, 200),
    ("/schema/", SANDBOX_KEY, 200),
]


def test_head_is_answered_as_get_without_the_body(address, programs):
    for path, key, status in PAGES:
        warned = programs.logs("web").count("no-body response")
        with contextlib.closing(http.client.HTTPConnection(*address, timeout=10)) as client:
            client.request("HEAD", path, headers={"X-Partner-Api-Key": key})
            response = client.getresponse()
            assert (response.status, response.read()) == (status, b"")
            assert int(response.headers["Content-Length"]) > 0
            client.request("GET", "/health/live")  # on the same connection, so no bytes were left on it
            assert client.getresponse().read() == b'{"status": "ok"}'
        assert programs.logs("web").count("no-body response") == warned


REFUSED = [
    (("POST", PATH, "no-key"), 401),
    (("POST", "/partners/v1/no-such", SANDBOX_KEY), 404),
    (("PUT", PATH, SANDBOX_KEY), 405),
]


def begin(client: socket.socket, method: str, path: str, key: str, **headers: str) -> None:
    """Send only a request's head, which announces a body of 12 bytes."""
    client.sendall(head_of({**JSON, "X-Partner-Api-Key": key, "Content-Length": "12", **headers}, method, path))


def test_a_refusal_does_not_wait_for_the_rest_of_a_body(address):
    for request_, status in REFUSED:
        for connection in ["close", "keep-alive"]:
            with socket.create_connection(address, timeout=4) as client:
                begin(client, *request_, Connection=connection)
                client.sendall(b'{"cpf')
                assert answer_of(client)[0] == status, (request_, connection)


LIES = [
    ("100", b'{"cpf":', 422),  # more than arrived
    ("5", b'{"cpf": "1"}', 422),  # less than arrived
    (str(10**12), b'{"cpf": "1"}', 413),  # beyond the limit: no byte of it is read
    ("0", b"", 422),
]


def test_a_content_length_that_lies_is_only_a_promise(address):
    for declared, body, expected in LIES:
        status, answer = exchange(address, {**JSON, "Content-Length": declared, "Connection": "close"}, body)
        assert (status, json.loads(answer)["field"]) == (expected, None)


def test_malformed_chunks_are_the_clients_fault(address):
    for body in [b"ZZ\r\nabc", b"5\r\nab"]:
        for headers in [JSON, {**JSON, "X-Partner-Api-Key": "x"}]:
            status, answer = exchange(address, {**headers, "Transfer-Encoding": "chunked", "Connection": "close"}, body)
            refusal = (422, "invalid_input") if headers is JSON else (401, "unauthorized")
            assert (status, json.loads(answer)["code"]) == refusal


NEVER = [
    (b"nonsense\r\n\r\n", 422, "invalid_input"),
    (b"GET /partners/v1/banks HTTP/1.1\r\nHost: x\r\nBad Name: x\r\n\r\n", 422, "invalid_input"),
    (b"POST /partners/v1/consultas HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 422, "invalid_input"),
    (b"GET /partners/v1/%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 5000), 413, "payload_too_large"),
    (b"GET /partners/v1/banks HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (b"a" * 70_000), 413, "payload_too_large"),
    (b"POST /partners/v1/consultas HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n", 501, "not_supported"),
    (b"GET /schema/ HTTP/1.1\r\n\r\n", 422, "invalid_input"),
]


def test_what_never_reaches_the_application_is_refused_in_the_contracts_words(address):
    """Before the fix, HTTP/1.1 without Host was answered where every host is allowed (RFC 9112, section 3.2)."""
    for request_, status, code in NEVER:
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(request_)
            refused, headers, answer = answer_of(connection)
        error = json.loads(answer)
        assert (refused, error["code"], set(error) >= {"message", "retryable", "field"}) == (status, code, True)
        assert len(headers["X-Request-Id"]) == 32


def test_a_new_process_has_loaded_the_routes_before_the_first_request():
    """Otherwise a stream that is a process's first request begins half a second late."""
    code = "import config.wsgi, sys; print('consultas.views' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_the_servers_own_lines_bear_utc(address, programs):
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 422"
    lines = [line for line in programs.logs("web").splitlines() if "request not served" in line]
    written = datetime.datetime.strptime(lines[-1][:27], "[%Y-%m-%d %H:%M:%S %z]")
    assert written.utcoffset() == datetime.timedelta(0)
    assert abs((datetime.datetime.now(datetime.UTC) - written).total_seconds()) < 60


MIB = 1024 * 1024
MULTIPART = "multipart/form-data; boundary=x"
PATHS = ("/health/live", "/health/ready", "/admin/login/", "/admin/", "/docs/", "/schema/", "/metrics", "/", "/no-such")


def form(size: int) -> bytes:
    """A multipart body of exactly `size` bytes, with one file in it."""
    end = b"\r\n--x--\r\n"
    part = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\nContent-Type: text/plain\r\n\r\n'
    return part + b"a" * (size - len(part) - len(end)) + end


def test_a_route_outside_the_api_refuses_by_the_announced_length(client: Client, db: None) -> None:
    """Before the fix, the body was read and spooled to the disk first."""
    for path in PATHS:
        response = client.post(path, form(LIMIT + 1), content_type=MULTIPART)
        assert (response.status_code, response.text) == (413, "O corpo da requisição excede 256 KiB.\n"), path
        assert len(response["X-Request-Id"]) == 32


def test_a_form_of_the_greatest_size_is_read_without_a_file(client: Client, db: None, settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = "/no-such-folder"
    settings.REFUSED_LOG_IN_WAIT_S = 0
    assert client.post("/admin/login/", form(LIMIT), content_type=MULTIPART).status_code == 200


def written(programs: Programs) -> int:
    """Bytes that the web's processes have written to the disk's layer."""
    parent = programs.pid("web")
    pids = [parent, *map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())]
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/io").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def test_nothing_of_a_refused_body_is_written(address, programs):
    """Before the fix, four clients wrote 3.8 GB in 12 s. A refused body was also read to its end, and all other
    requests waited seconds for that."""
    announced, body = {"Content-Length": str(20 * MIB)}, form(20 * MIB)
    ways = [(announced, body), ({"Transfer-Encoding": "chunked"}, chunks(body))]

    def refusal(path: str, way: tuple[dict[str, str], bytes]) -> tuple[int, str]:
        kind = {"Content-Type": "application/json" if path == PATH else MULTIPART}
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(head_of({**KEY, **kind, **way[0]}, path=path))
            with contextlib.suppress(OSError):  # the server stops reading a body that it has refused
                client.sendall(way[1])
            status, headers, _ = answer_of(client)
        return status, headers["Connection"]

    cases, before = [*product(["/health/live", "/admin/login/", PATH], ways)], written(programs)
    with ThreadPoolExecutor(len(cases)) as pool:
        assert [*pool.map(refusal, *zip(*cases, strict=True))] == [(413, "close")] * 6
    assert written(programs) - before < MIB, "all six together"


# Tests whose process has variables of its own come last, so that each process is started once.
@pytest.mark.control("V4")
def test_no_header_moves_the_routes(impatient: tuple[str, int]) -> None:
    """Before the fix, behind a proxy that forwards headers with underscores, clients could choose where the routes
    begin."""
    for header in ["SCRIPT_NAME", "PATH_INFO"]:
        with socket.create_connection(impatient, timeout=10) as client:
            client.sendall(head_of({**KEY, header: "/partners/v1"}, "GET", "/partners/v1/banks"))
            assert answer_of(client)[0] == 200


def test_clients_that_never_send_their_body_hold_nothing_up(impatient):
    """Before the fix, each held a database connection without a limit, even without a key: 16 clients caused an
    outage."""
    headers = [JSON, {**JSON, "X-Partner-Api-Key": "cpk_test_" + "A" * 43}] * 20
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(socket.create_connection(impatient, timeout=20)) for _ in headers]
        for client, sent in zip(clients, headers, strict=True):
            client.sendall(head_of({**sent, "Content-Length": "100"}) + b"{")
        began = time.monotonic()
        for _ in range(8):
            assert exchange(impatient, {**JSON, "Content-Length": "2", "Connection": "close"}, b"{}")[0] == 422
        assert time.monotonic() - began < PATIENCE_S - 1
        assert [answer_of(client)[0] for client in clients] == [422, 401] * 20


def test_a_body_that_drips_has_its_time_as_a_whole(impatient):
    with socket.create_connection(impatient, timeout=0.2) as client:
        client.sendall(head_of({"Content-Length": "1000"}))

        def is_answered() -> bool:
            client.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                return client.recv(1, socket.MSG_PEEK) != b""
            return False

        wait_until(is_answered, 10, "the answer came before the body")
        assert answer_of(client)[0] == 401
