"""Kills every process and server that webhooks need while events are sent, and then checks every event.

python -m tests.faults.webhooks_chaos --rounds 2 --every 5 --rate 50 --lease 30

Each of FAULTS happens once per round: a process or server is killed with SIGKILL and started again; Redis may also lose
its folder. Prints one JSON object. The exit code is 1 if an accepted event did not arrive.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.webhooks_rig import Rig, make_partners

FAULTS = ("courier-0", "redis", "publisher-0", "postgres", "courier-1", "redis-wiped", "publisher-1", "sweeps", "beat")
# An event in flight waits for its lease if its process is killed.
SETTLE_TIMEOUT_S = 120


def run(rounds: int, every: float, rate: float, lease: int) -> int:
    """Run the rounds. Returns the exit code."""
    os.environ["WEBHOOK_LEASE_S"] = str(lease)
    with tempfile.TemporaryDirectory() as folder, Rig(Path(folder), couriers=2, publishers=2).running() as rig:
        partners = make_partners(4, rig.receiver_url)
        rig.warm_up()
        rig.publish(rate, partners)
        faults: list[tuple[str, float]] = []
        for fault in FAULTS * rounds:
            time.sleep(every)
            faults.append((fault, time.time()))
            rig.restart(fault.removesuffix("-wiped"), wipe=fault.endswith("-wiped"))
        time.sleep(every)
        rig.stop_publishing()
        tally = rig.wait_until_settled(partners, SETTLE_TIMEOUT_S)
        report = {
            "accepted": tally.accepted,
            "missing": tally.missing,
            "unsettled": tally.unsettled,
            "duplicates": tally.duplicates,
            "latency_s": {f"p{p}": round(tally.percentile(p), 3) for p in (50, 95, 99, 100)},
            "faults": [{"killed": name, **rig.recovery(at)} for name, at in faults],
        }
        print(json.dumps(report, indent=2))  # noqa: T201
        return 1 if tally.missing or tally.unsettled or not tally.accepted else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="how often each fault happens")
    parser.add_argument("--every", type=float, default=5, help="seconds between two faults")
    parser.add_argument("--rate", type=float, default=50, help="events a second")
    parser.add_argument("--lease", type=int, default=30, help="WEBHOOK_LEASE_S")
    sys.exit(run(**vars(parser.parse_args())))
