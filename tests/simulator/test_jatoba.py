"""The dialect of the simulated bank jatoba, as its manual promises it."""

import hashlib
import hmac
from typing import Any

from tests.providers.manuals import changed
from tests.providers.samples import HOLDERS
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Dialect, Refusal

USER = ("originador.sandbox", "jatoba-sandbox-senha-nao-secreta")
API_KEY = "jatoba-sandbox-apikey-nao-secreta"
TERM_KEY = b"jatoba-sandbox-chave-do-termo-nao-secreta"
CODES = {MISSING: "10", TYPE: "11", FORMAT: "12", VALUE: "13"}
UNSIGNED = "Assinatura do termo nao confere"
WITHOUT_PHONE = "Chave PIX do tipo telefone nao aceita"


def signed(body: dict[str, Any]) -> dict[str, Any]:
    """The query with the signature that its term needs."""
    term = body["termo"]
    parts = (body["cliente"]["cpf"], *(term.get(name) for name in ("aceitoEm", "enderecoIp", "latitude", "longitude")))
    text = ";".join(part if isinstance(part, str) else "" for part in parts)
    return changed(body, {"termo.assinatura": hmac.new(TERM_KEY, text.encode(), hashlib.sha256).hexdigest()})


def no(code: str, sentence: str) -> dict[str, Any]:
    return {"sucesso": False, "codigo": code, "mensagem": sentence, "dados": None}


def refusal(field: str, fault: str) -> Refusal:
    """`field` is the sentence where `fault` is a code of the bank's own."""
    return 200, no(CODES[fault], f"{field}: {fault}") if fault in CODES else no(fault, field)


DIALECT = Dialect(
    name="jatoba",
    login={"path": "/v1/tokens", "auth": USER, "headers": {"ApiKey": API_KEY}},
    token=lambda body: body["dados"]["token"],
    headers=lambda token, call, raw: {"Authorization": f"Bearer {token}", "ApiKey": API_KEY},
    bad_headers=[
        {},
        {"ApiKey": API_KEY},
        {"Authorization": "Bearer {token}"},
        {"Authorization": "{token}", "ApiKey": API_KEY},
    ],
    turned_away=(401, no("1", "Token invalido ou expirado")),
    simulation="idOferta",
    offered=lambda caller, body: body["dados"]["ofertas"][0]["idOferta"],
    complete=signed,
    refusal=refusal,
    may_lack_in_submission="vinculo.salario vinculo.dataAdmissao",
    query_faults=[
        ("cliente.cpf", HOLDERS["no_offers"], "22", UNSIGNED),
        ("termo.aceitoEm", "21/11/2026 09:00:01", "22", UNSIGNED),
        ("termo.latitude", "-23.551", "22", UNSIGNED),
        ("termo.assinatura", "x", FORMAT),
    ],
    submit_faults=[
        *(
            ("credito", {"forma": "PIX", "tipoChave": kind, "chave": "11987654321"}, "31", WITHOUT_PHONE)
            for kind in ("TELEFONE", "CELULAR")
        ),
    ],
)
