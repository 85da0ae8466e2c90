"""The public routes of the holder's page: the page, its terms, and the targets of its buttons."""

from contextlib import suppress
from typing import Any, cast
from urllib.parse import parse_qsl

from csp.decorators import csp
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.functional import cached_property
from rest_framework import status

from authorizations import codes, evidence, marks, schema, sessions, shapes
from authorizations.holder_page import PAGE_POLICY, holder_page
from authorizations.models import Session
from authorizations.seal import sha256
from authorizations.serializers import AcceptSerializer, reported_by_browser, valid_form
from foundation.client_ip import client_ip
from foundation.database import give_back_connection
from foundation.errors import InvalidInput, NotFound
from foundation.fields import USER_AGENT_LENGTH
from foundation.formats import iso_utc
from foundation.json import Response, parse_json_object, read_body
from partners import callers
from partners.views import PartnerView
from providers import registry

FORM = "application/x-www-form-urlencoded"
_FORM_FIELDS = 20
_FORWARDED_FOR_LENGTH = 1024


class PublicView(PartnerView):
    """Base class of the public routes. There is no key: the URL itself is the secret and must not leak."""

    needs_key = False

    def finish(self, response: HttpResponseBase) -> None:
        super().finish(response)
        response["Referrer-Policy"] = "no-referrer"
        response["X-Robots-Tag"] = "noindex, nofollow"


def _session_page(
    request: HttpRequest, session: Session, layout: marks.Layout, *, http_status: int = 200, **refused: str
) -> HttpResponse:
    """The page that asks for the acceptance, or the receipt of an accepted session, which the holder may revoke there.
    It has the token that its forms send back, and the state of the session's code. After a refused code, `fault` says
    what is wrong with it, and `browser` is what the page's script had collected then."""
    now, mark = timezone.now(), marks.browser_of(request)
    if session.status == Session.Status.AUTHORIZED:  # stays authorized also after a revocation
        template, layout = "accepted", "folded"
        shown: dict[str, Any] = {"evidence": session.evidence, "may_revoke": session.holder_may_revoke(now)}
    else:
        template, shown = "ask", {"banks": _banks(session)}
    token, code = marks.issue(session, mark, now, layout), codes.state(session, now)
    context = {"session": session, "token": token, "code": code, "layout": layout, **shown, **refused}
    response = holder_page(request, template, context, http_status)
    marks.remember(response, mark)
    return response


def _failure_page(request: HttpRequest, authorization_id: str, failure: Response) -> HttpResponse:
    """The page that shows a failure to the holder, instead of the error object."""
    if failure.status_code == status.HTTP_410_GONE:
        with suppress(NotFound):  # it was purged at this moment
            session = sessions.find(authorization_id)
            template = "expired" if session.declined_at is None else "declined"
            return holder_page(request, template, {"session": session}, failure.status_code)
    template = "unknown" if failure.status_code in (404, 410) else "failure"
    context = {
        "authorization_id": authorization_id,
        "is_ours": failure.status_code >= 500,
        "field": failure.data.get("field"),
        "is_too_often": failure.status_code == status.HTTP_429_TOO_MANY_REQUESTS,
    }
    page = holder_page(request, template, context, failure.status_code)
    if "Retry-After" in failure:
        page["Retry-After"] = failure["Retry-After"]
    return page


def _banks(session: Session) -> list[str]:
    adapters = (registry.get(bank.name) for bank in session.partner.allowed_banks())
    return [adapter.label for adapter in adapters if adapter is not None]


@method_decorator(csp(PAGE_POLICY), name="dispatch")
class HolderView(PublicView):
    """Base class of the page and of the targets of its buttons. A failure is answered with a page."""

    def fail(self, exc: Exception) -> HttpResponse:
        failure = super().fail(exc)
        if not self.wants_page():
            return failure
        return _failure_page(self.request, self.kwargs["authorization_id"], cast("Response", failure))

    def wants_page(self) -> bool:
        """True if a failure is shown as a page instead of the error object: that of a method of the route."""
        return self.request.method in self.allowed_methods


