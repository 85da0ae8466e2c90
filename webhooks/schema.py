"""Webhooks in the API reference: the parts that all events share, and the partner's access to its events.

Each app describes its own events.
"""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, OpenApiWebhook, extend_schema
from rest_framework import serializers as drf

from foundation.errors import InvalidInput, InvalidState, MethodNotAllowed, NotFound
from partners.models import WebhookEvent
from partners.schema import errors, request_example, response_example
from webhooks.models import Event
from webhooks.serializers import EventListRequest, RegistrationRequest
from webhooks.transport import Fault

SENT_AT = "2026-03-02T14:00:02.315Z"
PARTNER_ID = "5b0c8f0e-3b53-4d3c-9d0f-1f6f4f8f2a11"
_HEADERS = {
    "X-Service-Signature": "HMAC-SHA256 dos bytes do corpo, em hexadecimal minúsculo. A chave é o segredo inteiro, "
    "com `whsec_`, em UTF-8.",
    "webhook-id": "Igual em todas as tentativas e reenvios do evento: por ele se descartam repetições.",
    "webhook-timestamp": "Hora da tentativa, em segundos desde 1970.",
    "webhook-signature": "Assinaturas do padrão Standard Webhooks, separadas por espaço: uma de cada segredo em vigor.",
}


class EventSchema(drf.Serializer[Any]):
    """The fields that `outbox.send` adds to an event, except `external_reference`, which each event describes
    itself."""

    partner_id = drf.UUIDField(help_text="Identificador do parceiro.")
    event = drf.CharField(help_text="Nome do evento.")
    timestamp = drf.DateTimeField(help_text="Quando o evento foi criado, UTC.")


def webhook(
    name: str, body: type[drf.Serializer[Any]], summary: str, when: str, reference: str, **fields: Any
) -> OpenApiWebhook:
    """The entry of the event `name` in SPECTACULAR_SETTINGS["WEBHOOKS"]. `fields` are the example's values, in addition
    to the fields of every event."""
    example = {
        "partner_id": PARTNER_ID,
        "external_reference": reference,
        "event": name,
        **fields,
        "timestamp": SENT_AT,
    }
    return OpenApiWebhook(
        name,
        extend_schema(
            operation_id="event_" + re.sub(r"[^a-z]+", "_", name).strip("_"),
            summary=summary,
            description=when,
            tags=["Eventos"],
            request={"application/json": body},
            examples=[OpenApiExample(name, value=example)],
            responses={200: OpenApiResponse(None, description="Qualquer 2xx confirma. O corpo não é interpretado.")},
        ),
    )


