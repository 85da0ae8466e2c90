"""PostgreSQL outages that last longer than a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import requests

from tests.client import Client
from tests.processes import wait_until

#: The pool's pauses doubled without limit: it tried after 15 to 16.5 s, and then after another 12 s.
OUTAGE_S = 17
FOUND_S = 10
#: Enough connections to reach every web process.
CALLS = 16


def test_it_is_found_again_soon_after_it_is_back(
    client: Client, cut_database: Callable[[], AbstractContextManager[None]]
) -> None:
    def listed(_: int) -> tuple[int, float]:
        began = time.monotonic()
        reply = requests.get(f"{client.base}/proposals", headers=dict(client.session.headers), timeout=60)
        return reply.status_code, time.monotonic() - began

    with ThreadPoolExecutor(2 * CALLS) as pool:
        assert {status for status, _ in pool.map(listed, range(CALLS))} == {200}
        with cut_database():
            began = time.monotonic()
            for number in range(CALLS):
                pool.submit(listed, number)
            wait_until(lambda: time.monotonic() - began > OUTAGE_S, OUTAGE_S + 5, "the waits have grown")
        replies = list(pool.map(listed, range(CALLS)))
        assert {status for status, _ in replies} == {200}
        assert max(took for _, took in replies) < FOUND_S, replies
