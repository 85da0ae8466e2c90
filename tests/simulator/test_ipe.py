"""The dialect of the simulated bank ipe, as its manual promises it."""

from __future__ import annotations

import requests

from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Dialect, Refusal

FOUND = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
PAYROLL = "/v1/private_payroll"
AUTHENTICITY = "authorization_term.signature.authenticity"
CODES = {"IPE000010": MISSING, "IPE000011": TYPE, "IPE000012": FORMAT, "IPE000013": VALUE}
CLIENT = ("sandbox-originator", "ipe-sandbox-secret-not-a-secret")


def told(code: str, title: str, translation: str) -> dict[str, str]:
    return {"code": code, "title": title, "translation": translation}


def fault(answer: requests.Response) -> Refusal:
    if answer.status_code < 300:
        return None
    assert answer.status_code == 400, answer.text
    body = answer.json()
    field = body["title"].rpartition(": ")[2]
    assert body["translation"].startswith(f"{field}: ") or field == "request body"
    return field, CODES[body["code"]]


DIALECT = Dialect(
    name="ipe",
    login={"path": "/oauth2/token", "auth": CLIENT, "data": {"grant_type": "client_credentials"}},
    token=lambda body: body["access_token"],
    told_lifetime_s=lambda body: body["expires_in"],
    lifetime_s=1200,
    wrong_logins=[
        (
            {"data": {"grant_type": "password"}},
            400,
            told("IPE000013", "Value not allowed: grant_type", "grant_type: valor nao permitido"),
        ),
        (
            {"data": None, "json": {"grant_type": "client_credentials"}},
            400,
            told("IPE000011", "Wrong type: request body", "corpo: tipo invalido"),
        ),
    ],
    turned_away=(401, told("IPE000401", "Invalid or expired token", "Token inválido ou expirado.")),
    query=f"POST {PAYROLL}/simulations",
    submit=f"POST {PAYROLL}/debts",
    simulation="simulation_key",
    offered=lambda caller, body: body["simulations"][0]["simulation_key"],
    fault=fault,
    body="request body",
    may_lack_in_query="borrower.gender",
)