def name_headers(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A hook that adds the headers of every delivery, which drf-spectacular cannot describe."""
    for methods in result.get("webhooks", {}).values():
        for operation in methods.values():
            operation["parameters"] = [
                {"in": "header", "name": name, "required": True, "schema": {"type": "string"}, "description": meaning}
                for name, meaning in _HEADERS.items()
            ]
    return result


class WebhookRegistrationSchema(drf.Serializer[Any]):
    url = drf.CharField(allow_null=True, help_text="O endereço que recebe os eventos; nulo enquanto não há nenhum.")
    events = drf.ListField(
        child=drf.ChoiceField(WebhookEvent.values),
        help_text="Os eventos que o cadastro pede; `proposal` vale por todos os `proposal.<status>`.",
    )
    secret_set = drf.BooleanField(
        help_text="Se há um segredo que assina os eventos. Não diz que alguém o conhece: ele só é mostrado ao "
        "operador, quando o emite."
    )
    retired_secrets = drf.IntegerField(help_text="Quantos segredos trocados ainda assinam `webhook-signature`.")


class WebhookRegisteredSchema(WebhookRegistrationSchema):
    secret = drf.CharField(required=False, help_text="O segredo novo, se a chamada fez um. Não é mostrado de novo.")


class _EventSchema(drf.Serializer[Any]):
    id = drf.CharField(help_text="O `webhook-id`, igual em todas as tentativas e reenvios.")
    event = drf.CharField(help_text="Nome do evento, como `proposal.signed`.")
    state = drf.ChoiceField(
        Event.State.values,
        help_text="`due`: a entregar; `delivered`: confirmado com 2xx; `failed`: sem mais tentativas.",
    )
    next_attempt_at = drf.DateTimeField(allow_null=True, help_text="Quando é a próxima; nulo quando não há outra.")
    created_at = drf.DateTimeField(help_text="Quando o evento aconteceu.")


class WebhookEventRowSchema(_EventSchema):
    attempts = drf.IntegerField(help_text="Quantas tentativas houve.")
    body = drf.DictField(
        required=False, allow_null=True, help_text="Só com `include=body`: o corpo enviado; nulo depois de apagado."
    )


class WebhookEventPageSchema(drf.Serializer[Any]):
    events = WebhookEventRowSchema(many=True, help_text="Na ordem pedida.")
    next_cursor = drf.CharField(
        allow_null=True,
        help_text="Para pedir a página seguinte; nulo na última. Com `order=asc` nunca é nulo: guarde-o.",
    )


class WebhookAttemptSchema(drf.Serializer[Any]):
    number = drf.IntegerField(help_text="A primeira é 1.")
    at = drf.DateTimeField(help_text="Quando começou.")
    url = drf.CharField(help_text="O endereço que o cadastro tinha nesse momento.")
    status = drf.IntegerField(allow_null=True, help_text="Status HTTP da resposta; nulo quando não houve resposta.")
    fault = drf.ChoiceField(Fault.values, allow_null=True, help_text="O que falhou; nulo na tentativa confirmada.")
    duration_ms = drf.IntegerField(help_text="Duração, em milissegundos.")
    answer = drf.CharField(allow_null=True, help_text="O início da resposta recebida; nulo quando veio vazia.")


class WebhookEventDetailSchema(_EventSchema):
    attempts = WebhookAttemptSchema(many=True, help_text="As 50 últimas tentativas, na ordem em que foram feitas.")
    attempts_total = drf.IntegerField(help_text="Quantas tentativas houve.")
    delivered_at = drf.DateTimeField(allow_null=True, help_text="Quando foi confirmado.")
    body = drf.DictField(allow_null=True, help_text="O corpo enviado; nulo depois de apagado.")


_EVENT_ID = "evt_6a1f0c9e7f0a4c0e9a530a4f3a3f9b11"
_ROW = {
    "id": _EVENT_ID,
    "event": "lead",
    "state": "failed",
    "attempts": 9,
    "next_attempt_at": None,
    "created_at": SENT_AT,
}
_QUEUED = {**_ROW, "state": "due", "next_attempt_at": "2026-03-03T18:00:00Z"}
_DETAIL = {
    **_QUEUED,
    "attempts": [
        {
            "number": 1,
            "at": "2026-03-02T14:00:02.401Z",
            "url": "https://parceiro.example/webhooks",
            "status": 500,
            "fault": Fault.STATUS.value,
            "duration_ms": 87,
            "answer": "Internal Server Error",
        }
    ],
    "attempts_total": 1,
    "delivered_at": None,
    "body": {
        "partner_id": PARTNER_ID,
        "external_reference": "7d1e9f0e-7f0a-4c0e-9a53-0a4f3a3f9b12",
        "event": "lead",
        "timestamp": SENT_AT,
    },
}
_PATH = OpenApiParameter("event_id", str, OpenApiParameter.PATH, description="O `webhook-id` do evento.")


_REGISTRATION = {
    "url": "https://parceiro.example/webhooks",
    "events": ["lead", "authorization_result"],
    "secret_set": True,
    "retired_secrets": 0,
}
registration = extend_schema(
    operation_id="webhook_registration",
    tags=["Webhooks"],
    summary="O que o cadastro do parceiro diz de webhooks",
    description="Em produção URL, segredo e eventos são do operador: uma chave roubada não desvia eventos.",
    request=None,
    responses={200: WebhookRegistrationSchema, **errors(body=False)},
    examples=[
        response_example(
            "Cadastro",
            _REGISTRATION,
        )
    ],
)
registered = extend_schema(
    operation_id="webhook_register",
    tags=["Webhooks"],
    summary="Muda o cadastro de webhooks, fora da produção",
    description="O que falta no corpo fica como está. Onde a primeira URL ou `rotate_secret` faz um segredo, a "
    "resposta o traz em `secret`, só esta vez. Em produção a rota não existe (405): URL e segredo são do operador.",
    request=RegistrationRequest,
    responses={
        200: WebhookRegisteredSchema,
        **errors(InvalidInput("A URL do webhook é inválida.", field="url"), MethodNotAllowed()),
    },
    examples=[
        request_example("Com outro segredo", {"url": "https://parceiro.example/webhooks", "rotate_secret": True}),
        response_example("Mudado", {**_REGISTRATION, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}),
    ],
)
listed = extend_schema(
    operation_id="webhook_event_list",
    tags=["Webhooks"],
    summary="Os eventos do parceiro, para ler em ordem ou procurar",
    description="A página seguinte se pede com o `next_cursor` em `cursor`. `order=asc` com `wait_s` serve a quem "
    "busca os eventos em vez de recebê-los, também sem URL no cadastro; uma chamada que espera conta como consulta "
    "simultânea.",
    parameters=[EventListRequest],
    request=None,
    responses={200: WebhookEventPageSchema, **errors(InvalidInput("Cursor inválido.", field="cursor"), body=False)},
    examples=[response_example("Última página", {"events": [_ROW], "next_cursor": None})],
)
detailed = extend_schema(
    operation_id="webhook_event",
    tags=["Webhooks"],
    summary="Um evento, com o corpo e as últimas tentativas de entrega",
    description="O corpo e as tentativas vêm até que o seu prazo de guarda termine; depois o corpo é nulo.",
    parameters=[_PATH],
    request=None,
    responses={200: WebhookEventDetailSchema, **errors(NotFound(), body=False)},
    examples=[response_example("Que falhou uma vez", _DETAIL)],
)
resent = extend_schema(
    operation_id="webhook_event_resend",
    tags=["Webhooks"],
    summary="Envia um evento de novo, com o mesmo `webhook-id`",
    description="Ao menos uma tentativa começa depois deste pedido, e o calendário recomeça. A tentativa que um evento "
    "`due` espera é feita já. Até 30 por minuto. Sem corpo. Depois que o conteúdo foi apagado: 409.",
    parameters=[_PATH],
    request=None,
    responses={202: WebhookEventRowSchema, **errors(NotFound(), InvalidState(), body=False)},
    examples=[response_example("Na fila", _QUEUED, 202)],
)
tested = extend_schema(
    operation_id="webhook_test",
    tags=["Webhooks"],
    summary="Envia um evento `webhook.test`",
    description="Vai à URL do cadastro, quaisquer que sejam os eventos pedidos. Sem corpo. O `id` da resposta é o "
    "`webhook-id` da entrega. Até 30 por minuto. Sem URL ou segredo: 409.",
    request=None,
    responses={202: WebhookEventRowSchema, **errors(InvalidState(), body=False)},
    examples=[response_example("Na fila", {**_QUEUED, "event": "webhook.test", "attempts": 0}, 202)],
)


class TestEventSchema(EventSchema):
    external_reference = drf.UUIDField(help_text="Diferente em cada envio de teste.")


test_event = webhook(
    "webhook.test",
    TestEventSchema,
    "Um teste pedido por `POST /webhook-events/test`",
    "Assinado e repetido como qualquer outro evento. Não depende dos eventos que o cadastro pede.",
    "c1a5b9de-52a1-4bb0-8a51-6f6f3c1f8d01",
)
