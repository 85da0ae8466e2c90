"""The shapes of queries: offers, the banks' answers, and the events of a stream."""

from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

from rest_framework.serializers import UUIDField

from consultas.models import Query
from foundation.shapes import Link, Moment, Shape, variant
from partners import schema
from providers.price import CetSource
from providers.reasons import Reason
from providers.types.query import ActionType, QueryStatus, StepOutcome
from webhooks.shapes import Event, told

#: The status of a bank that has not answered yet, in a response that did not wait for it.
PROCESSING = "processing"
STATUSES = QueryStatus.values
#: The statuses of a bank in the aggregated response.
RESULT_STATUSES = [*STATUSES, PROCESSING]
ACTION_TYPES = ActionType.values
QUERY_ID = "0d5a3c1e-7f0a-4c0e-9a53-0a4f3a3f9b10"
REASONS = "Por que não há ofertas, ou por que o banco falhou ou recusou, como dados; vazia se há ofertas ou se espera."
_COMPARABLE = (
    "O custo por cento ao {}, do valor liberado e das parcelas, pela mesma fórmula para todos os bancos: compare "
    "ofertas por ele. Nulo se o banco ainda não fixou o primeiro vencimento."
)
_STATUS = (
    "`ok`: há ofertas; `no_offers`: não há; `requires_action`: o titular deve um passo; `pending`: o titular recebeu "
    "um SMS; "
)
_FAILED = "`error`: o banco falhou ou recusou"

QueryId = Annotated[UUID, "Identificador da consulta, para `GET /consultas/{queryId}`.", QUERY_ID]
PartnerReference = Annotated[str | None, "A `partner_reference` da consulta; nula sem ela.", "pedido-1001"]
Error = Annotated[str | None, "Com `status` `error`, o que houve, em uma frase.", None]
Reasons = Annotated[list[Annotated[Reason, schema.Reason]], REASONS, []]
NoOfferReasons = Annotated[list[str], "Por que não há ofertas, nas palavras do banco.", []]
_Bank = Annotated[str, "Identificador do banco, como `ipe`.", "ipe"]
_Elapsed = Annotated[int, "Milissegundos até a resposta do banco.", 212]
_AutoAuthorized = Annotated[
    bool, "Verdadeiro se o banco autorizou o termo com a evidência enviada, sem passo do titular.", False
]


class Offer(Shape, rename="camel"):
    provider: _Bank
    offer_id: Annotated[
        UUID | None,
        "Nulo no fluxo de eventos, que não guarda ofertas.",
        "3f0c9f0e-7f0a-4c0e-9a53-0a4f3a3f9b11",
    ]
    loan_value: Annotated[float, "Reais.", 12000.0]
    installment_value: Annotated[float, "Reais por mês.", 488.8]
    installments: Annotated[int, "Meses.", 48]
    interest_rate: Annotated[float, "Por cento ao mês.", 1.99]
    total_amount: Annotated[float, "Reais.", 23462.4]
    cet_monthly: Annotated[float | None, "Custo efetivo total, por cento ao mês; nulo se não há como saber.", 1.99]
    cet_annual: Annotated[
        float | None,
        "Custo efetivo total, por cento ao ano, com duas casas; nulo se não há como saber.",
        23.88,
    ]
    cet_source: Annotated[
        CetSource | None,
        "`bank`: informado pelo banco. `computed`: calculado pela Resolução CMN 4.881/2020. Nulo sem CET.",
        "bank",
    ]
    cet_comparable_monthly: Annotated[float | None, _COMPARABLE.format("mês"), 3.052468]
    cet_comparable_annual: Annotated[float | None, _COMPARABLE.format("ano"), 43.45]
    iof: Annotated[float | None, "Imposto, em reais; nulo se o banco não informa.", 404.76]
    insurance_value: Annotated[float | None, "Seguro, em reais; nulo se o banco não informa.", 0.0]
    with_insurance: Annotated[bool, "Verdadeiro se a oferta inclui seguro.", False]
    table_code: Annotated[str, "Tabela do banco em que a oferta foi calculada.", "IPE-CLT-STD"]
    first_due_date: Annotated[
        date | None, "Vencimento da primeira parcela; nulo se o banco ainda não o fixou.", "2027-01-10"
    ]
    quoted_at: Annotated[Moment | None, "Quando o banco deu a oferta, UTC.", "2026-11-21T12:00:00.000Z"]
    valid_until: Annotated[
        Moment | None, "Até quando vale; nulo se o banco não fixa um fim.", "2026-11-22T12:00:00.000Z"
    ]
    employer_name: Annotated[str, "Nome do empregador do vínculo.", "Metalúrgica Aurora Ltda"]
    employer_cnpj: Annotated[str, "CNPJ do empregador do vínculo, 14 caracteres.", "11222333000181"]
    matricula: Annotated[str, "Matrícula do vínculo no empregador.", "100200"]
    provider_data: Annotated[
        dict[str, Any],
        "Identificadores do banco; `nativeOfferId` nomeia a oferta lá.",
        {
            "cetMonthlyPercent": "1.99",
            "nativeOfferId": "d8c98ca5-0aa9-4354-bdaf-a53ac3ad32d8",
            "withInsurance": False,
        },
    ]
    adjusted: Annotated[bool, "Verdadeiro se a oferta difere do que foi pedido.", False]
    adjustments: Annotated[list[str], "O que difere do pedido e por quê, em frases; vazia se nada difere.", []]


