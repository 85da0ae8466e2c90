"""The operator's pages for terms, sessions and their evidence.

Reading or exporting evidence is recorded in the audit trail. The back office's search finds sessions: neither a
CPF nor a session's id, which opens the holder's page, may appear in a URL.
"""

import difflib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from csp.decorators import csp
from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet, Subquery, TextField
from django.http import Http404, HttpRequest, HttpResponse
from django.template.defaultfilters import linebreaksbr
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from authorizations import dossier
from authorizations.holder_page import PAGE_POLICY, holder_page
from authorizations.models import Evidence, PhoneCode, Session, Terms, with_receipt
from authorizations.phone_code import CODES
from foundation import audit
from foundation.audit import Action
from foundation.backoffice.admins import FixedChoicesFilter, ReadOnlyAdmin, RobustAdmin, conditions, offered_if
from foundation.backoffice.cells import Column
from foundation.backoffice.confirmation import Confirmed, Done
from partners.admin import PARTNER_FILTER, OfPartnerAdmin
from partners.models import Partner

#: The statuses that an operator may revoke: an authorization, and a pending session, whose URL then ends.
_REVOCABLE = (Session.Status.PENDING, Session.Status.AUTHORIZED)
_DOCUMENT_POLICY = {"default-src": ["'none'"], "style-src": ["'unsafe-inline'"], "frame-ancestors": ["'none'"]}


#: The element that shows a line of `difflib.ndiff`, by the line's first character.
_LINE = {"-": "del", "+": "ins", " ": "span"}


def _published_before(at: datetime) -> Terms | None:
    """The version that was in force until `at`."""
    return Terms.objects.filter(published_at__lt=at).order_by("-published_at").first()


def _difference(terms: Terms) -> str:
    """The lines that this version takes out of the one published before it, and those that it adds."""
    before = _published_before(terms.published_at or timezone.now())
    if before is None:
        return "—"
    lines = difflib.ndiff(before.text.splitlines(), terms.text.splitlines())
    shown = ((_LINE[line[0]], line[2:]) for line in lines if line[0] in _LINE)
    return format_html('<div class="difference">{}</div>', format_html_join("", "<{0}>{1}</{0}>", shown))


def _state(terms: Any) -> str:
    """The state of a row of `TermsAdmin`, which knows the version in force."""
    if terms.published_at is None:
        return "rascunho"
    return "em vigor" if terms.pk == terms.in_force else "publicada"


