"""The lower limit: bare aiohttp repeats the HTTP calls of one query, as the adapters made them, for each request.

Nothing is validated, stored or mapped; each answer is decoded and dropped. `python -m bench.peers.floor` records the
calls once, through a proxy between the adapters and the simulator, and then serves at PORT. A bank that limits the use
of its token answers some repeated calls with 401; they cost the same.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web

#: Headers of a single connection, or headers that are computed anew.
HOP = {"host", "content-length", "connection", "transfer-encoding"}


@dataclass(frozen=True)
class Call:
    """One recorded request to a bank. `path` begins with the bank's name in the simulator."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Recorder:
    """Forwards requests to the simulator and records them by bank, in order."""

    def __init__(self, simulator: str) -> None:
        self.simulator = simulator
        self.calls: dict[str, list[Call]] = {}
        self.port = 0

    def running(self) -> Callable[[], None]:
        """Serve in a thread. Returns a function that stops it."""
        loop = asyncio.new_event_loop()
        ready = threading.Event()

        def work() -> None:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._start())
            ready.set()
            loop.run_forever()
            loop.run_until_complete(self._runner.cleanup())

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        ready.wait()

        def end() -> None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

        return end

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _forward(self, request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        call = Call(request.method, request.raw_path, headers, await request.read())
        self.calls.setdefault(request.path.split("/")[1], []).append(call)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(call.method, self.simulator + call.path, headers=headers, data=call.body) as answer,
        ):
            forwarded = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
            return web.Response(status=answer.status, headers=forwarded, body=await answer.read())


def record(simulator: str) -> dict[str, list[Call]]:
    """The calls of one query to every bank, by bank. The logins are done before and not recorded."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from bench.load import body
    from providers import operation
    from providers.models import Provider
    from providers.types.query import BankQuery

    sample = body()
    query = BankQuery(
        cpf=sample["cpf"],
        name=sample["nome"],
        birth_date=date.fromisoformat(sample["data_nascimento"]),
        phone=sample["telefone"],
        email=sample["email"],
        client_ip=sample["client_ip"],
        loan_value=Decimal(str(sample["loan_value"])),
        installments=sample["prazo"],
        accepted_at=datetime.now(UTC),
    )
    recorder = Recorder(simulator)
    end = recorder.running()
    for number in (1, 2):  # the first query logs in
        recorder.calls.clear()
        for row in Provider.objects.all():
            account = row.connection()
            own = urlsplit(account.base_url)._replace(netloc=f"127.0.0.1:{recorder.port}").geturl()
            connections = {row.name: replace(account, base_url=own)}
            operation.client(row.name, request_id=f"bench-floor-{number}", partner="bench", known=connections).query(
                query
            )
    end()
    return recorder.calls


async def serve(simulator: str, port: int, calls: dict[str, list[Call]]) -> None:
    """Answer every POST after repeating all recorded calls, for all banks at the same time."""
    connector = aiohttp.TCPConnector(limit=0)
    session = aiohttp.ClientSession(connector=connector, auto_decompress=False)

    async def bank(mine: list[Call]) -> int:
        read = 0
        for call in mine:
            async with session.request(
                call.method, simulator + call.path, headers=call.headers, data=call.body
            ) as answer:
                read += len(msgspec.json.decode(await answer.read()))
        return read

    async def query(request: web.Request) -> web.Response:
        await request.read()
        read = await asyncio.gather(*(bank(mine) for mine in calls.values()))
        return web.json_response({"read": sum(read)})

    async def live(request: web.Request) -> web.Response:
        return web.json_response({"calls": sum(map(len, calls.values()))})

    app = web.Application()
    app.router.add_post("/partners/v1/consultas", query)
    app.router.add_get("/health/live", live)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=2048).start()
    await asyncio.Event().wait()


def main() -> None:
    simulator: Any = f"http://127.0.0.1:{os.environ['SIMULATOR_PORT']}"
    calls = record(simulator)
    asyncio.run(serve(simulator, int(os.environ["PORT"]), calls))


if __name__ == "__main__":
    main()
