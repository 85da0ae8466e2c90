"""What the authorization routes answer, and the events about a session's end."""

from typing import Annotated, Literal

from django.db.models import TextChoices
from msgspec import UNSET, UnsetType
from rest_framework.serializers import IPAddressField

from foundation.shapes import Link, Moment, Shape
from webhooks.shapes import Event, told

ID = "Jd0cW2mQ8sT5vX1zB4nK7pR3yU6aE9gH"
_URL = f"https://api.exemplo.com.br/partners/v1/authorizations/public/{ID}"
_EXPIRES_AT = "2026-02-02T12:12:01.480Z"
REVOKED_AT = "2026-02-10T17:40:02.051Z"
_ACCEPTED_AT = "2026-01-30T12:15:40.112Z"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_BROWSER = "Mozilla/5.0 (Linux; Android 15)"


class SessionStatus(TextChoices):
    PENDING = "pending", "pendente"
    AUTHORIZED = "authorized", "autorizada"
    EXPIRED = "expired", "expirada"
    DECLINED = "declined", "recusada"
    REVOKED = "revoked", "revogada"


Status = Annotated[str, (*SessionStatus.choices,)]


class AuthorizationOpened(Shape):
    authorization_id: Annotated[str, "Quem o conhece é tido pelo titular: não o registre nem o exponha.", ID]
    url: Annotated[Link, "Link para o titular.", _URL]
    expires_at: Annotated[Moment, "72 horas depois da abertura.", _EXPIRES_AT]
    partner_reference: Annotated[str | None, "A referência que o parceiro deu à sessão."]


class EvidenceGeolocation(Shape):
    lat: Annotated[float, "Latitude em graus, WGS 84.", -23.55052]
    lng: Annotated[float, "Longitude em graus, WGS 84.", -46.633308]
    accuracy: Annotated[float | None, "Metros.", 12.5]


class EvidenceDevice(Shape, rename="camel"):
    user_agent: Annotated[str | UnsetType, "`User-Agent` segundo o navegador.", _BROWSER] = UNSET
    platform: Annotated[str | UnsetType, "Plataforma, como `Android`.", "Android"] = UNSET
    language: Annotated[str | UnsetType, "Idioma, como `pt-BR`.", "pt-BR"] = UNSET
    timezone: Annotated[str | UnsetType, "Fuso horário.", "America/Sao_Paulo"] = UNSET
    screen: Annotated[str | UnsetType, "Largura, altura e densidade da tela.", "360x740@3"] = UNSET
    device_model: Annotated[str | UnsetType, "Modelo do aparelho.", "SM-A156M"] = UNSET


class EvidencePhoneConfirmation(Shape):
    number: Annotated[str, "O telefone declarado, mascarado.", "(11) *****-4321"]
    sent_at: Annotated[Moment, "Quando o código foi entregue ao gateway de SMS, UTC.", "2026-01-30T12:14:58.930Z"]
    confirmed_at: Annotated[Moment, "Quando o titular informou o código, UTC.", _ACCEPTED_AT]


class Evidence(Shape):
    ip: Annotated[str, IPAddressField, "Visto pelo serviço.", "203.0.113.9"]
    geolocation: Annotated[
        EvidenceGeolocation | None, "Onde o titular estava; nulo se não foi coletado.", EvidenceGeolocation.example()
    ]
    geolocation_status: Annotated[Literal["collected", "not_collected"], "Se a localização foi coletada.", "collected"]
    device: Annotated[EvidenceDevice, "Só o que o navegador do titular informou."]
    user_agent: Annotated[str | None, "Visto pelo serviço.", _BROWSER]
    terms_version: Annotated[str, "Versão dos termos que o titular viu.", "1"]
    terms_sha256: Annotated[str, "SHA-256 do texto dos termos, em hexadecimal.", _SHA256]
    terms_layout: Annotated[
        Literal["folded", "open"] | None,
        "Como a página trouxe os termos: `folded`, dobrados sob seus títulos; `open`, abertos; nulo se o aceite não "
        "veio da página.",
        "folded",
    ]
    terms_unfolded: Annotated[
        list[int] | None,
        "As partes que o titular abriu, pela posição do título (1 é a primeira), segundo o navegador; nulo se ele não "
        "o informou, como sem JavaScript.",
        [2, 6],
    ]
    accepted_at: Annotated[Moment, "Quando o titular aceitou, UTC.", _ACCEPTED_AT]
    phone_confirmation: Annotated[
        EvidencePhoneConfirmation | None,
        "O código por SMS com que o titular confirmou o telefone; nulo se não foi pedido.",
        EvidencePhoneConfirmation.example(),
    ]


