"""JSON of the webhook routes: the list's filters and the responses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET
from rest_framework.exceptions import ValidationError

from foundation.fields import Block, BooleanField, ChoiceField, IntegerField, ListField, TextField
from foundation.format_fields import MomentField, ReferenceField
from foundation.formats import iso_utc_seconds
from foundation.listing import PAGE, Filters
from partners.models import Partner, WebhookEvent
from partners.validators import validate_webhook_url
from providers.types.proposal import ProposalStatus
from webhooks import shapes
from webhooks.models import Attempt, Event

#: Every name that an event can have, and `proposal`, which means every `proposal.<status>`.
EVENT_NAMES = [*WebhookEvent.values, *(f"proposal.{status.value}" for status in ProposalStatus), "webhook.test"]

# --- In ---------------------------------------------------------------------------------------------------------


class EventListRequest(Filters):
    """The filters of the list."""

    state = ChoiceField(Event.State.values, required=False, help_text="Só os eventos neste estado.")
    event = ChoiceField(
        EVENT_NAMES,
        required=False,
        help_text="Só os eventos com este nome; `proposal` vale por todos os `proposal.<status>`.",
    )
    since = MomentField(required=False, help_text="Só os criados desde então, com fuso.")
    until = MomentField(required=False, help_text="Só os criados antes disso, com fuso.")
    partner_reference = ReferenceField(required=False, help_text="Só os que levam esta referência sua.")
    order = ChoiceField(
        ["asc", "desc"],
        default="desc",
        help_text="`desc`: do mais novo ao mais antigo, 100 por página. `asc`: na ordem em que foram gravados, 50 por "
        "página; um cursor nunca pula um evento.",
    )
    include = ChoiceField(["body"], required=False, help_text="`body`: também o corpo de cada evento, 50 por página.")
    wait_s = IntegerField(
        min_value=0,
        max_value=25,
        required=False,
        help_text="Só com `order=asc`: segundos que a resposta espera por um evento, se ainda não há nenhum.",
    )
    limit = IntegerField(min_value=1, max_value=PAGE, required=False, help_text="No máximo tantos por página.")
    cursor = TextField(max_length=200, required=False, help_text="O `next_cursor` da página anterior.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("wait_s") and attrs["order"] != "asc":
            raise ValidationError({"wait_s": "Só com order=asc."})
        return attrs


class RegistrationRequest(Block):
    """What a partner changes in its own registration. A missing field stays as it is."""

    url = TextField(
        max_length=500,
        required=False,
        allow_null=True,
        validators=[validate_webhook_url],
        help_text="O endereço que recebe os eventos; nulo: nenhum.",
    )
    events = ListField(
        child=ChoiceField(WebhookEvent.values),
        required=False,
        max_length=len(WebhookEvent.values),
        help_text="Os eventos pedidos; `proposal` vale por todos os `proposal.<status>`.",
    )
    rotate_secret = BooleanField(default=False, help_text="Emite outro segredo; o anterior ainda assina por 24 horas.")


# --- Out --------------------------------------------------------------------------------------------------------


def webhook(partner: Partner) -> shapes.WebhookRegistration:
    """The partner's webhook registration, without secrets."""
    return shapes.WebhookRegistration(
        url=partner.webhook_url or None,
        events=partner.webhook_events,
        secret_set=bool(partner.webhook_secret),
        retired_secrets=len(partner.retiring_secrets()),
    )


def summary(event: Event) -> dict[str, Any]:
    """An event as printed by the command `list_events`."""
    row: dict[str, Any] = msgspec.to_builtins(listed(event))
    del row["created_at"]
    return row


def listed(event: Event, body: Any = UNSET) -> shapes.WebhookEventRow:
    """An event in the API's list."""
    return shapes.WebhookEventRow.of(event, **_named(event), body=body)


def with_body(event: Event) -> shapes.WebhookEventRow:
    """An event in the API's list, with the body that is sent."""
    return listed(event, _body(event))


def detailed(event: Event, attempts: Iterable[Attempt]) -> shapes.WebhookEventDetail:
    """An event with the body that is sent, and with its newest `attempts` as a list instead of their number."""
    return shapes.WebhookEventDetail.of(
        event,
        **_named(event),
        attempts=[_attempt(each) for each in attempts],
        attempts_total=event.attempts,
        body=_body(event),
    )


def _named(event: Event) -> dict[str, Any]:
    """The fields that have another name or form in the row."""
    return {"event": event.name, "next_attempt_at": event.due_at and iso_utc_seconds(event.due_at)}


def _body(event: Event) -> Any:
    return json.loads(event.body) if event.body is not None else None


def _attempt(attempt: Attempt) -> shapes.WebhookAttempt:
    return shapes.WebhookAttempt.of(attempt, fault=attempt.fault or None, answer=attempt.excerpt or None)
