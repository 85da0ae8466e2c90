"""How the OpenAPI schema describes the proposal routes: response shapes, examples, errors."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as drf

from consultas.offer_schema import OFFER, OfferSchema
from foundation.errors import Detail, InvalidInput, InvalidState, NotFound, NotSupported
from partners.schema import ErrorSchema, ReasonSchema, errors, request_example, response_example
from proposals.comparison import OtherData
from proposals.envelope import NEXT_ACTIONS
from proposals.serializers import ACCOUNT_KINDS, PIX_KINDS, CancelRequest, FormalizeRequest, SubmissionRequest
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.types import ProposalStatus
from webhooks.schema import EventSchema, webhook

STATUSES = [item.value for item in ProposalStatus]


class DeliverySchema(drf.Serializer[Any]):
    channel = drf.ChoiceField(
        ["link", "sms", "whatsapp"], help_text="`sms` e `whatsapp`: o banco envia o link; `link`: você o envia."
    )
    destination = drf.CharField(allow_null=True, help_text="Telefone mascarado, quando o banco envia o link.")

    class Meta:
        ref_name = "Delivery"


class SignatureSchema(drf.Serializer[Any]):
    type = drf.ChoiceField(["signature"], help_text="Sempre `signature`.")
    url = drf.URLField(help_text="Link em que o titular assina.")
    expires_at = drf.DateTimeField(allow_null=True, help_text="Até quando o link vale, UTC; nulo se o banco não diz.")
    delivery = DeliverySchema(help_text="Quem entrega o link ao titular.")

    class Meta:
        ref_name = "SignatureAction"


class PaidAccountSchema(drf.Serializer[Any]):
    banco = drf.CharField(help_text="Código COMPE.")
    conta = drf.CharField(help_text="Mascarada: os dois últimos dígitos, como `****90`.")
    tipo_conta = drf.ChoiceField(ACCOUNT_KINDS, help_text="O tipo em que o banco credita.")

    class Meta:
        ref_name = "PaidAccount"


class PaidPixSchema(drf.Serializer[Any]):
    tipo_chave = drf.ChoiceField(PIX_KINDS, help_text="O tipo da chave em que o banco paga.")

    class Meta:
        ref_name = "PaidPix"


class DisbursementSchema(drf.Serializer[Any]):
    conta_bancaria = PaidAccountSchema(allow_null=True, help_text="A conta que recebe, ou nulo.")
    pix = PaidPixSchema(allow_null=True, help_text="A chave PIX que recebe, ou nulo.")
    observacao = drf.CharField(
        allow_null=True, help_text="O que o banco faz diferente do enviado, como pagar em outra chave; nulo se nada."
    )

    class Meta:
        ref_name = "Disbursement"


class ProposalSchema(drf.Serializer[Any]):
    proposal_id = drf.UUIDField(help_text="Identificador da proposta neste serviço.")
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(
        STATUSES, help_text="Situação da proposta. `disbursed`, `rejected`, `cancelled` e `expired` são finais."
    )
    offer = OfferSchema(help_text="A oferta enviada, como a consulta a deu.")
    action = SignatureSchema(allow_null=True, help_text="O link de assinatura, com `awaiting_signature`.")
    next_actions = drf.ListField(
        child=drf.ChoiceField(NEXT_ACTIONS),
        help_text="O que se pode fazer agora. `wait`: é a vez do banco; `none`: nada mais vem.",
    )
    recebimento = DisbursementSchema(help_text="Onde o banco paga o valor, mascarado.")
    error = ErrorSchema(allow_null=True, help_text="O que houve na última tentativa; nulo se nada.")
    reason = ReasonSchema(
        allow_null=True, help_text="Por que acabou, com `rejected`, `cancelled` e `expired`; nulo antes."
    )
    provider_data = drf.DictField(help_text="O que o banco informa além disso, como o banco informa.")
    created_at = drf.DateTimeField(help_text="Quando foi enviada, UTC.")
    updated_at = drf.DateTimeField(help_text="Quando mudou pela última vez, UTC.")

    class Meta:
        ref_name = "Proposal"


class HistorySchema(drf.Serializer[Any]):
    status = drf.ChoiceField(STATUSES, help_text="A situação.")
    at = drf.DateTimeField(help_text="Desde quando, UTC.")

    class Meta:
        ref_name = "ProposalHistory"


class ProposalDetailSchema(ProposalSchema):
    history = HistorySchema(many=True, help_text="Todas as situações da proposta, a primeira primeiro.")

    class Meta:
        ref_name = "ProposalDetail"


class ProposalPageSchema(drf.Serializer[Any]):
    proposals = ProposalSchema(many=True, help_text="As propostas da página, a mais nova primeiro.")
    next_cursor = drf.CharField(allow_null=True, help_text="Nulo na última página.")

    class Meta:
        ref_name = "ProposalPage"


class BankSchema(drf.Serializer[Any]):
    code = drf.CharField(help_text="Código COMPE.")
    name = drf.CharField(help_text="Nome da instituição.")

    class Meta:
        ref_name = "Bank"


class BanksSchema(drf.Serializer[Any]):
    banks = BankSchema(many=True, help_text="As instituições, por código.")

    class Meta:
        ref_name = "Banks"


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
_BY_PIX = {**DATASET, "recebimento": {"pix": {"tipo_chave": "email", "chave": "maria@example.com"}}}
_PROPOSAL: dict[str, Any] = {
    "proposal_id": "b4f86c4e-2d0b-4f0f-8f0e-6f0a2f6d8c11",
    "provider": OFFER["provider"],
    "status": "awaiting_signature",
    "offer": OFFER,
    "action": {
        "type": "signature",
        "url": "https://banco.example/assinar/AbC",
        "expires_at": "2026-11-28T12:00:00.000Z",
        "delivery": {"channel": "sms", "destination": "(11) *****-4321"},
    },
    "next_actions": ["formalize", "cancel"],
    "recebimento": {
        "conta_bancaria": {"banco": "001", "conta": "****90", "tipo_conta": "corrente"},
        "pix": None,
        "observacao": None,
    },
    "error": None,
    "reason": None,
    "provider_data": {
        "nativeProposalId": "3c2f1d0e-5b7a-4f6e-9d8c-7b6a5f4e3d2c",
        "nativeStatus": "waiting_signature",
    },
    "created_at": "2026-11-21T12:00:00.000Z",
    "updated_at": "2026-11-21T12:00:05.000Z",
}


def _with(status: str, native_status: str) -> dict[str, Any]:
    """The example at another status, in which there is nothing to sign."""
    told = {**_PROPOSAL["provider_data"], "nativeStatus": native_status}
    actions = ["none"] if status == "cancelled" else _PROPOSAL["next_actions"]
    return {**_PROPOSAL, "status": status, "action": None, "next_actions": actions, "provider_data": told}


_DETAIL = {
    **_PROPOSAL,
    "history": [
        {"status": "created", "at": "2026-11-21T12:00:00.000Z"},
        {"status": "awaiting_signature", "at": "2026-11-21T12:00:05.000Z"},
    ],
}
_CREATED = _with("created", "pending_formalization")


_UNKNOWN_OFFER = InvalidInput(
    details=[Detail("offer_ref.offer_id", "Oferta não encontrada para este banco. Faça uma nova consulta.")]
)
_BOTH_WAYS = InvalidInput(details=[Detail("recebimento", "Informe exatamente um: conta_bancaria ou pix.")])
_OTHER_DATA = OtherData(_PROPOSAL["proposal_id"], "recebimento.conta_bancaria.conta")
_EXPIRED = OfferExpired().with_facts(proposal_id=_PROPOSAL["proposal_id"], replacement=OFFER)
_REFUSED = ProviderRejected("O titular já tem um contrato em andamento neste banco.")
_UNKNOWN_CHANNEL = InvalidInput(details=[Detail("tipo_envio", "Valor inválido. Use um destes: sms, whatsapp.")])

_ID = OpenApiParameter("proposal_id", str, OpenApiParameter.PATH, description="O `proposal_id` do envio.")


def _filter(name: str, description: str, **options: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.QUERY, description=description, **options)


submit = extend_schema(
    operation_id="proposal_submit",
    tags=["Propostas"],
    summary="Envia a proposta de uma oferta ao banco, uma única vez",
    description=(
        "`offer_ref.offer_id` é o `offerId` que uma consulta em `/consultas` deu. Os blocos são os mesmos para todos "
        "os bancos; o que falta para o banco da oferta vem de uma vez em `details`, antes de qualquer envio. "
        "Uma repetição, ou vários envios ao mesmo tempo, dão a mesma proposta (200). Com outros dados para a mesma "
        "oferta a resposta é 409 `invalid_state`, com o primeiro campo diferente em `field`, e nada é alterado; "
        "`evidencia` pode mudar. Depois de 502 "
        "`provider_unavailable` basta repetir: o banco é consultado antes, e nada é enviado em dobro."
    ),
    request=SubmissionRequest,
    responses={
        200: ProposalSchema,
        201: ProposalSchema,
        **errors(_UNKNOWN_OFFER, _BOTH_WAYS, _REFUSED, NotFound(), _OTHER_DATA, _EXPIRED, ProviderUnavailable()),
    },
    examples=[
        request_example("Conta bancária", DATASET),
        request_example("PIX", _BY_PIX),
        response_example("Criada", _CREATED, 201),
        response_example("Repetida", _CREATED, 200),
    ],
)
listed = extend_schema(
    operation_id="proposal_list",
    tags=["Propostas"],
    summary="As propostas do parceiro, da mais nova para a mais antiga",
    description="Até 100 por página; a seguinte se pede com o `next_cursor` em `cursor`.",
    parameters=[
        _filter("status", "Só com esta situação.", enum=STATUSES),
        _filter("provider", "Só deste banco."),
        _filter("cpf", "Só deste titular, 11 dígitos."),
        _filter("cursor", "O `next_cursor` da página anterior."),
    ],
    request=None,
    responses={200: ProposalPageSchema, **errors(InvalidInput("Cursor inválido.", field="cursor"), body=False)},
    examples=[response_example("Última página", {"proposals": [_PROPOSAL], "next_cursor": None})],
)
status = extend_schema(
    operation_id="proposal_status",
    tags=["Propostas"],
    summary="A situação da proposta, perguntada ao banco no máximo a cada 5 segundos",
    description="Quando o banco não responde, vale a última situação conhecida, e `error` diz isso.",
    parameters=[_ID],
    request=None,
    responses={200: ProposalDetailSchema, **errors(NotFound(), body=False)},
    examples=[
        response_example("Aguardando assinatura", _DETAIL),
        response_example("Banco sem resposta", {**_DETAIL, "error": ProviderUnavailable().as_dict()}),
    ],
)
formalize = extend_schema(
    operation_id="proposal_formalize",
    tags=["Propostas"],
    summary="Emite o contrato e dá o link de assinatura",
    description=(
        "O corpo é opcional; sem `tipo_envio` o link só vem na resposta. Repetida enquanto a assinatura é aguardada, "
        "a chamada dá o mesmo link, ou um novo se o anterior venceu."
    ),
    parameters=[_ID],
    request=FormalizeRequest,
    responses={
        200: ProposalSchema,
        **errors(NotFound(), InvalidState(), _UNKNOWN_CHANNEL, _REFUSED, ProviderUnavailable(), ProviderError()),
    },
    examples=[request_example("Por SMS", {"tipo_envio": "sms"}), response_example("Link", _PROPOSAL)],
)
cancel = extend_schema(
    operation_id="proposal_cancel",
    tags=["Propostas"],
    summary="Cancela a proposta, no banco que permite",
    description="O corpo é opcional. Os bancos que não cancelam respondem 501, em qualquer situação da proposta.",
    parameters=[_ID],
    request=CancelRequest,
    responses={
        200: ProposalSchema,
        **errors(
            NotFound(),
            InvalidState(),
            InvalidInput(details=[Detail("motivo", "Deve ter no máximo 120 caracteres.")]),
            _REFUSED,
            NotSupported("Este banco não permite cancelamento."),
            ProviderUnavailable(),
            ProviderError(),
        ),
    },
    examples=[
        request_example("Com motivo", {"motivo": "Desistência do titular."}),
        response_example("Cancelada", _with("cancelled", "canceled")),
    ],
)
banks = extend_schema(
    operation_id="bank_list",
    tags=["Propostas"],
    summary="As instituições aceitas para receber em conta",
    description=(
        "Os códigos para `recebimento.conta_bancaria.banco`. A aceitação final é do banco da proposta, no envio ou na "
        "formalização."
    ),
    request=None,
    responses={200: BanksSchema, **errors(body=False)},
    examples=[response_example("Lista", {"banks": [{"code": "001", "name": "Banco do Brasil S.A."}]})],
)


class MoveSchema(EventSchema):
    external_reference = drf.UUIDField(help_text="O `proposal_id`.")
    provider = drf.CharField(help_text="Identificador do banco, como `ipe`.")
    status = drf.ChoiceField(STATUSES, help_text="A nova situação.")
    previous_status = drf.ChoiceField(STATUSES, allow_null=True, help_text="Nulo na criação.")
    reason = ReasonSchema(
        allow_null=True, help_text="Por que acabou, em `proposal.rejected`, `.cancelled` e `.expired`; senão nulo."
    )

    class Meta:
        ref_name = "ProposalEvent"


move_event = webhook(
    "proposal.<status>",
    MoveSchema,
    "Uma proposta mudou de estado",
    "Só para cadastros que pedem `proposal`. `event` termina com o novo estado, como `proposal.disbursed`.",
    "c1a5b9de-52a1-4bb0-8a51-6f6f3c1f8d01",
    event="proposal.signed",
    provider=OFFER["provider"],
    status="signed",
    previous_status="awaiting_signature",
    reason=None,
)