class HolderPageView(HolderView):
    """The page, with all terms unfolded for `?termos=abertos`. A GET changes nothing."""

    @schema.page
    def get(self, request: HttpRequest, authorization_id: str) -> HttpResponse:
        session = sessions.find(authorization_id)
        if session.status != Session.Status.AUTHORIZED:
            sessions.check_pending(session, timezone.now())
        return _session_page(request, session, "open" if request.GET.get("termos") == "abertos" else "folded")


class TermsView(PublicView):
    @schema.terms
    def get(self, request: HttpRequest, authorization_id: str) -> Response:
        session = sessions.find(authorization_id)
        current = session.status_at(timezone.now())
        if current not in (Session.Status.PENDING, Session.Status.AUTHORIZED):
            raise sessions.gone(session)
        shown = {"status": current, "terms": shapes.TermsText.of(session.terms)}
        return Response(shapes.AuthorizationTerms.of(session, **shown))


def read_form(raw: bytes) -> dict[str, Any]:
    """The page's form in the form of the JSON body. What its script collected is JSON in `browser`; `script` keeps that
    text unchanged. Raises InvalidInput."""
    try:
        fields = dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=_FORM_FIELDS))
    except ValueError:  # not UTF-8, or too many fields
        raise InvalidInput("O formulário é inválido.") from None
    script = fields.pop("browser", "")
    try:
        body = parse_json_object(script.encode() or b"{}")
    except InvalidInput:
        body = {"unreadable": True}  # the form counts even without it
    if "accepted" in fields:
        body["accepted"] = fields.pop("accepted") == "true"
    # The script can set neither the token nor the code.
    return {**body, "page": "", "code": "", **fields, "script": script}


class PageFormView(HolderView):
    """Base class for the targets of the page's buttons. The page's own token replaces a CSRF token: anyone who knows
    the URL could open the page as well."""

    def fail(self, exc: Exception) -> HttpResponse:
        is_browser = "text/html" in self.request.headers.get("Accept", "")
        is_reopened = is_browser and self.request.method in ("GET", "HEAD")  # the answer to a refused form
        if is_reopened or isinstance(exc, sessions.PageUsed):
            return _redirect_to_page(self.kwargs["authorization_id"])  # the page shows the current state
        if isinstance(exc, codes.WrongCode):
            refused = {"fault": exc.message, "browser": self.text("script")}
            with suppress(NotFound):  # the session was deleted meanwhile
                session = sessions.find(self.kwargs["authorization_id"])
                return _session_page(self.request, session, self.layout(), http_status=422, **refused)
        return super().fail(exc)

    def is_form(self) -> bool:
        return self.request.content_type == FORM

    @cached_property
    def form(self) -> dict[str, Any]:
        """The page's form. Raises PayloadTooLarge and InvalidInput."""
        return read_form(read_body(self.request))

    def shown(self) -> marks.Shown | None:
        """What our page showed in this browser before the form was sent, according to the page's signed token."""
        if not self.is_form():
            return None
        return marks.read(self.form["page"], self.kwargs["authorization_id"], self.request)

    def text(self, name: str) -> str:
        """A field of the form, or an empty text."""
        value = self.form.get(name) if self.is_form() else None
        return value if isinstance(value, str) else ""

    def layout(self) -> marks.Layout:
        """How the terms were shown, so that the next page shows them in the same way."""
        shown = self.shown()
        return shown.layout if shown else "folded"


