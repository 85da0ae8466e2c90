"""How the OpenAPI schema describes the webhooks about queries."""

from __future__ import annotations

import msgspec
from rest_framework import serializers as drf

from consultas.models import Query
from consultas.schema import QUERY
from consultas.shapes import QUERY_ID, LeadBank, Offer
from foundation.shapes import described
from partners.schema import ReasonSchema
from providers.types.answer import QueryStatus
from webhooks.schema import EventSchema, webhook_of


class LeadEventSchema(EventSchema):
    external_reference = drf.UUIDField(help_text="O `simulationGroupId`.")
    cpf = drf.CharField(help_text="CPF do titular, 11 dígitos.")
    simulation_group_id = drf.UUIDField(help_text="O `simulationGroupId` da consulta.")
    query_id = drf.UUIDField(help_text="O `queryId` da consulta.")
    partner_reference = drf.CharField(allow_null=True, help_text="A `partner_reference` da consulta; nula sem ela.")
    providers = described(LeadBank)(many=True, help_text="Todos os bancos consultados.")
    best_offer = described(Offer)(allow_null=True, help_text="A de maior valor; no empate, a de menor taxa.")


class QueryCompletedEventSchema(EventSchema):
    external_reference = drf.UUIDField(help_text="O `queryId`.")
    query_id = drf.UUIDField(help_text="O `queryId` da consulta.")
    partner_reference = drf.CharField(allow_null=True, help_text="A `partner_reference` da consulta; nula sem ela.")
    kind = drf.ChoiceField(Query.Kind.values, help_text="A rota: agregada, em fluxo ou de um só banco.")
    simulation_group_id = drf.UUIDField(
        allow_null=True, help_text="O `simulationGroupId` da consulta; nulo se ela não guardou ofertas."
    )
    providers = described(LeadBank)(many=True, help_text="Todos os bancos consultados.")


class AuthorizationResultEventSchema(EventSchema):
    external_reference = drf.CharField(help_text="O CPF.")
    query_id = drf.UUIDField(help_text="O `queryId` da consulta que abriu o passo.")
    partner_reference = drf.CharField(allow_null=True, help_text="A `partner_reference` da consulta; nula sem ela.")
    provider = drf.CharField(help_text="Banco em que o passo terminou.")
    status = drf.ChoiceField(
        ["approved", "refused", "expired"],
        help_text=(
            "`approved`: concluído; `refused`: recusado pelo titular, ou pelo banco depois dele; `expired`: "
            "não veio a tempo."
        ),
    )
    reason = ReasonSchema(allow_null=True, help_text="Por que não há ofertas; nulo se há.")
    offers = described(Offer)(many=True, help_text="Vazia, a não ser com `approved`. Cada oferta tem o seu `offerId`.")


_OFFER = msgspec.to_builtins(Offer.example())
_BANKS = msgspec.to_builtins(
    [LeadBank.example(provider="imbuia", status=QueryStatus.REQUIRES_ACTION, offers=0), LeadBank.example()]
)
_GROUP = "7d1e9f0e-7f0a-4c0e-9a53-0a4f3a3f9b12"

lead_event = webhook_of(
    "lead",
    LeadEventSchema,
    "Uma consulta agregada guardou ofertas",
    "Um por consulta. As consultas em fluxo, de um só banco e as que repetem respostas não o enviam.",
    _GROUP,
    cpf=QUERY["cpf"],
    simulation_group_id=_GROUP,
    query_id=QUERY_ID,
    partner_reference=None,
    providers=_BANKS,
    best_offer=_OFFER,
)
query_completed_event = webhook_of(
    "query.completed",
    QueryCompletedEventSchema,
    "Uma consulta chegou ao fim",
    "De todas as rotas, uma vez por consulta; só para cadastros que o pedem. As ofertas se buscam em "
    "`GET /consultas/{queryId}`.",
    QUERY_ID,
    query_id=QUERY_ID,
    partner_reference="pedido-1001",
    kind="aggregated",
    simulation_group_id=_GROUP,
    providers=_BANKS,
)
authorization_result_event = webhook_of(
    "authorization_result",
    AuthorizationResultEventSchema,
    "O titular concluiu, recusou ou deixou expirar um passo externo",
    "Dois bancos do mesmo CPF, ou um que primeiro recusa e depois aprova, enviam eventos com o mesmo par "
    "(`external_reference`, `event`): descarte repetições pelo `webhook-id`.",
    str(QUERY["cpf"]),
    query_id=QUERY_ID,
    partner_reference=None,
    provider=_OFFER["provider"],
    status="approved",
    reason=None,
    offers=[_OFFER],
)
