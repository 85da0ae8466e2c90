"""One route of each kind that needs a partner's key, to test what all routes share."""

from django.http import HttpRequest
from django.urls import path

from config import exceptions, urls
from foundation.fields import Block, DecimalField, ListField, TextField
from foundation.format_fields import PhoneField
from foundation.json import Response
from partners.views import PartnerView


class Reference(Block):
    nome = TextField()
    telefone = PhoneField()


class Probe(Block):
    nome = TextField()
    valor = DecimalField(required=False)
    titular = Reference(required=False)
    referencias = Reference(many=True, required=False)
    providers = ListField(child=TextField(), required=False)


class ProbeView(PartnerView):
    def get(self, request: HttpRequest) -> Response:
        return Response({"partner": str(self.partner.pk), "key": str(self.api_key.pk)})

    def post(self, request: HttpRequest) -> Response:
        return Response(self.valid(Probe))


urlpatterns = [path("partners/v1/probe", ProbeView.as_view()), *urls.urlpatterns]
handler500 = exceptions.handler500