class AcceptView(PageFormView):
    """JSON, or the page's form. Without `Partner.takes_acceptance_without_page` the route does not exist for JSON."""

    @schema.accept
    def post(self, request: HttpRequest, authorization_id: str) -> HttpResponse:
        data, invalid = valid_form(self.form) if self.is_form() else (self._json(authorization_id), [])
        accepted = evidence.accept(
            authorization_id,
            self._observed(),
            reported_by_browser(data, invalid),
            terms_version=data.get("terms_version"),
            code=self.text("code"),
        )
        if self.is_form():
            return _redirect_to_page(authorization_id)
        if accepted.session.revoked_at is not None:
            raise sessions.gone(accepted.session)
        at = iso_utc(accepted.sealed_at)
        return Response(
            shapes.AuthorizationAccepted(
                authorization_id=authorization_id, status=Session.Status.AUTHORIZED, authorized_at=at
            )
        )

    def wants_page(self) -> bool:
        return super().wants_page() and self.is_form()

    def _json(self, authorization_id: str) -> dict[str, Any]:
        """The JSON body. Its form is checked before it matters whether the session exists, except where JSON is not
        taken: there the route does not exist."""
        is_allowed = not settings.PRODUCTION
        with suppress(NotFound):
            is_allowed = sessions.find(authorization_id).partner.takes_acceptance_without_page
        if not is_allowed:
            raise NotFound
        return self.valid(AcceptSerializer, optional=True)

    def _observed(self) -> evidence.Observed:
        via, user_agent = self._header("HTTP_X_FORWARDED_FOR"), self._header("HTTP_USER_AGENT")
        ip = client_ip(self.request)
        return evidence.Observed(
            ip=ip,
            peer=self.request.META["REMOTE_ADDR"],
            x_forwarded_for=None if via is None else _last_characters(_text(via), _FORWARDED_FOR_LENGTH),
            x_forwarded_for_sha256=None if via is None else sha256(via),
            user_agent=None if user_agent is None else _text(user_agent)[:USER_AGENT_LENGTH],
            request_id=self.request.own_id,  # type: ignore[attr-defined]  # config/middleware.py sets it
            sent_as="form" if self.is_form() else "json",
            shown=self.shown(),
            from_api_address=self._from_api_address(ip),
        )

    def _header(self, name: str) -> bytes | None:
        """A header's bytes, which WSGI decodes as Latin-1. None if it was not sent."""
        value = self.request.META.get(name)
        return None if value is None else value.encode("latin-1")

    def _from_api_address(self, ip: str) -> bool | None:
        """True if the session's partner also calls the API from `ip`. None if the session cannot be accepted."""
        session = sessions.find(self.kwargs["authorization_id"])
        if session.status != Session.Status.PENDING:
            return None
        give_back_connection()  # no connection is held while waiting for Redis
        return callers.calls_from(session.partner_id, ip)


class CodeView(PageFormView):
    """The page's button that requests a code. Redirects to the page, which shows the state."""

    @schema.code
    def post(self, request: HttpRequest, authorization_id: str) -> HttpResponse:
        shown = self.shown()
        codes.request(authorization_id, shown.round if shown else None)
        return _redirect_to_page(authorization_id, "?termos=abertos#codigo" if self.layout() == "open" else "#codigo")


class DeclineView(PageFormView):
    """The page's button "Não autorizo". Redirects to the page. The body is not read."""

    @schema.decline
    def post(self, request: HttpRequest, authorization_id: str) -> HttpResponse:
        sessions.decline(authorization_id)
        return _redirect_to_page(authorization_id)


class RevokeOnPageView(PageFormView):
    """The receipt's button "Revogar agora". Redirects to the page, which shows the state."""

    @schema.code
    def post(self, request: HttpRequest, authorization_id: str) -> HttpResponse:
        shown = self.shown()
        codes.revoke_by_holder(authorization_id, shown.round if shown else None, self.text("code"))
        return _redirect_to_page(authorization_id)


def _redirect_to_page(authorization_id: str, part: str = "") -> HttpResponse:
    """Redirect to the page (303), so that a reload does not send the form again. `part` is the end of its address."""
    response = HttpResponseRedirect(reverse("holder-page", args=[authorization_id]) + part)
    response.status_code = status.HTTP_303_SEE_OTHER
    return response


def _text(header: bytes) -> str:
    return header.decode("utf-8", "replace")


def _last_characters(text: str, length: int) -> str:
    """At most the last `length` characters, with `…` in front if the text was cut. Proxies append on the right; the
    left part may be invented by the client and arbitrarily long."""
    return text if len(text) <= length else "…" + text[1 - length :]
