"""How the OpenAPI schema describes the query routes: requests, responses, errors."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from consultas.admission import OverCapacity
from consultas.result_schema import AGGREGATED, ANSWERED, WAITING, AggregatedSchema, EnvelopeSchema
from consultas.serializers import IndividualQueryRequest, QueryRequest
from consultas.stream_schema import STREAM, STREAM_EVENT
from foundation.errors import Detail, InvalidInput, NotFound
from partners.limits import CPFS_PER_DAY, IN_FLIGHT, LimitReached
from partners.schema import errors, request_example, response_example
from providers.errors import ProviderNotAllowed, ProviderUnavailable

QUERY = {
    "cpf": "90000000175",
    "nome": "Maria da Silva",
    "data_nascimento": "1985-03-14",
    "telefone": "11987654321",
    "email": "maria@example.com",
    "client_ip": "203.0.113.7",
    "geolocation": {"lat": -23.55052, "lng": -46.633308},
}

_EXAMPLES = [
    request_example("Sem parâmetros", QUERY),
    request_example("Por valor", {**QUERY, "loan_value": 5000, "prazo": 24}),
    request_example("Por parcela", {**QUERY, "valor_parcela": 300, "prazo": 36}),
]
_NARROWED = request_example("Alguns bancos", {**QUERY, "providers": ["ipe", "imbuia"]})
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
            ("imbuia", "ipe"),
        )
    ]
)

_REFUSED = (OverCapacity(), *(LimitReached(each.message) for each in (IN_FLIGHT, CPFS_PER_DAY)))

aggregated = extend_schema(
    operation_id="query_aggregated",
    tags=["Consultas"],
    summary="Consulta todos os bancos do contrato e responde quando todos terminam",
    description=(
        "`providers` restringe a consulta a alguns bancos do contrato. Um banco que falha não derruba os demais: o "
        "motivo dele está em `providerResults`. Com `status` `requires_action` o titular ainda tem um passo a cumprir "
        "no link de `action`; as ofertas vêm depois, pelo webhook `authorization_result` ou em nova consulta. "
        "O `offerId` de uma oferta é o que se envia em `POST /proposals`. "
        "Repetida em 60 segundos, a consulta sem parâmetros aproveita as respostas já dadas."
    ),
    request=QueryRequest,
    responses={200: AggregatedSchema, **errors(_FAULTS, _OUTSIDE, *_REFUSED, ProviderUnavailable())},
    examples=[*_EXAMPLES, _NARROWED, response_example("Ofertas", AGGREGATED)],
)
streamed = extend_schema(
    operation_id="query_stream",
    tags=["Consultas"],
    summary="A mesma consulta, com cada resposta enviada assim que chega (server-sent events)",
    description=(
        "Cada evento é uma linha `data:` com um objeto JSON, seguida de uma linha vazia; linhas que começam com `:` "
        "só mantêm a conexão. As ofertas não são guardadas: para enviar uma delas, consulte em `/consultas`."
    ),
    request=QueryRequest,
    responses={
        (200, "text/event-stream"): OpenApiResponse(
            STREAM_EVENT,
            description="Eventos `start`, `provider_start`, `provider_result`, `provider_error`, `complete`.",
            examples=[OpenApiExample("Eventos", value=STREAM)],
        ),
        **errors(_FAULTS, _OUTSIDE, *_REFUSED),
    },
    examples=[*_EXAMPLES, _NARROWED],
)
individual = extend_schema(
    operation_id="query_one_bank",
    tags=["Consultas"],
    summary="Consulta um banco",
    description=(
        "A resposta é 200 também quando o banco falha ou recusa: `status` diz o que houve. "
        "As ofertas não são guardadas: para enviar uma delas, consulte em `/consultas`."
    ),
    parameters=[
        OpenApiParameter(
            "name",
            str,
            OpenApiParameter.PATH,
            description="Identificador do banco.",
            examples=[OpenApiExample("Banco", value="ipe")],
        )
    ],
    request=IndividualQueryRequest,
    responses={
        200: EnvelopeSchema,
        **errors(_FAULTS, ProviderNotAllowed(), NotFound("Banco desconhecido."), *_REFUSED),
    },
    examples=[*_EXAMPLES, response_example("Ofertas", ANSWERED), response_example("Ação pendente", WAITING)],
)

bank_callback = extend_schema(exclude=True)  # between the banks and the service; partners have no use for it
