"""What the proposal routes answer, and the events about a proposal."""

from datetime import date
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from consultas.shapes import Offer
from foundation.openapi import DIALECT
from foundation.shapes import Link, Moment, Shape, variant
from partners import schema
from proposals.dataset import ACCOUNT_KINDS, CHANNELS, PIX_KINDS
from proposals.statuses import UNKNOWN
from providers import health, reasons
from providers.reasons import ReasonCode
from providers.types.proposal import ProposalStatus, Stage
from webhooks.shapes import Event, told

STATUSES = tuple(ProposalStatus.values)
SHOWN_STATUSES = (*STATUSES, UNKNOWN)
EVIDENCE_USES = ("required", "optional", "ignored")
OFFER = msgspec.to_builtins(Offer.example())
_ID = "b4f86c4e-2d0b-4f0f-8f0e-6f0a2f6d8c11"
_CREATED_AT, _UPDATED_AT = "2026-11-21T12:00:00.000Z", "2026-11-21T12:00:05.000Z"

Status = Annotated[str, STATUSES]
Reason = Annotated[dict[str, Any], schema.Reason]
NextAction = Literal["formalize", "cancel", "wait", "none"]
AccountKind = Annotated[str, ACCOUNT_KINDS]
PixKind = Annotated[str, PIX_KINDS]
EvidenceUse = Annotated[str, EVIDENCE_USES]
_Bank = Annotated[str, "Identificador do banco, como `ipe`.", OFFER["provider"]]


class Delivery(Shape):
    channel: Annotated[
        str, ("link", *CHANNELS), "`sms` e `whatsapp`: o banco envia o link; `link`: você o envia.", "sms"
    ]
    destination: Annotated[str | None, "Telefone mascarado, quando o banco envia o link.", "(11) *****-4321"]


class SignatureNotice(Shape):
    type: Annotated[Literal["signature"], "Sempre `signature`.", "signature"]
    expires_at: Annotated[
        Moment | None, "Até quando o link vale, UTC; nulo se o banco não diz.", "2026-11-28T12:00:00.000Z"
    ]
    delivery: Annotated[Delivery, "Quem entrega o link ao titular."]


class SignatureAction(SignatureNotice):
    url: Annotated[Link, "Link em que o titular assina.", "https://banco.example/assinar/AbC"]


class PaidAccount(Shape):
    banco: Annotated[str, "Código COMPE.", "001"]
    conta: Annotated[str, "Mascarada: os dois últimos dígitos, como `****90`.", "****90"]
    tipo_conta: Annotated[AccountKind, "O tipo em que o banco credita.", "corrente"]


class PaidPix(Shape):
    tipo_chave: Annotated[PixKind, "O tipo da chave em que o banco paga.", "email"]


class Disbursement(Shape):
    conta_bancaria: Annotated[PaidAccount | None, "A conta que recebe, ou nulo.", PaidAccount.example()]
    pix: Annotated[PaidPix | None, "A chave PIX que recebe, ou nulo.", None]
    observacao: Annotated[
        str | None, "O que o banco faz diferente do enviado, como pagar em outra chave; nulo se nada.", None
    ]


class Facts(Shape):
    """The fields that envelope and events share."""

    partner_reference: Annotated[str | None, "O seu próprio nome para a proposta.", "pedido-1001"]
    stage: Annotated[Stage | None, "O que a proposta espera; nulo antes de o banco dizer, e quando acaba.", None]
    stage_since: Annotated[Moment | None, "Desde quando está nesta etapa, UTC.", None]
    stage_reason: Annotated[
        Reason | None, "Por que o banco ainda espera, `retryable` se ele tenta de novo sozinho; nulo se não diz.", None
    ]
    reason: Annotated[
        Reason | None,
        "Por que acabou, com `rejected`, `cancelled` e `expired`, ou `withdrawn` se o titular desistiu depois do "
        "pagamento; nulo antes.",
        None,
    ]
    next_actions: Annotated[
        list[NextAction],
        "O que se pode fazer agora. `wait`: é a vez do banco; `none`: nada mais vem.",
        ["formalize", "cancel"],
    ]
    recebimento: Annotated[Disbursement, "Onde o banco paga o valor, mascarado."]
    contract_number: Annotated[str | None, "O número do contrato; nulo se o banco não diz.", None]
    disbursed_at: Annotated[Moment | None, "Quando o banco pagou, UTC, com `disbursed`; nulo se o banco não diz.", None]
    disbursed_amount: Annotated[
        float | None, "Quanto o banco pagou, em reais, com `disbursed`; nulo se o banco não diz.", None
    ]
    withdrawal_until: Annotated[date | None, "O último dia em que o titular pode desistir; nulo se o banco não diz."]
    withdrawn_at: Annotated[
        Moment | None, "Quando o titular desistiu do contrato pago, UTC; `status` continua `disbursed`.", None
    ]