@admin.register(Terms)
class TermsAdmin(RobustAdmin):
    """Versions of the terms: drafted, previewed as the holder will see them, published, and then never changed."""

    formfield_overrides = {TextField: {"widget": UnfoldAdminTextareaWidget(attrs={"rows": 30})}}
    list_display = ("state", "version", "published_at", "created_at")
    fields = ("version", "text", "difference", "state", "published_at", "sha256")
    readonly_fields = ("difference", "state", "published_at", "sha256")
    readonly_preprocess_fields = {"text": linebreaksbr}
    actions_detail = ("preview", "publish")
    state = Column("Situação", _state, label={"em vigor": "success", "publicada": "info", "rascunho": "warning"})
    difference = Column("Diferença para a versão anterior", _difference)
    sha256 = Column("SHA-256", lambda terms: terms.sha256)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Terms]:
        terms: QuerySet[Terms] = super().get_queryset(request)
        newest = Terms.objects.filter(published_at__isnull=False).order_by("-published_at").values("pk")[:1]
        return terms.annotate(in_force=Subquery(newest))

    def has_change_permission(self, request: HttpRequest, obj: Terms | None = None) -> bool:
        published = obj is not None and obj.published_at is not None
        return not published and super().has_change_permission(request, obj)

    def get_fields(self, request: HttpRequest, obj: Terms | None = None) -> tuple[str, ...]:
        """The fields. A new version has no state or digest yet."""
        return self.fields if obj else ("version", "text")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, str]:
        """A new version starts from the last published one."""
        last = _published_before(timezone.now())
        return {**super().get_changeform_initial_data(request), **({"text": last.text} if last else {})}

    @action(description="Ver como o titular", permissions=["view"], icon="visibility")
    @method_decorator(csp(PAGE_POLICY))
    def preview(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The holder's page with these terms and an invented holder. Its buttons do nothing."""
        sample = Session(
            authorization_id="exemplo",
            partner=Partner(name="Empresa de Exemplo"),
            cpf="00000000000",
            name="Nome do Titular",
            terms=self.row_of(request, object_id),
            expires_at=timezone.now(),
        )
        return holder_page(request, "ask", {"session": sample, "preview": True})

    @Confirmed(
        "Publicar",
        "publish",
        "authorizations.change_terms",
        text="As próximas sessões mostram esta versão; as já abertas ficam com a sua. "
        "Vale o texto guardado, não o que foi só digitado. Uma versão publicada não pode ser alterada nem excluída.",
    )
    @offered_if(lambda terms: terms.published_at is None)
    def publish(self, request: HttpRequest, terms: Terms, form: forms.Form) -> Done:
        terms.publish()
        return Done(f"Termos publicados: {terms}.", Action.PUBLISHED)


class RevokeForm(forms.Form):
    reason = forms.CharField(
        label="Motivo",
        help_text="Por exemplo, como e quando o titular pediu. Aparece no dossiê; não escreva dados pessoais.",
        max_length=500,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )


def _live(value: str) -> Q:
    """The condition of the sessions whose status that counts now, not the stored one, is `value`."""
    status, over = Session.Status, Q(status=Session.Status.PENDING, expires_at__lte=timezone.now())
    live: dict[str, Q] = {
        status.PENDING: Q(status=status.PENDING) & ~over,
        status.AUTHORIZED: Q(status=status.AUTHORIZED, revoked_at=None),
        status.EXPIRED: over | Q(status=status.EXPIRED),
        status.DECLINED: Q(status=status.DECLINED),
        status.REVOKED: Q(revoked_at__isnull=False),
    }
    return live[value]


LiveStatusFilter = FixedChoicesFilter.of("situacao", "situação", lambda: Session.Status.choices, _live)


def _code(session: Session) -> str | None:
    if hasattr(session, "evidence") and session.evidence.phone_confirmation:
        return f"confirmado por {session.evidence.phone_confirmation['number']}"
    newest = PhoneCode.objects.filter(session=session).first()
    if newest is None:
        return None
    return f"{newest.number} de {CODES} pedidos; o último: {newest.stage(timezone.now()).label}"


def _of_evidence(title: str, show: Callable[[Evidence], Any], label: dict[str, str] | None = None) -> Column:
    """A value of the session's evidence; None if it has none."""
    return Column(title, lambda row: show(row.evidence) if hasattr(row, "evidence") else None, label=label)


@admin.register(Session)
class SessionAdmin(OfPartnerAdmin, ReadOnlyAdmin):
    """Sessions, read-only. The holder's complete data are only in the evidence, and its readers are recorded."""

    list_display = ("live_status", "id", "partner", "masked_cpf", "from_api_address", "created_at", "expires_at")
    list_filter = (LiveStatusFilter, "evidence__from_api_address", PARTNER_FILTER, "created_at")
    read_with = ("terms", "evidence")
    fields = readonly_fields = (
        "id",
        "partner",
        "masked_cpf",
        "live_status",
        "terms",
        "created_at",
        "expires_at",
        "partner_reference",
        "accepted_at",
        "evidence_number",
        "code",
        "from_api_address",
        "declined_at",
        "revoked_at",
        "revoked_by",
        "revocation_reason",
        "erased_at",
    )
    actions_detail = ("read_evidence", "export_dossier", "revoke")
    masked_cpf = Column("CPF", lambda session: session.masked_cpf)
    live_status = Column(
        "Situação",
        lambda session: session.status_at(timezone.now()).label,
        label={
            Session.Status.PENDING.label: "info",
            Session.Status.AUTHORIZED.label: "success",
            Session.Status.EXPIRED.label: "warning",
            Session.Status.DECLINED.label: "warning",
            Session.Status.REVOKED.label: "danger",
        },
    )
    accepted_at = _of_evidence(
        "Aceita em", lambda evidence: date_format(timezone.localtime(evidence.sealed_at), "DATETIME_FORMAT")
    )
    code = Column("Código por SMS", _code)
    #: Whether the acceptance came from an address from which the partner also calls the API.
    from_api_address = _of_evidence(
        "Aceita de endereço da API",
        lambda evidence: {True: "sim", False: "não", None: "não verificado"}[evidence.from_api_address],
        label={"sim": "danger", "não": "success"},
    )
    evidence_number = _of_evidence(
        "Evidência", lambda evidence: f"nº {evidence.number}, registro {evidence.receipt} no comprovante do titular"
    )

    def identified_by(self, text: str) -> list[Q]:
        """For the menu's search alone: an authorization_id must not stand in an address."""
        return [*conditions(Session, ("pk", "authorization_id", "partner_reference"), text), *with_receipt(text)]

    @action(description="Ler evidência", permissions=["view", "authorizations.view_evidence"], icon="gavel")
    @offered_if(lambda session: hasattr(session, "evidence"))
    @method_decorator(csp(_DOCUMENT_POLICY))
    def read_evidence(self, request: HttpRequest, object_id: str) -> HttpResponse:
        evidence = self._evidence(request, object_id)
        audit.record(Action.VIEWED, request=request, obj=evidence.session, detail="Evidência lida.")
        return HttpResponse(dossier.page(evidence, timezone.now(), request.user.get_username()))

    @action(description="Exportar dossiê", permissions=["view", "authorizations.export_evidence"], icon="folder_zip")
    @offered_if(lambda session: hasattr(session, "evidence"))
    def export_dossier(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return dossier.attachment(request, self._evidence(request, object_id))

    @Confirmed(
        "Revogar",
        "block",
        "authorizations.revoke_authorization",
        text="Vale já para a próxima consulta e não pode ser desfeito. Um link ainda pendente deixa de abrir. "
        "A evidência e as consultas já feitas ficam. "
        "Para voltar a consultar, o parceiro abre uma nova sessão e o titular autoriza de novo.",
        danger=True,
        form=lambda _, data: RevokeForm(data),
    )
    @offered_if(lambda session: session.status_at(timezone.now()) in _REVOCABLE)
    def revoke(self, request: HttpRequest, session: Session, form: RevokeForm) -> Done:
        session.revoke(request.user.get_username(), form.cleaned_data["reason"])
        return Done("Autorização revogada.", Action.REVOKED)

    def _evidence(self, request: HttpRequest, object_id: str) -> Evidence:
        """The session's evidence. Raises Http404."""
        session = self.row_of(request, object_id)
        if not hasattr(session, "evidence"):
            raise Http404
        evidence: Evidence = session.evidence
        return evidence
