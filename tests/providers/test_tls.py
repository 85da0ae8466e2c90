"""How banks under TLS are reached: client certificates, own authorities and proxies, against real servers.

Each failure says what the partner sees, whether the request counts as sent, and what the operator reads in the log.
"""

import contextlib
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from config.local.servers import free_port
from foundation.errors import ApiError
from foundation.http.client import Request
from foundation.http.way import Rules, Way, _context, load_identity
from foundation.models import AuditEntry
from providers import http, operation
from providers.bank import Connection
from providers.certificates import Change, refused_at
from providers.errors import ProviderUnavailable
from providers.http import Reply, send
from providers.models import Provider, account_accepted
from tests.certificates import Authority
from tests.front import connection_to
from tests.processes import Simulator, wait_until
from tests.providers.samples import CREDENTIALS
from tests.raw_server import OK, Server, breaking_off

AWAY = "Banco indisponível no momento. Tente novamente em instantes."
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
OURS, OTHERS = Authority("ours"), Authority("of somebody else")


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Makes a bank under TLS that demands a certificate of our authority."""
    servers: list[Server] = []

    def make(
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        *,
        identity: str = "",
        revoked: str = "",
        demands_certificate: bool = True,
    ) -> Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # speaks TLS 1.1 where a test wants that
        load_identity(context, identity or OURS.issue("127.0.0.1"))
        context.load_verify_locations(cadata=OURS.pem)
        if demands_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
        if revoked:
            file = tmp_path / "revoked.pem"
            file.write_text(OURS.revoking(revoked))
            context.load_verify_locations(file)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        servers.append(Server(context))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def proxy() -> Iterator[Server]:
    """A proxy that opens tunnels."""
    server = Server()
    server.answers = [lambda client: relay(client, server.requests[-1])]
    yield server
    server.close()


def relay(client: socket.socket, asked: bytes) -> None:
    """Open the tunnel that `asked`, a CONNECT request, wants, and pass bytes on in both directions."""
    host, _, port = asked.split()[1].decode().rpartition(":")
    with socket.create_connection((host, int(port))) as bank, ThreadPoolExecutor(1) as thread:
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        thread.submit(pass_on, client, bank)
        pass_on(bank, client)


def pass_on(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until `source` ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(autouse=True)
def no_way_is_refused() -> Iterator[None]:
    yield
    http._refused_at.clear()


def way(identity: str = "", **others: str) -> Way:
    return Way(Rules(private_hosts=None), 4, identity, **{"authorities": OURS.pem, **others})


def by(proxy: Server, user: str = "") -> str:
    """The URL of `proxy`."""
    return proxy.url.removesuffix("/bank").replace("://", f"://{user}@" if user else "://")


def ask(bank: Server | str, *ways: Way, **changes: Any) -> Reply:
    """The answer to a request; `bank` may be its URL."""
    request = Request(**{"method": "POST", "path": "/proposals", "body": b"{}", "headers": {}, **changes})
    url = bank if isinstance(bank, str) else bank.url
    return send(request, url, ways, deadline=time.monotonic() + 5, timeout_s=5)


def refused(bank: Server, way: Way) -> tuple[bool, str, str]:
    """Send an unsafe request that fails. Returns whether it counts as sent, and why and what the operator's log says.
    The partner always reads that the bank is unavailable."""
    with capture_logs() as logs, pytest.raises(ProviderUnavailable) as raised:
        ask(bank, way)
    assert (raised.value.code, raised.value.message) == ("provider_unavailable", AWAY)
    assert "PRIVATE" not in str(logs)
    assert "word" not in str(logs)
    [why] = [(each["why"], each["detail"]) for each in logs] or [("", "")]
    return (raised.value.sent, *why)


close = breaking_off()


# --- our certificate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.control("CMN XIII")
def test_our_certificate_opens_the_bank_and_its_connection_and_session_are_kept(
    bank: Callable[..., Server], version: ssl.TLSVersion
) -> None:
    server, ours = bank(version), way(OURS.issue("partner"))
    assert [ask(server, ours).body, ask(server, ours).body] == [b"{}", b"{}"]
    assert server.opened == 1
    server.hang_up()
    assert ask(server, ours).body == b"{}"
    wait_until(lambda: server.reused_sessions == 1, 5, "the second connection resumed the first one's session")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "alert"),
    [
        ("none", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        ("wrong", "TLSV1_ALERT_UNKNOWN_CA"),
        ("expired", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
        ("revoked", "SSLV3_ALERT_CERTIFICATE_REVOKED"),
    ],
)
def test_a_bank_that_refuses_our_certificate_was_sent_nothing(
    bank: Callable[..., Server], version: ssl.TLSVersion, kind: str, alert: str
) -> None:
    """Before the fix, a request that a bank under TLS 1.3 refused after the handshake counted as sent."""
    identities = {
        "none": "",
        "wrong": OTHERS.issue("partner"),
        "expired": OURS.issue("partner", days=-1),
        "revoked": OURS.issue("partner"),
    }
    server = bank(version, revoked=identities["revoked"] if kind == "revoked" else "")
    if kind == "none" and version is ssl.TLSVersion.TLSv1_2:
        alert = "SSLV3_ALERT_HANDSHAKE_FAILURE"
    assert refused(server, way(identities[kind])) == (False, "tls", alert)
    assert server.requests == []


def test_a_long_request_that_breaks_at_the_refusal_was_not_sent(bank: Callable[..., Server]) -> None:
    """The bank closes the connection while the request is written. The reason has arrived before that."""
    server = bank()
    with pytest.raises(ProviderUnavailable) as raised:
        ask(server, way(), body=b"x" * 8_000_000)
    assert (raised.value.sent, server.requests) == (False, [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("has_proxy", [False, True])
def test_a_bank_or_a_tunnel_that_closes_behind_the_request_leaves_the_outcome_open(
    bank: Callable[..., Server], proxy: Server, version: ssl.TLSVersion, has_proxy: bool
) -> None:
    server = bank(version)
    server.answers = [(lambda _: proxy.hang_up()) if has_proxy else close]
    through = way(OURS.issue("partner"), proxy=by(proxy) if has_proxy else "")
    assert refused(server, through) == (True, "", "")
    assert len(server.requests) == 1


def test_a_session_is_not_resumed_by_another_context_of_the_same_way(bank: Callable[..., Server]) -> None:
    """Before the fix, the next connection was an error once 64 other ways had been used, or the cache was cleared."""
    server, ours = bank(), way(OURS.issue("partner"))
    assert ask(server, ours).body == b"{}"
    server.hang_up()
    _context.cache_clear()
    assert ask(server, ours).body == b"{}"
    assert server.reused_sessions == 0


def test_a_kept_connection_is_used_by_no_other_certificate(bank: Callable[..., Server]) -> None:
    server = bank()
    assert ask(server, way(OURS.issue("partner"))).status == 200
    assert refused(server, way()) == (False, "tls", "TLSV13_ALERT_CERTIFICATE_REQUIRED")


# --- the bank's certificate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (OTHERS.issue("127.0.0.1"), "unable to get local issuer certificate"),
        (OURS.issue("127.0.0.1", days=-1), "certificate has expired"),
        (OURS.issue("127.0.0.2"), "IP address mismatch, certificate is not valid for '127.0.0.1'."),
        (OURS.issue("bank.example"), "IP address mismatch, certificate is not valid for '127.0.0.1'."),
    ],
    ids=["unknown authority", "expired", "other address", "other name"],
)
@pytest.mark.control("CMN II")
def test_a_bank_that_is_not_the_one_meant_is_sent_nothing(
    bank: Callable[..., Server], identity: str, words: str
) -> None:
    server = bank(identity=identity, demands_certificate=False)
    assert refused(server, way(OURS.issue("partner"))) == (False, "tls", words)
    assert server.requests == []


def test_own_authorities_replace_those_of_the_machine(
    bank: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "trusted.pem").write_text(OTHERS.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    _context.cache_clear()
    request.addfinalizer(_context.cache_clear)
    server = bank(identity=OTHERS.issue("127.0.0.1"), demands_certificate=False)
    assert not refused(server, way())[0]
    assert ask(server, way(authorities=OTHERS.pem)).status == ask(server, way(authorities="")).status == 200
    assert not refused(bank(demands_certificate=False), way(authorities=""))[0]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.control("V12")
def test_tls_1_1_is_refused_before_anything_is_sent(bank: Callable[..., Server]) -> None:
    server = bank(ssl.TLSVersion.TLSv1_1)
    sent, why, detail = refused(server, way(OURS.issue("partner")))
    assert (sent, why, server.requests) == (False, "tls", [])
    assert "PROTOCOL" in detail or "VERSION" in detail


# --- the proxy --------------------------------------------------------------------------------------------------------


def test_a_tunnel_is_opened_with_user_and_password_and_kept(bank: Callable[..., Server], proxy: Server) -> None:
    server, through = bank(), way(OURS.issue("partner"), proxy=by(proxy, "us%40er:pass%3Aword"))
    assert [ask(server, through).body, ask(server, through).body] == [b"{}", b"{}"]
    [asked] = proxy.requests
    host = server.url.split("/")[2]
    word = b64encode(b"us@er:pass:word").decode()
    expected = f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {word}\r\n\r\n"
    assert asked.decode() == expected
    assert b"Proxy-Authorization" not in b"".join(server.requests)


def test_a_bank_under_plain_http_is_tunnelled_too(proxy: Server) -> None:
    with contextlib.closing(Server()) as server:
        assert ask(server, way(proxy=by(proxy))).body == b"{}"
    assert proxy.requests[0].startswith(b"CONNECT ")


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "403"),
        (b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", "407"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "502"),
        (b"220 mail.example ESMTP\r\n\r\n", "malformed"),
        (breaking_off(b"HTTP/1.1 200 Conn"), "malformed"),
        (close, "connection"),
        (lambda sock: sock.recv(1), "timeout"),  # until the client gives up
    ],
    ids=["refuses", "asks for a password", "cannot reach the bank", "no HTTP", "breaks off", "closes", "hangs"],
)
def test_a_proxy_that_opens_no_tunnel_was_sent_nothing(
    bank: Callable[..., Server],
    proxy: Server,
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes | Callable[[socket.socket], None],
    detail: str,
) -> None:
    monkeypatch.setattr(http, "CONNECT_TIMEOUT_S", 0.5)
    server = bank()
    proxy.answers = [answer]
    assert refused(server, way(OURS.issue("partner"), proxy=by(proxy, "user:word"))) == (False, "proxy", detail)
    assert (server.opened, len(proxy.requests)) == (0, 1)


def test_where_no_proxy_listens_nothing_was_sent(bank: Callable[..., Server]) -> None:
    through = way(proxy=f"http://user:word@127.0.0.1:{free_port()}")
    assert refused(bank(), through) == (False, "proxy", "refused")


def test_a_tunnel_that_closes_in_the_handshake_was_sent_nothing(bank: Callable[..., Server], proxy: Server) -> None:
    def broken(sock: socket.socket) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        sock.recv(1)
        close(sock)

    proxy.answers = [broken]
    sent, _, _ = refused(bank(), way(OURS.issue("partner"), proxy=by(proxy)))
    assert not sent


# --- renewal of our certificate ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.control("CMN XII")
def test_the_former_certificate_serves_until_the_bank_accepts_the_new_one(
    bank: Callable[..., Server], version: ssl.TLSVersion
) -> None:
    server, new, former = bank(version), way(OTHERS.issue("partner")), way(OURS.issue("partner"))
    assert [ask(server, new, former).way for _ in range(3)] == [former] * 3
    assert (server.opened, len(server.requests)) == (2, 3), "the new one is tried once, and nothing is sent with it"
    accepting = bank(version)
    assert ask(accepting, former, new).way == former


def test_the_sandboxes_front_serves_through_its_proxy_only_and_says_why_it_refuses_a_certificate(
    simulator: Simulator,
) -> None:
    """Before the fixes, a bank in front of which the proxy was forgotten passed the contract suite, and the front
    closed the connection without an alert: every query failed."""
    account = Connection(credentials={}, **connection_to("ipe"))
    [former] = account.ways
    with pytest.raises(ProviderUnavailable):
        ask(account.base_url, replace(former, proxy=""), path="/oauth2/token")
    assert simulator.calls("ipe") == []
    new = replace(former, identity=OTHERS.issue("partner"))
    replies = [ask(account.base_url, new, former, path="/oauth2/token") for _ in "ab"]
    assert ([each.way for each in replies], len(simulator.calls("ipe", "token"))) == ([former] * 2, 2)


def test_a_safe_request_that_the_bank_drops_without_an_alert_is_sent_with_the_former_certificate(
    bank: Callable[..., Server],
) -> None:
    server, new, former = bank(), way(OURS.issue("partner")), way(OURS.issue("partner"))
    server.answers = [close, OK]
    reply = ask(server, new, former, safe=True)
    assert (reply.way, len(server.requests)) == (former, 2)


def test_another_failure_is_not_tried_again_with_the_former_certificate(bank: Callable[..., Server]) -> None:
    server = bank()
    server.answers = [close]
    with pytest.raises(ProviderUnavailable) as raised:
        ask(server, way(OURS.issue("partner")), way(OURS.issue("partner")))
    assert (raised.value.sent, len(server.requests)) == (True, 1)


def stored(server: Server, certificate: str, former: str) -> Provider:
    """The row of a bank whose certificate was renewed."""
    row = Provider(name="ipe", base_url=server.url, credentials=CREDENTIALS["ipe"], authorities=OURS.pem)
    for each in (former, certificate):
        pem, _, key = each.partition("-----BEGIN PRIVATE")
        row.change_way(Change(pem, f"-----BEGIN PRIVATE{key}"))
    row.save()
    return row


@pytest.mark.django_db
@pytest.mark.parametrize("is_accepted", [True, False])
def test_the_first_success_of_a_new_certificate_removes_the_former_one_and_its_key(
    bank: Callable[..., Server], is_accepted: bool
) -> None:
    server = bank()
    row = stored(server, (OURS if is_accepted else OTHERS).issue("partner"), OURS.issue("partner"))
    assert len(row.way_secrets) == 2
    with pytest.raises(ApiError):  # the answers are no words of this bank
        operation.client("ipe", request_id="r", partner="p").status("N-1")
    assert server.requests
    now = Provider.objects.get()
    assert (bool(now.former_certificate), len(now.way_secrets)) == ((False, 1) if is_accepted else (True, 2))
    assert now.updated_at == row.updated_at, "what the bank did before still counts"
    assert (refused_at("ipe", row.certificate) is None) is is_accepted
    entries = AuditEntry.objects.filter(changes__has_key="former_certificate")
    assert entries.count() == is_accepted
    for entry in entries:
        assert "SHA-256" in entry.changes["former_certificate"][0]
        assert "BEGIN" not in str(entry.changes)


@pytest.mark.django_db
def test_where_the_bank_has_another_certificate_by_now_nothing_is_removed() -> None:
    server = Server()
    row = stored(server, OURS.issue("partner"), OURS.issue("partner"))
    account_accepted("ipe", certificate=OTHERS.issue("partner"))
    server.close()
    assert Provider.objects.get().former_certificate == row.former_certificate
