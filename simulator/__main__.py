"""`python -m simulator`: the simulated banks in one process.

Environment: SIMULATOR_HOST (127.0.0.1), SIMULATOR_PORT (8100), SIMULATOR_CONTROL_TOKEN (dev-control),
SIMULATOR_PUBLIC_URL (the base of the holder's URLs, http://127.0.0.1:PORT), CALLBACK_BASE_URL (the service that
receives callbacks, http://127.0.0.1:8000), SIMULATOR_CONTROL_PORT, SIMULATOR_FRONT_DIR (see `simulator.front`).

Whoever has the controls reads every body and slows every bank. On loopback they are at SIMULATOR_PORT. Where others can
reach the simulator, by SIMULATOR_HOST or SIMULATOR_PUBLIC_URL, they are only at SIMULATOR_CONTROL_PORT on 127.0.0.1,
nowhere without that variable, and the token must not be the public one.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import uvloop
from aiohttp import web

from simulator.app import Settings, create_app
from simulator.front import prepared_front

BACKLOG = 2048
OPEN_FILES = 4096
DEFAULT_TOKEN = "dev-control"  # noqa: S105 - known to everybody
LEAVE_AFTER_S = 0.2

logger = logging.getLogger("simulator")


def configured(environment: Mapping[str, str]) -> tuple[Settings, list[tuple[str, int]]]:
    """The settings in `environment`, and the addresses to serve at. Raises ValueError where others can reach the
    simulator, for the public token and for controls at the port that others reach."""
    host, port = environment.get("SIMULATOR_HOST", "127.0.0.1"), int(environment.get("SIMULATOR_PORT", "8100"))
    public_url = environment.get("SIMULATOR_PUBLIC_URL", f"http://127.0.0.1:{port}")
    token = environment.get("SIMULATOR_CONTROL_TOKEN", DEFAULT_TOKEN)
    is_reachable = not (_is_loopback(host) and _is_loopback(urlsplit(public_url).hostname or ""))
    if is_reachable and token == DEFAULT_TOKEN:
        raise ValueError(f"SIMULATOR_CONTROL_TOKEN must not be {DEFAULT_TOKEN}: others can reach this simulator")
    control_port = int(environment.get("SIMULATOR_CONTROL_PORT") or 0) if is_reachable else port
    if is_reachable and control_port == port:
        raise ValueError("SIMULATOR_CONTROL_PORT must not be SIMULATOR_PORT: others can reach that")
    callback_base_url = environment.get("CALLBACK_BASE_URL", "http://127.0.0.1:8000")
    further = [("127.0.0.1", control_port)] if control_port not in (0, port) else []
    return Settings(public_url, callback_base_url, token, control_port), [(host, port), *further]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


async def run(settings: Settings, addresses: list[tuple[str, int]], front_dir: str) -> None:
    """Serve at `addresses`, and the front in the folder `front_dir` if there is one, until SIGTERM or SIGINT. Raises
    `OSError` if an address cannot be bound."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    # With handler_cancellation, a client that disconnects ends its hanging or delayed request.
    runner = web.AppRunner(
        create_app(settings), access_log=None, handler_cancellation=True, shutdown_timeout=LEAVE_AFTER_S
    )
    await runner.setup()
    in_front = prepared_front(Path(front_dir), addresses[0][1]) if front_dir else nullcontext()
    try:
        async with in_front:  # first: whoever finds a bank answering may call it through the front
            for host, port in addresses:
                await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
            # The recorded calls are a million objects, each of which a full collection would visit: a third of a second
            # in which no bank answers.
            gc.freeze()
            gc.set_threshold(1_000, 10, 100)
            # The kernel stops all threads for 10 ms or more whenever it enlarges the table of open files.
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            os.close(fcntl.fcntl(sys.stderr, fcntl.F_DUPFD, min(OPEN_FILES, most) - 1))
            logger.info("ready on http://%s:%d", *addresses[0])
            await stop.wait()
    finally:
        await runner.cleanup()
    logger.info("stopped")


def main() -> int:
    """The process's exit code."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        configuration = configured(os.environ)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(*configuration, os.environ.get("SIMULATOR_FRONT_DIR", "")))
    except (OSError, ValueError) as error:
        logger.error("can't start: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
