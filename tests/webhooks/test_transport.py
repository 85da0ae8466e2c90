"""Which addresses a delivery may reach, and that it ends in time whatever the receiver does."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foundation.http.way import Rules, _context
from tests.certificates import Authority
from tests.raw_server import Server
from tests.receiver import Receiver, Reply
from webhooks import transport
from webhooks.transport import AttemptResult, Fault


def post(url: str, body: bytes = b"{}") -> AttemptResult:
    return transport.post(url, body, {"Content-Type": "application/json"})


# --- addresses --------------------------------------------------------------------------------------------


def test_only_a_deployment_that_says_so_has_private_receivers(settings: Any) -> None:
    """What these rules allow: tests/unit/foundation/test_addresses.py."""
    assert transport.may_be_called() == Rules(private_hosts=None)
    settings.WEBHOOKS_ALLOW_PRIVATE = False
    assert transport.may_be_called() == Rules(ports=tuple(settings.WEBHOOK_PORTS))


# --- spellings --------------------------------------------------------------------------------------------


@pytest.fixture
def any_port(settings: Any, receiver: Receiver) -> Receiver:
    """A production deployment that allows the receiver's port, so that only the address decides."""
    settings.WEBHOOKS_ALLOW_PRIVATE = False
    settings.WEBHOOK_PORTS = []
    return receiver


#: This machine, and what no receiver has, in other spellings.
SPELLINGS = """
    127.0.0.1 127.1 127.0.0.1. 2130706433 0x7f000001 0x7f.1 017700000001 0177.0.0.1 0 localhost LOCALHOST localhost.
    [::1] [::] [::127.0.0.1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::] [fec0::1]
    [fe80::1%25lo] ①②⑦.0.0.1 169.254.169.254 [fd00:ec2::254]
"""


@pytest.mark.parametrize("host", SPELLINGS.split())
@pytest.mark.control("API7")
def test_no_spelling_leads_inside(any_port: Receiver, host: str) -> None:
    answer = post(f"https://{host}:{any_port.port}/")

    assert answer.fault in (Fault.BLOCKED, Fault.DNS, Fault.URL)
    assert answer.status is None
    assert any_port.received == []


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "localhost"])
def test_the_same_spellings_arrive_where_private_receivers_are_allowed(receiver: Receiver, host: str) -> None:
    assert post(receiver.url_of(host)).fault is None
    [request] = receiver.received
    assert request.headers["host"] == f"{host}:{receiver.port}"


#: What production refuses without looking at an address.
REFUSED_UNSEEN = {
    Fault.BLOCKED: [
        "http://example.com/",
        "https://example.com:22/",
        "https://example.com:6379/",
        "https://127.0.0.1\\@example.com/",
    ],
    Fault.URL: [
        *[
            "ftp://example.com/",
            "file:///etc/passwd",
            "https:///path",
            "https://user:word@example.com/",
            "https://[::1/",
        ],
        *("https://exa mple.com/", "https://example.com:99999/", "example.com", ""),
    ],
}


@pytest.mark.parametrize("fault", REFUSED_UNSEEN)
def test_urls_that_production_refuses_unseen(settings: Any, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE = False
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [_entry("127.0.0.1", 443)])
    assert {url: post(url).fault for url in REFUSED_UNSEEN[fault]} == dict.fromkeys(REFUSED_UNSEEN[fault], fault)


