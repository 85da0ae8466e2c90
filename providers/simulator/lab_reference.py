"""The laboratory's OpenAPI document. The words that a field takes come from the code that takes them, so that the two
can't differ; `tests/providers/simulator/test_lab.py` compares the routes.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def reference(
    *,
    server: str,
    banks: Sequence[str],
    scenarios: Sequence[str],
    steps: Sequence[str],
    statuses: Sequence[str],
    faults: Sequence[str],
    operations: Sequence[str],
    longest_latency_ms: int,
    disbursed_after_s: float,
) -> dict[str, Any]:
    """The OpenAPI 3.1 document; `server` is the simulator's base address, the rest what the fields take."""
    provider = {"type": "string", "enum": list(banks), "description": _PROVIDER}
    step = {
        "type": "string",
        "enum": list(steps),
        "description": "`liveness` biometria, `chat` mensagem, `sms` SMS, `confirmation` confirmação extra, "
        "`signature` assinatura do contrato, `desk` mesa de crédito do banco.",
    }
    schemas = {
        "Step": _object(
            "Passo que alguém tem de dar fora da API.",
            id=_text("Identificação do passo."),
            provider=provider,
            step=step,
            status={
                "type": "string",
                "enum": ["open", "approved", "refused", "expired"],
                "description": "Situação do passo.",
            },
            url=_nullable(_text("Link que o banco deu ao titular.")),
            opened_at=_TIME | {"description": "Quando foi aberto."},
            expires_at=_nullable(_TIME | {"description": "Quando vence."}),
            ended_at=_nullable(_TIME | {"description": "Quando terminou."}),
        ),
        "Proposal": _object(
            "Proposta como o banco a tem.",
            provider=provider,
            contract=_text("Número da proposta no banco; no serviço, em `provider_data`."),
            status={
                "type": "string",
                "enum": ["created", *statuses],
                "description": "Status, nas palavras do serviço.",
            },
            signature_url=_nullable(_text("Link da assinatura, enquanto vale.")),
            created_at=_TIME | {"description": "Quando chegou ao banco."},
        ),
        "Fault": _object(
            "Falha pedida, ainda por acontecer.",
            provider=provider,
            fault=_nullable({"type": "string", "enum": list(faults), "description": "A falha; nulo se só demora."}),
            latency_ms={"type": "integer", "description": "Demora antes da resposta, em milissegundos."},
            operation={"type": "string", "enum": list(operations), "description": "Em que chamada do banco."},
            times={"type": "integer", "description": "Quantas chamadas ainda."},
        ),
        "Error": {
            "type": "object",
            "required": ["message"],
            "properties": {
                "field": _nullable(_text("O campo que está errado.")),
                "message": _text("O que está errado."),
            },
        },
    }
    listed = {name: {"type": "array", "items": _ref(name)} for name in ("Step", "Proposal", "Fault")}
    holder = _object(
        "Tudo o que o simulador sabe de um CPF.",
        cpf=_text("O CPF."),
        scenario=_nullable({"type": "string", "enum": list(scenarios), "description": "O cenário; nulo: sem oferta."}),
        steps=listed["Step"],
        proposals=listed["Proposal"],
        faults=listed["Fault"],
    )
    role = _object(
        "O papel que o CPF faz.",
        cpf=_text("O CPF."),
        scenario={"type": "string", "enum": list(scenarios), "description": "O cenário."},
    )
    which_step = _body(
        {
            "provider": provider,
            "step": step,
            "id": _text("Um passo certo, da lista."),
        }
    )
    paths: dict[str, dict[str, Any]] = {
        "": {
            "get": _operation("Ver um CPF", _ok(holder)),
            "put": _operation(
                "Dar um cenário a um CPF",
                _ok(role) | _refused("CPF do catálogo."),
                _body({"scenario": {"type": "string", "enum": list(scenarios)}}, "scenario"),
                "O CPF começa de novo: tudo o que os bancos sabiam dele é esquecido.",
            ),
            "delete": _operation(
                "Esquecer um CPF",
                _nothing(),
                about="Passos, mensagens, ofertas, propostas e falhas deste CPF. Propostas no serviço ficam com o "
                "status que tinham.",
            ),
        },
        "/steps": {
            "get": _operation("Listar os passos", _ok(_object("", steps=listed["Step"])), about="O mais novo primeiro.")
        },
        **{
            f"/steps/{verb}": {
                "post": _operation(
                    title,
                    _ok(_ref("Step")) | _refused("Não há passo aberto assim."),
                    which_step,
                    "O passo aberto mais novo dos que o corpo descreve; sem corpo, o mais novo de todos.",
                )
            }
            for verb, title in {
                "approve": "Aprovar um passo",
                "refuse": "Recusar um passo",
                "expire": "Vencer um passo ou o seu link",
            }.items()
        },
        "/proposals": {
            "get": _operation(
                "Listar as propostas", _ok(_object("", proposals=listed["Proposal"])), about="A mais nova primeiro."
            )
        },
        "/proposals/advance": {
            "post": _operation(
                "Levar uma proposta a um status",
                _ok(_ref("Proposal")) | _refused("Não há proposta assim, ou o caminho não leva até lá."),
                _body(
                    {
                        "status": {"type": "string", "enum": list(statuses), "description": "Até onde levar."},
                        "provider": provider,
                        "contract": _text("Uma proposta certa, da lista."),
                    },
                    "status",
                ),
                "Passa por tudo o que vem antes: `disbursed` emite o contrato, assina e paga. Sem `contract` e "
                "`provider`, a proposta mais nova. Depois de `signed` o dinheiro sai sozinho em "
                f"{disbursed_after_s:g} s.",
            )
        },
        "/faults": {
            "get": _operation("Listar as falhas por acontecer", _ok(_object("", faults=listed["Fault"]))),
            "post": _operation(
                "Pedir uma falha de um banco",
                _ok(_object("", faults=listed["Fault"])),
                _body(
                    {
                        "provider": provider,
                        "fault": {
                            "type": "string",
                            "enum": list(faults),
                            "description": "`timeout`: o banco não responde. `http_502`: responde 502. "
                            "`unknown_outcome`: aceita a proposta e a resposta se perde. "
                            "`expired_offer`: as ofertas feitas até agora vencem já. "
                            "`expired_link`: os links abertos vencem já.",
                        },
                        "latency_ms": {
                            "type": "integer",
                            "minimum": 0,
                            "maximum": longest_latency_ms,
                            "description": "Responder só depois de tantos milissegundos; com ou sem falha.",
                        },
                        "operation": {
                            "type": "string",
                            "enum": list(operations),
                            "default": "any",
                            "description": "Em que chamada do banco; `unknown_outcome` é sempre de `submit`.",
                        },
                        "times": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": 1000,
                            "default": 1,
                            "description": "Em quantas chamadas.",
                        },
                    },
                    "provider",
                ),
                "Vale para as próximas chamadas deste banco sobre este CPF; um novo pedido para a mesma `operation` "
                "substitui o anterior.",
            ),
            "delete": _operation("Tirar as falhas", _nothing()),
        },
    }
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
        "paths": {f"/lab/holders/{{cpf}}{path}": {"parameters": [cpf], **found} for path, found in paths.items()},
        "components": {"schemas": schemas},
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    made = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        made["enum"] = [*schema["enum"], None]
    return made


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    made = {"type": "object", "required": list(properties), "properties": properties}
    return {**made, "description": description} if description else made


def _body(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
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
    made: dict[str, Any] = {
        "summary": summary,
        "responses": responses | {"422": _answer("CPF ou corpo errado.", _ref("Error"))},
    }
    if about:
        made["description"] = about
    if body is not None:
        made["requestBody"] = body
    return made
