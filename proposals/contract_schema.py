"""OpenAPI schemas of the routes about the banks of a contract."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema

from foundation.errors import NotFound
from foundation.shapes import described
from partners.schema import errors, response_example
from proposals.shapes import FieldOptions, Provider, Providers

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
    responses={200: described(Providers), **errors(body=False)},
    examples=[response_example("Contrato de um banco", Providers.example())],
)
provider = extend_schema(
    operation_id="provider_read",
    tags=["Bancos"],
    summary="Um banco do contrato",
    description="Um banco fora do contrato é tão desconhecido quanto um que não existe: 404.",
    parameters=[_NAME],
    request=None,
    responses={200: described(Provider), **errors(_UNKNOWN, body=False)},
    examples=[response_example("Banco", Provider.example())],
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
    responses={200: described(FieldOptions), **errors(_UNKNOWN, body=False)},
    examples=[response_example("Cidades", FieldOptions.example())],
)
