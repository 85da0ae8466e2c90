"""Events at a constant rate, a receiver that records every id, and the time from storing to arrival.

python -m tests.faults.webhooks_load --seconds 30 --rate 100 [--workers 2] [--tarpits 1]

With `--tarpits`, that many more partners get a tenth of the rate each, at endpoints that never answer. Prints one JSON
object. The exit code is 1 if an event is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.faults.webhooks_rig import Rig, make_partners


def run(seconds: float, rate: float, workers: int, tarpits: int) -> int:
    """Run the load. Returns the exit code."""
    with ExitStack() as stack:
        rig = Rig(Path(stack.enter_context(tempfile.TemporaryDirectory())), couriers=workers)
        stack.enter_context(rig.running())
        partners = make_partners(4, rig.receiver_url)
        dead = []
        for _ in range(tarpits):
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
            dead += make_partners(1, f"http://127.0.0.1:{server.getsockname()[1]}/")
        rig.warm_up()
        rig.publish(rate, partners)
        if dead:
            rig.publish(rate / 10 * tarpits, dead, "tarpit-publisher")
        before = _cpu_ms(rig)
        time.sleep(seconds)
        spent = {name: ms - before.get(name, 0.0) for name, ms in _cpu_ms(rig).items()}
        rig.stop_publishing()
        tally = rig.wait_until_settled(partners, 60)
        report = {
            "rate": rate,
            "workers": workers,
            "tarpits": tarpits,
            "accepted": tally.accepted,
            "missing": tally.missing,
            "duplicates": tally.duplicates,
            "latency_ms": {f"p{p}": round(tally.percentile(p) * 1000, 1) for p in (50, 95, 99, 100)},
            "cpu_ms_per_event": {name: round(ms / tally.accepted, 2) for name, ms in spent.items()},
        }
        print(json.dumps(report, indent=2))  # noqa: T201
        return 1 if tally.missing or not tally.accepted else 0


def _cpu_ms(rig: Rig) -> dict[str, float]:
    """User and system time of each program (Linux), in milliseconds. Whoever stores an event rings for it, so the
    publisher's time is part of an event's price."""
    found = {}
    for program in rig.programs.running:
        fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
        found[program.name] = (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=100, help="events a second")
    parser.add_argument("--workers", type=int, default=1, help="webhooks workers")
    parser.add_argument("--tarpits", type=int, default=0, help="partners whose endpoint never answers")
    sys.exit(run(**vars(parser.parse_args())))
