"""`python -m origination listen`: passes the events on to an address on this machine, signed, without a public URL."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import secrets
import sys
import time
from collections import deque
from functools import partial
from pathlib import Path

import requests

from origination.calls import NoAnswer, OriginationError, Patience
from origination.client import Client
from origination.webhooks import PREFIX, Event, sign

#: Seconds within which the service, too, wants an answer.
TIMEOUT_S = 10
START, NOW = "start", "now"


class State:
    """Where a listener stopped, and the secret that it signs with, in a file that only its owner reads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        kept = json.loads(file.read_text()) if file.exists() else {}
        self.cursor: str | None = kept.get("cursor")
        self.secret: str = kept.get("secret") or PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()

    def keep(self, cursor: str) -> None:
        """Store `cursor`, so that it is there whenever this process or the machine dies."""
        self.cursor = cursor
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"cursor": cursor, "secret": self.secret}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)


def listen(client: Client, forward_to: str, state: State) -> None:
    """Post each event to `forward_to` until it answers 2xx, then go on to the next. Prints a line for each.

    A kill between the answer and the file makes the event come once more, with the same `webhook-id`.
    """
    for event in client.events(state.cursor or ""):
        status = _forwarded(forward_to, event, state.secret)
        state.keep(event.cursor)
        print(f"{time.strftime('%H:%M:%S')} {event.name} {event.id} -> {status}", flush=True)


def _forwarded(url: str, event: Event, secret: str) -> str:
    if event.body is None:
        return "erased"  # after 30 days
    body = json.dumps(event.body, ensure_ascii=False).encode()
    return Patience(None, 1.0).run("the receiver", partial(_post, url, event.id, body, secret))


def _post(url: str, event_id: str, body: bytes, secret: str) -> str:
    headers = {**sign(event_id, body, secret, int(time.time())), "Content-Type": "application/json"}
    try:
        answer = requests.post(url, body, headers=headers, timeout=TIMEOUT_S, allow_redirects=False)
    except (requests.ConnectionError, requests.Timeout) as fault:
        raise NoAnswer(type(fault).__name__) from None
    if answer.status_code // 100 != 2:
        raise NoAnswer(f"{event_id} -> {answer.status_code}")
    return str(answer.status_code)


def _beginning(client: Client, told: str | None, state: State) -> str:
    """The cursor to begin after: the told one, where the last run stopped, or the newest event."""
    found = told or state.cursor
    if found is None or found == NOW:
        return next((event.cursor for event in deque(client.events(wait_s=0), maxlen=1)), "")
    return "" if found == START else found


def main() -> int:
    """The command `python -m origination listen`. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m origination", description="The client's commands.")
    command = parser.add_subparsers(required=True).add_parser("listen", help="pass the events on to a local receiver")
    command.add_argument("--forward-to", required=True, metavar="URL", help="your webhook receiver")
    command.add_argument(
        "--from", dest="begin", metavar="CURSOR", help="a cursor, start or now; else, where it stopped"
    )
    command.add_argument("--url", default=os.environ.get("ORIGINATION_URL"), help="the service; or ORIGINATION_URL")
    command.add_argument("--state", type=Path, help="the file with cursor and secret; else, one in ~/.origination")
    told = parser.parse_args()
    key = os.environ.get("ORIGINATION_KEY", "")
    if not told.url or not key:
        parser.error("needs --url or ORIGINATION_URL, and your key in ORIGINATION_KEY")
    whose = hashlib.sha256(f"{told.url} {key} {told.forward_to}".encode()).hexdigest()[:16]
    state = State(told.state or Path.home() / ".origination" / f"{whose}.json")
    client = Client(told.url, key)
    try:
        state.keep(_beginning(client, told.begin, state))
        print(f"secret: {state.secret}\ncursor: {state.cursor or START}", flush=True)
        listen(client, told.forward_to, state)
    except OriginationError as fault:
        sys.exit(f"origination: {fault}")
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