class Proposal(Facts):
    proposal_id: Annotated[UUID, "Identificador da proposta neste serviço.", _ID]
    provider: _Bank
    status: Annotated[
        str,
        SHOWN_STATUSES,
        "Situação da proposta. `disbursed`, `rejected`, `cancelled` e `expired` são finais. `unknown`: não se sabe se "
        "o banco a tem; o serviço pergunta até saber.",
        "awaiting_signature",
    ]
    offer: Annotated[dict[str, Any], Offer, "A oferta enviada, como a consulta a deu.", OFFER]
    action: Annotated[
        SignatureAction | None, "O link de assinatura, com `awaiting_signature`.", SignatureAction.example()
    ]
    error: Annotated[
        Annotated[dict[str, Any], schema.Error] | None, "O que houve na última tentativa; nulo se nada.", None
    ]
    provider_data: Annotated[
        dict[str, Any],
        "O que o banco informa além disso, como o banco informa.",
        {"nativeProposalId": "3c2f1d0e-5b7a-4f6e-9d8c-7b6a5f4e3d2c", "nativeStatus": "waiting_signature"},
    ]
    created_at: Annotated[Moment, "Quando foi enviada, UTC.", _CREATED_AT]
    updated_at: Annotated[Moment, "Quando mudou pela última vez, UTC.", _UPDATED_AT]


class ProposalHistory(Shape):
    status: Annotated[Status, "A situação.", "created"]
    at: Annotated[Moment, "Desde quando, UTC.", _CREATED_AT]
    reason: Annotated[Reason | None, "Por que a proposta acabou assim, sem dinheiro; senão nulo.", None]


class ProposalDetail(Proposal):
    history: Annotated[list[ProposalHistory], "Todas as situações da proposta, a primeira primeiro."]


class ProposalPage(Shape):
    proposals: Annotated[list[Proposal], "As propostas da página, a mais nova primeiro."]
    next_cursor: Annotated[str | None, "Nulo na última página."]


ProposalEvent = variant(
    "ProposalEvent",
    Facts,
    base=Event,
    first={
        "external_reference": Annotated[UUID, "O `proposal_id`.", "c1a5b9de-52a1-4bb0-8a51-6f6f3c1f8d01"],
        "provider": _Bank,
        "offer_id": Annotated[UUID, "O `offerId` da oferta enviada.", OFFER["offerId"]],
        "status": Annotated[Status, "A nova situação.", "signed"],
        "previous_status": Annotated[
            Status | None, "Nulo na criação, e se a situação não mudou com este evento.", None
        ],
        "action": Annotated[
            SignatureNotice | None,
            "Com `awaiting_signature`, como a assinatura é pedida. O link vem só nas respostas da API.",
            None,
        ],
    },
)
told(
    "proposal.<status>",
    "Uma proposta mudou de estado",
    "Só para cadastros que pedem `proposal`. `event` termina com o novo estado, como `proposal.disbursed`.",
    event="proposal.signed",
    previous_status="awaiting_signature",
    next_actions=["wait", "cancel"],
)(ProposalEvent)
told(
    "proposal.stage_changed",
    "Uma proposta entrou numa etapa, ou espera por um novo motivo",
    "Só para cadastros que pedem `proposal.stage_changed`. Um fim não o manda: tem o seu próprio evento.",
    provider="canela",
    next_actions=["wait"],
    stage=Stage.AVERBATION,
    stage_since="2026-11-21T12:10:00.000Z",
    stage_reason={
        **reasons.Reason.of(ReasonCode.AVERBATION_REFUSED, "Margem em atualização na Dataprev.").as_dict(),
        "retryable": True,
    },
)(ProposalEvent)
told(
    "proposal.withdrawn",
    "O titular desistiu do contrato depois do pagamento",
    "Só para cadastros que pedem `proposal.withdrawn`. `status` continua `disbursed`.",
    status="disbursed",
    next_actions=["none"],
    reason=reasons.Reason.of(ReasonCode.WITHDRAWN).as_dict(),
    contract_number="CCB-48291537",
    disbursed_at="2026-11-21T12:15:00.000Z",
    disbursed_amount=12000.0,
    withdrawal_until="2026-11-28",
    withdrawn_at="2026-11-23T09:30:00.000Z",
)(ProposalEvent)


