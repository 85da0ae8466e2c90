"""A partner's program on the Python client: `partner.py COMMAND URL KEY FOLDER`.

What it did stands in FOLDER, and a killed program goes on from there. `submit`: each `*.body`, into `*.done`. `events`
and `stream`: a line for each, with where to go on.
"""

import base64
import json
import sys
from pathlib import Path

from origination import ApiError, Client, SignatureError, verify

command, url, key, name = sys.argv[1:]
folder = Path(name)
client = Client(url, key, pause_s=0.1)


def submit() -> None:
    for body in sorted(folder.glob("*.body")):
        done = body.with_suffix(".done")
        if done.exists():
            continue
        try:
            told = client.submit(json.loads(body.read_text()))["proposal_id"]
        except ApiError as refused:
            told = refused.code
        done.with_suffix(".new").write_text(told)
        done.with_suffix(".new").replace(done)


def write_events() -> None:
    handled = folder / "events"
    lines = handled.read_text().splitlines() if handled.exists() else []
    with handled.open("a") as file:
        for event in client.events(lines[-1].split()[0] if lines else ""):
            file.write(f"{event.cursor} {event.id}\n")
            file.flush()


def stream() -> None:
    handled = folder / "stream"
    lines = handled.read_text().splitlines() if handled.exists() else []
    query_id, last_event_id = lines[-1].split()[:2] if lines else ("", "")
    query = None if lines else json.loads((folder / "query.json").read_text())
    found = client.stream(query, query_id=query_id, last_event_id=last_event_id)
    with handled.open("a") as file:
        for event in found:
            file.write(f"{found.query_id} {found.last_event_id} {event['event']} {event.get('provider', '-')}\n")
            file.flush()


def query() -> None:
    """Reads a query from each line, and prints how it ended."""
    for line in sys.stdin:
        found = client.query(json.loads(line))
        print(json.dumps({"complete": found["complete"], "queryId": found["queryId"]}))  # noqa: T201


def verify_lines() -> None:
    """Reads a line of JSON for each delivery, and prints what it is."""
    for line in sys.stdin:
        given = json.loads(line)
        options = {"handled": {"evt_known"}, "takes_body_signature": given.get("takesBodySignature", False)}
        try:
            event = verify(base64.b64decode(given["body"]), given["headers"], given["secrets"], **options)
            told = [event.id, event.name, event.is_repeat, event.body]
        except SignatureError:
            told = "SignatureError"
        print(json.dumps(told))  # noqa: T201


commands = {"submit": submit, "events": write_events, "stream": stream, "query": query, "verify": verify_lines}
commands[command]()
