"""OpenAPI schemas of the proposal routes, and of the routes about the banks of a contract."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from consultas.schema import BANK, NO_PLACE
from foundation.errors import InvalidInput, InvalidState, NotFound, NotSupported
from foundation.listing import invalid_cursor
from partners.schema import describe, in_path
from proposals import dataset, serializers, shapes
from proposals.claim import OtherData
from providers.errors import OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable
from providers.reasons import Reason, ReasonCode
from providers.types.proposal import Stage

EXAMPLE: dict[str, Any] = json.loads(Path(__file__).with_name("example.json").read_text("utf-8"))
DATASET = {"offer_ref": {"provider": shapes.OFFER["provider"], "offer_id": shapes.OFFER["offerId"]}, **EXAMPLE}
DATASET_WITH_PIX = {**DATASET, "recebimento": {"pix": {"tipo_chave": "email", "chave": "maria@example.com"}}}


def _at_status(status: str, native_status: str, next_actions: list[str]) -> shapes.Proposal:
    """The example with another status, at which there is nothing to sign."""
    told = {**_PROPOSAL.provider_data, "nativeStatus": native_status}
    return shapes.Proposal.example(status=status, action=None, next_actions=next_actions, provider_data=told)


def _detail(error: dict[str, Any] | None = None) -> shapes.ProposalDetail:
    """The example with its history, and with this `error`."""
    signing = shapes.ProposalHistory.example(status=_PROPOSAL.status, at=_PROPOSAL.updated_at)
    history = [shapes.ProposalHistory.example(), signing]
    return shapes.ProposalDetail.example(**_SIGNING, history=history, error=error)


_SIGNING = {"stage": Stage.SIGNATURE, "stage_since": "2026-11-21T12:00:05.000Z"}
_PROPOSAL = shapes.Proposal.example(**_SIGNING)
_CREATED = _at_status("created", "pending_formalization", ["formalize", "cancel"])
_PAGE = shapes.ProposalPage.example(proposals=[_PROPOSAL])
_BOTH_WAYS = InvalidInput("Informe exatamente um: conta_bancaria ou pix.", field="recebimento")
_OTHER_DATA = OtherData(str(_PROPOSAL.proposal_id), "recebimento.conta_bancaria.conta").with_facts(
    status=_CREATED.status, next_actions=_CREATED.next_actions
)
_EXPIRED = OfferExpired().with_facts(
    proposal_id=_PROPOSAL.proposal_id, reason=Reason.of(ReasonCode.OFFER_EXPIRED).as_dict(), replacement=shapes.OFFER
)
_HAS_CONTRACT = "O titular já tem um contrato em andamento neste banco."
_REFUSED = ProviderRejected(_HAS_CONTRACT).with_facts(
    proposal_id=_PROPOSAL.proposal_id, reason=Reason.of(ReasonCode.EXISTING_CONTRACT, _HAS_CONTRACT).as_dict()
)
_CALL_REFUSED = ProviderRejected("A operação não permite esta ação agora.").with_facts(
    proposal_id=_PROPOSAL.proposal_id
)
_UNKNOWN_CHANNEL = InvalidInput("Valor inválido. Use um destes: sms, whatsapp.", field="tipo_envio")
_LONG_REASON = InvalidInput("Deve ter no máximo 120 caracteres.", field="motivo")
#: The errors of every call on a proposal that needs its bank.
_OF_A_CALL = (NotFound(), InvalidState(), _CALL_REFUSED, *NO_PLACE, ProviderUnavailable(), ProviderError())

_ID = in_path("proposal_id", "O `proposal_id` do envio.")
_DAY, _NEXT_DAY = "2026-11-21T00:00:00-03:00", "2026-11-22T00:00:00-03:00"

_proposals = partial(describe, "Propostas")
_of_banks = partial(describe, "Bancos")

submit = _proposals(
    operation_id="proposal_submit",
    summary="Envia a proposta de uma oferta ao banco, uma única vez",
    description=(
        "`offer_ref.offer_id` é o `offerId` que uma consulta em `/consultas` deu. Os blocos são os mesmos para todos "
        "os bancos; o que falta para o banco da oferta vem de uma vez em `details`, antes de qualquer envio. "
        "Uma repetição, ou vários envios ao mesmo tempo, dão a mesma proposta (200). Com outros dados para a mesma "
        "oferta a resposta é 409 `invalid_state`, com o primeiro campo diferente em `field`, e nada é alterado; "
        "`evidencia` pode mudar. Depois de 502 "
        "`provider_unavailable` basta repetir: o banco é consultado antes, e nada é enviado em dobro."
    ),
    request=serializers.SubmissionRequest,
    sent={"Conta bancária": DATASET, "PIX": DATASET_WITH_PIX},
    answers={201: {"Criada": _CREATED}, 200: {"Repetida": _CREATED}},
    refusals=(
        InvalidInput(dataset.UNKNOWN_OFFER, field=dataset.OFFER),
        _BOTH_WAYS,
        _REFUSED,
        NotFound(),
        _OTHER_DATA,
        _EXPIRED,
        *NO_PLACE,
        ProviderUnavailable(),
    ),
)
listed = _proposals(
    operation_id="proposal_list",
    summary="As propostas do parceiro, da mais nova para a mais antiga",
    description=(
        "Até 100 por página; a seguinte se pede com o `next_cursor` em `cursor`. Para buscar por CPF, prefira "
        "`POST /proposals/search`: um endereço fica em registros de servidores e proxies, um corpo não."
    ),
    parameters=[serializers.ListRequest],
    answers={200: {"Última página": _PAGE}},
    refusals=[invalid_cursor()],
)
search = _proposals(
    operation_id="proposal_search",
    summary="As propostas do parceiro, com os filtros no corpo",
    description=(
        "Como `GET /proposals`, com os mesmos filtros, sem que um CPF apareça no endereço. O corpo é opcional; um "
        "filtro nulo ou ausente não filtra."
    ),
    request=serializers.SearchRequest,
    sent={
        "Por titular": {"cpf": "90000000175", "limit": 20},
        "Mudadas em um dia": {"updated_from": _DAY, "updated_to": _NEXT_DAY},
    },
    answers={200: {"Última página": _PAGE}},
    refusals=[invalid_cursor()],
)
status = _proposals(
    operation_id="proposal_status",
    summary="A situação da proposta, perguntada ao banco no máximo a cada 5 segundos",
    description="Quando o banco não responde, vale a última situação conhecida, e `error` diz isso.",
    parameters=[_ID],
    answers={200: {"Aguardando assinatura": _detail(), "Banco sem resposta": _detail(ProviderUnavailable().as_dict())}},
    refusals=[NotFound()],
)
formalize = _proposals(
    operation_id="proposal_formalize",
    summary="Emite o contrato e dá o link de assinatura",
    description=(
        "O corpo é opcional; sem `tipo_envio` o link só vem na resposta. Repetida enquanto a assinatura é aguardada, "
        "a chamada dá o mesmo link, ou um novo se o anterior venceu."
    ),
    parameters=[_ID],
    request=serializers.FormalizeRequest,
    sent={"Por SMS": {"tipo_envio": "sms"}},
    answers={200: {"Link": _PROPOSAL}},
    refusals=[_UNKNOWN_CHANNEL, *_OF_A_CALL],
)
cancel = _proposals(
    operation_id="proposal_cancel",
    summary="Cancela a proposta, no banco que permite",
    description="O corpo é opcional. Os bancos que não cancelam respondem 501, em qualquer situação da proposta.",
    parameters=[_ID],
    request=serializers.CancelRequest,
    sent={"Com motivo": {"motivo": "Desistência do titular."}},
    answers={200: {"Cancelada": _at_status("cancelled", "canceled", ["none"])}},
    refusals=[_LONG_REASON, *_OF_A_CALL, NotSupported("Este banco não permite cancelamento.")],
)
banks = _proposals(
    operation_id="bank_list",
    summary="As instituições aceitas para receber em conta",
    description=(
        "Os códigos para `recebimento.conta_bancaria.banco`. A aceitação final é do banco da proposta, no envio ou na "
        "formalização."
    ),
    answers={200: {"Lista": shapes.Banks.example()}},
)

_CITY = {"Cidade de nascimento": "titular.naturalidade_cidade"}
_UNKNOWN_BANK = NotFound("Banco desconhecido.")

providers = _of_banks(
    operation_id="provider_list",
    summary="Os bancos do contrato: o que cada um exige, aceita e como está agora",
    description=(
        "`schema` é feito das mesmas regras que validam o envio. O que o JSON Schema não diz, o envio diz: dígitos "
        "verificadores, datas no futuro, a chave PIX de CPF ser a do titular, e o que depende da oferta."
    ),
    answers={200: {"Contrato de um banco": shapes.Providers.example()}},
)
provider = _of_banks(
    operation_id="provider_read",
    summary="Um banco do contrato",
    description="Um banco fora do contrato é tão desconhecido quanto um que não existe: 404.",
    parameters=[BANK],
    answers={200: {"Banco": shapes.Provider.example()}},
    refusals=[_UNKNOWN_BANK],
)
options = _of_banks(
    operation_id="provider_options",
    summary="O que um campo aceita, onde o banco tem uma lista própria",
    description="Um campo sem lista própria é 404. Em uma UF em que o banco não tem cidade, a lista vem vazia.",
    parameters=[
        BANK,
        in_path("field", "O campo do corpo da proposta, com pontos.", _CITY),
        serializers.CitiesRequest,
    ],
    answers={200: {"Cidades": shapes.FieldOptions.example()}},
    refusals=[_UNKNOWN_BANK, InvalidInput("Informe a sigla de uma UF.", field="uf")],
)
