"""What a bad neighbour does to the service, each act in a process of its own.

    python -m tests.faults.hostile ACT URL KEY SECONDS

Every act is bounded in time and goes to loopback only. The process is nice: on the machine of a test it would
otherwise take from the service the processor that a neighbour has at home.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

import urllib3

Act = Callable[[str, str, float], None]


def log_in(url: str, key: str, until: float) -> None:
    """Wrong passwords for accounts that nobody has, as fast as the answers come."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    page = http.request("GET", f"{url}/admin/login/")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.data.decode())
    assert found, "the page has its form"
    cookie = page.headers["Set-Cookie"].partition(";")[0]
    while time.monotonic() < until:
        guess = {"username": f"ninguem-{os.urandom(4).hex()}", "password": os.urandom(8).hex()}
        form = urlencode({"csrfmiddlewaretoken": found[1], **guess})
        headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded", "Referer": url}
        http.request("POST", f"{url}/admin/login/", body=form, headers=headers)


#: Name of each act: what a visitor does, and how many visitors do it at once.
ACTS: dict[str, tuple[Act, int]] = {
    "log-in": (log_in, 8),
}


def main(act: str, url: str, key: str, seconds: float) -> None:
    """Let the visitors of `act` do it for `seconds`."""
    if urlsplit(url).hostname != "127.0.0.1":
        raise SystemExit("loopback only")
    os.nice(10)
    what, visitors = ACTS[act]
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=what, args=(url, key, until), daemon=True) for _ in range(visitors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 5 - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
