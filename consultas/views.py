"""The query routes and the auction look-up."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from consultas import admission, auction_schema, auctions, fan_out, offers, pending, queries, schema, serializers
from consultas.fan_out import Answer
from consultas.models import Query
from foundation.errors import NotFound
from partners.views import PartnerView
from providers import registry
from providers.models import Provider


class AggregatedQueryView(PartnerView):
    @schema.aggregated
    def post(self, request: Request) -> Response:
        started = time.monotonic()
        with admission.place(self.usage):
            data = self.valid(serializers.QueryRequest)
            banks = queries.choose_banks(self.partner, data.pop("providers", None))
            self.usage.count_cpf(data["cpf"])
            query = queries.begin(self.partner, data, Query.Kind.AGGREGATED, self.request_id, banks)
            result = queries.aggregate(query)
        elapsed_ms = round((time.monotonic() - started) * 1000)
        return Response(serializers.aggregate(result.query, result.answers, result.shown, elapsed_ms))


class StreamedQueryView(PartnerView):
    @schema.streamed
    def post(self, request: Request) -> StreamingHttpResponse:
        place = admission.enter(self.usage)
        try:
            data = self.valid(serializers.QueryRequest)
            banks = queries.choose_banks(self.partner, data.pop("providers", None))
            self.usage.count_cpf(data["cpf"])
            query = queries.begin(self.partner, data, Query.Kind.STREAM, self.request_id, banks)
        except BaseException:
            place.leave()
            raise
        events = _events(query)
        held = admission.Held(events, events.close, place)
        response = StreamingHttpResponse(held, content_type="text/event-stream")
        response["Cache-Control"] = "no-cache"
        response["X-Accel-Buffering"] = "no"
        return response


class IndividualQueryView(PartnerView):
    @schema.individual
    def post(self, request: Request, name: str) -> Response:
        with admission.place(self.usage):
            data = self.valid(serializers.IndividualQueryRequest)
            bank = queries.choose_bank(self.partner, name)
            self.usage.count_cpf(data["cpf"])
            query = queries.begin(self.partner, data, Query.Kind.INDIVIDUAL, self.request_id, [bank])
            (answer,) = fan_out.answers(query, [bank.name])
            queries.close(query, [answer])
        return Response(serializers.envelope(answer, offers.live_proposal(query, bank.name)))


class AuctionLookupView(PartnerView):
    @auction_schema.auction
    def get(self, request: Request, proposal_key: str) -> Response:
        return Response(auctions.look_up(self.partner, proposal_key, self.request_id))


class BankCallbackView(APIView):
    """Where banks call back when a holder's step ended. No partner key: the bank's own signature counts.

    Only the callback's secret is read here; what opens a bank to us stays with the workers. A genuine callback
    brings the step's check forward and does nothing else, so that one that comes again changes nothing.
    """

    authentication_classes = ()
    permission_classes = ()
    metadata_class = None

    @schema.bank_callback
    def post(self, request: Request, name: str) -> Response:
        bank = registry.get(name)
        if bank is None or not bank.calls_back:
            raise NotFound
        row = Provider.objects.only("callback_secret").filter(name=name).first()
        secret = (row.callback_secret if row else None) or ""
        reference = bank.verify_callback(secret, request.headers, request.body)
        pending.wake_by_callback(name, reference)
        return Response(status=204)


def _events(query: Query) -> Generator[bytes, None, None]:
    """The stream, event by event as the answers land. When the client leaves, the server closes this generator
    at its next write, a heartbeat at the latest, and with it everything held for the client."""
    request = query.holder()
    yield _event({"event": "start", "message": "Consulta iniciada."})
    for bank in query.banks:
        yield _event({"event": "provider_start", "provider": bank})
    landed: list[Answer] = []
    try:
        for answer in fan_out.answers_and_pauses(query, query.banks, settings.STREAM_HEARTBEAT_S):
            if answer is None:
                yield b": keep-alive\n\n"
            else:
                landed.append(answer)
                yield _event(serializers.stream_event(answer, request))
        yield _event({"event": "complete"})
    finally:
        queries.close(query, landed)
        connection.close()


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
