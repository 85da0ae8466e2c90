"""Kills everything that webhooks pass through while they flow, and then asks for every single one.

    python -m tests.faults.webhooks_chaos --seconds 60 --rate 50 --every 5 --lease 30

Every `--every` seconds one of these happens, in turn: a delivery process, a publisher or Redis (wiped too) is
killed with SIGKILL and started again, PostgreSQL likewise. Prints one JSON object; exit code 1 when an accepted
event did not arrive.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.webhooks_rig import Rig, make_partners

# An event in flight when its process is killed waits for the end of its lease.
SETTLE_TIMEOUT_S = 120


def run(seconds: float, rate: float, every: float, lease: int) -> int:
    """Returns the exit code."""
    os.environ["WEBHOOK_LEASE_S"] = str(lease)
    with tempfile.TemporaryDirectory() as folder, Rig(Path(folder), couriers=2, publishers=2).running() as rig:
        partners = make_partners(4, rig.receiver_url)
        rig.warm_up()
        rig.publish(rate, partners)
        faults: list[tuple[str, float]] = []
        actions = itertools.cycle(
            ["courier-0", "redis", "publisher-0", "postgres", "courier-1", "redis-wiped", "publisher-1"]
        )
        ends_at = time.monotonic() + seconds
        while time.monotonic() + every < ends_at:
            time.sleep(every)
            action = next(actions)
            faults.append((action, time.time()))
            rig.restart(action.removesuffix("-wiped"), wipe=action.endswith("-wiped"))
        time.sleep(max(0.0, ends_at - time.monotonic()))
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
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=50, help="events a second")
    parser.add_argument("--lease", type=int, default=30, help="WEBHOOK_LEASE_S")
    parser.add_argument("--every", type=float, default=5, help="seconds between two faults")
    sys.exit(run(**vars(parser.parse_args())))
