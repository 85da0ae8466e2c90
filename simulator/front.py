"""What stands in front of real banks: a gateway that demands a client certificate, and an egress proxy with a password.

Both pass bytes on and know nothing of what they carry. `python -m simulator.front FOLDER` prepares a front: the folder
then holds `front.json` (ports and the proxy's user), `authority.pem`, `gateway.pem`, `certificate.pem` and `key.pem`.
`python -m simulator` serves the front of SIMULATOR_FRONT_DIR.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import secrets
import shutil
import socket
import ssl
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

T = TypeVar("T")
HOST = "127.0.0.1"
_LIFE = datetime.timedelta(days=365)
#: Certificates that end within this time are replaced.
_RENEWED_BEFORE = datetime.timedelta(days=60)
_CHUNK = 65536
#: How long a refused client has to read why, in seconds.
_LINGER_S = 2.0
_REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
_OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass(frozen=True)
class Front:
    """The ports of gateway and proxy on 127.0.0.1."""

    gateway_port: int
    proxy_port: int


@contextlib.asynccontextmanager
async def front(
    simulator_port: int, tls: ssl.SSLContext, user: str, wanted: Front = Front(0, 0)
) -> AsyncIterator[Front]:
    """Gateway and proxy at the `wanted` ports (0: any), until the block ends. The gateway leads to `simulator_port`;
    the proxy wants `user`, a name and a password joined by a colon. Like a bank that knows one egress address, the
    gateway serves only what comes through the proxy."""
    egress: set[tuple[str, int]] = set()

    async def through_gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside = _Tls(tls, reader, writer)
        if not await inside.handshake():
            return
        if writer.get_extra_info("peername") in egress:
            await _lead(inside, inside, ("127.0.0.1", simulator_port))
        else:
            inside.close()

    async def through_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if f"Proxy-Authorization: Basic {b64encode(user.encode()).decode()}\r\n" in head:
            host, _, port = head.split()[1].rpartition(":")
            await _lead(reader, writer, (host, int(port)), opened=_OPENED, failed=_FAILED, egress=egress)
        else:
            writer.write(_REFUSED)
            writer.close()

    gateway = await asyncio.start_server(through_gateway, HOST, wanted.gateway_port)
    proxy = await asyncio.start_server(through_proxy, HOST, wanted.proxy_port)
    before = asyncio.all_tasks()
    async with gateway, proxy:
        yield Front(gateway.sockets[0].getsockname()[1], proxy.sockets[0].getsockname()[1])
    under_way = asyncio.all_tasks() - before
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    await asyncio.sleep(0)  # closed transports end in the loop's next turn


class _Tls:
    """The server's side of TLS on an accepted connection. Unlike asyncio's, it tells a client that it refuses why, by
    an alert, as banks' gateways do."""

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_side=True)

    async def handshake(self) -> bool:
        """False if it failed. The connection is then closed, but not before the client can have read the alert: what
        it sent meanwhile, left unread, would reset the connection."""
        try:
            await self._done(self._tls.do_handshake)
        except (ssl.SSLError, OSError):
            with contextlib.suppress(OSError, TimeoutError):
                self._writer.write_eof()
                async with asyncio.timeout(_LINGER_S):
                    while await self._reader.read(_CHUNK):
                        pass
            self._writer.close()
            return False
        return True

    async def read(self, size: int) -> bytes:
        """Up to `size` bytes. Empty at the end, also at one without its alert."""
        try:
            return await self._done(lambda: self._tls.read(size))
        except ssl.SSLError:
            return b""

    def write(self, data: bytes) -> None:
        self._tls.write(data)
        self._writer.write(self._sent.read())

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def _done(self, step: Callable[[], T]) -> T:
        """The result of `step`, once the client has sent what it needs."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._writer.write(self._sent.read())
                data = await self._reader.read(_CHUNK)
                self._received.write(data) if data else self._received.write_eof()
            finally:
                self._writer.write(self._sent.read())


_Reader = asyncio.StreamReader | _Tls
_Writer = asyncio.StreamWriter | _Tls


async def _lead(
    reader: _Reader,
    writer: _Writer,
    address: tuple[str, int],
    *,
    opened: bytes = b"",
    failed: bytes = b"",
    egress: set[tuple[str, int]] | None = None,
) -> None:
    """Connect an accepted connection to `address`, say `opened` or `failed`, and pass bytes on until a side ends. Our
    address of the connection stands in `egress` meanwhile."""
    egress = set() if egress is None else egress
    try:
        further, onward = await asyncio.open_connection(*address)
    except OSError:
        writer.write(failed)
        writer.close()
        return
    here = onward.get_extra_info("sockname")
    egress.add(here)
    writer.write(opened)
    both = [asyncio.create_task(_pass_on(*pair)) for pair in ((reader, onward), (further, writer))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        egress.discard(here)
        for each in (onward, writer):
            each.close()
        for task in both:
            task.cancel()


async def _pass_on(source: _Reader, target: _Writer) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()


@contextlib.asynccontextmanager
async def prepared_front(folder: Path, simulator_port: int) -> AsyncIterator[None]:
    """The front that `prepare` prepared in `folder`, until the block ends. Raises OSError."""
    known = json.loads((folder / "front.json").read_text())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(folder / "authority.pem")
    tls.load_cert_chain(folder / "gateway.pem")
    async with front(simulator_port, tls, known["user"], Front(known["gateway_port"], known["proxy_port"])):
        yield


def prepare(folder: Path) -> None:
    """Make certificates and choose ports for a front, unless those in `folder` still serve."""
    if _still_serves(folder):
        return
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    authority = _Issuer()
    gateway, partner = authority.issue(HOST), authority.issue("sandbox-originator")
    texts = {"authority.pem": authority.pem, "gateway.pem": "".join(gateway)}
    texts |= dict(zip(("certificate.pem", "key.pem"), partner, strict=True))
    texts["front.json"] = json.dumps({**asdict(_free_ports()), "user": f"sandbox:{secrets.token_urlsafe(16)}"})
    for name, text in texts.items():
        (fresh / name).write_text(text)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def _still_serves(folder: Path) -> bool:
    try:
        known = json.loads((folder / "front.json").read_text())
        certificate = x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes())
    except (OSError, ValueError):
        return False
    lasts = certificate.not_valid_after_utc > datetime.datetime.now(datetime.UTC) + _RENEWED_BEFORE
    return lasts and all(_is_free(known[name]) for name in ("gateway_port", "proxy_port"))


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((HOST, port)) != 0


def _free_ports() -> Front:
    with socket.socket() as one, socket.socket() as other:
        for sock in (one, other):
            sock.bind((HOST, 0))
        return Front(one.getsockname()[1], other.getsockname()[1])


class _Issuer:
    """A certificate authority. `pem` is its certificate."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.pem = self._signed("sandbox authority", self._key, None)

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate for a client or an IP address, and its key (PEM)."""
        key = ec.generate_private_key(ec.SECP256R1())
        with contextlib.suppress(ValueError):
            return self._signed(name, key, x509.IPAddress(ipaddress.ip_address(name))), _private(key)
        return self._signed(name, key, x509.DNSName(name)), _private(key)

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, host: x509.GeneralName | None) -> str:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("sandbox authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + _LIFE)
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([host]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    kind = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