def _entry(address: str, port: int) -> tuple[Any, ...]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def test_a_name_with_one_address_inside_is_refused_whole(any_port: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [_entry("8.8.8.8", any_port.port), _entry("127.0.0.1", any_port.port)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    assert post(f"https://rebind.example:{any_port.port}/").fault is Fault.BLOCKED
    assert any_port.received == []


def test_a_name_is_resolved_once_and_the_judged_address_is_the_one_called(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is not resolved again, so a name server can't give another address later."""
    resolve, asked = socket.getaddrinfo, []

    def changing(host: str, *args: Any, **kwargs: Any) -> list[Any]:
        if host != "rebind.example":  # an address, just before the connection
            return resolve(host, *args, **kwargs)
        asked.append(host)
        return [_entry("127.0.0.1" if len(asked) == 1 else "169.254.169.254", receiver.port)]

    monkeypatch.setattr(socket, "getaddrinfo", changing)

    assert post(receiver.url_of("rebind.example")).fault is None
    assert asked == ["rebind.example"]
    assert receiver.received[0].headers["host"] == f"rebind.example:{receiver.port}"


def test_an_address_that_refuses_does_not_hide_the_next(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `localhost`, which is also `::1`, where nobody listens."""
    found = [_entry("::1", receiver.port), _entry("127.0.0.1", receiver.port)]
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: found if host == "two.example" else resolve(host, *a, **k)
    )

    assert post(receiver.url_of("two.example")).fault is None


def test_proxy_and_netrc_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login name password word\n")
        monkeypatch.setenv("NETRC", str(netrc))

        assert post(receiver.url).fault is None
        assert proxy.received == []
    assert "authorization" not in receiver.received[0].headers


# --- outcomes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "fault"),
    [
        ([200, 201, 202, 204, 299], None),
        ([301, 302, 303, 304, 307, 308], Fault.REDIRECT),
        ([410], Fault.GONE),
        ([400, 401, 404, 429, 500, 503], Fault.STATUS),
    ],
)
def test_only_2xx_confirms_and_redirects_are_not_followed(
    receiver: Receiver, statuses: list[int], fault: Fault | None
) -> None:
    for status in statuses:
        for target in (f"{receiver.root}/elsewhere", "/elsewhere"):
            receiver.reply = Reply(status, headers={"Location": target})
            answer = post(receiver.url)
            assert (answer.status, answer.fault) == (status, fault)
    assert {request.path for request in receiver.received} == {"/webhooks"}


def test_the_body_arrives_as_it_is(receiver: Receiver) -> None:
    body = '{"nome":"José","n":0.10}'.encode()
    post(receiver.url_of("127.0.0.1", "/a/b?tenant=1&x=%C3%A9"), body)

    [request] = receiver.received
    assert (request.method, request.path, request.body) == ("POST", "/a/b?tenant=1&x=%C3%A9", body)
    assert request.headers["content-length"] == str(len(body))


def test_only_the_beginning_of_an_answer_is_kept(receiver: Receiver) -> None:
    receiver.reply = Reply(500, "é\0".encode() * 1_000_000)
    answer = post(receiver.url)

    assert answer.status == 500
    assert answer.excerpt == "é" * transport.EXCERPT_CHARACTERS


@pytest.fixture
def raw() -> Iterator[Server]:
    """A receiver that sends exactly its `answers`, and keeps the connection open."""
    with closing(Server()) as server:
        yield server


OK, TOO_MUCH = b"HTTP/1.1 200 OK\r\n", b"x" * 2 * transport.MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (
            b"HTTP/1.1 500 Oops\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * transport.MAX_ANSWER_BYTES,
            (500, Fault.STATUS, "x" * transport.EXCERPT_CHARACTERS),
        ),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + TOO_MUCH, (200, None, "")),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n" + TOO_MUCH, (200, None, "")),
        (b"220 mail.example ESMTP\r\n", (None, Fault.PROTOCOL, "")),
    ],
    ids=["a gigabyte", "chunk of -1", "chunk of -2", "no HTTP"],
)
def test_at_most_64_kib_of_an_answer_are_read(raw: Server, settings: Any, sent: bytes, told: tuple[Any, ...]) -> None:
    """A sender that waited for more would reach the time limit. A negative size of a chunk neither lifts the limit nor
    takes a confirmation back, and nothing of such a body is shown to operators."""
    raw.answers = [sent]
    answer = post(raw.url)
    assert (answer.status, answer.fault, answer.excerpt) == told
    assert answer.duration_ms < settings.WEBHOOK_TIMEOUT_S * 1000


@pytest.mark.parametrize(
    "reply",
    [Reply(hang=60), Reply(500, b"x" * 100, drip=0.1), Reply(500, hang=0.3, drip=0.05)],
    ids=["silent", "drips", "late and drips"],
)
def test_one_deadline_for_all_of_it(receiver: Receiver, settings: Any, reply: Reply) -> None:
    settings.WEBHOOK_TIMEOUT_S = 0.5
    receiver.reply = reply
    started = time.monotonic()
    answer = post(receiver.url)

    assert (answer.status, answer.fault) == (None, Fault.TIMEOUT)
    assert time.monotonic() - started < 3, "every byte would have begun a new time-out"
    assert 400 <= answer.duration_ms < 3_000


def test_a_name_look_up_that_hangs_ends_at_the_deadline(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fix, it held a delivery's place as long as the resolver took: 20 s and more."""
    settings.WEBHOOK_TIMEOUT_S = 0.5
    released = threading.Event()

    def hanging(*_: Any, **__: Any) -> list[Any]:
        released.wait(20)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    started = time.monotonic()
    try:
        answer = post("https://slow.example/")
    finally:
        released.set()
    assert answer.fault is Fault.TIMEOUT
    assert time.monotonic() - started < 5


def test_a_confirmation_stands_though_the_rest_of_the_answer_never_comes(raw: Server, settings: Any) -> None:
    settings.WEBHOOK_TIMEOUT_S = 0.5
    raw.answers = [OK + b"Content-Length: 1000\r\n\r\nhalf"]
    answer = post(raw.url)
    assert (answer.status, answer.fault) == (200, None)


def test_refused_reset_unreadable_and_unknown_name(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert post(f"http://127.0.0.1:{closed.getsockname()[1]}/").fault is Fault.REFUSED

    receiver.reply = Reply(reset=True)
    assert post(receiver.url).fault is Fault.CONNECTION
    assert len(receiver.received) == 1, "a new connection that breaks is not replaced"

    assert post(f"https://127.0.0.1:{receiver.port}/").fault is Fault.TLS

    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert post("http://unknown.example/").fault is Fault.DNS


# --- kept connections -------------------------------------------------------------------------------------


def test_a_kept_connection_that_breaks_is_replaced_once(receiver: Receiver) -> None:
    """The receiver closed the connection while the delivery was under way."""
    receiver.reply = lambda request: Reply(204, keep=True, reset=len(receiver.received) == 2)
    assert [post(receiver.url).fault for _ in range(2)] == [None, None]
    first, broken, replaced = receiver.received
    assert first.peer == broken.peer != replaced.peer


def test_a_kept_connection_serves_only_the_rules_that_it_was_opened_by(receiver: Receiver, settings: Any) -> None:
    receiver.reply = Reply(204, keep=True)
    assert post(receiver.url).fault is None
    settings.WEBHOOKS_ALLOW_PRIVATE = False
    assert post(receiver.url).fault is Fault.BLOCKED
    assert len(receiver.received) == 1


# --- TLS --------------------------------------------------------------------------------------------------


@pytest.fixture
def secure_receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver under TLS as `localhost`, its certificate trusted by this process."""
    authority, file = Authority(), tmp_path / "certificate.pem"
    file.write_text(authority.issue("localhost") + authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    _context.cache_clear()
    with Receiver(tls=context) as running:
        yield running
    _context.cache_clear()


@pytest.mark.control("V12")
def test_tls_is_for_the_name_and_by_a_known_issuer(secure_receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post(secure_receiver.url_of("localhost")).fault is None
    [request] = secure_receiver.received
    assert request.headers["host"] == f"localhost:{secure_receiver.port}"
    assert post(secure_receiver.url_of("127.0.0.1")).fault is Fault.TLS
    monkeypatch.delenv("SSL_CERT_FILE")
    _context.cache_clear()
    assert post(secure_receiver.url_of("localhost")).fault is Fault.TLS
    assert len(secure_receiver.received) == 1


def test_the_deadline_holds_under_tls_and_for_its_handshake(secure_receiver: Receiver, settings: Any) -> None:
    settings.WEBHOOK_TIMEOUT_S = 0.5
    secure_receiver.reply = Reply(500, b"x" * 100, drip=0.1)
    started = time.monotonic()

    assert post(secure_receiver.url_of("localhost")).fault is Fault.TIMEOUT
    assert time.monotonic() - started < 3
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert post(f"https://localhost:{server.getsockname()[1]}/").fault is Fault.TIMEOUT
