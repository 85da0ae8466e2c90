"""Webhooks in the API reference: the parts that all events share, and the partner's access to its events.

Each app describes its own events, beside their shapes (`webhooks.shapes.told`).
"""

import re
from functools import partial
from typing import Any

import msgspec
from drf_spectacular.plumbing import process_webhooks
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, OpenApiWebhook, extend_schema

from foundation.errors import InvalidInput, InvalidState, MethodNotAllowed, NotFound
from foundation.listing import invalid_cursor
from foundation.shapes import described
from partners.schema import describe, in_path
from webhooks import shapes
from webhooks.serializers import EventListRequest, RegistrationRequest

_HEADERS = {
    "X-Service-Signature": "HMAC-SHA256 dos bytes do corpo, em hexadecimal minúsculo. A chave é o segredo inteiro, "
    "com `whsec_`, em UTF-8.",
    "webhook-id": "Igual em todas as tentativas e reenvios do evento: por ele se descartam repetições.",
    "webhook-timestamp": "Hora da tentativa, em segundos desde 1970.",
    "webhook-signature": "Assinaturas do padrão Standard Webhooks, separadas por espaço: uma de cada segredo em vigor.",
}


def include_events(result: dict[str, Any], generator: Any, **_: Any) -> dict[str, Any]:
    """A hook that adds the events with the headers of every delivery, and their components to the document's."""
    entries = [OpenApiWebhook(name, _entry(name, event)) for name, event in shapes.EVENTS.items()]
    result["webhooks"] = process_webhooks(entries, generator.registry)
    result["components"] = generator.registry.build({})
    for event in result["webhooks"].values():  # drf-spectacular cannot describe headers of events
        event["post"]["parameters"] = [
            {"in": "header", "name": name, "required": True, "schema": {"type": "string"}, "description": meaning}
            for name, meaning in _HEADERS.items()
        ]
    return result


def _entry(name: str, event: shapes.Told) -> Any:
    example = msgspec.to_builtins(event.body.example(**{"event": name, **event.changes}))
    return extend_schema(
        operation_id="event_" + re.sub(r"[^a-z]+", "_", name).strip("_"),
        summary=event.summary,
        description=event.when,
        tags=["Eventos"],
        request={"application/json": described(event.body)},
        examples=[OpenApiExample(name, value=example)],
        responses={200: OpenApiResponse(None, description="Qualquer 2xx confirma. O corpo não é interpretado.")},
    )


_FAILED = shapes.WebhookEventRow.example(state="failed", next_attempt_at=None)
_PATH = in_path("event_id", "O `webhook-id` do evento.")
_webhooks = partial(describe, "Webhooks")

registration = _webhooks(
    operation_id="webhook_registration",
    summary="O que o cadastro do parceiro diz de webhooks",
    description="Em produção URL, segredo e eventos são do operador: uma chave roubada não desvia eventos.",
    answers={200: {"Cadastro": shapes.WebhookRegistration.example()}},
)
registered = _webhooks(
    operation_id="webhook_register",
    summary="Muda o cadastro de webhooks, fora da produção",
    description="O que falta no corpo fica como está. Onde a primeira URL ou `rotate_secret` faz um segredo, a "
    "resposta o traz em `secret`, só esta vez. Em produção a rota não existe (405): URL e segredo são do operador.",
    request=RegistrationRequest,
    sent={"Com outro segredo": {"url": "https://parceiro.example/webhooks", "rotate_secret": True}},
    answers={200: {"Mudado": shapes.WebhookRegistered.example()}},
    refusals=[InvalidInput("A URL do webhook é inválida.", field="url"), MethodNotAllowed()],
)
listed = _webhooks(
    operation_id="webhook_event_list",
    summary="Os eventos do parceiro, para ler em ordem ou procurar",
    description="A página seguinte se pede com o `next_cursor` em `cursor`. `order=asc` com `wait_s` serve a quem "
    "busca os eventos em vez de recebê-los, também sem URL no cadastro; uma chamada que espera conta como consulta "
    "simultânea.",
    parameters=[EventListRequest],
    answers={200: {"Última página": shapes.WebhookEventPage.example(events=[_FAILED])}},
    refusals=[invalid_cursor()],
)
detailed = _webhooks(
    operation_id="webhook_event",
    summary="Um evento, com o corpo e as últimas tentativas de entrega",
    description="O corpo e as tentativas vêm até que o seu prazo de guarda termine; depois o corpo é nulo.",
    parameters=[_PATH],
    answers={200: {"Que falhou uma vez": shapes.WebhookEventDetail.example()}},
    refusals=[NotFound()],
)
resent = _webhooks(
    operation_id="webhook_event_resend",
    summary="Envia um evento de novo, com o mesmo `webhook-id`",
    description="Ao menos uma tentativa começa depois deste pedido, e o calendário recomeça. A tentativa que um evento "
    "`due` espera é feita já. Até 30 por minuto. Sem corpo. Depois que o conteúdo foi apagado: 409.",
    parameters=[_PATH],
    request=None,
    answers={202: {"Na fila": shapes.WebhookEventRow.example()}},
    refusals=[NotFound(), InvalidState()],
)
tested = _webhooks(
    operation_id="webhook_test",
    summary="Envia um evento `webhook.test`",
    description="Vai à URL do cadastro, quaisquer que sejam os eventos pedidos. Sem corpo. O `id` da resposta é o "
    "`webhook-id` da entrega. Até 30 por minuto. Sem URL ou segredo: 409.",
    request=None,
    answers={202: {"Na fila": shapes.WebhookEventRow.example(event="webhook.test", attempts=0)}},
    refusals=[InvalidState()],
)
