"""A partner's endpoint that costs little: it answers every request with 204, keeps connections open, and prints the
`webhook-id` and the time of each.

python -m bench.receiver PORT
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import httptools
import uvloop

HOST = "127.0.0.1"


class Endpoint(asyncio.Protocol):
    """One connection. The parser calls the methods `on_…`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser, self._id = httptools.HttpRequestParser(self), ""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"webhook-id":
            self._id = value.decode()

    def on_message_complete(self) -> None:
        sys.stdout.write(f"{self._id} {time.time()}\n")
        self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def serve(port: int) -> None:
    """Answer until the process is stopped."""
    server = await asyncio.get_running_loop().create_server(Endpoint, HOST, port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1])))
