# 1. Consulte
import os
import subprocess
import sys
import time
from pathlib import Path

import requests  # pip install requests

URL, LAB = "https://sandbox.example", "https://simulador.example/lab/holders"
api = requests.Session()
api.headers["X-Partner-Api-Key"] = "cpk_test_sandbox_public_key_not_a_secret_00000000000"


def call(method, url, body=None):
    answer = api.request(method, url, json=body, timeout=60)
    answer.raise_for_status()
    return answer.json()


cpf = call("POST", LAB, {"scenario": "full_flow"})["cpf"]
query = {**call("GET", f"{URL}/docs/guia/consulta.json"), "cpf": cpf}
offer = call("POST", f"{URL}/partners/v1/consultas", query)["proposals"][0]
print("oferta", offer["offerId"])

# 2. Receba os eventos
registration = {"url": "http://127.0.0.1:9000/webhook", "rotate_secret": True}
secret = call("PUT", f"{URL}/partners/v1/webhook", registration)["secret"]
Path("receber.py").write_bytes(api.get(f"{URL}/docs/guia/receber.py", timeout=60).content)
environment = {**os.environ, "SEGREDOS": secret}
receiver = subprocess.Popen([sys.executable, "receber.py", "9000"], env=environment, stdout=subprocess.PIPE, text=True)
print(receiver.stdout.readline())  # escutando

# 3. Envie a oferta escolhida
body = call("GET", f"{URL}/docs/guia/proposta.json")
body["titular"]["cpf"], body["offer_ref"]["offer_id"] = cpf, offer["offerId"]
proposal = call("POST", f"{URL}/partners/v1/proposals", body)
print("proposta", proposal["proposal_id"])

# 4. Formalize, e assine pelo titular
formalized = call("POST", f"{URL}/partners/v1/proposals/{proposal['proposal_id']}/formalize")
print(formalized["action"]["url"])
call("POST", f"{LAB}/{cpf}/steps/approve", {"provider": "ipe", "step": "signature"})

# 5. Espere o dinheiro
paid = (proposal["proposal_id"], "proposal.disbursed")
while not any(all(word in file.read_text() for word in paid) for file in Path("eventos").glob("*.json")):
    time.sleep(1)
print("pago")
receiver.terminate()

# 6. Fim
