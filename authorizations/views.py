"""The partner's routes of an authorization session. The holder's public routes are in `holder_views`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from authorizations import dossier, schema, sessions
from authorizations.models import Session
from authorizations.serializers import OpenSerializer, RevokeSerializer
from foundation import audit
from foundation.audit import Action
from foundation.errors import InvalidInput, InvalidState, NotFound
from foundation.formats import iso_utc
from partners.views import PartnerView


def _opened(session: Session) -> dict[str, Any]:
    path = reverse("holder-page", args=[session.authorization_id])
    return {
        "authorization_id": session.authorization_id,
        "url": settings.PUBLIC_BASE_URL + path,
        "expires_at": iso_utc(session.expires_at),
        "partner_reference": session.partner_reference or None,
    }


def _read(session: Session) -> dict[str, Any]:
    """The session as the partner reads it."""
    body = {**_opened(session), "status": session.status_at(timezone.now())}
    if session.status == Session.Status.AUTHORIZED:
        body["evidence"] = session.evidence.as_contract()
    if session.declined_at is not None:
        body["declined_at"] = iso_utc(session.declined_at)
    if session.revoked_at is not None:
        body["revoked_at"] = iso_utc(session.revoked_at)
    return body


class OpenView(PartnerView):
    """`POST /authorizations`."""

    @schema.opened
    def post(self, request: Request) -> Response:
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
        session, created = sessions.open_session(
            self.partner,
            cpf=data["cpf"],
            name=data["nome"],
            phone=data["telefone"],
            partner_reference=data.get("partner_reference") or "",
            return_url=return_url,
        )
        return Response(_opened(session), status.HTTP_201_CREATED if created else status.HTTP_200_OK)


class SessionView(PartnerView):
    """`GET /authorizations/{authorization_id}`."""

    @schema.session
    def get(self, request: Request, authorization_id: str) -> Response:
        return Response(_read(sessions.find(authorization_id, self.partner)), headers={"Cache-Control": "no-store"})


class DossierView(PartnerView):
    """`GET /authorizations/{authorization_id}/dossier`."""

    @schema.dossier
    def get(self, request: Request, authorization_id: str) -> HttpResponse:
        if not self.partner.dossier_by_api:
            raise NotFound
        evidence = sessions.evidence_of(self.partner, authorization_id)
        audit.record(Action.EXPORTED, request=request._request, obj=evidence.session, detail=dossier.EXPORTED)
        return dossier.attachment(evidence, f"parceiro {self.partner.pk}")


class RevokeView(PartnerView):
    """`POST /authorizations/{authorization_id}/revoke`."""

    @schema.revoke
    def post(self, request: Request, authorization_id: str) -> Response:
        data = self.valid(RevokeSerializer, optional=True)
        session = sessions.revoke(self.partner, authorization_id, data.get("motivo"))
        return Response(_read(session), headers={"Cache-Control": "no-store"})