class Bank(Shape):
    code: Annotated[str, "Código COMPE.", "001"]
    name: Annotated[str, "Nome da instituição.", "Banco do Brasil S.A."]


class Banks(Shape):
    banks: Annotated[list[Bank], "As instituições, por código."]


class DisbursementReplacement(Shape):
    given: Annotated[str, "O que se pede, como `pix.telefone`.", "pix.telefone"]
    paid: Annotated[str, "O que o banco usa no lugar, como `pix.cpf`.", "pix.cpf"]
    remark: Annotated[str, "A explicação, em português.", "O banco paga na chave CPF."]


class DisbursementFacts(Shape):
    account: Annotated[bool, "Se o banco paga em conta.", True]
    account_types: Annotated[list[AccountKind], "Os `tipo_conta` que o banco aceita.", [*ACCOUNT_KINDS]]
    pix: Annotated[bool, "Se o banco paga por PIX.", True]
    pix_keys: Annotated[list[PixKind], "Os `tipo_chave` que o banco aceita.", [*PIX_KINDS]]
    replacements: Annotated[list[DisbursementReplacement], "O que o banco troca por outra forma de receber.", []]
    portfolios_without_pix: Annotated[
        list[str], "As carteiras (`providerData.portfolio` da oferta) que recusam PIX.", []
    ]


class ProviderQueryFacts(Shape):
    geolocation: Annotated[EvidenceUse, "Se o banco exige a localização, a aceita ou não tem onde pô-la.", "optional"]
    app_authorization: Annotated[EvidenceUse, "O mesmo da autorização dada no aplicativo do parceiro.", "ignored"]
    notifies_holder: Annotated[bool, "Se uma consulta pode enviar uma mensagem ao titular.", False]


class Provider(Shape):
    name: Annotated[str, "O identificador, como em `providers` e `offer_ref.provider`.", "ipe"]
    label: Annotated[str, "O nome para pessoas.", "Ipê"]
    authorization: Annotated[
        Literal["evidence", "biometrics", "chat", "sms"], "Como o titular autoriza a consulta neste banco.", "evidence"
    ]
    cancels: Annotated[bool, "Se uma proposta pode ser cancelada.", True]
    channels: Annotated[
        list[Annotated[str, CHANNELS]], "Por onde o banco entrega o link de assinatura (`tipo_envio`).", [*CHANNELS]
    ]
    disbursement: Annotated[DisbursementFacts, "Para onde o banco paga."]
    required: Annotated[
        list[str],
        "Os campos sem os quais o banco não aceita a proposta.",
        ["offer_ref.provider", "offer_ref.offer_id", "titular.nome", "documento.numero"],
    ]
    schema: Annotated[
        dict[str, Any],
        "O JSON Schema (2020-12) do corpo de `POST /proposals` para este banco.",
        {"$schema": DIALECT, "type": "object"},
    ]
    query: Annotated[ProviderQueryFacts, "O que o banco usa de uma consulta."]
    status: Annotated[
        str,
        health.STATUSES,
        "`available`; `degraded`: parte das chamadas falha, ou ele volta aos poucos de uma falha; `unavailable`: "
        "nenhuma chamada dá certo agora, por falhas ou por manutenção (o motivo `bank_closed` das consultas diz até "
        "quando).",
        "available",
    ]


class Providers(Shape):
    providers: Annotated[list[Provider], "Os bancos do contrato, por nome."]


class FieldOption(Shape):
    value: Annotated[str, "O que se envia no campo.", "CAMPINAS"]
    label: Annotated[str, "O texto para pessoas.", "Campinas"]


class FieldOptions(Shape):
    options: Annotated[list[FieldOption], "O que o campo aceita neste banco."]
