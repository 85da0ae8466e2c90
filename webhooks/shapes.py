"""What the webhook routes answer, and what all events share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar
from uuid import UUID

from msgspec import UNSET, UnsetType
from rest_framework.serializers import UUIDField

from foundation.formats import iso_utc_seconds
from foundation.shapes import Moment, Shape
from partners.models import Partner, WebhookEvent
from webhooks.models import Attempt
from webhooks.models import Event as StoredEvent
from webhooks.transport import Fault

FaultName = Annotated[str, Fault]
State = Annotated[str, StoredEvent.State]
_EVENTS = "Os eventos que o cadastro pede; `proposal` vale por todos os `proposal.<status>`."
_NEW = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
_URL = "https://parceiro.example/webhooks"
_ID = "evt_6a1f0c9e7f0a4c0e9a530a4f3a3f9b11"
SENT_AT = "2026-03-02T14:00:02.315Z"
PARTNER_ID = "5b0c8f0e-3b53-4d3c-9d0f-1f6f4f8f2a11"
_BODY = {
    "partner_id": PARTNER_ID,
    "external_reference": "7d1e9f0e-7f0a-4c0e-9a53-0a4f3a3f9b12",
    "event": "lead",
    "timestamp": SENT_AT,
}


class Event(Shape, kw_only=True):
    """The fields that `outbox.send` sets in every event. Each event describes its `external_reference` itself."""

    partner_id: Annotated[str, UUIDField, "Identificador do parceiro.", PARTNER_ID] = ""
    event: Annotated[str, "Nome do evento.", ""] = ""
    timestamp: Annotated[Moment, "Quando o evento foi criado, UTC.", SENT_AT] = ""


@dataclass(frozen=True)
class Told:
    """What the reference says of an event: its shape, a title, when it is sent, and changes to the shape's example."""

    body: type[Shape]
    summary: str
    when: str
    changes: dict[str, Any]


#: The events of the reference, by name.
EVENTS: dict[str, Told] = {}
E = TypeVar("E", bound=type[Shape])


def told(name: str, summary: str, when: str, **changes: Any) -> Callable[[E], E]:
    """Decorates the shape of the event `name`, which then stands in the reference. Several events may have a shape."""

    def register(body: E) -> E:
        EVENTS[name] = Told(body, summary, when, changes)
        return body

    return register


@told(
    "webhook.test",
    "Um teste pedido por `POST /webhook-events/test`",
    "Assinado e repetido como qualquer outro evento. Não depende dos eventos que o cadastro pede.",
)
class TestEvent(Event):
    external_reference: Annotated[UUID, "Diferente em cada envio de teste.", "c1a5b9de-52a1-4bb0-8a51-6f6f3c1f8d01"]


class WebhookRegistration(Shape):
    url: Annotated[str | None, "O endereço que recebe os eventos; nulo enquanto não há nenhum.", _URL]
    events: Annotated[list[Annotated[str, WebhookEvent]], _EVENTS, ["lead", "authorization_result"]]
    secret_set: Annotated[
        bool,
        "Se há um segredo que assina os eventos. Não diz que alguém o conhece: ele só é mostrado ao operador, quando "
        "o emite.",
        True,
    ]
    retired_secrets: Annotated[int, "Quantos segredos trocados ainda assinam `webhook-signature`.", 0]

    @classmethod
    def of_partner(cls, partner: Partner) -> Self:
        return cls(
            url=partner.webhook_url or None,
            events=partner.webhook_events,
            secret_set=bool(partner.webhook_secret),
            retired_secrets=len(partner.retiring_secrets()),
        )


class WebhookRegistered(WebhookRegistration):
    secret: Annotated[str | UnsetType, "O segredo novo, se a chamada fez um. Não é mostrado de novo.", _NEW] = UNSET


class _Event(Shape):
    id: Annotated[str, "O `webhook-id`, igual em todas as tentativas e reenvios.", _ID]
    event: Annotated[str, "Nome do evento, como `proposal.signed`.", "lead"]
    state: Annotated[State, "`due`: a entregar; `delivered`: confirmado com 2xx; `failed`: sem mais tentativas.", "due"]
    next_attempt_at: Annotated[Moment | None, "Quando é a próxima; nulo quando não há outra.", "2026-03-03T18:00:00Z"]
    created_at: Annotated[Moment, "Quando o evento aconteceu.", SENT_AT]

    @classmethod
    def of_row(cls, event: StoredEvent, *, body: Any = UNSET, **given: Any) -> Self:
        due_at = event.due_at and iso_utc_seconds(event.due_at)
        return cls.of(event, event=event.name, next_attempt_at=due_at, body=body, **given)


class WebhookEventRow(_Event):
    attempts: Annotated[int, "Quantas tentativas houve.", 9]
    body: Annotated[
        dict[str, Any] | UnsetType | None, "Só com `include=body`: o corpo enviado; nulo depois de apagado."
    ] = UNSET


class WebhookEventPage(Shape):
    events: Annotated[list[WebhookEventRow], "Na ordem pedida."]
    next_cursor: Annotated[
        str | None, "Para pedir a página seguinte; nulo na última. Com `order=asc` nunca é nulo: guarde-o."
    ]


class WebhookAttempt(Shape):
    number: Annotated[int, "A primeira é 1.", 1]
    at: Annotated[Moment, "Quando começou.", "2026-03-02T14:00:02.401Z"]
    url: Annotated[str, "O endereço que o cadastro tinha nesse momento.", _URL]
    status: Annotated[int | None, "Status HTTP da resposta; nulo quando não houve resposta.", 500]
    fault: Annotated[FaultName | None, "O que falhou; nulo na tentativa confirmada.", Fault.STATUS.value]
    duration_ms: Annotated[int, "Duração, em milissegundos.", 87]
    answer: Annotated[str | None, "O início da resposta recebida; nulo quando veio vazia.", "Internal Server Error"]

    @classmethod
    def of_row(cls, attempt: Attempt) -> Self:
        return cls.of(attempt, answer=attempt.excerpt or None)


class WebhookEventDetail(_Event):
    attempts: Annotated[list[WebhookAttempt], "As 50 últimas tentativas, na ordem em que foram feitas."]
    attempts_total: Annotated[int, "Quantas tentativas houve.", 1]
    delivered_at: Annotated[Moment | None, "Quando foi confirmado."]
    body: Annotated[dict[str, Any] | None, "O corpo enviado; nulo depois de apagado.", _BODY]
