"""How a bank misbehaves on the network, as the controls or a scenario specify."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

from aiohttp import web

from simulator.bank import Bank

OPERATIONS = ("query", "submit", "formalize", "status", "cancel", "auction", "any")
AFTER_WORK = frozenset({"drop_after_accept", "half_body", "slow_body", "without_cet"})
OF_WORK = frozenset({"drop_after_accept", "without_cet"})  # nothing to spoil where the bank refused the call
WITHOUT_WORK = frozenset(
    {"http_500", "http_502", "http_503", "html", "garbage", "hang", "reset", "huge_body", "expired_token"}
)
FAULTS = AFTER_WORK | WITHOUT_WORK
HUGE_BODY_BYTES = 50 * 1024 * 1024
SLOW_BYTE_S = 1.0

_HTML = (
    '<!DOCTYPE html><html lang="pt-BR"><head><title>Manutenção</title></head>'
    "<body><h1>Sistema em manutenção</h1><p>Tente novamente mais tarde.</p></body></html>"
)
_GARBAGE = b'{"status": "ok", "resultado": [{"valor": 12'
_CHUNK = b"0" * 65536


async def play(
    fault: str, bank: Bank, request: web.Request, response: web.Response | None, cpf: str | None
) -> web.StreamResponse:
    """Misbehave. `done` is the answer to work that was done, for the faults in `AFTER_WORK`. A hanging call about `cpf`
    ends when that holder is forgotten."""
    if fault in AFTER_WORK and response is None:
        raise ValueError(f"{fault} comes after the work")
    match fault:
        case "http_500":
            return web.Response(status=500, text="Internal Server Error")
        case "http_502":
            return web.Response(status=502, text="Bad Gateway")
        case "http_503":
            return web.Response(status=503, text="Service Unavailable")
        case "html":
            return web.Response(text=_HTML, content_type="text/html")
        case "garbage":
            return web.Response(body=_GARBAGE, content_type="application/json")
        case "expired_token":
            bank.tokens.forget()
            return bank.token_refused()
        case "hang":
            await bank.world.until_forgotten(cpf)
            return _cut(request)
        case "huge_body":
            return await _huge(request)
        case "without_cet" if response is not None:
            return bank.without_cet(response)
        case "half_body" if response is not None:
            return await _half(request, response)
        case "slow_body" if response is not None:
            return await _slow(request, response)
        case _:  # reset, drop_after_accept
            return _cut(request)


def _cut(request: web.Request) -> web.Response:
    """Reset the connection (RST) without sending a byte. The returned response is not sent."""
    transport = request.transport
    if transport is not None:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


async def _start(request: web.Request, like: web.Response | None, length: int) -> web.StreamResponse:
    stream = web.StreamResponse(status=200 if like is None else like.status)
    stream.content_type = "application/json" if like is None else like.content_type
    stream.content_length = length
    await stream.prepare(request)
    return stream


async def _half(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Announce the whole body, send half of it, then end the connection."""
    body = _body(response)
    stream = await _start(request, response, max(len(body), 2))
    await stream.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    return stream


async def _slow(request: web.Request, response: web.Response) -> web.StreamResponse:
    body = _body(response)
    stream = await _start(request, response, len(body))
    for byte in body:
        await stream.write(bytes((byte,)))
        await asyncio.sleep(SLOW_BYTE_S)
    return stream


async def _huge(request: web.Request) -> web.StreamResponse:
    """One JSON text of 50 MB, or less if the client disconnects."""
    stream = await _start(request, None, HUGE_BODY_BYTES)
    with suppress(ConnectionResetError):
        await stream.write(b'"')
        for _ in range(HUGE_BODY_BYTES // len(_CHUNK) - 1):
            await stream.write(_CHUNK)
        await stream.write(_CHUNK[:-2] + b'"')
    return stream


def _body(response: web.Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b""
