"""`python -m simulator`: the simulated banks in one process.

Environment: SIMULATOR_HOST (127.0.0.1), SIMULATOR_PORT (8100), SIMULATOR_CONTROL_TOKEN (dev-control),
SIMULATOR_PUBLIC_URL (the base of the holder's URLs, http://127.0.0.1:PORT), CALLBACK_BASE_URL (the service that
receives callbacks, http://127.0.0.1:8000).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import uvloop
from aiohttp import web

from simulator.app import Settings, create_app

BACKLOG = 2048
LEAVE_AFTER_S = 0.2

logger = logging.getLogger("simulator")


async def run() -> None:
    """Serve until SIGTERM or SIGINT. Raises `OSError` if the address cannot be bound."""
    host = os.environ.get("SIMULATOR_HOST", "127.0.0.1")
    port = int(os.environ.get("SIMULATOR_PORT", "8100"))
    settings = Settings(
        public_url=os.environ.get("SIMULATOR_PUBLIC_URL", f"http://127.0.0.1:{port}"),
        callback_base_url=os.environ.get("CALLBACK_BASE_URL", "http://127.0.0.1:8000"),
        control_token=os.environ.get("SIMULATOR_CONTROL_TOKEN", "dev-control"),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    # With handler_cancellation, a client that disconnects ends its hanging or delayed request.
    runner = web.AppRunner(
        create_app(settings), access_log=None, handler_cancellation=True, shutdown_timeout=LEAVE_AFTER_S
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
        logger.info("ready on http://%s:%d", host, port)
        await stop.wait()
    finally:
        await runner.cleanup()
    logger.info("stopped")


def main() -> int:
    """The process's exit code."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except OSError as error:
        logger.error("can't start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
