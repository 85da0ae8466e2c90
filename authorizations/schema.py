"""OpenAPI schemas of the authorization routes: responses, examples, errors."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, OpenApiWebhook, extend_schema
from rest_framework import serializers as drf

from authorizations.models import Session
from authorizations.serializers import AcceptSerializer, OpenSerializer, RevokeSerializer
from foundation.errors import Detail, Gone, InvalidInput, InvalidState, NotFound
from partners.schema import errors, request_example, response_example
from webhooks.schema import EventSchema, webhook

_ID = "Jd0cW2mQ8sT5vX1zB4nK7pR3yU6aE9gH"
_URL = f"https://api.exemplo.com.br/partners/v1/authorizations/public/{_ID}"
_EXPIRES_AT = "2026-02-02T12:12:01.480Z"
_REVOKED_AT = "2026-02-10T17:40:02.051Z"
_ACCEPTED_AT = "2026-01-30T12:15:40.112Z"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_PLACE = {"lat": -23.55052, "lng": -46.633308, "accuracy": 12.5}
_DEVICE = {
    "userAgent": "Mozilla/5.0 (Linux; Android 15)",
    "platform": "Android",
    "language": "pt-BR",
    "timezone": "America/Sao_Paulo",
    "screen": "360x740@3",
    "deviceModel": "SM-A156M",
}
_OPENED = {"authorization_id": _ID, "url": _URL, "expires_at": _EXPIRES_AT, "partner_reference": None}
_EVIDENCE = {
    "ip": "203.0.113.9",
    "geolocation": _PLACE,
    "geolocation_status": "collected",
    "device": _DEVICE,
    "user_agent": _DEVICE["userAgent"],
    "terms_version": "1",
    "terms_sha256": _SHA256,
    "terms_layout": "folded",
    "terms_unfolded": [2, 6],
    "accepted_at": _ACCEPTED_AT,
    "phone_confirmation": {
        "number": "(11) *****-4321",
        "sent_at": "2026-01-30T12:14:58.930Z",
        "confirmed_at": _ACCEPTED_AT,
    },
}


class AuthorizationOpenedSchema(drf.Serializer[Any]):
    authorization_id = drf.CharField(help_text="Quem o conhece é tido pelo titular: não o registre nem o exponha.")
    url = drf.URLField(help_text="Link para o titular.")
    expires_at = drf.DateTimeField(help_text="72 horas depois da abertura.")
    partner_reference = drf.CharField(allow_null=True, help_text="A referência que o parceiro deu à sessão.")


class EvidenceGeolocationSchema(drf.Serializer[Any]):
    lat = drf.FloatField(help_text="Latitude em graus, WGS 84.")
    lng = drf.FloatField(help_text="Longitude em graus, WGS 84.")
    accuracy = drf.FloatField(allow_null=True, help_text="Metros.")


class EvidenceDeviceSchema(drf.Serializer[Any]):
    userAgent = drf.CharField(required=False, help_text="`User-Agent` segundo o navegador.")
    platform = drf.CharField(required=False, help_text="Plataforma, como `Android`.")
    language = drf.CharField(required=False, help_text="Idioma, como `pt-BR`.")
    timezone = drf.CharField(required=False, help_text="Fuso horário.")
    screen = drf.CharField(required=False, help_text="Largura, altura e densidade da tela.")
    deviceModel = drf.CharField(required=False, help_text="Modelo do aparelho.")


class EvidencePhoneConfirmationSchema(drf.Serializer[Any]):
    number = drf.CharField(help_text="O telefone declarado, mascarado.")
    sent_at = drf.DateTimeField(help_text="Quando o código foi entregue ao gateway de SMS, UTC.")
    confirmed_at = drf.DateTimeField(help_text="Quando o titular informou o código, UTC.")


class EvidenceSchema(drf.Serializer[Any]):
    ip = drf.IPAddressField(help_text="Visto pelo serviço.")
    geolocation = EvidenceGeolocationSchema(
        allow_null=True, help_text="Onde o titular estava; nulo se não foi coletado."
    )
    geolocation_status = drf.ChoiceField(["collected", "not_collected"], help_text="Se a localização foi coletada.")
    device = EvidenceDeviceSchema(help_text="Só o que o navegador do titular informou.")
    user_agent = drf.CharField(allow_null=True, help_text="Visto pelo serviço.")
    terms_version = drf.CharField(help_text="Versão dos termos que o titular viu.")
    terms_sha256 = drf.CharField(help_text="SHA-256 do texto dos termos, em hexadecimal.")
    terms_layout = drf.ChoiceField(
        ["folded", "open"],
        allow_null=True,
        help_text="Como a página trouxe os termos: `folded`, dobrados sob seus títulos; `open`, abertos; nulo se o "
        "aceite não veio da página.",
    )
    terms_unfolded = drf.ListField(
        child=drf.IntegerField(),
        allow_null=True,
        help_text="As partes que o titular abriu, pela posição do título (1 é a primeira), segundo o navegador; nulo "
        "se ele não o informou, como sem JavaScript.",
    )
    accepted_at = drf.DateTimeField(help_text="Quando o titular aceitou, UTC.")
    phone_confirmation = EvidencePhoneConfirmationSchema(
        allow_null=True, help_text="O código por SMS com que o titular confirmou o telefone; nulo se não foi pedido."
    )


class AuthorizationSchema(AuthorizationOpenedSchema):
    status = drf.ChoiceField(
        Session.Status.choices,
        help_text="`pending`: o titular ainda não respondeu; `authorized`: aceitou; `declined`: não autorizou; "
        "`expired`: o prazo acabou sem resposta; `revoked`: revogada.",
    )
    evidence = EvidenceSchema(required=False, help_text="Presente desde o aceite, também depois de uma revogação.")
    revoked_at = drf.DateTimeField(
        required=False, help_text="Presente depois de uma revogação; `status` é então `revoked`."
    )
    declined_at = drf.DateTimeField(
        required=False, help_text="Presente quando o titular não autorizou; `status` é então `declined`."
    )


class TermsTextSchema(drf.Serializer[Any]):
    version = drf.CharField(help_text="Versão dos termos.")
    sha256 = drf.CharField(help_text="Do texto em UTF-8.")
    text = drf.CharField(help_text="O texto, como o titular o lê.")


class AuthorizationTermsSchema(drf.Serializer[Any]):
    status = drf.CharField(help_text="`pending` ou `authorized`.")
    holder_name = drf.CharField(help_text="Nome do titular.")
    masked_cpf = drf.CharField(help_text="CPF do titular, mascarado.")
    terms = TermsTextSchema(help_text="Os termos que a sessão mostra.")
    expires_at = drf.DateTimeField(help_text="Até quando o link vale, UTC.")


class AuthorizationAcceptedSchema(drf.Serializer[Any]):
    authorization_id = drf.CharField(help_text="O `authorization_id` da sessão.")
    status = drf.CharField(help_text="`authorized`.")
    authorized_at = drf.DateTimeField(help_text="Quando o titular aceitou, UTC.")


_TAGS = ["Aceite do titular"]
_HOLDER_TAGS = ["Link do titular"]
_UNKNOWN = NotFound("Autorização não encontrada.")
_LONG_REASON = InvalidInput(details=[Detail("motivo", "Deve ter no máximo 120 caracteres.")])
_PARAMETERS = [
    OpenApiParameter("authorization_id", str, OpenApiParameter.PATH, description="O `authorization_id` da abertura.")
]

opened = extend_schema(
    operation_id="authorization_open",
    tags=_TAGS,
    summary="Abre uma sessão de autorização",
    description="Enquanto houver uma sessão pendente do mesmo CPF, devolve essa mesma sessão, com 200. Em produção "
    "é 409 enquanto o cadastro do parceiro não tem CNPJ e contato de privacidade, que a página mostra ao titular.",
    request=OpenSerializer,
    responses={
        200: AuthorizationOpenedSchema,
        201: AuthorizationOpenedSchema,
        **errors(
            InvalidInput(details=[Detail("cpf", "Informe um CPF válido: 11 dígitos, sem máscara.")]),
            InvalidState("O cadastro da sua empresa não tem CNPJ, que a página do titular mostra.", field="cnpj"),
        ),
    },
    examples=[
        request_example(
            "Titular", {"cpf": "90000000175", "nome": "Maria Aparecida da Silva", "telefone": "11987654321"}
        ),
        response_example("Sessão", _OPENED, 200, 201),
    ],
)
session = extend_schema(
    operation_id="authorization_read",
    tags=_TAGS,
    summary="Situação de uma sessão e, quando autorizada, a evidência",
    description="A evidência é o que o serviço viu no aceite e o que o navegador do titular informou.",
    parameters=_PARAMETERS,
    responses={200: AuthorizationSchema, **errors(_UNKNOWN, body=False)},
    examples=[
        response_example("Pendente", {**_OPENED, "status": "pending"}),
        response_example("Autorizada", {**_OPENED, "status": "authorized", "evidence": _EVIDENCE}),
        response_example(
            "Revogada",
            {**_OPENED, "status": "revoked", "evidence": _EVIDENCE, "revoked_at": _REVOKED_AT},
        ),
    ],
)
revoke = extend_schema(
    operation_id="authorization_revoke",
    tags=_TAGS,
    summary="Revoga uma autorização, ou desfaz um link ainda pendente",
    description=(
        "O corpo é opcional. Nenhuma nova consulta se apoia na sessão; um link ainda pendente deixa de abrir (410). "
        "A primeira revogação vale, e uma repetição devolve a mesma sessão. Consultas já feitas e propostas ficam."
    ),
    parameters=_PARAMETERS,
    request=RevokeSerializer,
    responses={200: AuthorizationSchema, **errors(_UNKNOWN, InvalidState(), _LONG_REASON)},
    examples=[
        request_example("A pedido do titular", {"motivo": "Pedido do titular no chat."}),
        response_example(
            "Revogada", {**_OPENED, "status": "revoked", "evidence": _EVIDENCE, "revoked_at": _REVOKED_AT}
        ),
    ],
)
dossier = extend_schema(
    operation_id="authorization_dossier",
    tags=_TAGS,
    summary="O dossiê da evidência, um arquivo zip",
    description=(
        "O registro assinado do aceite, os termos, as chamadas a bancos que se apoiaram nele e uma página para "
        "imprimir, também de uma sessão revogada. Cada exportação fica na trilha de auditoria. 409 se a sessão não foi "
        "aceita; 410 depois que os dados foram apagados; 404 também se o cadastro não permite a exportação."
    ),
    parameters=_PARAMETERS,
    responses={
        (200, "application/zip"): OpenApiTypes.BINARY,
        **errors(_UNKNOWN, InvalidState(), Gone("Os dados do titular foram apagados."), body=False),
    },
)
page = extend_schema(
    operation_id="authorization_page",
    tags=_HOLDER_TAGS,
    auth=[],
    summary="A página que o titular abre",
    description="HTML, também quando o link é desconhecido (404) ou expirou (410). Abrir a página não autoriza nada.",
    parameters=_PARAMETERS,
    responses={(status, "text/html"): OpenApiResponse(str) for status in (200, 404, 410)},
)
terms = extend_schema(
    operation_id="authorization_terms",
    tags=_HOLDER_TAGS,
    auth=[],
    summary="Os termos que a sessão mostra",
    description="Para conferir o que o titular lê: o texto, a versão e o resumo SHA-256.",
    parameters=_PARAMETERS,
    responses={200: AuthorizationTermsSchema, **errors(_UNKNOWN, Gone(), key=False, body=False)},
    examples=[
        response_example(
            "Pendente",
            {
                "status": "pending",
                "holder_name": "Maria Aparecida da Silva",
                "masked_cpf": "***.000.001-**",
                "terms": {"version": "1", "sha256": _SHA256, "text": "1. O que você autoriza\n…"},
                "expires_at": _EXPIRES_AT,
            },
        )
    ],
)
accept = extend_schema(
    operation_id="authorization_accept",
    tags=_HOLDER_TAGS,
    auth=[],
    summary="O aceite do titular",
    description="Em produção só o formulário da página vale: um aceite em JSON é 404, a não ser que o cadastro do "
    "parceiro o permita. O primeiro aceite vale; os demais recebem a mesma resposta e não mudam a evidência. "
    "O IP é sempre o da conexão. O formulário da página usa a mesma rota e volta à página com 303.",
    parameters=_PARAMETERS,
    request={"application/json": AcceptSerializer},
    responses={
        200: AuthorizationAcceptedSchema,
        **errors(
            _UNKNOWN,
            Gone(),
            InvalidInput(details=[Detail("accepted", "Sem o aceite não há autorização.")]),
            key=False,
        ),
    },
    examples=[
        request_example("Com localização", {"geolocation": _PLACE, "geolocation_status": "granted", "device": _DEVICE}),
        request_example("Localização recusada", {"geolocation": None, "geolocation_status": "denied"}),
        response_example("Aceito", {"authorization_id": _ID, "status": "authorized", "authorized_at": _ACCEPTED_AT}),
    ],
)


decline = extend_schema(
    operation_id="authorization_decline",
    tags=_HOLDER_TAGS,
    auth=[],
    summary="A recusa do titular",
    description="O que faz o botão *Não autorizo* da página; o corpo não é lido. A sessão pendente passa a `declined`. "
    "Uma repetição, ou uma recusa depois do aceite, não muda nada e tem a mesma resposta. As falhas são páginas HTML, "
    "para o titular.",
    parameters=[
        *_PARAMETERS,
        OpenApiParameter("Location", str, OpenApiParameter.HEADER, description="O endereço da página.", response=[303]),
    ],
    request=None,
    responses={
        303: OpenApiResponse(description="Volta à página, que diz como a sessão está: recusada (410) ou aceita (200)."),
        (404, "text/html"): OpenApiResponse(str, description="Sessão desconhecida."),
        (410, "text/html"): OpenApiResponse(str, description="Sessão expirada ou revogada."),
    },
)
code = extend_schema(exclude=True)  # a button of the page alone, which partners do not call


class EndSchema(EventSchema):
    """The fields that every event about a session's end has."""

    external_reference = drf.CharField(help_text="O `authorization_id`.")
    authorization_id = drf.CharField(help_text="O mesmo `authorization_id`.")
    cpf = drf.CharField(help_text="CPF do titular, 11 dígitos.")
    partner_reference = drf.CharField(allow_null=True, help_text="A referência que o parceiro deu à sessão.")


