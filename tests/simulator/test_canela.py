"""The dialect of the simulated bank canela, as its manual promises it."""

from typing import Any

from tests.providers.manuals import submission_body
from tests.providers.samples import FULL_FLOW
from tests.simulator.dialect import VALUE, Dialect

ACCOUNT = {"login": "integracao.sandbox", "senha": "canela-sandbox-senha-nao-secreta"}
CREDIT = "tomador.dadosBancarios"
PIX_BESIDE_ACCOUNT = submission_body("canela")["tomador"]["dadosBancarios"] | {
    "formaCredito": 3,
    "tipoChavePixId": 1,
    "chavePix": FULL_FLOW,
}


def no(sentence: str) -> dict[str, Any]:
    return {"mensagem": sentence}


DIALECT = Dialect(
    name="canela",
    login={"path": "/login", "json": ACCOUNT},
    token=lambda body: body["token"],
    turned_away=(500, no("token invalido")),
    simulation="simulacaoId",
    offered=lambda caller, body: body["id"][0]["simulacaoId"],
    refusal=lambda field, fault: (422, {**no("dados invalidos"), "pendencias": [{"campo": field, "mensagem": fault}]}),
    may_lack_in_query=(
        "tomador.sexo consentimento.protocolo consentimento.geoLocalizacao consentimento.aplicativo "
        "consentimento.aplicativo.protocolo consentimento.aplicativo.geoLocalizacao"
    ),
    may_lack_in_submission="tomador.estadoCivil",
    submit_faults=[
        ("tomador.sexo", "F", VALUE),
        ("tomador.vinculoEmpregaticio.renda", 4500, VALUE),
        ("tomador.vinculoEmpregaticio.registroEmpregaticio", "100200", VALUE),
        (f"{CREDIT}.formaCredito", 4, VALUE),
        (f"{CREDIT}.chavePix", FULL_FLOW, VALUE),
        (CREDIT, {"formaCredito": 3, "tipoChavePixId": 2, "chavePix": "1"}, VALUE, f"{CREDIT}.tipoChavePixId"),
        (CREDIT, PIX_BESIDE_ACCOUNT, VALUE, f"{CREDIT}.codigoBanco"),
    ],
)