class Authorization(AuthorizationOpened):
    status: Annotated[
        Status,
        "`pending`: o titular ainda não respondeu; `authorized`: aceitou; `declined`: não autorizou; `expired`: o "
        "prazo acabou sem resposta; `revoked`: revogada.",
        "pending",
    ]
    evidence: Annotated[Evidence | UnsetType, "Presente desde o aceite, também depois de uma revogação."] = UNSET
    revoked_at: Annotated[Moment | UnsetType, "Presente depois de uma revogação; `status` é então `revoked`."] = UNSET
    declined_at: Annotated[
        Moment | UnsetType, "Presente quando o titular não autorizou; `status` é então `declined`."
    ] = UNSET


class TermsText(Shape):
    version: Annotated[str, "Versão dos termos.", "1"]
    sha256: Annotated[str, "Do texto em UTF-8.", _SHA256]
    text: Annotated[str, "O texto, como o titular o lê.", "1. O que você autoriza\n…"]


class AuthorizationTerms(Shape):
    status: Annotated[str, "`pending` ou `authorized`.", "pending"]
    holder_name: Annotated[str, "Nome do titular.", "Maria Aparecida da Silva"]
    masked_cpf: Annotated[str, "CPF do titular, mascarado.", "***.000.001-**"]
    terms: Annotated[TermsText, "Os termos que a sessão mostra."]
    expires_at: Annotated[Moment, "Até quando o link vale, UTC.", _EXPIRES_AT]


class AuthorizationAccepted(Shape):
    authorization_id: Annotated[str, "O `authorization_id` da sessão.", ID]
    status: Annotated[str, "`authorized`.", "authorized"]
    authorized_at: Annotated[Moment, "Quando o titular aceitou, UTC.", _ACCEPTED_AT]


_ASKED_FOR = "Só para cadastros que pedem este evento. "


class SessionEnd(Event, kw_only=True):
    external_reference: Annotated[str, "O `authorization_id`.", ID] = ""
    authorization_id: Annotated[str, "O mesmo `authorization_id`.", ID]
    cpf: Annotated[str, "CPF do titular, 11 dígitos.", "90000000175"]
    partner_reference: Annotated[str | None, "A referência que o parceiro deu à sessão."]


@told(
    "authorization.completed",
    "O titular aceitou pelo link",
    "A partir dele o `authorization_id` vale nas consultas desse CPF.",
)
class AuthorizationCompletedEvent(SessionEnd, kw_only=True):
    status: Annotated[Literal["authorized"], "A situação da sessão.", "authorized"]
    authorized_at: Annotated[Moment, "Quando o titular aceitou.", _ACCEPTED_AT]


@told(
    "authorization.declined",
    "O titular não autorizou",
    f"{_ASKED_FOR}O link deixa de abrir; um novo pedido abre outra sessão.",
)
class AuthorizationDeclinedEvent(SessionEnd, kw_only=True):
    status: Annotated[Literal["declined"], "A situação da sessão.", "declined"]
    declined_at: Annotated[Moment, "Quando o titular respondeu que não autoriza.", _ACCEPTED_AT]


@told(
    "authorization.revoked",
    "Uma sessão foi revogada",
    f"{_ASKED_FOR}Pelo titular, pelo parceiro ou pelo operador; nenhuma nova consulta se apoia nela.",
)
class AuthorizationRevokedEvent(SessionEnd, kw_only=True):
    status: Annotated[Literal["revoked"], "A situação da sessão.", "revoked"]
    revoked_at: Annotated[Moment, "Quando foi revogada.", REVOKED_AT]


@told(
    "authorization.expired",
    "O prazo de um link acabou sem resposta do titular",
    f"{_ASKED_FOR}Vem até cerca de um minuto depois do fim do prazo.",
)
class AuthorizationExpiredEvent(SessionEnd, kw_only=True):
    status: Annotated[Literal["expired"], "A situação da sessão.", "expired"]
    expired_at: Annotated[Moment, "O `expires_at` da sessão.", _EXPIRES_AT]
