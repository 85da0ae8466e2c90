# acompanhar.py URL CHAVE   (precisa do pacote requests)
import json
import sys
import time
from pathlib import Path

import requests

url, key = sys.argv[1:]
session = requests.Session()
session.headers["X-Partner-Api-Key"] = key
last, query_id = None, None


def call():
    """A consulta, na primeira vez; depois, o que falta dela."""
    options = {"stream": True, "timeout": (5, 40)}
    if query_id is None:
        query = json.loads(Path("consulta.json").read_text())
        return session.post(f"{url}/partners/v1/consultas/stream", json=query, **options)
    here = f"{url}/partners/v1/consultas/{query_id}/stream"
    return session.get(here, headers={"Last-Event-ID": last} if last else {}, **options)


is_complete = False
while not is_complete:
    try:
        with call() as answer:
            answer.raise_for_status()
            is_complete = answer.status_code == 204  # não há mais nada
            for line in answer.iter_lines():
                if line.startswith(b"id: "):
                    event_id = line[4:].decode()
                elif line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    last, query_id = event_id, event["queryId"]
                    print(event["event"], event.get("provider", "-"), flush=True)
                    is_complete = event["event"] == "complete"
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        if query_id is None:
            raise  # nada chegou: quem repete faz outra consulta
    if not is_complete:
        time.sleep(1)
