"""drf-spectacular's settings for the API reference, except the URLs that depend on the deployment."""

from typing import Any


def laboratory_tags(url: str) -> list[dict[str, Any]]:
    """The group of the laboratory at `url`, which has a reference of its own. None without a laboratory."""
    told = (
        "Para os seus testes automáticos, fora da produção: o titular, os passos, a assinatura, o dinheiro e as falhas "
        f"dos bancos, por CPF e sem chave. As chamadas estão na [referência do laboratório]({url})."
    )
    return [{"name": "Laboratorio", "description": told, "x-traitTag": True}] if url else []


API_REFERENCE: dict[str, Any] = {
    "CONTACT": {"name": "Integração de parceiros"},
    "TITLE": "Origination Partner API",  # ASCII, because generated clients name their package after it
    "DESCRIPTION": (
        "API de originação de crédito consignado. Consulta ofertas de vários bancos em uma chamada, envia a proposta "
        "escolhida e acompanha a formalização. "
        "Todas as chamadas partem do servidor do parceiro, com a chave no cabeçalho `X-Partner-Api-Key`. "
        "Toda resposta fora de 2xx é o objeto de erro `{code, message, retryable, field}`. "
        "No sandbox os exemplos das requisições funcionam como estão; só os ids têm de ser os das suas respostas."
    ),
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",  # the first version with webhooks
    "SCHEMA_PATH_PREFIX": "/partners/v1",
    "SCHEMA_PATH_PREFIX_TRIM": False,
    "SERVE_INCLUDE_SCHEMA": False,
    "TAGS": [  # the order on the page; ASCII, because generated clients name a package after each
        {"name": "Consultas", "description": "As ofertas dos bancos para um titular."},
        {"name": "Bancos", "description": "Os bancos do contrato, como dados."},
        {"name": "Propostas", "description": "Da oferta escolhida à assinatura e ao crédito."},
        {"name": "Aceite do titular", "description": "Autorizações por um link, para canais sem página própria."},
        {"name": "Link do titular", "description": "O que o link abre. Sem chave: o próprio link é o segredo."},
        {"name": "Lances", "description": "O que está por trás da chave de um link de leilão."},
        {"name": "Webhooks", "description": "O cadastro de webhooks e os eventos enviados, para ler e reenviar."},
        {"name": "Diagnostico", "description": "As chamadas que falharam."},
        # A tag of their own: generators make a file of each tag, and one of two files of a name would be lost.
        {"name": "Eventos", "description": "O que o serviço envia ao endereço do cadastro do parceiro, por POST."},
    ],
    "POSTPROCESSING_HOOKS": [
        "webhooks.schema.include_events",
        "drf_spectacular.hooks.postprocess_schema_enums",
        "foundation.openapi.say_null_plainly",
        "foundation.openapi.complete_operations",
        "partners.schema.tell_key_and_limits",
    ],
    # The field's description explains each word; the generated lists would only repeat the words.
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "QueryStatus": "consultas.shapes.STATUSES",
        "ResultStatus": "consultas.shapes.RESULT_STATUSES",
        "ActionType": "consultas.shapes.ACTION_TYPES",
        "SignatureActionType": ["signature"],
        "ProposalStatus": "proposals.shapes.STATUSES",
        "ProposalStatusOrUnknown": "proposals.shapes.SHOWN_STATUSES",
        "UF": "foundation.format_fields.STATES",
        "AccountType": "proposals.dataset.ACCOUNT_KINDS",
        "PixKeyType": "proposals.dataset.PIX_KINDS",
        "SignatureChannel": "proposals.dataset.CHANNELS",
        "EvidenceUse": "proposals.shapes.EVIDENCE_USES",
        "SexLetter": ["M", "F"],
        "SexOrDegreeCode": [(0, 0), (1, 1), (2, 2)],
        "AuthorizationStatus": "authorizations.models.Session.Status",
    },
}
