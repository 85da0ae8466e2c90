"""Acts of a hostile neighbour, each in a process of its own.

python -m bench.hostile ACT URL KEY SECONDS

Every act is limited in time and rate, and uses only loopback. The process has a low priority, and each act has a
maximum of visits a second, because attacker, service and client share one machine's processors. At full speed, an act
would measure that sharing instead of the effect of one visit on the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import urllib3

from bench.proof.backend import query_body

#: Yields whenever a visitor may do something, until the act is over.
Turns = Iterator[None]
Act = Callable[[str, str, Turns], None]
#: No bank of the simulator ever answers for this holder.
HANGS = "90000001813"
STREAMS = 560
#: An auction that the bank knows.
AUCTION = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
LOOK_UPS = 1300
#: The size of a body that is far too large.
BODY = 300 * 1024 * 1024


def turns(rate: float, until: float) -> Turns:
    """Yields as soon as the previous visit is over, but at most `rate` times a second."""
    due = time.monotonic()
    while (now := time.monotonic()) < until:
        if now < due:
            time.sleep(min(due, until) - now)
        due = max(due + 1 / rate, time.monotonic())
        yield


def log_in(url: str, key: str, turns: Turns) -> None:
    """Wrong passwords for accounts that do not exist, as fast as the answers come."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    page = http.request("GET", f"{url}/admin/login/")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.data.decode())
    assert found, "the page has its form"
    cookie = page.headers["Set-Cookie"].partition(";")[0]
    for _ in turns:
        guess = {"username": f"ninguem-{os.urandom(4).hex()}", "password": os.urandom(8).hex()}
        form = urlencode({"csrfmiddlewaretoken": found[1], **guess})
        headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded", "Referer": url}
        http.request("POST", f"{url}/admin/login/", body=form, headers=headers)