class AuthorizationCompletedEventSchema(EndSchema):
    status = drf.ChoiceField(["authorized"], help_text="A situação da sessão.")
    authorized_at = drf.DateTimeField(help_text="Quando o titular aceitou.")


class AuthorizationDeclinedEventSchema(EndSchema):
    status = drf.ChoiceField(["declined"], help_text="A situação da sessão.")
    declined_at = drf.DateTimeField(help_text="Quando o titular respondeu que não autoriza.")


class AuthorizationRevokedEventSchema(EndSchema):
    status = drf.ChoiceField(["revoked"], help_text="A situação da sessão.")
    revoked_at = drf.DateTimeField(help_text="Quando foi revogada.")


class AuthorizationExpiredEventSchema(EndSchema):
    status = drf.ChoiceField(["expired"], help_text="A situação da sessão.")
    expired_at = drf.DateTimeField(help_text="O `expires_at` da sessão.")


def _end(name: str, body: type[EndSchema], summary: str, when: str, **fields: str) -> OpenApiWebhook:
    return webhook(
        name, body, summary, when, _ID, authorization_id=_ID, cpf="90000000175", partner_reference=None, **fields
    )


_ASKED_FOR = "Só para cadastros que pedem este evento. "
completed_event = _end(
    "authorization.completed",
    AuthorizationCompletedEventSchema,
    "O titular aceitou pelo link",
    "A partir dele o `authorization_id` vale nas consultas desse CPF.",
    status="authorized",
    authorized_at=_ACCEPTED_AT,
)
declined_event = _end(
    "authorization.declined",
    AuthorizationDeclinedEventSchema,
    "O titular não autorizou",
    f"{_ASKED_FOR}O link deixa de abrir; um novo pedido abre outra sessão.",
    status="declined",
    declined_at=_ACCEPTED_AT,
)
revoked_event = _end(
    "authorization.revoked",
    AuthorizationRevokedEventSchema,
    "Uma sessão foi revogada",
    f"{_ASKED_FOR}Pelo titular, pelo parceiro ou pelo operador; nenhuma nova consulta se apoia nela.",
    status="revoked",
    revoked_at=_REVOKED_AT,
)
expired_event = _end(
    "authorization.expired",
    AuthorizationExpiredEventSchema,
    "O prazo de um link acabou sem resposta do titular",
    f"{_ASKED_FOR}Vem até cerca de um minuto depois do fim do prazo.",
    status="expired",
    expired_at=_EXPIRES_AT,
)
