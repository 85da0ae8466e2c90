# receber.py PORTA   (SEGREDOS no ambiente)
import base64
import hmac
import os
import sys
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEYS = [base64.b64decode(secret.removeprefix("whsec_")) for secret in os.environ["SEGREDOS"].split()]
INBOX = Path("eventos")


def is_genuine(headers, body):
    sent_at = headers.get("webhook-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdecimal() and len(sent_at) < 12):
        return False
    if abs(time.time() - int(sent_at)) > 300:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body
    expected = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in KEYS]
    given = headers.get("webhook-signature", "").encode().split()
    return any(hmac.compare_digest(ours, theirs) for ours in expected for theirs in given)


def keep(event_id, body):
    """Falso se o evento já estava guardado."""
    draft = INBOX / f"{uuid.uuid4()}.tmp"
    with draft.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, INBOX / f"{event_id}.json")
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


class Handler(BaseHTTPRequestHandler):
    timeout = 10  # segundos

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status(body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def status(self, body):
        if not is_genuine(self.headers, body):
            return 401
        try:
            if keep(self.headers["webhook-id"], body):
                print("novo", self.headers["webhook-id"], flush=True)
        except OSError:
            return 500
        return 204


INBOX.mkdir(exist_ok=True)
server = ThreadingHTTPServer(("", int(sys.argv[1])), Handler)
print("escutando", flush=True)
server.serve_forever()
