"""OpenAPI schemas of the authorization routes: responses, examples, errors."""

from functools import partial

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from authorizations import shapes
from authorizations.serializers import AcceptSerializer, OpenSerializer, RevokeSerializer
from foundation.errors import Detail, Gone, InvalidInput, InvalidState, NotFound
from foundation.shapes import described
from partners.schema import errors, request_example, response_example

_EVIDENCE = shapes.Evidence.example()
_LOCATED = {"geolocation": _EVIDENCE.geolocation, "geolocation_status": "granted", "device": _EVIDENCE.device}
_REVOKED = shapes.Authorization.example(status="revoked", evidence=_EVIDENCE, revoked_at=shapes.REVOKED_AT)
_UNKNOWN = NotFound("Autorização não encontrada.")
_LONG_REASON = InvalidInput(details=[Detail("motivo", "Deve ter no máximo 120 caracteres.")])
_PARAMETERS = [
    OpenApiParameter("authorization_id", str, OpenApiParameter.PATH, description="O `authorization_id` da abertura.")
]
#: The partner's routes of a session, and the holder's, which need no key.
_of_partner = partial(extend_schema, tags=["Aceite do titular"])
_of_session = partial(_of_partner, parameters=_PARAMETERS)
_public = partial(extend_schema, tags=["Link do titular"], auth=[], parameters=_PARAMETERS)

opened = _of_partner(
    operation_id="authorization_open",
    summary="Abre uma sessão de autorização",
    description="Enquanto houver uma sessão pendente do mesmo CPF, devolve essa mesma sessão, com 200. Em produção "
    "é 409 enquanto o cadastro do parceiro não tem CNPJ e contato de privacidade, que a página mostra ao titular.",
    request=OpenSerializer,
    responses={
        200: described(shapes.AuthorizationOpened),
        201: described(shapes.AuthorizationOpened),
        **errors(
            InvalidInput(details=[Detail("cpf", "Informe um CPF válido: 11 dígitos, sem máscara.")]),
            InvalidState("O cadastro da sua empresa não tem CNPJ, que a página do titular mostra.", field="cnpj"),
        ),
    },
    examples=[
        request_example(
            "Titular", {"cpf": "90000000175", "nome": "Maria Aparecida da Silva", "telefone": "11987654321"}
        ),
        response_example("Sessão", shapes.AuthorizationOpened.example(), 200, 201),
    ],
)
session = _of_session(
    operation_id="authorization_read",
    summary="Situação de uma sessão e, quando autorizada, a evidência",
    description="A evidência é o que o serviço viu no aceite e o que o navegador do titular informou.",
    responses={200: described(shapes.Authorization), **errors(_UNKNOWN, body=False)},
    examples=[
        response_example("Pendente", shapes.Authorization.example()),
        response_example("Autorizada", shapes.Authorization.example(status="authorized", evidence=_EVIDENCE)),
        response_example("Revogada", _REVOKED),
    ],
)
revoke = _of_session(
    operation_id="authorization_revoke",
    summary="Revoga uma autorização, ou desfaz um link ainda pendente",
    description=(
        "O corpo é opcional. Nenhuma nova consulta se apoia na sessão; um link ainda pendente deixa de abrir (410). "
        "A primeira revogação vale, e uma repetição devolve a mesma sessão. Consultas já feitas e propostas ficam."
    ),
    request=RevokeSerializer,
    responses={200: described(shapes.Authorization), **errors(_UNKNOWN, InvalidState(), _LONG_REASON)},
    examples=[
        request_example("A pedido do titular", {"motivo": "Pedido do titular no chat."}),
        response_example("Revogada", _REVOKED),
    ],
)
dossier = _of_session(
    operation_id="authorization_dossier",
    summary="O dossiê da evidência, um arquivo zip",
    description=(
        "O registro assinado do aceite, os termos, as chamadas a bancos que se apoiaram nele e uma página para "
        "imprimir, também de uma sessão revogada. Cada exportação fica na trilha de auditoria. 409 se a sessão não foi "
        "aceita; 410 depois que os dados foram apagados; 404 também se o cadastro não permite a exportação."
    ),
    responses={
        (200, "application/zip"): OpenApiTypes.BINARY,
        **errors(_UNKNOWN, InvalidState(), Gone("Os dados do titular foram apagados."), body=False),
    },
)
page = _public(
    operation_id="authorization_page",
    summary="A página que o titular abre",
    description="HTML, também quando o link é desconhecido (404) ou expirou (410). Abrir a página não autoriza nada.",
    responses={(status, "text/html"): OpenApiResponse(str) for status in (200, 404, 410)},
)
terms = _public(
    operation_id="authorization_terms",
    summary="Os termos que a sessão mostra",
    description="Para conferir o que o titular lê: o texto, a versão e o resumo SHA-256.",
    responses={200: described(shapes.AuthorizationTerms), **errors(_UNKNOWN, Gone(), key=False, body=False)},
    examples=[response_example("Pendente", shapes.AuthorizationTerms.example())],
)
accept = _public(
    operation_id="authorization_accept",
    summary="O aceite do titular",
    description="Em produção só o formulário da página vale: um aceite em JSON é 404, a não ser que o cadastro do "
    "parceiro o permita. O primeiro aceite vale; os demais recebem a mesma resposta e não mudam a evidência. "
    "O IP é sempre o da conexão. O formulário da página usa a mesma rota e volta à página com 303.",
    request={"application/json": AcceptSerializer},
    responses={
        200: described(shapes.AuthorizationAccepted),
        **errors(
            _UNKNOWN,
            Gone(),
            InvalidInput(details=[Detail("accepted", "Sem o aceite não há autorização.")]),
            key=False,
        ),
    },
    examples=[
        request_example("Com localização", _LOCATED),
        request_example("Localização recusada", {"geolocation": None, "geolocation_status": "denied"}),
        response_example("Aceito", shapes.AuthorizationAccepted.example()),
    ],
)


decline = _public(
    operation_id="authorization_decline",
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
