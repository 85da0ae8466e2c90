"""A partner's list of its own failed calls: `GET /failed-calls`."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.errors import InvalidInput
from foundation.fields import ChoiceField, IntegerField, TextField
from foundation.format_fields import MomentField
from foundation.formats import iso_utc
from foundation.listing import PAGE, Filters, newest_first
from foundation.validation import validated
from partners.failed_calls import NO_ROUTE, FailedCall
from partners.schema import ERROR_CODES, errors, response_example
from partners.views import PartnerView

_LOOKUPS = {"request_id": "request_id", "code": "code", "since": "at__gte", "until": "at__lt"}
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


class FailedCallFilters(Filters):
    request_id = TextField(max_length=128, required=False, help_text="Só as deste `X-Request-Id`.")
    code = ChoiceField(ERROR_CODES, required=False, help_text="Só as respondidas com este código.")
    since = MomentField(required=False, help_text="Só as respondidas desde esta hora, com fuso.")
    until = MomentField(required=False, help_text="Só as respondidas antes desta hora, com fuso.")
    cursor = TextField(max_length=200, required=False, help_text="O `next_cursor` da página anterior.")
    limit = IntegerField(min_value=1, max_value=PAGE, default=50, help_text="Quantas por página.")


class FailedCallSchema(drf.Serializer[Any]):
    at = drf.DateTimeField(help_text="Quando a chamada foi respondida.")
    method = drf.CharField(help_text="O método HTTP.")
    route = drf.CharField(help_text="A rota como nesta referência, sem os ids do endereço; vazia se não há tal rota.")
    status = drf.IntegerField(help_text="O status HTTP, de 400 a 599.")
    code = drf.CharField(help_text="O `code` do erro.")
    field = drf.CharField(allow_null=True, help_text="O primeiro campo com falha; nulo se nenhum é do contrato.")
    request_id = drf.CharField(help_text="O `X-Request-Id` da chamada; de várias somadas, o da primeira.")
    times = drf.IntegerField(
        help_text="Quantas chamadas iguais a linha soma: 1, salvo acima de 60 falhas por minuto. A soma vem ao fim do "
        "minuto."
    )


class FailedCallPageSchema(drf.Serializer[Any]):
    failed_calls = FailedCallSchema(many=True, help_text="Da mais nova à mais antiga.")
    next_cursor = drf.CharField(allow_null=True, help_text="Para pedir a página seguinte; nulo na última.")


_EXAMPLE = {
    "at": "2026-03-02T14:00:02.315Z",
    "method": "POST",
    "route": "/partners/v1/consultas",
    "status": 422,
    "code": "invalid_input",
    "field": "cpf",
    "request_id": "5f0c9f0e7f0a4c0e9a530a4f3a3f9b11",
    "times": 1,
}


class FailedCallsView(PartnerView):
    @extend_schema(
        operation_id="failed_call_list",
        tags=["Diagnostico"],
        summary="As chamadas do parceiro que falharam, da mais nova para a mais antiga",
        description="O que foi respondido com 4xx ou 5xx à chave do parceiro, até 2 segundos depois. Sem corpos nem "
        "endereços.",
        parameters=[FailedCallFilters],
        request=None,
        responses={200: FailedCallPageSchema, **errors(InvalidInput("Cursor inválido.", field="cursor"), body=False)},
        examples=[response_example("Última página", {"failed_calls": [_EXAMPLE], "next_cursor": None})],
    )
    def get(self, request: Request) -> Response:
        filters = validated(FailedCallFilters, request.query_params.dict())
        conditions = {lookup: filters[name] for name, lookup in _LOOKUPS.items() if name in filters}
        rows = FailedCall.objects.filter(partner=self.partner, **conditions)
        calls, cursor = newest_first(rows, filters.get("cursor"), filters["limit"], at="at", key=int)
        return Response({"failed_calls": [_shown(call) for call in calls], "next_cursor": cursor})


def _shown(call: FailedCall) -> dict[str, Any]:
    """The call as the partner sees it. `route` is the reference's spelling of the pattern."""
    return {
        "at": iso_utc(call.at),
        "method": call.method,
        "route": "/" + _PARAMETER.sub(r"{\1}", call.route) if call.route != NO_ROUTE else "",
        "status": call.status,
        "code": call.code,
        "field": call.field or None,
        "request_id": call.request_id,
        "times": call.times,
    }
