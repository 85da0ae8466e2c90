"""The query routes and the auction look-up."""

from collections.abc import Generator
from contextlib import ExitStack
from functools import partial

import msgspec
from django.http import HttpRequest, StreamingHttpResponse

from consultas import admission, auction_schema, auctions, offers, query_json, schema, serializers
from consultas.models import Query
from consultas.query import end, stream, web
from foundation.errors import Detail, InvalidInput, NotFound
from foundation.json import Response
from partners.contract import AllowedBank
from partners.models import Partner
from partners.views import PartnerView
from providers import registry
from providers.errors import ProviderNotAllowed


def choose_banks(partner: Partner, requested: list[str] | None) -> list[AllowedBank]:
    """The contract's banks, restricted to `requested` if given. Raises InvalidInput, with the contract's banks, if none
    remains."""
    allowed = partner.allowed_banks()
    if requested is None:
        return allowed
    chosen = [bank for bank in allowed if bank.name in requested]
    if not chosen:
        names = [bank.name for bank in allowed]
        message = f"Nenhum banco informado pertence ao contrato. Bancos disponíveis: {', '.join(names) or '-'}."
        raise InvalidInput(details=[Detail("providers", message, names)])
    return chosen


def choose_bank(partner: Partner, name: str) -> AllowedBank:
    """The contract's bank `name`. Raises NotFound for an unknown bank, ProviderNotAllowed outside the contract."""
    if registry.get(name) is None:
        raise NotFound("Banco desconhecido.")
    bank = partner.allowed_bank(name)
    if bank is None:
        raise ProviderNotAllowed
    return bank


class AggregatedQueryView(PartnerView):
    @schema.aggregated
    def post(self, request: HttpRequest) -> Response:
        with admission.place(self.usage) as place:
            data = self.valid(serializers.AggregatedQueryRequest)
            wait_ms = data.pop("max_wait_ms", None)
            banks = choose_banks(self.partner, data.pop("providers", None))
            self.usage.count_cpf(data["cpf"])
            query, result = web.begin(self.partner, data, Query.Kind.AGGREGATED, self.request_id, banks)
            if result is None:
                reply = admission.within(wait_ms, place, partial(web.aggregate, query))
                if reply is not None:
                    return Response(reply)
                result = end.read_or_end(Query.of(self.partner, str(query.id)))
            return Response(msgspec.Raw(result.reply()))


class StreamedQueryView(PartnerView):
    @schema.streamed
    def post(self, request: HttpRequest) -> StreamingHttpResponse:
        with admission.place(self.usage) as place:
            data = self.valid(serializers.QueryRequest)
            banks = choose_banks(self.partner, data.pop("providers", None))
            self.usage.count_cpf(data["cpf"])
            query, _ = web.begin(self.partner, data, Query.Kind.STREAM, self.request_id, banks)
            return _streamed(stream.events(query, publishes=True), place)


class IndividualQueryView(PartnerView):
    @schema.individual
    def post(self, request: HttpRequest, name: str) -> Response:
        with admission.place(self.usage):
            data = self.valid(serializers.IndividualQueryRequest)
            bank = choose_bank(self.partner, name)
            self.usage.count_cpf(data["cpf"])
            query, _ = web.begin(self.partner, data, Query.Kind.INDIVIDUAL, self.request_id, [bank])
            [answer] = filter(None, web.answers(query, query.banks))
        return Response(query_json.envelope(query, answer, offers.live_proposal(query, bank.name)))


class QueryView(PartnerView):
    @schema.query
    def get(self, request: HttpRequest, query_id: str) -> Response:
        query = Query.of(self.partner, query_id)
        return Response(msgspec.Raw(end.read_or_end(query).reply()))


class QueryStreamView(PartnerView):
    @schema.query_stream
    def get(self, request: HttpRequest, query_id: str) -> StreamingHttpResponse | Response:
        with admission.place(self.usage) as place:
            query = Query.of(self.partner, query_id)
            after = stream.position(query, request.headers.get("Last-Event-ID", ""))
            if after.is_complete:
                return Response(status=204)  # the status that makes an EventSource stop
            return _streamed(stream.events(query, after, publishes=False), place)


class AuctionLookupView(PartnerView):
    @auction_schema.auction
    def get(self, request: HttpRequest, proposal_key: str) -> Response:
        with admission.place(self.usage):
            return Response(auctions.look_up(self.partner, proposal_key, self.request_id))


def _streamed(events: Generator[bytes], place: ExitStack) -> StreamingHttpResponse:
    held = admission.Held(events, place.pop_all())
    response = StreamingHttpResponse(held, content_type="text/event-stream")
    response["Cache-Control"] = "no-cache"
    response["X-Accel-Buffering"] = "no"
    return response
