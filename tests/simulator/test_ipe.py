"""The dialect of the simulated bank ipe, as its manual promises it."""

from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Dialect, Refusal

PAYROLL = "/v1/private_payroll"
CODES = {
    MISSING: ("IPE000010", "Required field missing"),
    TYPE: ("IPE000011", "Wrong type"),
    FORMAT: ("IPE000012", "Wrong format"),
    VALUE: ("IPE000013", "Value not allowed"),
}
CLIENT = ("sandbox-originator", "ipe-sandbox-secret-not-a-secret")


def told(code: str, title: str, translation: str) -> dict[str, str]:
    return {"code": code, "title": title, "translation": translation}


def refusal(field: str, fault: str) -> Refusal:
    code, title = CODES[fault]
    return 400, told(code, f"{title}: {field}", f"{'corpo' if field == 'request body' else field}: {fault}")


DIALECT = Dialect(
    name="ipe",
    login={"path": "/oauth2/token", "auth": CLIENT, "data": {"grant_type": "client_credentials"}},
    token=lambda body: body["access_token"],
    turned_away=(401, told("IPE000401", "Invalid or expired token", "Token inválido ou expirado.")),
    query=f"POST {PAYROLL}/simulations",
    submit=f"POST {PAYROLL}/debts",
    simulation="simulation_key",
    offered=lambda caller, body: body["simulations"][0]["simulation_key"],
    refusal=refusal,
    body="request body",
    may_lack_in_query="borrower.gender",
)
