"""OpenAPI schemas of the routes about the banks of a contract."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers as drf

from foundation.errors import NotFound
from partners.schema import errors, response_example
from proposals.dataset import CHANNELS
from proposals.serializers import ACCOUNT_KINDS, PIX_KINDS
from providers import health

EVIDENCE_USES = ["required", "optional", "ignored"]


class DisbursementReplacementSchema(drf.Serializer[Any]):
    given = drf.CharField(help_text="O que se pede, como `pix.telefone`.")
    paid = drf.CharField(help_text="O que o banco usa no lugar, como `pix.cpf`.")
    remark = drf.CharField(help_text="A explicação, em português.")


class DisbursementFactsSchema(drf.Serializer[Any]):
    account = drf.BooleanField(help_text="Se o banco paga em conta.")
    account_types = drf.ListField(child=drf.ChoiceField(ACCOUNT_KINDS), help_text="Os `tipo_conta` que o banco aceita.")
    pix = drf.BooleanField(help_text="Se o banco paga por PIX.")
    pix_keys = drf.ListField(child=drf.ChoiceField(PIX_KINDS), help_text="Os `tipo_chave` que o banco aceita.")
    replacements = DisbursementReplacementSchema(many=True, help_text="O que o banco troca por outra forma de receber.")
    portfolios_without_pix = drf.ListField(
        child=drf.CharField(), help_text="As carteiras (`providerData.portfolio` da oferta) que recusam PIX."
    )


class ProviderQueryFactsSchema(drf.Serializer[Any]):
    geolocation = drf.ChoiceField(
        EVIDENCE_USES, help_text="Se o banco exige a localização, a aceita ou não tem onde pô-la."
    )
    app_authorization = drf.ChoiceField(
        EVIDENCE_USES, help_text="O mesmo da autorização dada no aplicativo do parceiro."
    )
    notifies_holder = drf.BooleanField(help_text="Se uma consulta pode enviar uma mensagem ao titular.")


class ProviderSchema(drf.Serializer[Any]):
    name = drf.CharField(help_text="O identificador, como em `providers` e `offer_ref.provider`.")
    label = drf.CharField(help_text="O nome para pessoas.")  # type: ignore[assignment]
    authorization = drf.ChoiceField(
        ["evidence", "biometrics", "chat", "sms"], help_text="Como o titular autoriza a consulta neste banco."
    )
    cancels = drf.BooleanField(help_text="Se uma proposta pode ser cancelada.")
    channels = drf.ListField(
        child=drf.ChoiceField(CHANNELS), help_text="Por onde o banco entrega o link de assinatura (`tipo_envio`)."
    )
    disbursement = DisbursementFactsSchema(help_text="Para onde o banco paga.")
    required = drf.ListField(  # type: ignore[assignment]  # the contract's name, which the class uses as well
        child=drf.CharField(), help_text="Os campos sem os quais o banco não aceita a proposta."
    )
    schema = drf.DictField(help_text="O JSON Schema (2020-12) do corpo de `POST /proposals` para este banco.")
    query = ProviderQueryFactsSchema(help_text="O que o banco usa de uma consulta.")
    status = drf.ChoiceField(
        health.STATUSES,
        help_text="`available`; `degraded`: parte das chamadas falha, ou ele volta aos poucos de uma falha; "
        "`unavailable`: nenhuma chamada dá certo agora, por falhas ou por manutenção (o motivo `bank_closed` das "
        "consultas diz até quando).",
    )


class ProvidersSchema(drf.Serializer[Any]):
    providers = ProviderSchema(many=True, help_text="Os bancos do contrato, por nome.")


class FieldOptionSchema(drf.Serializer[Any]):
    value = drf.CharField(help_text="O que se envia no campo.")
    label = drf.CharField(help_text="O texto para pessoas.")  # type: ignore[assignment]


class FieldOptionsSchema(drf.Serializer[Any]):
    options = FieldOptionSchema(many=True, help_text="O que o campo aceita neste banco.")


_PROVIDER: dict[str, Any] = {
    "name": "ipe",
    "label": "Ipê",
    "authorization": "evidence",
    "cancels": True,
    "channels": ["sms", "whatsapp"],
    "disbursement": {
        "account": True,
        "account_types": ["corrente", "poupanca", "salario"],
        "pix": True,
        "pix_keys": ["cpf", "telefone", "email", "aleatoria"],
        "replacements": [],
        "portfolios_without_pix": [],
    },
    "required": ["offer_ref.provider", "offer_ref.offer_id", "titular.nome", "documento.numero"],
    "schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
    "query": {"geolocation": "optional", "app_authorization": "ignored", "notifies_holder": False},
    "status": "available",
}
_NAME = OpenApiParameter(
    "name",
    str,
    OpenApiParameter.PATH,
    description="Identificador do banco.",
    examples=[OpenApiExample("Banco", value="ipe")],
)
_UNKNOWN = NotFound("Banco desconhecido.")

providers = extend_schema(
    operation_id="provider_list",
    tags=["Bancos"],
    summary="Os bancos do contrato: o que cada um exige, aceita e como está agora",
    description=(
        "`schema` é feito das mesmas regras que validam o envio. O que o JSON Schema não diz, o envio diz: dígitos "
        "verificadores, datas no futuro, a chave PIX de CPF ser a do titular, e o que depende da oferta."
    ),
    request=None,
    responses={200: ProvidersSchema, **errors(body=False)},
    examples=[response_example("Contrato de um banco", {"providers": [_PROVIDER]})],
)
provider = extend_schema(
    operation_id="provider_read",
    tags=["Bancos"],
    summary="Um banco do contrato",
    description="Um banco fora do contrato é tão desconhecido quanto um que não existe: 404.",
    parameters=[_NAME],
    request=None,
    responses={200: ProviderSchema, **errors(_UNKNOWN, body=False)},
    examples=[response_example("Banco", _PROVIDER)],
)
options = extend_schema(
    operation_id="provider_options",
    tags=["Bancos"],
    summary="O que um campo aceita, onde o banco tem uma lista própria",
    description="Um campo sem lista própria é 404.",
    parameters=[
        _NAME,
        OpenApiParameter(
            "field",
            str,
            OpenApiParameter.PATH,
            description="O campo do corpo da proposta, com pontos.",
            examples=[OpenApiExample("Cidade de nascimento", value="titular.naturalidade_cidade")],
        ),
        OpenApiParameter("uf", str, OpenApiParameter.QUERY, description="A UF, para uma lista de cidades."),
    ],
    request=None,
    responses={200: FieldOptionsSchema, **errors(_UNKNOWN, body=False)},
    examples=[response_example("Cidades", {"options": [{"value": "CAMPINAS", "label": "Campinas"}]})],
)
