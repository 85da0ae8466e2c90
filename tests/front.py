"""The simulated banks behind a gateway that demands a client certificate, reached through a proxy with a password."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from foundation.http.way import load_identity
from providers.certificates import Certificates, Change, proxy_secret
from simulator.front import Front, front
from tests.certificates import Authority

if TYPE_CHECKING:
    from providers.models import Provider  # needs the settings

USER = "front:palavra"


class Fronted:
    """A running front, and how to reach the banks behind it."""

    def __init__(self, simulator_port: int) -> None:
        self._authority = Authority()
        self._certificate, begin, key = self._authority.issue("partner").partition("-----BEGIN PRIVATE")
        self._key = begin + key
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(simulator_port),))
        self._thread.start()
        self._is_ready.wait(10)

    def url(self, name: str) -> str:
        """The address of the bank `name` behind the gateway."""
        return f"https://127.0.0.1:{self._ports.gateway_port}/{name}"

    def settings(self) -> dict[str, Any]:
        """What a `Connection` to one of the banks needs."""
        secrets = {Certificates(self._certificate).fingerprint: self._key, **proxy_secret(self._proxy)}
        return {"certificates": (self._certificate,), "authorities": self._authority.pem, "way_secrets": secrets}

    def secure(self, bank: Provider) -> None:
        """Have the stored `bank` reached through the front."""
        credentials = dict(bank.credentials)
        bank.base_url, bank.credentials = self.url(bank.name), credentials
        bank.change_way(Change(self._certificate, self._key, self._authority.pem, self._proxy))
        bank.save()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    @property
    def _proxy(self) -> str:
        return f"http://{USER}@127.0.0.1:{self._ports.proxy_port}"

    async def _serve(self, simulator_port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._authority.pem)
        load_identity(context, self._authority.issue("127.0.0.1"))
        async with front(simulator_port, context, USER) as self._ports:
            self._is_ready.set()
            await self._ended.wait()

    _ports: Front


@contextmanager
def running(simulator_port: int) -> Iterator[Fronted]:
    """A front until the block ends."""
    found = Fronted(simulator_port)
    try:
        yield found
    finally:
        found.close()
