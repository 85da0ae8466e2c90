"""The laboratory's OpenAPI document. The values that a field accepts come from the code that checks them, so that both
agree. `tests/simulator/test_lab.py` compares the routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_PROVIDER = "Banco."
_TIME = {"type": "string", "format": "date-time"}
_ABOUT = """\
Para os testes automáticos de parceiros contra o sandbox. Sem chave e sem token.
**Cada chamada trata de um CPF e não toca em nenhum outro.**

1. Escolha um CPF válido qualquer, só seu (gere um por teste), e dê a ele um cenário:
   `PUT /lab/holders/{cpf}` `{"scenario": "biometric"}`.
   Os CPFs do catálogo também servem, mas são de todos: outro parceiro pode estar usando o mesmo.
2. Chame o serviço como em produção: consulta, proposta, formalização.
3. Faça aqui o que fariam o titular e o banco: aprove, recuse ou vença um passo, leve a proposta a um status,
   peça uma falha.
4. No fim: `DELETE /lab/holders/{cpf}`.
"""


@dataclass(frozen=True)
class Words:
    """What the fields take: the words of the code that takes them."""

    banks: Sequence[str]
    scenarios: Sequence[str]
    steps: Sequence[str]
    statuses: Sequence[str]
    faults: Sequence[str]
    operations: Sequence[str]
    longest_latency_ms: int
    disbursed_after_s: float
    reasons: Sequence[str]
    longest_words: int
    #: Banks whose holders may withdraw after the disbursement.
    withdrawals: Sequence[str]
    #: Banks that may leave the CET out of an answer.
    without_cet: Sequence[str]

    @property
    def provider(self) -> dict[str, Any]:
        return _choice(self.banks, _PROVIDER)

    @property
    def step(self) -> dict[str, Any]:
        return _choice(
            self.steps,
            "`liveness` biometria, `chat` mensagem, `sms` SMS, `confirmation` confirmação extra, "
            "`signature` assinatura do contrato, `desk` mesa de crédito do banco.",
        )


def reference(server: str, words: Words) -> dict[str, Any]:
    """The OpenAPI 3.1 document; `server` is the simulator's base address."""
    paths = {**_holder_paths(words), **_step_paths(words), **_proposal_paths(words), **_fault_paths(words)}
    cpf = {
        "name": "cpf",
        "in": "path",
        "required": True,
        "description": "Onze dígitos com dígitos verificadores válidos.",
        "schema": {"type": "string", "pattern": "^[0-9]{11}$", "examples": ["90000000175"]},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Laboratório do sandbox", "version": "1.0.0", "description": _ABOUT},
        "servers": [{"url": server}],
        "security": [],
        "paths": {"/lab/holders": _new_holder(words)}
        | {f"/lab/holders/{{cpf}}{path}": {"parameters": [cpf], **operations} for path, operations in paths.items()},
        "components": {
            "schemas": {"Step": _step(words), "Proposal": _proposal(words), "Fault": _fault(words), "Error": _error()}
        },
    }


# --- what is answered


def _step(words: Words) -> dict[str, Any]:
    return _object(
        "Passo que alguém tem de dar fora da API.",
        id=_text("Identificação do passo."),
        provider=words.provider,
        step=words.step,
        status=_choice(["open", "approved", "refused", "expired"], "Situação do passo."),
        url=_nullable(_text("Link que o banco deu ao titular.")),
        opened_at=_TIME | {"description": "Quando foi aberto."},
        expires_at=_nullable(_TIME | {"description": "Quando vence."}),
        ended_at=_nullable(_TIME | {"description": "Quando terminou."}),
    )


def _proposal(words: Words) -> dict[str, Any]:
    return _object(
        "Proposta como o banco a tem.",
        provider=words.provider,
        contract=_text("Número da proposta no banco; no serviço, em `provider_data`."),
        status=_choice(["created", *words.statuses], "Status, nas palavras do serviço."),
        signature_url=_nullable(_text("Link da assinatura, enquanto vale.")),
        created_at=_TIME | {"description": "Quando chegou ao banco."},
    )


def _fault(words: Words) -> dict[str, Any]:
    return _object(
        "Falha pedida, ainda por acontecer.",
        provider=words.provider,
        fault=_nullable(_choice(words.faults, "A falha; nulo se só demora.")),
        latency_ms={"type": "integer", "description": "Demora antes da resposta, em milissegundos."},
        operation=_choice(words.operations, "Em que chamada do banco."),
        times={"type": "integer", "description": "Quantas chamadas ainda."},
        reason=_nullable(_choice(words.reasons, "Com `reject_submit`: o motivo; nulo se a frase é sua.")),
    )


def _error() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["message"],
        "properties": {
            "field": _nullable(_text("O campo que está errado.")),
            "message": _text("O que está errado."),
        },
    }


# --- the routes, by the end of their paths


def _role(words: Words) -> dict[str, Any]:
    return _object("O papel que o CPF faz.", cpf=_text("O CPF."), scenario=_choice(words.scenarios, "O cenário."))


def _scenario_body(words: Words) -> dict[str, Any]:
    return _body({"scenario": {"type": "string", "enum": list(words.scenarios)}}, "scenario")


def _new_holder(words: Words) -> dict[str, Any]:
    made = {"201": _ok(_role(words))["200"]}
    return {"post": _operation("Fazer um titular novo", made, _scenario_body(words), "Um CPF que ninguém mais usa.")}


