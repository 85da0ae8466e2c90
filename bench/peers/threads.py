"""What a good team would write first: the aggregated route as a plain Django view. It asks the banks from a thread pool
in the web process, with the service's adapters, and stores the same rows by the ORM.

Run by gunicorn's threads, from `bench/peers/wsgi.py`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from consultas import offers, pending, query_json, serializers
from consultas.models import Answer, Query, Step, failed
from foundation.encryption import blind_index
from foundation.errors import ApiError
from partners.models import Allowance, ApiKey
from partners.views import PartnerView
from providers import operation
from providers.bank import Connection
from providers.errors import BankFailure
from providers.models import enabled_connections
from providers.types.query import BankQuery, QueryStatus
from webhooks import outbox

BANK_THREADS = 400
_pool = ThreadPoolExecutor(BANK_THREADS)


class AggregatedView(PartnerView):
    """The aggregated route without reuse of answers, evidence of sessions, and recovery from a lost process."""

    def post(self, request: Request) -> Response:
        key = ApiKey.objects.select_related("partner").get(pk=self.api_key.pk)
        serializer = serializers.QueryRequest(data=request.data)
        serializer.is_valid(raise_exception=True)
        data = dict(serializer.validated_data)
        data.pop("providers", None)
        data.pop("authorization_id", None)
        allowed = Allowance.objects.filter(partner=key.partner).select_related("provider").order_by("provider_id")
        banks = [row.provider_id for row in allowed]
        holder = BankQuery(**data)
        query = Query.objects.create(
            partner=key.partner,
            kind=Query.Kind.AGGREGATED,
            cpf_index=blind_index("cpf", holder.cpf),
            request=msgspec.to_builtins(holder),
            banks=banks,
            request_id=self.request_id,
            deadline_at=timezone.now() + timedelta(seconds=settings.QUERY_DEADLINE_S),
        )
        connections = enabled_connections(banks)
        steps = {
            row.provider: row
            for row in Step.objects.filter(
                partner=key.partner, cpf_index=query.cpf_index, provider__in=banks, state=Step.State.OPEN
            )
        }
        connection.close()
        answers = list(_pool.map(lambda bank: _ask(query, bank, connections, steps.get(bank)), banks))
        query.answers = msgspec.to_builtins(answers)
        query.finished_at = timezone.now()
        with transaction.atomic():
            ids = offers.persist(query, {answer.provider: answer.offers for answer in answers})
            query.simulation_group = query.id if any(ids.values()) else None
            rendered = query_json.shown_offers(query, answers, ids)
            query.save(update_fields=["answers", "simulation_group", "finished_at"])
            if query.simulation_group:
                outbox.send(key.partner, "lead", str(query.id), query_json.lead(query, answers, rendered))
        return Response(query_json.aggregate(query, answers, rendered))


def _ask(query: Query, bank: str, connections: dict[str, Connection], step: Step | None) -> Answer:
    begun = time.monotonic()
    facts: dict[str, Any]
    try:
        client = operation.client(
            bank,
            request_id=query.request_id,
            partner=str(query.partner_id),
            known=connections,
        ).within(query.seconds_left())
        result = pending.ask(client, query, query.for_bank(bank), step)
    except BankFailure as failure:
        return failed(bank, failure, time.monotonic() - begun)
    except ApiError as refusal:
        facts = {"status": QueryStatus.ERROR, "error": refusal.message}
    else:
        facts = {
            name: getattr(result, name) for name in ("status", "offers", "action", "reasons", "term_auto_authorized")
        } | {"links": result.employments}
    finally:
        connection.close()
    elapsed_ms = round((time.monotonic() - begun) * 1000)
    return Answer(provider=bank, elapsed_ms=elapsed_ms, answered_at=time.time(), **facts)


def live(request: HttpRequest) -> HttpResponse:
    """200: the process takes requests."""
    return HttpResponse("ok")


urlpatterns = [
    path("health/live", live),
    path("partners/v1/consultas", AggregatedView.as_view()),
]
