"""A partner's list of its own failed calls: `GET /failed-calls`."""

import re

from django.http import HttpRequest

from foundation.errors import RateLimited
from foundation.fields import ChoiceField, IntegerField, TextField
from foundation.format_fields import MomentField
from foundation.json import Response
from foundation.listing import PAGE, Filters, invalid_cursor, newest_first
from foundation.validation import validated
from partners import shapes
from partners.failed_calls import NO_ROUTE, FailedCall
from partners.schema import ERROR_CODES, describe
from partners.views import PartnerView

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


class FailedCallFilters(Filters):
    request_id = TextField(max_length=128, required=False, help_text="Só as deste `X-Request-Id`.")
    code = ChoiceField(ERROR_CODES, required=False, help_text="Só as respondidas com este código.")
    since = MomentField(source="at__gte", required=False, help_text="Só as respondidas desde esta hora, com fuso.")
    until = MomentField(source="at__lt", required=False, help_text="Só as respondidas antes desta hora, com fuso.")
    cursor = TextField(max_length=200, required=False, help_text="O `next_cursor` da página anterior.")
    limit = IntegerField(min_value=1, max_value=PAGE, default=50, help_text="Quantas por página.")


class FailedCallsView(PartnerView):
    @describe(
        "Diagnostico",
        operation_id="failed_call_list",
        summary="As chamadas do parceiro que falharam, da mais nova para a mais antiga",
        description="O que foi respondido com 4xx ou 5xx à chave do parceiro, até 2 segundos depois. Sem corpos nem "
        "endereços.",
        parameters=[FailedCallFilters],
        answers={200: {"Última página": shapes.FailedCallPage.example()}},
        refusals=[invalid_cursor()],
    )
    def get(self, request: HttpRequest) -> Response:
        filters = validated(FailedCallFilters, request.GET.dict())
        cursor, limit = filters.pop("cursor", None), filters.pop("limit")
        rows = FailedCall.objects.filter(partner=self.partner, **filters)
        calls, cursor = newest_first(rows, cursor, limit, at="at", key=int)
        return Response(shapes.FailedCallPage(failed_calls=[_shown(call) for call in calls], next_cursor=cursor))


def _shown(call: FailedCall) -> shapes.FailedCall:
    """The call as the partner sees it, without a limit's name. `route` is spelt as in the reference."""
    route = "/" + _PARAMETER.sub(r"{\1}", call.route) if call.route != NO_ROUTE else ""
    field = call.field if call.code != RateLimited.code else ""
    return shapes.FailedCall.of(call, route=route, field=field or None)