class Action(Shape):
    type: Annotated[ActionType, "O passo que o titular deve ao banco.", "biometria"]
    url: Annotated[Link | None, "Link para o titular; nulo se não há link.", "https://banco.example/links/AbC"]
    detail: Annotated[
        str,
        "O que o titular precisa fazer, em uma frase.",
        "O titular precisa fazer a prova de vida pelo link do banco.",
    ]


class Vinculo(Shape, rename="camel"):
    matricula: Annotated[str, "Matrícula no empregador.", "100200"]
    employer_cnpj: Annotated[str, "CNPJ do empregador, 14 caracteres.", "11222333000181"]
    employer_name: Annotated[str, "Nome do empregador.", "Metalúrgica Aurora Ltda"]
    job_title: Annotated[str | None, "Cargo; nulo se o banco não informa.", "Operador de Produção"]
    admission_date: Annotated[date | None, "Data de admissão; nula se o banco não informa.", "2019-03-11"]
    margin: Annotated[float | None, "Margem consignável em reais; nula se o banco não informa.", 1850.0]


class ProviderResult(Shape, rename="camel"):
    provider: _Bank
    status: Annotated[
        str,
        RESULT_STATUSES,
        f"{_STATUS}{_FAILED}; `processing`: o banco ainda não respondeu.",
        "ok",
    ]
    success: Annotated[bool, "Falso só com `status` `error`.", True]
    proposals: Annotated[list[Offer], "As ofertas deste banco, a de maior valor primeiro."]
    vinculos: Annotated[list[Vinculo], "Os vínculos de emprego que o banco informou."]
    error: Error
    elapsed_ms: _Elapsed
    no_proposal_reasons: NoOfferReasons
    reasons: Reasons
    requires_signature: Annotated[bool, "Verdadeiro se falta um passo do titular.", False]
    signature_url: Annotated[Link | None, "O mesmo link de `action.url`.", None]
    action: Annotated[Action | None, "O passo que o titular deve; nulo se nenhum.", None]
    term_auto_authorized: _AutoAuthorized


class Employer(Shape):
    cnpj: Annotated[str, "CNPJ do empregador, 14 caracteres.", "11222333000181"]
    name: Annotated[str, "Nome do empregador.", "Metalúrgica Aurora Ltda"]
    matricula: Annotated[str, "Matrícula do titular no empregador.", "100200"]
    provider: Annotated[str, "Banco que informou este vínculo.", "ipe"]
    margin: Annotated[float | None, "Margem consignável em tempo real; nula se o banco não informa.", 1850.0]


