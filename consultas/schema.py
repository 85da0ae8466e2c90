"""OpenAPI schemas of the query routes: requests, responses, errors."""

import json
from functools import partial

import msgspec
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, PolymorphicProxySerializer

from consultas import shapes
from consultas.admission import OverCapacity
from consultas.serializers import AggregatedQueryRequest, IndividualQueryRequest, QueryRequest
from foundation.errors import Detail, InvalidInput, NotFound
from foundation.shapes import described
from partners.limits import CPFS_PER_DAY, IN_FLIGHT, LimitReached
from partners.schema import describe, in_path
from providers.errors import ProviderNotAllowed, ProviderUnavailable
from providers.types.query import QueryStatus

QUERY = {
    "cpf": "90000000175",
    "nome": "Maria da Silva",
    "data_nascimento": "1985-03-14",
    "telefone": "11987654321",
    "email": "maria@example.com",
    "client_ip": "203.0.113.7",
    "geolocation": {"lat": -23.55052, "lng": -46.633308},
}

AGGREGATED = shapes.AggregatedResponse.example()
_RUNNING = shapes.ProviderResult.example(
    provider="imbuia", status=shapes.PROCESSING, proposals=[], vinculos=[], elapsed_ms=1500
)
SO_FAR = shapes.AggregatedResponse.example(
    complete=False,
    provider_results={"imbuia": _RUNNING, **AGGREGATED.provider_results},
    elapsed_ms=1500,
)
ANSWERED = shapes.IndividualEnvelope.example(partner_reference=None)
WAITING = shapes.IndividualEnvelope.example(
    partner_reference=None,
    provider="imbuia",
    status=QueryStatus.REQUIRES_ACTION,
    offers=[],
    vinculos=[],
    action=shapes.Action.example(),
)

_EVENTS = {
    "start": shapes.StartEvent,
    "provider_start": shapes.ProviderStartEvent,
    "provider_result": shapes.ProviderResultEvent,
    "provider_error": shapes.ProviderErrorEvent,
    "complete": shapes.CompleteEvent,
}
#: The content of each `data:` of the stream.
STREAM_EVENT = PolymorphicProxySerializer(
    component_name="StreamEvent",
    serializers={name: described(shape) for name, shape in _EVENTS.items()},
    resource_type_field_name="event",
)
_FAILURE = ProviderUnavailable()
STREAM = "".join(
    f"id: {number}\ndata: {json.dumps(msgspec.to_builtins(event), ensure_ascii=False)}\n\n"
    for number, event in {
        "o0": shapes.StartEvent.example(partner_reference=None),
        "o1": shapes.ProviderStartEvent.example(),
        "o2": shapes.ProviderStartEvent.example(provider="imbuia"),
        "b1": shapes.ProviderResultEvent.example(proposals=[shapes.Offer.example(offer_id=None)]),
        "b3": shapes.ProviderErrorEvent.example(error=_FAILURE.message, reasons=[_FAILURE.reason]),
        "c": shapes.CompleteEvent.example(),
    }.items()
)


_STREAMS = {
    (200, "text/event-stream"): OpenApiResponse(
        STREAM_EVENT,
        description=f"Eventos {', '.join(f'`{name}`' for name in _EVENTS)}.",
        examples=[OpenApiExample("Eventos", value=STREAM)],
    )
}
_SENT = {
    "Sem parâmetros": QUERY,
    "Por valor": {**QUERY, "loan_value": 5000, "prazo": 24},
    "Por parcela": {**QUERY, "valor_parcela": 300, "prazo": 36},
}
_NARROWED = {"Alguns bancos": {**QUERY, "providers": ["ipe", "imbuia"]}}
_IN_TIME = {"Por no máximo 3 s": {**QUERY, "max_wait_ms": 3000, "partner_reference": "pedido-1001"}}
_FAULTS = InvalidInput(
    details=[
        Detail("telefone", "Informe DDD e número: 10 ou 11 dígitos, sem máscara."),
        Detail("email", "Informe um e-mail válido, de no máximo 254 caracteres."),
    ]
)
_OUTSIDE = InvalidInput(
    details=[
        Detail(
            "providers",
            "Nenhum banco informado pertence ao contrato. Bancos disponíveis: imbuia, ipe.",
            ["imbuia", "ipe"],
        )
    ]
)

