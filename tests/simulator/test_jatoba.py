"""The dialect of the simulated bank jatoba, as its manual promises it."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
import requests

from tests.providers.manuals import changed
from tests.providers.samples import FULL_FLOW, HOLDERS
from tests.simulator.dialect import FORMAT, MISSING, TYPE, VALUE, Caller, Dialect, Refusal
from tests.simulator.http import HttpSimulator

USER = ("originador.sandbox", "jatoba-sandbox-senha-nao-secreta")
API_KEY = "jatoba-sandbox-apikey-nao-secreta"
TERM_KEY = b"jatoba-sandbox-chave-do-termo-nao-secreta"
SIMULATIONS = "/v1/consignado-privado/simulacoes"
PROPOSALS = "/v1/consignado-privado/propostas"
CODES = {"10": MISSING, "11": TYPE, "12": FORMAT, "13": VALUE}
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


def fault(answer: requests.Response) -> Refusal:
    assert answer.status_code == 200
    body = answer.json()
    if body["sucesso"]:
        return None
    return body["mensagem"].split(":")[0], CODES.get(body["codigo"], body["codigo"])


DIALECT = Dialect(
    name="jatoba",
    login={"path": "/v1/tokens", "auth": USER, "headers": {"ApiKey": API_KEY}},
    token=lambda body: body["dados"]["token"],
    told_lifetime_s=lambda body: body["dados"]["expiraEmSegundos"],
    lifetime_s=1800,
    headers=lambda token, call, raw: {"Authorization": f"Bearer {token}", "ApiKey": API_KEY},
    bad_headers=[
        {},
        {"ApiKey": API_KEY},
        {"Authorization": "Bearer {token}"},
        {"Authorization": "{token}", "ApiKey": API_KEY},
    ],
    turned_away=(401, no("1", "Token invalido ou expirado")),
    query=f"POST {SIMULATIONS}",
    submit=f"POST {PROPOSALS}",
    simulation="idOferta",
    offered=lambda caller, body: body["dados"]["ofertas"][0]["idOferta"],
    complete=signed,
    fault=fault,
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


@pytest.mark.parametrize("name", ["latitude", "longitude"])
def test_a_term_without_geolocation_is_code_21(bank: Caller, name: str) -> None:
    answer = bank.query(changes={f"termo.{name}": None}).json()
    assert (answer["codigo"], answer["dados"]) == ("21", None)


def test_a_signed_proposal_is_not_issued_again(simulator: HttpSimulator, bank: Caller) -> None:
    path = f"{PROPOSALS}/{bank.submit(bank.submission()).json()['dados']['numeroProposta']}"
    bank.call(f"POST {path}/emissao", {"envioLink": None})
    simulator.complete(FULL_FLOW, "jatoba", "signature")
    assert bank.call(f"POST {path}/emissao", {"envioLink": None}).json()["codigo"] == "41"
    assert bank.call(f"GET {path}").json()["dados"]["situacao"] == "ASSINADA"
