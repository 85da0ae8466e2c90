"""Proposals for operators: to read, with the timeline of moves and bank calls; and to have one looked for now."""

from __future__ import annotations

from decimal import Decimal

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import localize
from django.utils.safestring import SafeString
from unfold.decorators import action, display

from consultas.admin import ReadOnlyAdmin, table
from partners.admin import PageWithButtons
from proposals.models import Proposal
from proposals.submission import bring_forward
from providers.formats import mask_cpf, to_reais_text

_STATUS_COLOURS = {
    "aguardando assinatura": "info",
    "assinada": "info",
    "paga": "success",
    "recusada": "danger",
    "cancelada": "warning",
    "expirada": "warning",
}
_SUBMISSION_COLOURS = {
    Proposal.Submission.UNKNOWN.label: "danger",
    Proposal.Submission.SENDING.label: "info",
    Proposal.Submission.NOT_SENT.label: "warning",
    Proposal.Submission.ACCEPTED.label: "success",
}


@admin.register(Proposal)
class ProposalAdmin(PageWithButtons, ReadOnlyAdmin):
    """All an operator can do is have a submission of unknown outcome looked for at once."""

    list_display = (
        "created_at",
        "partner",
        "provider",
        "masked_cpf",
        "amount",
        "coloured_status",
        "coloured_submission",
        "next_reconcile_at",
    )
    list_filter = ("submission", "status", "provider", "partner", "created_at")
    list_select_related = ("partner",)
    search_fields = ("id__exact", "reference", "native_id", "request_id")
    search_help_text = "proposal_id, nossa referência, id no banco ou X-Request-Id"
    fields = readonly_fields = (
        "id",
        "partner",
        "provider",
        "masked_cpf",
        "amount",
        "coloured_status",
        "coloured_submission",
        "reference",
        "native_id",
        "native_status",
        "trouble",
        "attempts",
        "reconciles",
        "next_reconcile_at",
        "next_refresh_at",
        "request_id",
        "created_at",
        "updated_at",
        "timeline",
    )
    actions = ("reconcile_selection",)
    actions_submit_line = ("reconcile_one",)

    def has_change_permission(self, request: HttpRequest, obj: Proposal | None = None) -> bool:
        """There is nothing to change, but the button below the page needs the permission."""
        return bool(request.user.has_perm("proposals.change_proposal"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Proposal]:
        secrets = ("partner__webhook_secret", "partner__previous_webhook_secret")
        proposals: QuerySet[Proposal] = super().get_queryset(request)
        return proposals.select_related("partner").defer("signature_url", "data", *secrets)

    @admin.display(description="CPF")
    def masked_cpf(self, proposal: Proposal) -> str:
        return mask_cpf(proposal.dataset["titular"]["cpf"])

    @admin.display(description="oferta")
    def amount(self, proposal: Proposal) -> str:
        terms = proposal.terms
        return f"R$ {to_reais_text(Decimal(str(terms['loanValue'])))} em {terms['installments']}x"

    @display(description="situação", ordering="status", label=_STATUS_COLOURS)
    def coloured_status(self, proposal: Proposal) -> str:
        return proposal.get_status_display()

    @display(description="envio", ordering="submission", label=_SUBMISSION_COLOURS)
    def coloured_submission(self, proposal: Proposal) -> str:
        return proposal.get_submission_display()

    @admin.display(description="erro")
    def trouble(self, proposal: Proposal) -> str:
        return proposal.error["code"] if proposal.error else "—"

    @admin.display(description="linha do tempo")
    def timeline(self, proposal: Proposal) -> SafeString:
        moves = (
            (each.at, f"{each.from_status or '(nova)'} → {each.to_status}", each.get_cause_display(), each.native_word)
            for each in proposal.moves.all()
        )
        calls = (
            (
                each.at,
                f"chamada: {each.get_operation_display()}",
                each.outcome or "sem resposta",
                "" if each.ms is None else f"{each.ms} ms",
            )
            for each in proposal.calls.defer("argument", "error")
        )
        rows = sorted([*moves, *calls], key=lambda row: row[0])
        shown = ((localize(timezone.localtime(at), use_l10n=True), what, why, more) for at, what, why, more in rows)
        return table(("Quando", "O quê", "Causa ou resultado", "Banco"), shown)

    @admin.action(description="Conciliar agora as propostas selecionadas", permissions=["change"])
    def reconcile_selection(self, request: HttpRequest, queryset: QuerySet[Proposal]) -> None:
        ids = bring_forward(queryset)
        for proposal in Proposal.objects.filter(pk__in=ids):
            self.log_change(request, proposal, "Conciliação antecipada.")
        if ids:
            self.message_user(request, f"Em conciliação agora: {len(ids)}.", messages.SUCCESS)
        else:
            self.message_user(request, "Nenhuma tem resultado desconhecido.", messages.WARNING)

    @action(description="Conciliar agora", permissions=["change"])
    def reconcile_one(self, request: HttpRequest, proposal: Proposal) -> None:
        self.reconcile_selection(request, Proposal.objects.filter(pk=proposal.pk))