#: The bank in a route's path.
BANK = in_path("name", "Identificador do banco.", {"Banco": "ipe"})
#: The refusals of a call that finds no place (consultas/admission.py).
NO_PLACE = (OverCapacity(), LimitReached(IN_FLIGHT.message))
_REFUSED = (*NO_PLACE, LimitReached(CPFS_PER_DAY.message))
_QUERY_ID = in_path("query_id", "O `queryId` da consulta.", {"Consulta": shapes.QUERY_ID})
_queries = partial(describe, "Consultas")

aggregated = _queries(
    operation_id="query_aggregated",
    summary="Consulta todos os bancos do contrato e responde quando todos terminam",
    description=(
        "`providers` restringe a consulta a alguns bancos do contrato. Um banco que falha não derruba os demais: o "
        "motivo dele está em `providerResults`. Com `status` `requires_action` o titular ainda tem um passo a cumprir "
        "no link de `action`; as ofertas vêm depois, pelo webhook `authorization_result` ou em nova consulta. "
        "O `offerId` de uma oferta é o que se envia em `POST /proposals`. "
        "Repetida em 60 segundos, a consulta sem parâmetros aproveita as respostas já dadas. "
        "Com `max_wait_ms` a resposta não espera por bancos mais lentos: eles vêm com `status` `processing`, e o "
        "resto se busca em `GET /consultas/{queryId}`. A consulta vai até o fim também se a conexão cair."
    ),
    request=AggregatedQueryRequest,
    sent=_SENT | _NARROWED | _IN_TIME,
    answers={200: {"Ofertas": AGGREGATED, "Com `max_wait_ms`": SO_FAR}},
    refusals=[_FAULTS, _OUTSIDE, *_REFUSED, ProviderUnavailable()],
)
query = _queries(
    operation_id="query_get",
    summary="Uma consulta como está agora, qualquer que seja a rota que a fez",
    description=(
        "Com `complete` falso, os bancos que ainda não responderam têm `status` `processing`. No prazo da consulta e "
        "mais 5 segundos, todo banco tem um resultado final, ainda que ninguém espere por ele. As consultas em fluxo e "
        "de um só banco não guardam ofertas: `offerId` é nulo."
    ),
    parameters=[_QUERY_ID],
    answers={200: {"Concluída": AGGREGATED, "Em andamento": SO_FAR}},
    refusals=[NotFound()],
)
streamed = _queries(
    operation_id="query_stream",
    summary="A mesma consulta, com cada resposta enviada assim que chega (server-sent events)",
    description=(
        "Cada evento é uma linha `id:` e uma linha `data:` com um objeto JSON, seguidas de uma linha vazia; linhas que "
        "começam com `:` só mantêm a conexão. Se a conexão cair, `GET /consultas/{queryId}/stream` continua. "
        "As ofertas não são guardadas: para enviar uma delas, consulte em `/consultas`."
    ),
    request=QueryRequest,
    sent=_SENT | _NARROWED,
    responses=_STREAMS,
    refusals=[_FAULTS, _OUTSIDE, *_REFUSED],
)
query_stream = _queries(
    operation_id="query_stream_again",
    summary="Os eventos de uma consulta, desde o começo ou depois de `Last-Event-ID`",
    description=(
        "Primeiro o que já houve, depois cada resposta assim que chega, até `complete`. Depois de `complete` não há "
        "nada: 204, com que um `EventSource` encerra."
    ),
    parameters=[
        _QUERY_ID,
        OpenApiParameter(
            "Last-Event-ID",
            str,
            OpenApiParameter.HEADER,
            description="O `id` do último evento recebido. Sem ele, ou com um desconhecido, tudo vem desde o começo.",
        ),
    ],
    responses={**_STREAMS, 204: OpenApiResponse(None, description="Nada há depois de `Last-Event-ID`.")},
    refusals=[NotFound(), *NO_PLACE],
)
individual = _queries(
    operation_id="query_one_bank",
    summary="Consulta um banco",
    description=(
        "A resposta é 200 também quando o banco falha ou recusa: `status` diz o que houve. "
        "As ofertas não são guardadas: para enviar uma delas, consulte em `/consultas`."
    ),
    parameters=[BANK],
    request=IndividualQueryRequest,
    sent=_SENT,
    answers={200: {"Ofertas": ANSWERED, "Ação pendente": WAITING}},
    refusals=[_FAULTS, ProviderNotAllowed(), NotFound("Banco desconhecido."), *_REFUSED],
)
