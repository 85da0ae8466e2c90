"""OpenAPI schemas of the authorization routes: responses, examples, errors."""

from functools import partial

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from authorizations import shapes
from authorizations.serializers import AcceptSerializer, OpenSerializer, RevokeSerializer
from foundation.errors import Gone, InvalidInput, InvalidState, NotFound
from partners.schema import describe, in_path

_EVIDENCE = shapes.Evidence.example()
_LOCATED = {"geolocation": _EVIDENCE.geolocation, "geolocation_status": "granted", "device": _EVIDENCE.device}
_REFUSED = {"geolocation": None, "geolocation_status": "denied"}
_OPENED = {"Sessão": shapes.AuthorizationOpened.example()}
_AUTHORIZED = shapes.Authorization.example(status="authorized", evidence=_EVIDENCE)
_REVOKED = shapes.Authorization.example(status="revoked", evidence=_EVIDENCE, revoked_at=shapes.REVOKED_AT)
_UNKNOWN = NotFound("Autorização não encontrada.")
_LONG_REASON = InvalidInput("Deve ter no máximo 120 caracteres.", field="motivo")
_PARAMETERS = [in_path("authorization_id", "O `authorization_id` da abertura.")]
#: The partner's routes of a session, and the holder's, which need no key.
_of_partner = partial(describe, "Aceite do titular")
_of_session = partial(_of_partner, parameters=_PARAMETERS)
_by_link = partial(describe, "Link do titular", auth=[], parameters=_PARAMETERS)
_page = partial(extend_schema, tags=["Link do titular"], auth=[], parameters=_PARAMETERS)

opened = _of_partner(
    operation_id="authorization_open",
    summary="Abre uma sessão de autorização",
    description="Enquanto houver uma sessão pendente do mesmo CPF, devolve essa mesma sessão, com 200. Em produção "
    "é 409 enquanto o cadastro do parceiro não tem CNPJ e contato de privacidade, que a página mostra ao titular.",
    request=OpenSerializer,
    sent={"Titular": {"cpf": "90000000175", "nome": "Maria Aparecida da Silva", "telefone": "11987654321"}},
    answers={200: _OPENED, 201: _OPENED},
    refusals=[
        InvalidInput("Informe um CPF válido: 11 dígitos, sem máscara.", field="cpf"),
        InvalidState("O cadastro da sua empresa não tem CNPJ, que a página do titular mostra.", field="cnpj"),
    ],
)
session = _of_session(
    operation_id="authorization_read",
    summary="Situação de uma sessão e, quando autorizada, a evidência",
    description="A evidência é o que o serviço viu no aceite e o que o navegador do titular informou.",
    answers={200: {"Pendente": shapes.Authorization.example(), "Autorizada": _AUTHORIZED, "Revogada": _REVOKED}},
    refusals=[_UNKNOWN],
)
revoke = _of_session(
    operation_id="authorization_revoke",
    summary="Revoga uma autorização, ou desfaz um link ainda pendente",
    description=(
        "O corpo é opcional. Nenhuma nova consulta se apoia na sessão; um link ainda pendente deixa de abrir (410). "
        "A primeira revogação vale, e uma repetição devolve a mesma sessão. Consultas já feitas e propostas ficam."
    ),
    request=RevokeSerializer,
    sent={"A pedido do titular": {"motivo": "Pedido do titular no chat."}},
    answers={200: {"Revogada": _REVOKED}},
    refusals=[_UNKNOWN, InvalidState(), _LONG_REASON],
)
dossier = _of_session(
    operation_id="authorization_dossier",
    summary="O dossiê da evidência, um arquivo zip",
    description=(
        "O registro assinado do aceite, os termos, as chamadas a bancos que se apoiaram nele e uma página para "
        "imprimir, também de uma sessão revogada. Cada exportação fica na trilha de auditoria. 409 se a sessão não foi "
        "aceita; 410 depois que os dados foram apagados; 404 também se o cadastro não permite a exportação."
    ),
    responses={(200, "application/zip"): OpenApiTypes.BINARY},
    refusals=[_UNKNOWN, InvalidState(), Gone("Os dados do titular foram apagados.")],
)
page = _page(
    operation_id="authorization_page",
    summary="A página que o titular abre",
    description="HTML, também quando o link é desconhecido (404) ou expirou (410). Abrir a página não autoriza nada.",
    responses={(status, "text/html"): OpenApiResponse(str) for status in (200, 404, 410)},
)
terms = _by_link(
    operation_id="authorization_terms",
    summary="Os termos que a sessão mostra",
    description="Para conferir o que o titular lê: o texto, a versão e o resumo SHA-256.",
    answers={200: {"Pendente": shapes.AuthorizationTerms.example()}},
    refusals=[_UNKNOWN, Gone()],
)
accept = _by_link(
    operation_id="authorization_accept",
    summary="O aceite do titular",
    description="Em produção só o formulário da página vale: um aceite em JSON é 404, a não ser que o cadastro do "
    "parceiro o permita. O primeiro aceite vale; os demais recebem a mesma resposta e não mudam a evidência. "
    "O IP é sempre o da conexão. O formulário da página usa a mesma rota e volta à página com 303.",
    request={"application/json": AcceptSerializer},
    sent={"Com localização": _LOCATED, "Localização recusada": _REFUSED},
    answers={200: {"Aceito": shapes.AuthorizationAccepted.example()}},
    refusals=[_UNKNOWN, Gone(), InvalidInput("Sem o aceite não há autorização.", field="accepted")],
)
decline = _page(
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
