"""The dialect of the simulated bank ipe, as its manual promises it."""

from __future__ import annotations

import requests

from tests.providers.samples import FULL_FLOW, STRANGER
from tests.simulator.dialect import FORMAT, MISSING, NO_BEARER, TYPE, VALUE, Dialect, Refusal, bearer

FOUND = "lk_7Qm2vXo4Tn8sZr1KpW5eYdHc3JbUfGa9"
BANK_FAILS = "lk_5Fz8cRw1Lh6yNt3QxV0aMkGp7DsEuBj2"
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


UNKNOWN = told("IPE000404", "Resource not found", "Recurso não encontrado.")
DIALECT = Dialect(
    name="ipe",
    login={"path": "/oauth2/token", "auth": CLIENT, "data": {"grant_type": "client_credentials"}},
    token=lambda body: body["access_token"],
    granted=lambda body: {"access_token": body["access_token"], "token_type": "Bearer", "expires_in": 1200},
    lifetime_s=1200,
    wrong_logins=[
        (
            {"auth": ("sandbox-originator", "wrong")},
            401,
            told("IPE000400", "Invalid client credentials", "Credenciais do cliente inválidas."),
        ),
        (
            {"auth": ("wrong", CLIENT[1])},
            401,
            told("IPE000400", "Invalid client credentials", "Credenciais do cliente inválidas."),
        ),
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
    headers=bearer,
    bad_headers=NO_BEARER,
    routes=[
        "POST /v1/private_payroll/simulations",
        "POST /v1/private_payroll/debts",
        "GET /v1/private_payroll/debts?requester_identifier_key=x",
        "GET /v1/private_payroll/debts/x",
        "POST /v1/private_payroll/debts/x/issue",
        "POST /v1/private_payroll/debts/x/cancel",
        f"GET /v1/private_payroll/auction_proposals/{FOUND}",
    ],
    turned_away=(401, told("IPE000401", "Invalid or expired token", "Token inválido ou expirado.")),
    query="POST /v1/private_payroll/simulations",
    submit="POST /v1/private_payroll/debts",
    query_cpf="borrower.document_number",
    submit_cpf="borrower.document_number",
    simulation="simulation_key",
    offered=lambda caller, body: body["simulations"][0]["simulation_key"],
    fault=fault,
    body="request body",
    no_bodies=[("application/x-www-form-urlencoded", b"a=b"), ("application/json", b"[]")],
    may_lack_in_query={"borrower.gender"},
    query_faults=[
        ("borrower", ..., MISSING),
        ("borrower", [], TYPE),
        ("borrower.name", "a\ud800", FORMAT),
        ("borrower.name", "a\0", FORMAT),
        ("borrower.document_number", "900.000.001-75", FORMAT),
        ("borrower.birth_date", "1985-03-14", FORMAT),
        ("borrower.birth_date", "1985-03-14T00:00:00.000Z", FORMAT),
        ("borrower.birth_date", "1985-02-30T00:00:00.000000Z", FORMAT),
        ("borrower.email", "maria", FORMAT),
        ("borrower.gender", "F", VALUE),
        ("borrower.phone.country_code", "55", FORMAT),
        ("borrower.phone.number", "98765-4321", FORMAT),
        (f"{AUTHENTICITY}.ip_address", "300.1.1.1", FORMAT),
        (f"{AUTHENTICITY}.timestamp", "2026-11-21T12:00:00Z", FORMAT),
        (f"{AUTHENTICITY}.user_agent", ..., MISSING),
        (f"{AUTHENTICITY}.device_model", ..., MISSING),
        (f"{AUTHENTICITY}.geolocation", ..., MISSING),
        (f"{AUTHENTICITY}.geolocation.longitude", 181, VALUE),
        ("simulation.disbursed_amount", ..., MISSING),
        ("simulation.disbursed_amount", "5000.00", TYPE),
        ("simulation.disbursed_amount", 5000.001, FORMAT),
        ("simulation.disbursed_amount", 0, VALUE),
        ("simulation.number_of_installments", 12.0, TYPE),
        ("simulation.number_of_installments", True, TYPE),
        ("simulation.with_insurance", 1, TYPE),
    ],
    submit_faults=[
        ("requester_identifier_key", "x" * 65, FORMAT),
        ("borrower.gender", None, MISSING),
        ("borrower.father_name", "João", FORMAT),
        ("borrower.marital_status", "casado", VALUE),
        ("borrower.is_pep", "false", TYPE),
        ("borrower.document_identification", ..., MISSING),
        ("borrower.document_identification.issue_date", "01/06/2005", FORMAT),
        ("borrower.address.postal_code", "01310-100", FORMAT),
        ("borrower.address.state", "São Paulo", FORMAT),
        ("disbursement.method", "ted", VALUE),
        ("disbursement.bank_account.branch_number", "1234-5", FORMAT),
        ("disbursement.bank_account.account_number", "567.890", FORMAT),
        ("disbursement.bank_account.account_type", "corrente", VALUE),
        ("acceptance.ip_address", "localhost", FORMAT),
        ("signature_delivery", "pombo", VALUE),
    ],
    taken=[{f"{AUTHENTICITY}.geolocation": None, f"{AUTHENTICITY}.session_id": None}],
    pix=lambda kind, key: {"disbursement": {"method": "pix", "pix": {"key_type": kind, "key": key}}},
    pix_keys=[
        ("document_number", FULL_FLOW, None),
        ("document_number", STRANGER, ("disbursement.pix.key", VALUE)),
        ("phone_number", "+5511987654321", None),
        ("phone_number", "11987654321", ("disbursement.pix.key", FORMAT)),
        ("email", "maria@example.com", None),
        ("random_key", "0d5f6f1e-3d0a-4f0e-9f5c-1c2d3e4f5a6b", None),
        ("random_key", "random", ("disbursement.pix.key", FORMAT)),
        ("cpf", FULL_FLOW, ("disbursement.pix.key_type", VALUE)),
    ],
    unknown=[
        ("GET /v1/private_payroll/debts/x", None, 404, UNKNOWN),
        ("POST /v1/private_payroll/debts/x/issue", {}, 404, UNKNOWN),
        ("POST /v1/private_payroll/debts/x/cancel", {}, 404, UNKNOWN),
        ("GET /v1/private_payroll/auction_proposals/lk_0000000000000000000000000000000000", None, 404, UNKNOWN),
        ("GET /v1/private_payroll/auction_proposals/x", None, 404, UNKNOWN),
        (
            f"GET /v1/private_payroll/auction_proposals/{BANK_FAILS}",
            None,
            503,
            told("IPE000007", "External API error", "Falha na API externa."),
        ),
    ],
    unknown_simulation=(404, UNKNOWN),
)
