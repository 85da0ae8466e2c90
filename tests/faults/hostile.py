"""What a bad neighbour does to the service, each act in a process of its own.

    python -m tests.faults.hostile ACT URL KEY SECONDS

Every act is bounded in time and goes to loopback only. The process is nice: on the machine of a test it would
otherwise take from the service the processor that a neighbour has at home.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import socket
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


def large_bodies(url: str, key: str, until: float) -> None:
    """Forms of 300 MB, by turns announced and in chunks, as far as the service takes them."""
    server = (str(urlsplit(url).hostname), urlsplit(url).port or 80)
    piece = b"a" * 65536
    start = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    for number in itertools.count():
        if time.monotonic() > until:
            return
        path, is_chunked = ("/health/live", "/admin/login/")[number % 2], number % 4 > 1
        framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {300 * 1024 * 1024}"
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n{framing}\r\n\r\n"
        with contextlib.suppress(OSError), socket.create_connection(server, timeout=10) as client:
            client.sendall(head.encode() + (b"%x\r\n%s\r\n" % (len(start), start) if is_chunked else start))
            while time.monotonic() < until:
                client.sendall(b"10000\r\n%s\r\n" % piece if is_chunked else piece)


def long_lists(url: str, key: str, until: float) -> None:
    """Queries whose list of banks has 80,000 wrong items."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    headers = {"X-Partner-Api-Key": key, "Content-Type": "application/json"}
    body = json.dumps({"providers": [1] * 80_000})
    while time.monotonic() < until:
        http.request("POST", f"{url}/partners/v1/consultas", body=body, headers=headers)


def never_read(url: str, key: str, until: float) -> None:
    """Ask for much, read nothing, and ask again on a new connection when this one was cut."""
    server = (str(urlsplit(url).hostname), urlsplit(url).port or 80)
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(5)
            client.connect(server)
            client.sendall(b"GET /schema/ HTTP/1.1\r\nHost: x\r\n\r\n" * 40)
            while time.monotonic() < until:
                time.sleep(0.5)
                client.send(b"G")


def ask_readiness(url: str, key: str, until: float) -> None:
    """`GET /health/ready` without end."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    while time.monotonic() < until:
        http.request("GET", f"{url}/health/ready")


#: Name of each act: what a visitor does, and how many visitors do it at once.
ACTS: dict[str, tuple[Act, int]] = {
    "log-in": (log_in, 8),
    "large-bodies": (large_bodies, 4),
    "long-lists": (long_lists, 1),
    "never-read": (never_read, 64),
    "readiness": (ask_readiness, 20),
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
