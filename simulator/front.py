"""What stands in front of real banks: a gateway that demands a client certificate, and an egress proxy with a password.

Both pass bytes on and know nothing of what they carry.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass

_CHUNK = 65536
_REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
_OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass(frozen=True)
class Front:
    """The ports of gateway and proxy on 127.0.0.1."""

    gateway_port: int
    proxy_port: int


@contextlib.asynccontextmanager
async def front(simulator_port: int, tls: ssl.SSLContext, user: str) -> AsyncIterator[Front]:
    """Gateway and proxy, until the block ends. The gateway leads to `simulator_port`; the proxy wants `user`, a name
    and a password joined by a colon."""

    async def through_gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _lead(reader, writer, ("127.0.0.1", simulator_port))

    async def through_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if f"Proxy-Authorization: Basic {b64encode(user.encode()).decode()}\r\n" in head:
            host, _, port = head.split()[1].rpartition(":")
            await _lead(reader, writer, (host, int(port)), opened=_OPENED, failed=_FAILED)
        else:
            writer.write(_REFUSED)
            writer.close()

    gateway = await asyncio.start_server(through_gateway, "127.0.0.1", 0, ssl=tls)
    proxy = await asyncio.start_server(through_proxy, "127.0.0.1", 0)
    before = asyncio.all_tasks()
    async with gateway, proxy:
        yield Front(gateway.sockets[0].getsockname()[1], proxy.sockets[0].getsockname()[1])
    under_way = asyncio.all_tasks() - before
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    await asyncio.sleep(0)  # closed transports end in the loop's next turn


async def _lead(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    address: tuple[str, int],
    *,
    opened: bytes = b"",
    failed: bytes = b"",
) -> None:
    """Connect an accepted connection to `address`, say `opened` or `failed`, and pass bytes on until a side ends."""
    try:
        further, onward = await asyncio.open_connection(*address)
    except OSError:
        writer.write(failed)
        writer.close()
        return
    writer.write(opened)
    both = [asyncio.create_task(_pass_on(*pair)) for pair in ((reader, onward), (further, writer))]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (onward, writer):
            each.close()
        for task in both:
            task.cancel()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
