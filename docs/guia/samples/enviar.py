# enviar.py URL CHAVE   (precisa do pacote requests)
import json
import sys
from pathlib import Path

import requests

url, key = sys.argv[1:]
session = requests.Session()
session.headers["X-Partner-Api-Key"] = key


def post(path, body):
    answer = session.post(f"{url}/partners/v1{path}", json=body, timeout=60)
    if not answer.ok:
        fault = answer.json()
        raise SystemExit(f"{fault['code']} em {fault['field']}: {fault['message']}")
    return answer.json()


found = post("/consultas", json.loads(Path("consulta.json").read_text()))
offer = found["proposals"][0]
proposal = Path("proposta.json").read_text().replace("<offerId>", offer["offerId"])
print(post("/proposals", json.loads(proposal))["proposal_id"])
