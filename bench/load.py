"""The load driver: timed aggregated and streamed queries over HTTP, limited in number and time."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import requests

CPF = "90000000175"
TIMEOUT_S = 60


@dataclass
class Outcome:
    """The results of one run. `times`, in seconds, and `offers` belong to calls answered with 200. `statuses` counts
    HTTP statuses (0: no answer). `lost` counts the banks missing in the replies of an open load."""

    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    offers: list[int] = field(default_factory=list)
    lost: int = 0

    def percentile(self, share: float) -> float:
        """The time that `share` of the queries did not exceed."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")

    @property
    def failures(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != 200)


def body() -> dict[str, Any]:
    """A query's body with a new amount, so that no query repeats another and its offers are new rows."""
    return {
        "cpf": CPF,
        "nome": "Maria Teste da Silva",
        "data_nascimento": "1985-03-14",
        "telefone": "11987654321",
        "email": "maria.teste@example.com",
        "client_ip": "203.0.113.7",
        "geolocation": {"lat": -23.55, "lng": -46.63},
        "loan_value": random.randint(100_000, 700_000) / 100,
        "prazo": 24,
    }


def parameterless() -> dict[str, Any]:
    """A query's body without amount and installment, for a new holder, so that it repeats no other."""
    query = body()
    del query["loan_value"], query["prazo"]
    return query | {"telefone": f"119{random.randint(0, 99_999_999):08}"}


def fetch(url: str, key: str, method: str, path: str, sent: Any) -> Any:
    """The JSON of one call. Raises requests.HTTPError for a status of 400 or more."""
    answer = requests.request(
        method, f"{url}/partners/v1{path}", json=sent, headers={"X-Partner-Api-Key": key}, timeout=TIMEOUT_S
    )
    answer.raise_for_status()
    return answer.json()


async def aggregated(url: str, key: str | Sequence[str], count: int, in_flight: int) -> Outcome:
    """`count` aggregated queries, always `in_flight` at a time (a closed loop). Several keys take turns."""
    return await calls(url, key, "POST", "/consultas", body, count, in_flight)


async def calls(
    url: str, key: str | Sequence[str], method: str, path: str, sent: Callable[[], Any], count: int, in_flight: int
) -> Outcome:
    """`count` calls of a route, always `in_flight` at a time. `sent` makes each body."""
    outcome = Outcome()
    keys = itertools.cycle([key] if isinstance(key, str) else key)
    waiting = iter(range(count))
    connector = aiohttp.TCPConnector(limit=in_flight)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)

    async def one_after_another(session: aiohttp.ClientSession) -> None:
        for _ in waiting:
            began = time.monotonic()
            headers = {"X-Partner-Api-Key": next(keys)}
            try:
                async with session.request(method, f"{url}/partners/v1{path}", json=sent(), headers=headers) as answer:
                    reply = await answer.json()
                    status = answer.status
            except (aiohttp.ClientError, TimeoutError):
                status = 0
            if status == 200:
                outcome.times.append(time.monotonic() - began)
                outcome.offers.append(len(reply.get("proposals", ())))
            outcome.statuses[status] = outcome.statuses.get(status, 0) + 1

    began = time.monotonic()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(*(one_after_another(session) for _ in range(in_flight)))
    outcome.seconds = time.monotonic() - began
    return outcome


async def offered(url: str, key: str, rate: float, seconds: float, slowest_s: float) -> Outcome:
    """Aggregated queries at `rate` a second for `seconds`, at random intervals (an open model: no query waits for an
    earlier answer). `times` is what the service added to `slowest_s`, the time of the slowest bank."""
    outcome = Outcome()
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"X-Partner-Api-Key": key}

    async def one(session: aiohttp.ClientSession) -> None:
        began = time.monotonic()
        try:
            async with session.post(f"{url}/partners/v1/consultas", json=body()) as answer:
                reply = await answer.json()
                status = answer.status
        except (aiohttp.ClientError, TimeoutError):
            status, reply = 0, {}
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
        if status == 200:
            outcome.times.append(time.monotonic() - began - slowest_s)
            outcome.offers.append(len(reply["proposals"]))
            outcome.lost += sum(each["status"] == "error" for each in reply["providerResults"].values())

    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:
        began = time.monotonic()
        under_way = []
        at = began
        while at - began < seconds:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            under_way.append(asyncio.create_task(one(session)))
            at += random.expovariate(rate)
        await asyncio.gather(*under_way)
        outcome.seconds = time.monotonic() - began
    return outcome


async def sustained(url: str, key: str, in_flight: int, warm_s: float, seconds: float) -> float:
    """The aggregated queries that are answered in a second, by `in_flight` clients that always wait for one (a closed
    loop). A refused client waits as long as `Retry-After` says. Counted are `seconds` seconds, after `warm_s`."""
    ends: list[float] = []
    timeout, headers = aiohttp.ClientTimeout(total=TIMEOUT_S), {"X-Partner-Api-Key": key}
    begins = time.monotonic() + warm_s

    async def one_after_another(session: aiohttp.ClientSession, first_s: float) -> None:
        await asyncio.sleep(first_s)
        while time.monotonic() < begins + seconds:
            async with session.post(f"{url}/partners/v1/consultas", json=body()) as answer:
                await answer.read()
            if answer.status == 200:
                ends.append(time.monotonic())
            else:
                await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=timeout, headers=headers
    ) as session:
        # Begun at once, all would end at once, again and again.
        clients = (one_after_another(session, warm_s / 2 * number / in_flight) for number in range(in_flight))
        await asyncio.gather(*clients)
    return sum(begins <= end < begins + seconds for end in ends) / seconds


async def streamed(url: str, key: str) -> dict[str, float]:
    """One streamed query: the times at which it was sent (`sent`), and at which `start`, each bank's result and
    `complete` arrived, in seconds since the epoch."""
    arrivals = {"sent": time.time()}
    async with (
        aiohttp.ClientSession(headers={"X-Partner-Api-Key": key}) as session,
        session.post(f"{url}/partners/v1/consultas/stream", json=body()) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event["event"] != "provider_start":
                    arrivals[event.get("provider", event["event"])] = time.time()
    return arrivals


async def first_events(url: str, key: str, count: int, in_flight: int) -> list[float]:
    """Milliseconds until the first event of each of `count` streams, sorted, always `in_flight` at a time. Each stream
    is read to its end. Raises ValueError for a stream without an event."""
    waiting = iter(range(count))
    times_ms: list[float] = []

    async def one_after_another(session: aiohttp.ClientSession) -> None:
        for _ in waiting:
            began, first = time.monotonic(), None
            async with session.post(f"{url}/partners/v1/consultas/stream", json=body()) as answer:
                async for line in answer.content:
                    if first is None and line.startswith(b"data: "):
                        first = time.monotonic()
            if first is None:
                raise ValueError(f"a stream without an event, HTTP {answer.status}")
            times_ms.append((first - began) * 1000)

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(headers={"X-Partner-Api-Key": key}, timeout=timeout) as session:
        await asyncio.gather(*(one_after_another(session) for _ in range(in_flight)))
    return sorted(times_ms)