class AggregatedResponse(Shape, rename="camel"):
    query_id: QueryId
    partner_reference: PartnerReference
    complete: Annotated[bool, "Verdadeiro quando todos os bancos têm o seu resultado final.", True]
    proposals: Annotated[list[Offer], "As ofertas de todos os bancos, a de maior valor primeiro."]
    provider_results: Annotated[
        dict[str, ProviderResult],
        "O resultado de cada banco consultado, pelo identificador do banco.",
        {"ipe": ProviderResult.example()},
    ]
    employers: Annotated[list[Employer], "Os empregadores do titular, um por CNPJ."]
    elapsed_ms: Annotated[int, "Milissegundos que a consulta levou, ou leva até agora.", 230]
    timestamp: Annotated[Moment, "Hora da resposta, UTC.", "2026-11-21T12:00:00.000Z"]
    simulation_group_id: Annotated[
        UUID | None,
        "Identificador do grupo de ofertas guardadas; nulo se nenhuma foi guardada.",
        "5e1d7a52-2d5b-4f37-9a0a-54a0f5a3c7d1",
    ]


#: In the individual route's spelling. Its offers are not stored.
IndividualOffer = variant("IndividualOffer", Offer, first={"offer_id": None, "provider_data": None})
IndividualVinculo = variant("IndividualVinculo", Vinculo)


class IndividualEnvelope(Shape):
    query_id: QueryId
    partner_reference: PartnerReference
    provider: _Bank
    status: Annotated[QueryStatus, f"{_STATUS}{_FAILED}.", "ok"]
    offers: Annotated[
        list[IndividualOffer],  # type: ignore[valid-type]  # made by `variant`
        "As ofertas do banco. Não são guardadas: não têm `offerId`.",
    ]
    vinculos: Annotated[
        list[IndividualVinculo],  # type: ignore[valid-type]  # made by `variant`
        "Os vínculos de emprego que o banco informou.",
    ]
    proposal_id: Annotated[str | None, "A proposta viva mais nova deste titular neste banco; nulo se nenhuma.", None]
    action: Annotated[Action | None, "O passo que o titular deve; nulo se nenhum.", None]
    error: Error
    elapsed_ms: Annotated[int, "Milissegundos até a resposta do banco.", 180]
    no_proposal_reasons: NoOfferReasons
    reasons: Reasons
    term_auto_authorized: _AutoAuthorized
    provider_data: Annotated[dict[str, Any] | None, "O que o banco informa além disso.", None]


class StartEvent(Shape, rename="camel"):
    event: Annotated[Literal["start"], "Sempre `start`: o primeiro evento.", "start"]
    query_id: QueryId
    partner_reference: PartnerReference
    message: Annotated[str, "Uma frase para quem acompanha.", "Consulta iniciada."]


class ProviderStartEvent(Shape, rename="camel"):
    event: Annotated[Literal["provider_start"], "Sempre `provider_start`: o banco foi perguntado.", "provider_start"]
    query_id: QueryId
    provider: Annotated[str, "Identificador do banco.", "ipe"]


ProviderResultEvent = variant(
    "ProviderResultEvent",
    ProviderResult,
    rename="camel",
    first={
        "event": Annotated[
            Literal["provider_result"], "Sempre `provider_result`: o banco respondeu.", "provider_result"
        ],
        "query_id": QueryId,
        "status": Annotated[QueryStatus, f"{_STATUS}`error`: o banco recusou.", "ok"],
    },
)


class ProviderErrorEvent(Shape, rename="camel"):
    event: Annotated[Literal["provider_error"], "Sempre `provider_error`: o banco não respondeu.", "provider_error"]
    query_id: QueryId
    provider: Annotated[str, "Identificador do banco.", "imbuia"]
    error: Annotated[str | None, "O que houve, em uma frase.", None]
    reasons: Reasons
    elapsed_ms: Annotated[int, "Milissegundos desde o início da consulta.", 25012]


