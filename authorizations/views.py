"""The partner's routes of an authorization session, and the three that the holder's link opens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import parse_qsl

from csp.constants import NONCE, NONE, SELF
from csp.decorators import csp
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from rest_framework import status
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from authorizations import evidence, marks, schema, sessions
from authorizations.models import Session
from authorizations.seal import sha256
from authorizations.serializers import (
    AcceptSerializer,
    OpenSerializer,
    RevokeSerializer,
    told,
    valid_form,
)
from foundation.client_ip import client_ip
from foundation.errors import Gone, InvalidInput, NotFound
from foundation.fields import USER_AGENT_LENGTH
from foundation.formats import iso_utc
from foundation.json import StrictJSONParser, parse_json_object, read_body
from partners.views import PartnerView
from providers import registry

FORM = "application/x-www-form-urlencoded"
_FORM_FIELDS = 20
_FORWARDED_FOR_LENGTH = 1024

# Nothing is loaded from anywhere; inline style and script count only with the reply's own nonce.
PAGE_POLICY = {
    "default-src": [NONE],
    "script-src": [NONCE],
    "style-src": [NONCE],
    "img-src": ["data:"],
    "form-action": [SELF],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
}


def _opened(session: Session) -> dict[str, Any]:
    path = reverse("holder-page", args=[session.authorization_id])
    return {
        "authorization_id": session.authorization_id,
        "url": settings.PUBLIC_BASE_URL + path,
        "expires_at": iso_utc(session.expires_at),
        "partner_reference": session.partner_reference or None,
    }


def _read(session: Session) -> dict[str, Any]:
    """The session as its partner reads it."""
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


class RevokeView(PartnerView):
    """`POST /authorizations/{authorization_id}/revoke`."""

    @schema.revoke
    def post(self, request: Request, authorization_id: str) -> Response:
        data = self.valid(RevokeSerializer, optional=True)
        session = sessions.revoke(self.partner, authorization_id, data.get("motivo"))
        return Response(_read(session), headers={"Cache-Control": "no-store"})


class PublicView(PartnerView):
    """Base of the routes that the holder's link opens. There is no key: the link is the secret, so it must not leak."""

    authentication_classes = ()
    permission_classes = ()

    def finalize_response(  # type: ignore[override]  # DRF takes any HttpResponse, its stubs only its own
        self, request: Request, response: HttpResponseBase, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        response["Referrer-Policy"] = "no-referrer"
        response["X-Robots-Tag"] = "noindex, nofollow"
        return response


def holder_page(request: HttpRequest, template: str, context: dict[str, Any], http_status: int = 200) -> HttpResponse:
    """A page for the holder. It may ask for the location; no other permission of the browser is granted to anybody."""
    response = render(request, f"authorizations/{template}.html", context, status=http_status)
    response["Permissions-Policy"] = "geolocation=(self), camera=(), microphone=(), payment=()"
    return response


def _failure_page(request: Request, authorization_id: str, failure: Response) -> HttpResponse:
    """The page that tells a holder of a failure, in place of the error object."""
    template = {404: "unknown", 410: "expired"}.get(failure.status_code, "failure")
    context = {
        "authorization_id": authorization_id,
        "is_ours": failure.status_code >= 500,
        "field": failure.data.get("field"),
    }
    return holder_page(request._request, template, context, failure.status_code)


def _banks(session: Session) -> list[str]:
    """The banks of the partner's contract, as people call them."""
    adapters = (registry.get(bank.name) for bank in session.partner.allowed_banks())
    return [adapter.label for adapter in adapters if adapter is not None]


@method_decorator(csp(PAGE_POLICY), name="dispatch")
class HolderPageView(PublicView):
    """`GET /authorizations/public/{authorization_id}`: the page. Showing it changes nothing, whoever asks."""

    @schema.page
    def get(self, request: Request, authorization_id: str) -> HttpResponse:
        session = sessions.find(authorization_id)
        if session.status == Session.Status.AUTHORIZED:  # once given, also when it was revoked
            return holder_page(request._request, "accepted", {"session": session, "evidence": session.evidence})
        if session.declined_at is not None:
            return holder_page(request._request, "declined", {"session": session}, status.HTTP_410_GONE)
        now = timezone.now()
        if session.status_at(now) != Session.Status.PENDING:
            raise Gone
        browser = marks.browser_of(request._request)
        token = marks.issue(session, browser, now)
        context = {"session": session, "token": token, "banks": _banks(session)}
        response = holder_page(request._request, "ask", context)
        marks.remember(response, browser)
        return response

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]  # any HttpResponse will do
        failure = super().handle_exception(exc)
        if self.request.method not in ("GET", "HEAD"):
            return failure
        return _failure_page(self.request, self.kwargs["authorization_id"], failure)


class TermsView(PublicView):
    """`GET /authorizations/public/{authorization_id}/terms`."""

    @schema.terms
    def get(self, request: Request, authorization_id: str) -> Response:
        session = sessions.find(authorization_id)
        current = session.status_at(timezone.now())
        if current not in (Session.Status.PENDING, Session.Status.AUTHORIZED):
            raise Gone
        terms = session.terms
        return Response(
            {
                "status": current,
                "holder_name": session.holder_name,
                "masked_cpf": session.masked_cpf,
                "terms": {"version": terms.version, "sha256": terms.sha256, "text": terms.text},
                "expires_at": iso_utc(session.expires_at),
            }
        )