def large_bodies(url: str, key: str, turns: Turns) -> None:
    """Forms of 300 MB, alternately with a length and chunked, as far as the service reads them."""
    server = (str(urlsplit(url).hostname), urlsplit(url).port or 80)
    piece = b"a" * 65536
    start = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    for number, _ in enumerate(turns):
        path, is_chunked = ("/health/live", "/admin/login/")[number % 2], number % 4 > 1
        framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {BODY}"
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n{framing}\r\n\r\n"
        with contextlib.suppress(OSError), socket.create_connection(server, timeout=10) as client:
            client.sendall(head.encode() + (b"%x\r\n%s\r\n" % (len(start), start) if is_chunked else start))
            for _ in range(BODY // len(piece)):
                client.sendall(b"10000\r\n%s\r\n" % piece if is_chunked else piece)


def long_lists(url: str, key: str, turns: Turns) -> None:
    """Queries with 80,000 invalid items in the list of banks."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    headers = {"X-Partner-Api-Key": key, "Content-Type": "application/json"}
    body = json.dumps({"providers": [1] * 80_000})
    for _ in turns:
        http.request("POST", f"{url}/partners/v1/consultas", body=body, headers=headers)


def never_read(url: str, key: str, turns: Turns) -> None:
    """Request much, read nothing, and reconnect when the connection is closed."""
    _never_read(url, turns, b"GET /schema/ HTTP/1.1\r\nHost: x\r\n\r\n" * 40)


def never_read_banks(url: str, key: str, turns: Turns) -> None:
    """The same with answers for which the database is asked."""
    request = f"GET /partners/v1/banks HTTP/1.1\r\nHost: x\r\nX-Partner-Api-Key: {key}\r\n\r\n"
    _never_read(url, turns, request.encode() * 4000)


def _never_read(url: str, turns: Turns, requests: bytes) -> None:
    server = (str(urlsplit(url).hostname), urlsplit(url).port or 80)
    for _ in turns:
        with contextlib.suppress(OSError), socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(5)
            client.connect(server)
            with contextlib.suppress(TimeoutError):  # the service stops reading while it waits for us
                client.sendall(requests)
            for _ in turns:
                time.sleep(0.5)
                with contextlib.suppress(TimeoutError):
                    client.send(b"G")


def ask_readiness(url: str, key: str, turns: Turns) -> None:
    """`GET /health/ready` continuously."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    for _ in turns:
        http.request("GET", f"{url}/health/ready")


def hanging_streams(url: str, key: str, turns: Turns) -> None:
    """Streams whose banks all hang, each to its end. So many failures open a breaker."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60)
    headers = {"X-Partner-Api-Key": key}
    for _ in turns:
        http.request("POST", f"{url}/partners/v1/consultas/stream", json=query_body(HANGS), headers=headers)


def hold_streams(url: str, key: str, turns: Turns) -> None:
    """Hold as many open streams as possible, and try again after a refusal."""
    server = (str(urlsplit(url).hostname), urlsplit(url).port or 80)
    body = json.dumps(query_body(HANGS)).encode()
    head = (
        f"POST /partners/v1/consultas/stream HTTP/1.1\r\nHost: x\r\nX-Partner-Api-Key: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    held: list[socket.socket] = []
    for _ in turns:
        if len(held) < STREAMS:
            client = socket.create_connection(server, timeout=10)
            client.sendall(head.encode() + body)
            if client.recv(12).endswith(b"200"):
                held.append(client)
            else:
                client.close()
    print(f"held {len(held)} streams")


def auction_look_ups(url: str, key: str, turns: Turns) -> None:
    """Auction look-ups at a bank that `neighbours` made slow: so many that a worker's 1,000 slots would not suffice."""
    server = (str(urlsplit(url).hostname), urlsplit(url).port or 80)
    request = f"GET /partners/v1/auction-proposals/{AUCTION} HTTP/1.1\r\nHost: x\r\nX-Partner-Api-Key: {key}\r\n\r\n"
    under_way: deque[socket.socket] = deque()
    for _ in turns:
        if len(under_way) == LOOK_UPS:
            under_way.popleft().close()
        under_way.append(socket.create_connection(server, timeout=10))
        under_way[-1].sendall(request.encode())


def webhook_events(url: str, key: str, turns: Turns) -> None:
    """Test events, resends of the oldest event, and readings of it, which `neighbours` gave 40,000 attempts."""
    http = urllib3.PoolManager(maxsize=1, retries=False, timeout=60, headers={"X-Partner-Api-Key": key})
    events = f"{url}/partners/v1/webhook-events"
    oldest = http.request("GET", events, fields={"event": "lead"}).json()["events"][-1]["id"]
    for number, _ in enumerate(turns):
        what = ("test", f"{oldest}/resend", oldest)[number % 3]
        http.request("GET" if what == oldest else "POST", f"{events}/{what}")


class Bounds(NamedTuple):
    """How many visitors act at the same time, and the maximum of visits a second in total."""

    visitors: int
    rate: float


#: Each act by its name.
ACTS: dict[str, tuple[Act, Bounds]] = {
    "log-in": (log_in, Bounds(8, 100)),
    "large-bodies": (large_bodies, Bounds(4, 20)),
    "long-lists": (long_lists, Bounds(2, 10)),
    "never-read": (never_read, Bounds(64, 64)),
    "never-read-banks": (never_read_banks, Bounds(40, 80)),
    "readiness": (ask_readiness, Bounds(20, 200)),
    "hanging-streams": (hanging_streams, Bounds(12, 12)),
    "failing-probes": (hanging_streams, Bounds(12, 12)),
    "hold-streams": (hold_streams, Bounds(1, 50)),
    "auction-look-ups": (auction_look_ups, Bounds(1, 65)),
    "webhook-events": (webhook_events, Bounds(4, 60)),
}


def main(act: str, url: str, key: str, seconds: float) -> None:
    """Run the visitors of `act` for `seconds`."""
    if urlsplit(url).hostname != "127.0.0.1":
        raise SystemExit("loopback only")
    os.nice(10)
    if os.sched_getscheduler(0) == os.SCHED_RR:  # on a shared machine: `chrt -r 2 python -m bench…`
        os.sched_setparam(0, os.sched_param(1))
    what, (visitors, rate) = ACTS[act]
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=what, args=(url, key, turns(rate / visitors, until)), daemon=True)
        for _ in range(visitors)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until + 5 - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
