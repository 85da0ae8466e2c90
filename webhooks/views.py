"""A partner's webhook routes: its registration, its events, sending one again, and a test event.

In production only an operator can change URL and secret, so a stolen API key cannot redirect events.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from msgspec import UNSET, structs

from foundation import audit
from foundation.audit import Action
from foundation.errors import Unauthorized
from foundation.json import Response
from foundation.validation import validated
from partners import registration
from partners.authentication import is_active
from partners.limits import DAY_S, MINUTE_S, Policy
from partners.models import Partner
from partners.views import PartnerView
from webhooks import events, schema, serializers, shapes
from webhooks.models import Event, newest_attempts

Page = Callable[[Partner, dict[str, Any]], tuple[list[Event], str | None]]
#: How many events a partner may resend a minute, and how many test events it may send.
PER_MINUTE = 30
RESENDS = Policy("resends", "O limite de reenvios por minuto foi atingido.", window_s=MINUTE_S)
#: Each replaced secret signs for a day, so their number is limited.
ROTATIONS_A_DAY = 20
ROTATIONS = Policy("secret-rotations", "O limite de trocas de segredo por dia foi atingido.", window_s=DAY_S)
TESTS = Policy("test-events", "O limite de eventos de teste por minuto foi atingido.", window_s=MINUTE_S)


class WebhookView(PartnerView):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if settings.PRODUCTION:
            self.http_method_names = ["get", "head"]

    @schema.registration
    def get(self, request: HttpRequest) -> Response:
        return Response(shapes.WebhookRegistration.of_partner(self.partner))

    @schema.registered
    def put(self, request: HttpRequest) -> Response:
        wanted = self.valid(serializers.RegistrationRequest, optional=True)
        partner, before = self.partner, shapes.WebhookRegistration.of_partner(self.partner)
        rotates = wanted.pop("rotate_secret") or bool(wanted.get("url") and not partner.webhook_secret)
        if rotates:
            self.usage.count(ROTATIONS, ROTATIONS_A_DAY)
        with transaction.atomic():
            given = {name: wanted[key] for name, key in registration.WEBHOOK.items() if key in wanted}
            registration.change(partner, {name: "" if value is None else value for name, value in given.items()})
            secret = partner.rotate_webhook_secret() if rotates else UNSET
            shown = shapes.WebhookRegistration.of_partner(partner)
            changes = audit.differences(structs.asdict(before), structs.asdict(shown))
            if changes or rotates:  # nobody can delete an entry
                audit.record(Action.CHANGED, request=request, obj=partner, changes=changes)
        return Response(shapes.WebhookRegistered.of(shown, secret=secret))


class EventsView(PartnerView):
    @schema.listed
    def get(self, request: HttpRequest) -> Response:
        filters = validated(serializers.EventListRequest, request.GET.dict())
        with ExitStack() as stack:
            if filters.get("wait_s"):
                stack.callback(self.usage.enter())
            page: Page = events.page_in_order if filters["order"] == "asc" else events.page
            rows, cursor = page(self.partner, filters)
        if filters.get("wait_s") and not is_active(self.api_key.pk):
            raise Unauthorized  # the key ended during the wait
        has_body = filters.get("include") == "body"
        shown = [shapes.WebhookEventRow.of_row(each, body=each.parsed if has_body else UNSET) for each in rows]
        return Response(shapes.WebhookEventPage(events=shown, next_cursor=cursor))


class EventView(PartnerView):
    @schema.detailed
    def get(self, request: HttpRequest, event_id: str) -> Response:
        event = events.get(self.partner, event_id)
        attempts = [shapes.WebhookAttempt.of_row(each) for each in newest_attempts([event])]
        return Response(
            shapes.WebhookEventDetail.of_row(event, body=event.parsed, attempts=attempts, attempts_total=event.attempts)
        )


class ResendView(PartnerView):
    @schema.resent
    def post(self, request: HttpRequest, event_id: str) -> Response:
        self.usage.count(RESENDS, PER_MINUTE)
        event = events.get(self.partner, event_id)
        event.resend()
        event.refresh_from_db()
        return Response(shapes.WebhookEventRow.of_row(event), status=202)


class TestEventView(PartnerView):
    @schema.tested
    def post(self, request: HttpRequest) -> Response:
        self.usage.count(TESTS, PER_MINUTE)
        return Response(shapes.WebhookEventRow.of_row(events.send_test(self.partner)), status=202)
