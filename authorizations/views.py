"""The partner's routes of an authorization session. The holder's public routes are in `holder_views`."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from msgspec import UNSET
from rest_framework import status

from authorizations import dossier, schema, sessions, shapes
from authorizations.models import Session
from authorizations.serializers import OpenSerializer, RevokeSerializer
from foundation.errors import InvalidInput, InvalidState, NotFound
from foundation.json import Response
from partners.views import PartnerView


def _url(session: Session) -> str:
    """The link for the holder."""
    return settings.PUBLIC_BASE_URL + reverse("holder-page", args=[session.authorization_id])


def _read(session: Session) -> shapes.Authorization:
    """The session as the partner reads it."""
    is_shown = session.status == Session.Status.AUTHORIZED and session.erased_at is None
    return shapes.Authorization.of(
        session,
        url=_url(session),
        status=session.status_at(timezone.now()),
        evidence=session.evidence.shown if is_shown else UNSET,
    )


class OpenView(PartnerView):
    @schema.opened
    def post(self, request: HttpRequest) -> Response:
        data = self.valid(OpenSerializer)
        return_url = data.get("return_url")
        if return_url is not None and not self.partner.leads_back_to(return_url):
            raise InvalidInput("Informe um endereço https de um domínio registrado pelo operador.", field="return_url")
        if missing := self.partner.missing_on_page:
            raise InvalidState(
                f"O cadastro da sua empresa não tem {' nem '.join(missing.values())}, que a página do titular mostra. "
                "Peça ao operador do serviço que o complete.",
                field=next(iter(missing)),
            )
        new = Session(partner=self.partner, cpf=data["cpf"], name=data["nome"], phone=data["telefone"])
        new.partner_reference, new.return_link = data.get("partner_reference") or "", return_url
        session, created = sessions.open_session(new)
        opened = shapes.AuthorizationOpened.of(session, url=_url(session))
        return Response(opened, status.HTTP_201_CREATED if created else status.HTTP_200_OK)


class SessionView(PartnerView):
    @schema.session
    def get(self, request: HttpRequest, authorization_id: str) -> Response:
        return Response(_read(sessions.find(authorization_id, self.partner)))


class DossierView(PartnerView):
    @schema.dossier
    def get(self, request: HttpRequest, authorization_id: str) -> HttpResponse:
        if not self.partner.dossier_by_api:
            raise NotFound
        return dossier.attachment(request, sessions.evidence_of(self.partner, authorization_id))


class RevokeView(PartnerView):
    @schema.revoke
    def post(self, request: HttpRequest, authorization_id: str) -> Response:
        data = self.valid(RevokeSerializer, optional=True)
        return Response(_read(sessions.revoke(self.partner, authorization_id, data.get("motivo"))))