class CompleteEvent(Shape, rename="camel"):
    event: Annotated[Literal["complete"], "Sempre `complete`: o último evento.", "complete"]
    query_id: QueryId


class LeadBank(Shape):
    provider: _Bank
    status: Annotated[QueryStatus, "Como a consulta terminou neste banco.", "ok"]
    offers: Annotated[int, "Quantas ofertas.", 1]


_GROUP = "7d1e9f0e-7f0a-4c0e-9a53-0a4f3a3f9b12"
_BANKS = [LeadBank.example(provider="imbuia", status=QueryStatus.REQUIRES_ACTION, offers=0), LeadBank.example()]


@told(
    "lead",
    "Uma consulta agregada guardou ofertas",
    "Um por consulta. As consultas em fluxo, de um só banco e as que repetem respostas não o enviam.",
)
class LeadEvent(Event, kw_only=True):
    external_reference: Annotated[str, UUIDField, "O `simulationGroupId`.", _GROUP] = ""
    cpf: Annotated[str, "CPF do titular, 11 dígitos.", "90000000175"]
    simulation_group_id: Annotated[UUID, "O `simulationGroupId` da consulta.", _GROUP]
    query_id: Annotated[UUID, "O `queryId` da consulta.", QUERY_ID]
    partner_reference: Annotated[str | None, "A `partner_reference` da consulta; nula sem ela.", None]
    providers: Annotated[list[LeadBank], "Todos os bancos consultados.", _BANKS]
    best_offer: Annotated[Offer | None, "A de maior valor; no empate, a de menor taxa.", Offer.example()]


@told(
    "query.completed",
    "Uma consulta chegou ao fim",
    "De todas as rotas, uma vez por consulta; só para cadastros que o pedem. As ofertas se buscam em "
    "`GET /consultas/{queryId}`.",
)
class QueryCompletedEvent(Event, kw_only=True):
    external_reference: Annotated[str, UUIDField, "O `queryId`.", QUERY_ID] = ""
    query_id: Annotated[UUID, "O `queryId` da consulta.", QUERY_ID]
    partner_reference: PartnerReference
    kind: Annotated[str, Query.Kind, "A rota: agregada, em fluxo ou de um só banco.", "aggregated"]
    simulation_group_id: Annotated[
        UUID | None, "O `simulationGroupId` da consulta; nulo se ela não guardou ofertas.", _GROUP
    ]
    providers: Annotated[list[LeadBank], "Todos os bancos consultados.", _BANKS]


@told(
    "authorization_result",
    "O titular concluiu, recusou ou deixou expirar um passo externo",
    "Dois bancos do mesmo CPF, ou um que primeiro recusa e depois aprova, enviam eventos com o mesmo par "
    "(`external_reference`, `event`): descarte repetições pelo `webhook-id`.",
)
class AuthorizationResultEvent(Event, kw_only=True):
    external_reference: Annotated[str, "O CPF.", "90000000175"] = ""
    query_id: Annotated[UUID, "O `queryId` da consulta que abriu o passo.", QUERY_ID]
    partner_reference: Annotated[str | None, "A `partner_reference` da consulta; nula sem ela.", None]
    provider: Annotated[str, "Banco em que o passo terminou.", "ipe"]
    status: Annotated[
        StepOutcome,
        ("approved", "refused", "expired"),
        "`approved`: concluído; `refused`: recusado pelo titular, ou pelo banco depois dele; `expired`: não veio a "
        "tempo.",
        "approved",
    ]
    reason: Annotated[Annotated[Reason, schema.Reason] | None, "Por que não há ofertas; nulo se há.", None]
    offers: Annotated[list[Offer], "Vazia, a não ser com `approved`. Cada oferta tem o seu `offerId`."]
