"""The request bodies of the webhook routes, and the list's filters."""

from typing import Any

from rest_framework.exceptions import ValidationError

from foundation.fields import Block, BooleanField, ChoiceField, IntegerField, ListField, TextField
from foundation.format_fields import MomentField, ReferenceField
from foundation.listing import PAGE, Filters
from partners.models import WebhookEvent
from partners.validators import validate_webhook_url
from providers.types.proposal import ProposalStatus
from webhooks.models import Event

#: Every name that an event can have, and `proposal`, which means every `proposal.<status>`.
EVENT_NAMES = [*WebhookEvent.values, *(f"proposal.{status.value}" for status in ProposalStatus), "webhook.test"]


class EventListRequest(Filters):
    state = ChoiceField(Event.State.values, required=False, help_text="Só os eventos neste estado.")
    event = ChoiceField(
        EVENT_NAMES,
        required=False,
        help_text="Só os eventos com este nome; `proposal` vale por todos os `proposal.<status>`.",
    )
    since = MomentField(source="created_at__gte", required=False, help_text="Só os criados desde então, com fuso.")
    until = MomentField(source="created_at__lt", required=False, help_text="Só os criados antes disso, com fuso.")
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
