"""OpenAPI schemas of the proposal: its forms in responses and events, and their examples."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework import serializers as drf

from consultas.shapes import Offer
from foundation.shapes import described
from partners.schema import ErrorSchema, ReasonSchema
from proposals.envelope import NEXT_ACTIONS
from proposals.serializers import ACCOUNT_KINDS, PIX_KINDS
from proposals.statuses import UNKNOWN
from providers.types.proposal import ProposalStatus, Stage
from webhooks.schema import EventSchema

STATUSES = [item.value for item in ProposalStatus]
SHOWN_STATUSES = [*STATUSES, UNKNOWN]
OFFER = msgspec.to_builtins(Offer.example())


class DeliverySchema(drf.Serializer[Any]):
    channel = drf.ChoiceField(
        ["link", "sms", "whatsapp"], help_text="`sms` e `whatsapp`: o banco envia o link; `link`: você o envia."
    )
    destination = drf.CharField(allow_null=True, help_text="Telefone mascarado, quando o banco envia o link.")


class SignatureActionSchema(drf.Serializer[Any]):
    type = drf.ChoiceField(["signature"], help_text="Sempre `signature`.")
    url = drf.URLField(help_text="Link em que o titular assina.")
    expires_at = drf.DateTimeField(allow_null=True, help_text="Até quando o link vale, UTC; nulo se o banco não diz.")
    delivery = DeliverySchema(help_text="Quem entrega o link ao titular.")


class PaidAccountSchema(drf.Serializer[Any]):
    banco = drf.CharField(help_text="Código COMPE.")
    conta = drf.CharField(help_text="Mascarada: os dois últimos dígitos, como `****90`.")
    tipo_conta = drf.ChoiceField(ACCOUNT_KINDS, help_text="O tipo em que o banco credita.")


class PaidPixSchema(drf.Serializer[Any]):
    tipo_chave = drf.ChoiceField(PIX_KINDS, help_text="O tipo da chave em que o banco paga.")


class DisbursementSchema(drf.Serializer[Any]):
    conta_bancaria = PaidAccountSchema(allow_null=True, help_text="A conta que recebe, ou nulo.")
    pix = PaidPixSchema(allow_null=True, help_text="A chave PIX que recebe, ou nulo.")
    observacao = drf.CharField(
        allow_null=True, help_text="O que o banco faz diferente do enviado, como pagar em outra chave; nulo se nada."
    )


class FactsSchema(drf.Serializer[Any]):
    """The fields that envelope and events share."""

    partner_reference = drf.CharField(allow_null=True, help_text="O seu próprio nome para a proposta.")
    stage = drf.ChoiceField(
        [stage.value for stage in Stage],
        allow_null=True,
        help_text="O que a proposta espera; nulo antes de o banco dizer, e quando acaba.",
    )
    stage_since = drf.DateTimeField(allow_null=True, help_text="Desde quando está nesta etapa, UTC.")
    stage_reason = ReasonSchema(
        allow_null=True,
        help_text="Por que o banco ainda espera, `retryable` se ele tenta de novo sozinho; nulo se não diz.",
    )
    reason = ReasonSchema(
        allow_null=True,
        help_text="Por que acabou, com `rejected`, `cancelled` e `expired`, ou `withdrawn` se o titular desistiu "
        "depois do pagamento; nulo antes.",
    )
    next_actions = drf.ListField(
        child=drf.ChoiceField(NEXT_ACTIONS),
        help_text="O que se pode fazer agora. `wait`: é a vez do banco; `none`: nada mais vem.",
    )
    recebimento = DisbursementSchema(help_text="Onde o banco paga o valor, mascarado.")
    contract_number = drf.CharField(allow_null=True, help_text="O número do contrato; nulo se o banco não diz.")
    disbursed_at = drf.DateTimeField(
        allow_null=True, help_text="Quando o banco pagou, UTC, com `disbursed`; nulo se o banco não diz."
    )
    disbursed_amount = drf.FloatField(
        allow_null=True, help_text="Quanto o banco pagou, em reais, com `disbursed`; nulo se o banco não diz."
    )
    withdrawal_until = drf.DateField(
        allow_null=True, help_text="O último dia em que o titular pode desistir; nulo se o banco não diz."
    )
    withdrawn_at = drf.DateTimeField(
        allow_null=True, help_text="Quando o titular desistiu do contrato pago, UTC; `status` continua `disbursed`."
    )


class ProposalSchema(FactsSchema):
    proposal_id = drf.UUIDField(help_text="Identificador da proposta neste serviço.")
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(
        SHOWN_STATUSES,
        help_text="Situação da proposta. `disbursed`, `rejected`, `cancelled` e `expired` são finais. "
        "`unknown`: não se sabe se o banco a tem; o serviço pergunta até saber.",
    )
    offer = described(Offer)(help_text="A oferta enviada, como a consulta a deu.")
    action = SignatureActionSchema(allow_null=True, help_text="O link de assinatura, com `awaiting_signature`.")
    error = ErrorSchema(allow_null=True, help_text="O que houve na última tentativa; nulo se nada.")
    provider_data = drf.DictField(help_text="O que o banco informa além disso, como o banco informa.")
    created_at = drf.DateTimeField(help_text="Quando foi enviada, UTC.")
    updated_at = drf.DateTimeField(help_text="Quando mudou pela última vez, UTC.")


class ProposalHistorySchema(drf.Serializer[Any]):
    status = drf.ChoiceField(STATUSES, help_text="A situação.")
    at = drf.DateTimeField(help_text="Desde quando, UTC.")
    reason = ReasonSchema(allow_null=True, help_text="Por que a proposta acabou assim, sem dinheiro; senão nulo.")


class ProposalDetailSchema(ProposalSchema):
    history = ProposalHistorySchema(many=True, help_text="Todas as situações da proposta, a primeira primeiro.")


class ProposalPageSchema(drf.Serializer[Any]):
    proposals = ProposalSchema(many=True, help_text="As propostas da página, a mais nova primeiro.")
    next_cursor = drf.CharField(allow_null=True, help_text="Nulo na última página.")


class SignatureNoticeSchema(drf.Serializer[Any]):
    type = drf.ChoiceField(["signature"], help_text="Sempre `signature`.")
    expires_at = drf.DateTimeField(allow_null=True, help_text="Até quando o link vale, UTC; nulo se o banco não diz.")
    delivery = DeliverySchema(help_text="Quem entrega o link ao titular.")


class ProposalEventSchema(FactsSchema, EventSchema):
    external_reference = drf.UUIDField(help_text="O `proposal_id`.")
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    offer_id = drf.UUIDField(help_text="O `offerId` da oferta enviada.")
    status = drf.ChoiceField(STATUSES, help_text="A nova situação.")
    previous_status = drf.ChoiceField(
        STATUSES, allow_null=True, help_text="Nulo na criação, e se a situação não mudou com este evento."
    )
    action = SignatureNoticeSchema(
        allow_null=True,
        help_text="Com `awaiting_signature`, como a assinatura é pedida. O link vem só nas respostas da API.",
    )


DATASET = {
    "offer_ref": {"provider": OFFER["provider"], "offer_id": OFFER["offerId"]},
    "titular": {
        "nome": "Maria da Silva",
        "cpf": "90000000175",
        "data_nascimento": "1985-03-14",
        "sexo": "F",
        "nome_mae": "Ana da Silva",
        "nome_pai": "João da Silva",
        "nacionalidade": "brasileira",
        "estado_civil": "casado",
        "naturalidade_cidade": "São Paulo",
        "naturalidade_uf": "SP",
        "exposicao_politica": False,
    },
    "documento": {"numero": "123456789", "orgao_emissor": "SSP", "uf_emissor": "SP", "data_emissao": "2005-06-01"},
    "contato": {"telefone": "11987654321", "email": "maria@example.com"},
    "endereco": {
        "cep": "01310-100",
        "logradouro": "Avenida Paulista",
        "numero": "1000",
        "bairro": "Bela Vista",
        "cidade": "São Paulo",
        "uf": "SP",
    },
    "vinculo": {
        "cnpj_empregador": "11222333000181",
        "nome_empregador": "Metalúrgica Aurora Ltda",
        "cargo": "Operador de Produção",
        "salario": 4500.0,
        "margem": 1850.0,
        "data_admissao": "2019-03-11",
        "matricula": "100200",
    },
    "recebimento": {
        "conta_bancaria": {
            "banco": "001",
            "agencia": "1234",
            "conta": "567890",
            "digito_conta": "1",
            "tipo_conta": "corrente",
        }
    },
    "evidencia": {"ip": "203.0.113.7", "tipo_envio": "sms"},
    "referencias": [
        {"nome": "João Souza", "telefone": "11911112222", "grau": 1},
        {"nome": "Rita Lima", "telefone": "11933334444", "grau": 2},
    ],
}
DATASET_WITH_PIX = {**DATASET, "recebimento": {"pix": {"tipo_chave": "email", "chave": "maria@example.com"}}}
FACTS: dict[str, Any] = {
    "stage": None,
    "stage_since": None,
    "stage_reason": None,
    "reason": None,
    "next_actions": ["formalize", "cancel"],
    "recebimento": {
        "conta_bancaria": {"banco": "001", "conta": "****90", "tipo_conta": "corrente"},
        "pix": None,
        "observacao": None,
    },
    "contract_number": None,
    "disbursed_at": None,
    "disbursed_amount": None,
    "withdrawal_until": None,
    "withdrawn_at": None,
}
PROPOSAL: dict[str, Any] = {
    "proposal_id": "b4f86c4e-2d0b-4f0f-8f0e-6f0a2f6d8c11",
    "partner_reference": "pedido-1001",
    "provider": OFFER["provider"],
    "status": "awaiting_signature",
    "offer": OFFER,
    "action": {
        "type": "signature",
        "url": "https://banco.example/assinar/AbC",
        "expires_at": "2026-11-28T12:00:00.000Z",
        "delivery": {"channel": "sms", "destination": "(11) *****-4321"},
    },
    "error": None,
    **FACTS,
    "stage": "signature",
    "stage_since": "2026-11-21T12:00:05.000Z",
    "provider_data": {
        "nativeProposalId": "3c2f1d0e-5b7a-4f6e-9d8c-7b6a5f4e3d2c",
        "nativeStatus": "waiting_signature",
    },
    "created_at": "2026-11-21T12:00:00.000Z",
    "updated_at": "2026-11-21T12:00:05.000Z",
}


def at_status(status: str, native_status: str) -> dict[str, Any]:
    """The example with another status, at which there is nothing to sign."""
    data = {**PROPOSAL["provider_data"], "nativeStatus": native_status}
    actions = ["none"] if status == "cancelled" else PROPOSAL["next_actions"]
    nothing = {"action": None, "stage": None, "stage_since": None}
    return {**PROPOSAL, **nothing, "status": status, "next_actions": actions, "provider_data": data}


DETAIL = {
    **PROPOSAL,
    "history": [
        {"status": "created", "at": "2026-11-21T12:00:00.000Z", "reason": None},
        {"status": "awaiting_signature", "at": "2026-11-21T12:00:05.000Z", "reason": None},
    ],
}