class PageFormParser(BaseParser):
    """The page's plain form as the JSON body would be; what its script collected is JSON in `browser`."""

    media_type = FORM

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Raises PayloadTooLarge and InvalidInput."""
        raw = read_body(stream)
        try:
            fields = dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=_FORM_FIELDS))
        except ValueError:  # not UTF-8, or too many fields
            raise InvalidInput("O formulário é inválido.") from None
        body = _read_by_script(fields.pop("browser", ""))
        if "accepted" in fields:
            body["accepted"] = fields.pop("accepted") == "true"
        return {**body, **fields}


def _read_by_script(browser: str) -> dict[str, Any]:
    """What the page's script collected. Text that can't be read is `unreadable`: the form without it is the act."""
    try:
        collected = parse_json_object(browser.encode() or b"{}")
    except InvalidInput:
        return {"unreadable": True}
    collected.pop("page", None)  # the page's token is a field of the form, not of what the script collected
    return collected


@method_decorator(csp(PAGE_POLICY), name="dispatch")
class AcceptView(PublicView):
    """`POST /authorizations/public/{authorization_id}/accept`: JSON, or the form of the page.

    JSON is taken where `Partner.takes_acceptance_without_page`; elsewhere this route does not exist for it. There is
    no CSRF token beside the page's own: who knows the link could open the page as well.
    """

    parser_classes = (StrictJSONParser, PageFormParser)

    @schema.accept
    def post(self, request: Request, authorization_id: str) -> HttpResponse:
        data, invalid = self._form() if self._is_form() else (self._json(authorization_id), [])
        accepted = evidence.accept(
            authorization_id, self._observed(), told(data, invalid), terms_version=data.get("terms_version")
        )
        if self._is_form():
            return _see_page(authorization_id)
        if accepted.session.revoked_at is not None:
            raise Gone
        return Response(
            {
                "authorization_id": authorization_id,
                "status": Session.Status.AUTHORIZED,
                "authorized_at": iso_utc(accepted.sealed_at),
            }
        )

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]  # any HttpResponse will do
        failure = super().handle_exception(exc)
        if self.request.method in ("GET", "HEAD") and "text/html" in self.request.headers.get("Accept", ""):
            return _see_page(self.kwargs["authorization_id"])  # the page of a refused form, opened anew
        if self.request.method != "POST" or not self._is_form():
            return failure
        return _failure_page(self.request, self.kwargs["authorization_id"], failure)

    def _is_form(self) -> bool:
        return (self.request.content_type or "").partition(";")[0].strip().lower() == FORM

    def _form(self) -> tuple[dict[str, Any], list[str]]:
        # A plain dict: DRF takes a QueryDict, which an empty form is, for one whose boxes are all unticked.
        sent = dict(self._sent.items())
        data, invalid = valid_form(sent)
        return data, ["browser", *invalid] if sent.get("unreadable") else invalid

    def _json(self, authorization_id: str) -> dict[str, Any]:
        if not sessions.find(authorization_id).partner.takes_acceptance_without_page:
            raise NotFound
        return self.valid(AcceptSerializer, optional=True)

    def _observed(self) -> evidence.Observed:
        meta = self.request.META
        forwarded_for, user_agent = _header(meta, "HTTP_X_FORWARDED_FOR"), _header(meta, "HTTP_USER_AGENT")
        shown = self._shown() if self._is_form() else None
        return evidence.Observed(
            ip=client_ip(self.request._request),
            peer=meta["REMOTE_ADDR"],
            forwarded_for=None if forwarded_for is None else _end_of(_text(forwarded_for), _FORWARDED_FOR_LENGTH),
            forwarded_for_sha256=None if forwarded_for is None else sha256(forwarded_for),
            user_agent=None if user_agent is None else _text(user_agent)[:USER_AGENT_LENGTH],
            request_id=self.request._request.own_id,  # type: ignore[attr-defined]  # config/middleware.py sets it
            sent_as="form" if self._is_form() else "json",
            page_rendered_at=shown.at if shown else None,
            declaration=shown.declaration if shown else None,
        )

    def _shown(self) -> marks.Shown | None:
        """What our page showed in this browser before this form was sent, by the page's own signed token."""
        return marks.read(self._sent.get("page", ""), self.kwargs["authorization_id"], self.request._request)


@method_decorator(csp(PAGE_POLICY), name="dispatch")
class DeclineView(PublicView):
    """`POST /authorizations/public/{authorization_id}/decline`: the page's button "Não autorizo". It leads back to the
    page. The body is not read."""

    @schema.decline
    def post(self, request: Request, authorization_id: str) -> HttpResponse:
        sessions.decline(authorization_id)
        return _see_page(authorization_id)

    def handle_exception(self, exc: Exception) -> HttpResponse:  # type: ignore[override]  # any HttpResponse will do
        failure = super().handle_exception(exc)
        if self.request.method != "POST":
            return failure
        return _failure_page(self.request, self.kwargs["authorization_id"], failure)


def _see_page(authorization_id: str) -> HttpResponse:
    """Redirect to the page (303), so that a reload does not send the form again."""
    response = HttpResponseRedirect(reverse("holder-page", args=[authorization_id]))
    response.status_code = status.HTTP_303_SEE_OTHER
    return response


def _header(meta: dict[str, Any], name: str) -> bytes | None:
    """A header's bytes, which WSGI hands on as Latin-1; None where it was not sent."""
    value = meta.get(name)
    return None if value is None else value.encode("latin-1")


def _text(header: bytes) -> str:
    return header.decode("utf-8", "replace")


def _end_of(text: str, length: int) -> str:
    """At most the last `length` characters, `…` in front where there were more. Proxies write on the right: what is
    on the left a caller may have made up, as long as it likes."""
    return text if len(text) <= length else "…" + text[1 - length :]
