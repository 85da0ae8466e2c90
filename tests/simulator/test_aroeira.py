"""The dialect of the simulated bank aroeira, as its manual promises it."""

from typing import Any
from urllib.parse import urlencode

from tests.simulator.dialect import MISSING, VALUE, Dialect

USER = ("sandbox.parceiro", "aroeira-sandbox-senha-nao-secreta")
#: To simulate the table without insurance of the holder's employment again.
AGAIN = {"codigo_tabela": "60215", "matricula": "100200"}


def no(sentence: str) -> dict[str, Any]:
    return {"erro": True, "mensagem": sentence}


DIALECT = Dialect(
    name="aroeira",
    login={"method": "GET", "path": "/token/gerar", "auth": USER},
    token=lambda body: body["token"],
    turned_away=(401, no("Token invalido ou expirado")),
    simulation="id_simulacao",
    offered=lambda caller, body: body["operacoes"][0]["id_simulacao"],
    fresh=AGAIN,
    encode=lambda body: urlencode(body).encode(),
    media_type="application/x-www-form-urlencoded",
    refusal=lambda field, fault: (200, no(f"Campo {field}: {fault}")),
    no_bodies=[("application/json", b"{}"), ("multipart/form-data; boundary=x", b"--x--")],
    query_faults=[("tipo_evidencia", "2", MISSING, "app_protocolo")],
    submit_faults=[
        ("naturalidade_cidade", "3550308", VALUE),
        ("naturalidade_uf", "RJ", VALUE, "naturalidade_cidade"),
    ],
)
