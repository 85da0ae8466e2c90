"""A simulator whose banks send callbacks to a receiver of the test instead of the service."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from config.local.processes import Process
from config.local.servers import free_port
from tests.conftest import CONTROL_TOKEN
from tests.processes import ROOT, START_TIMEOUT_S, Simulator, answers, wait_until
from tests.receiver import Receiver


@contextmanager
def simulator_calling(receiver: Receiver) -> Iterator[Simulator]:
    """A simulator that runs during the block."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {
        "SIMULATOR_PORT": str(port),
        "SIMULATOR_CONTROL_TOKEN": CONTROL_TOKEN,
        "CALLBACK_BASE_URL": f"http://127.0.0.1:{receiver.port}",
    }
    process = Process("simulator", [sys.executable, "-m", "simulator"], environment)
    process.start(ROOT, subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(url), START_TIMEOUT_S, "the simulator answers")
        with closing(Simulator(url, CONTROL_TOKEN, shows_turned_away=True)) as simulator:
            yield simulator
    finally:
        process.kill()
