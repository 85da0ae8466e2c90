"""A partner's webhook routes: its registration, its events, sending one again, and a test event.

Only an operator can change URL and secret, so a stolen API key cannot redirect events.
"""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from foundation.validation import validated
from partners.views import PartnerView
from webhooks import events, schema, serializers


class WebhookView(PartnerView):
    @schema.registration
    def get(self, request: Request) -> Response:
        return Response(serializers.webhook(self.partner))


class EventsView(PartnerView):
    @schema.listed
    def get(self, request: Request) -> Response:
        filters = validated(serializers.EventListRequest, request.query_params.dict())
        rows, cursor = events.page(self.partner, filters)
        return Response({"events": [serializers.listed(each) for each in rows], "next_cursor": cursor})


class EventView(PartnerView):
    @schema.detailed
    def get(self, request: Request, event_id: str) -> Response:
        event = events.get(self.partner, event_id)
        return Response(serializers.detailed(event, event.attempt_set.order_by("number")))


class ResendView(PartnerView):
    @schema.resent
    def post(self, request: Request, event_id: str) -> Response:
        event = events.resend(events.get(self.partner, event_id))
        return Response(serializers.listed(event), status=202)


class TestEventView(PartnerView):
    @schema.tested
    def post(self, request: Request) -> Response:
        return Response(serializers.listed(events.send_test(self.partner)), status=202)