def _holder_paths(words: Words) -> dict[str, Any]:
    holder = _object(
        "Tudo o que o simulador sabe de um CPF.",
        cpf=_text("O CPF."),
        scenario=_nullable(_choice(words.scenarios, "O cenário; nulo: sem oferta.")),
        steps=_list("Step"),
        proposals=_list("Proposal"),
        faults=_list("Fault"),
    )
    return {
        "": {
            "get": _operation("Ver um CPF", _ok(holder)),
            "put": _operation(
                "Dar um cenário a um CPF",
                _ok(_role(words)) | _refused("CPF do catálogo."),
                _scenario_body(words),
                "O CPF começa de novo: tudo o que os bancos sabiam dele é esquecido.",
            ),
            "delete": _operation(
                "Esquecer um CPF",
                _nothing(),
                about="Passos, mensagens, ofertas, propostas e falhas deste CPF. Propostas no serviço ficam com o "
                "status que tinham.",
            ),
        }
    }


def _step_paths(words: Words) -> dict[str, Any]:
    which = {"provider": words.provider, "step": words.step, "id": _text("Um passo certo, da lista.")}
    titles = {
        "approve": "Aprovar um passo",
        "refuse": "Recusar um passo",
        "expire": "Vencer um passo ou o seu link",
    }
    listing = _operation("Listar os passos", _ok(_object("", steps=_list("Step"))), about="O mais novo primeiro.")
    return {"/steps": {"get": listing}} | {
        f"/steps/{verb}": {
            "post": _operation(
                title,
                _ok(_ref("Step")) | _refused("Não há passo aberto assim."),
                _body(which),
                "O passo aberto mais novo dos que o corpo descreve; sem corpo, o mais novo de todos.",
            )
        }
        for verb, title in titles.items()
    }


def _proposal_paths(words: Words) -> dict[str, Any]:
    listed = _ok(_object("", proposals=_list("Proposal")))
    target = {
        "status": _choice(words.statuses, "Até onde levar."),
        "provider": words.provider,
        "contract": _text("Uma proposta certa, da lista."),
        **_why(words, "rejected"),
    }
    return {
        "/proposals": {"get": _operation("Listar as propostas", listed, about="A mais nova primeiro.")},
        "/proposals/advance": {
            "post": _operation(
                "Levar uma proposta a um status",
                _ok(_ref("Proposal")) | _refused("Não há proposta assim, ou o caminho não leva até lá."),
                _body(target, "status"),
                "Passa por tudo o que vem antes: `disbursed` emite o contrato, assina e paga. Sem `contract` e "
                "`provider`, a proposta mais nova. Depois de `signed` o dinheiro sai sozinho em "
                f"{words.disbursed_after_s:g} s. `withdrawn`, só {', '.join(words.withdrawals)}: o titular desiste do "
                "contrato pago.",
            )
        },
    }


def _why(words: Words, only_with: str) -> dict[str, Any]:
    """The fields that say why a bank refuses."""
    return {
        "reason": _choice(
            words.reasons,
            f"Só com `{only_with}`: por quê, num código de motivo do serviço. O banco o diz nas palavras dele.",
        ),
        "words": {
            "type": "string",
            "minLength": 1,
            "maxLength": words.longest_words,
            "description": "Em vez de `reason`: a frase que o banco diz. Uma que ninguém conhece chega como `other`.",
        },
    }


def _fault_paths(words: Words) -> dict[str, Any]:
    listed = _ok(_object("", faults=_list("Fault")))
    return {
        "/faults": {
            "get": _operation("Listar as falhas por acontecer", listed),
            "post": _operation(
                "Pedir uma falha de um banco",
                listed,
                _fault_order(words),
                "Vale para as próximas chamadas deste banco sobre este CPF; um novo pedido para a mesma `operation` "
                "substitui o anterior.",
            ),
            "delete": _operation("Tirar as falhas", _nothing()),
        }
    }


def _fault_order(words: Words) -> dict[str, Any]:
    fields = {
        "provider": words.provider,
        "fault": _choice(
            words.faults,
            "`timeout`: o banco não responde. `http_502`: responde 502. "
            "`unknown_outcome`: aceita a proposta e a resposta se perde. "
            f"`without_cet`, só {', '.join(words.without_cet)}: a consulta vem sem o CET, que o serviço calcula. "
            "`reject_submit`: recusa a proposta, na resposta ao envio. "
            "`expired_offer`: as ofertas feitas até agora vencem já. "
            "`expired_link`: os links abertos vencem já.",
        ),
        "latency_ms": {
            "type": "integer",
            "minimum": 0,
            "maximum": words.longest_latency_ms,
            "description": "Responder só depois de tantos milissegundos; com ou sem falha.",
        },
        "operation": {
            "type": "string",
            "enum": list(words.operations),
            "default": "any",
            "description": "Em que chamada do banco; `unknown_outcome` e `reject_submit` são sempre de `submit`, "
            "`without_cet` de `query`.",
        },
        "times": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 1,
            "description": "Em quantas chamadas.",
        },
        **_why(words, "reject_submit"),
    }
    return _body(fields, "provider")


# --- pieces of a document


def _choice(words: Sequence[str], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words), "description": description}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(name)}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    nullable = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return {**schema, "description": description} if description else schema


def _body(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """A body in which the fields that are not `required` may also be null, which counts as absent."""
    fields = {name: each if name in required else _nullable(each) for name, each in properties.items()}
    schema: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _ok(schema: dict[str, Any]) -> dict[str, Any]:
    return {"200": _answer("Feito.", schema)}


def _nothing() -> dict[str, Any]:
    return {"204": {"description": "Feito."}}


def _refused(when: str) -> dict[str, Any]:
    return {"409": _answer(when, _ref("Error"))}


def _operation(
    summary: str, responses: dict[str, Any], body: dict[str, Any] | None = None, about: str = ""
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": responses | {"422": _answer("CPF ou corpo errado.", _ref("Error"))},
    }
    if about:
        operation["description"] = about
    if body is not None:
        operation["requestBody"] = body
    return operation
