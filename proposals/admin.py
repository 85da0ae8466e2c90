"""Read-only pages for proposals, with a timeline, and an action that checks an unknown outcome now."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import lookup_field
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import localize
from django.utils.safestring import SafeString

from consultas.models import Offer
from foundation import audit
from foundation.audit import Action
from foundation.backoffice.admins import MOST, FixedChoicesFilter, ReadOnlyAdmin, offered_if
from foundation.backoffice.cells import Column, breakable, in_reais, link, reais, table
from foundation.backoffice.confirmation import Confirmed, Done
from foundation.backoffice.pages import page_of
from foundation.formats import mask_cpf, money
from partners.admin import PARTNER_FILTER, OfPartnerAdmin
from proposals import envelope
from proposals.erasing_admin import ErasureAdmin, ErasureRequestAdmin
from proposals.models import BankCall, Proposal
from proposals.sweep import hasten_unknown
from proposals.timeline import measured, moments, origin_of
from providers.admin import BankFilter, OfBankAdmin
from providers.reasons import ReasonCode
from providers.types.proposal import ProposalStatus

#: Registered here because Django looks for admin classes in this module.
__all__ = ("ErasureAdmin", "ErasureRequestAdmin")
_STATUS_COLOURS = {
    "aguardando assinatura": "info",
    "assinada": "info",
    "paga": "success",
    "paga, desistida": "warning",
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
#: Who acts next on a proposal, by its submission or its status. On others nobody does.
_WHO_ACTS: dict[str, str] = {
    Proposal.Submission.SENDING: "O serviço envia ao banco.",
    Proposal.Submission.UNKNOWN: "O serviço pergunta ao banco até saber; o parceiro espera.",
    Proposal.Submission.NOT_SENT: "O parceiro pode enviar de novo.",
    ProposalStatus.CREATED: "O parceiro pede a formalização.",
    ProposalStatus.IN_ANALYSIS: "O banco analisa.",
    ProposalStatus.AWAITING_SIGNATURE: "O titular assina.",
    ProposalStatus.SIGNED: "O banco averba e paga.",
}


def _part(column: str, key: str, title: str, *, is_money: bool = False) -> Column:
    """A column of the exported file: one value of the JSON in `column`, an amount with its cents."""

    def shown(proposal: Proposal) -> Any:
        value = (getattr(proposal, column) or {}).get(key)
        return money(Decimal(str(value))) if is_money and value is not None else value

    return Column(title, shown)


def _with_code(title: str, name: str) -> Column:
    """The message and the code in the model's column `name`."""
    return Column(title, lambda row: f"{told['message']} ({told['code']})" if (told := getattr(row, name)) else "—")


def _amount(proposal: Proposal) -> str:
    terms = proposal.terms
    return f"{reais(Decimal(str(terms['loanValue'])))} em {terms['installments']}x"


def _waits(proposal: Proposal) -> str:
    """What the proposal waits for, since when, and why it takes long."""
    if not proposal.stage or proposal.stage_since is None:
        return "—"
    since = localize(timezone.localtime(proposal.stage_since), use_l10n=True)
    text, reason = f"{proposal.get_stage_display()} desde {since}", proposal.stage_reason
    if reason is None:
        return text
    again = "; o banco tenta de novo" if reason["retryable"] else ""
    return f"{text}: {reason['message']} ({reason['code']}{again})"


def _who_acts(proposal: Proposal) -> str:
    if any(why and why["code"] == ReasonCode.INVALID_ACCOUNT for why in (proposal.reason, proposal.stage_reason)):
        return "O parceiro corrige a conta com o titular."
    return _WHO_ACTS.get(proposal.submission) or _WHO_ACTS.get(proposal.status, "")


def _paid_to(proposal: Proposal) -> str:
    """Where the bank pays the money, masked as for the partner."""
    paid = envelope.disbursement(proposal)
    account, pix = paid.conta_bancaria, paid.pix
    if account:
        text = f"banco {account.banco}, conta {account.tipo_conta} {account.conta}"
    else:
        text = f"PIX, chave {pix.tipo_chave}" if pix else "—"
    return f"{text}. {paid.observacao}" if paid.observacao else text


def _query_page(proposal: Proposal) -> SafeString | str:
    """The query that the proposal was sent from (`get_object`)."""
    origin = vars(proposal)["origin"]
    return link(page_of(origin), origin.pk) if origin else "já apagada"


def _timeline(proposal: Proposal) -> SafeString:
    """The proposal's timeline, limited to what the reader may see (`get_object`)."""
    entries = moments(proposal, vars(proposal)["origin"], vars(proposal)["reader_may"])
    rows = (
        (
            localize(timezone.localtime(each.at), use_l10n=True),
            each.what,
            each.outcome,
            measured(each),
            breakable(each.word),
        )
        for each in entries
    )
    return table(("Quando", "O quê", "Causa ou resultado", "Duração", "Palavra do banco"), rows)


#: The paid proposals whose holders withdrew. Their status stays `paga`.
WithdrawalFilter = FixedChoicesFilter.of(
    "withdrawn", "desistência", lambda: [("yes", "o titular desistiu")], lambda _: Q(withdrawn_at__isnull=False)
)


@admin.register(Proposal)
class ProposalAdmin(OfBankAdmin, OfPartnerAdmin, ReadOnlyAdmin):
    """An operator's only action is to have a submission of unknown outcome checked at once."""

    list_display = (
        "coloured_status",
        "coloured_submission",
        "created_at",
        "partner",
        "bank",
        "masked_cpf",
        "amount",
        "due_at",
    )
    list_filter = (
        "submission",
        "status",
        WithdrawalFilter,
        BankFilter,
        PARTNER_FILTER,
        "created_at",
    )
    linked_by = ("cpf_index", "due_at__isnull")
    unread = ("signature_url", "data", "next_dataset")
    exported_as = {
        "amount": (
            _part("terms", "loanValue", "valor", is_money=True),
            _part("terms", "installments", "parcelas"),
            _part("terms", "installmentValue", "valor da parcela", is_money=True),
            _part("terms", "interestRate", "taxa ao mês (%)"),
            _part("terms", "firstDueDate", "primeiro vencimento"),
        )
    }
    also_exported = (
        "id",
        "partner_reference",
        "native_id",
        "contract_number",
        _part("reason", "code", "código do motivo"),
        _part("reason", "message", "motivo"),
        "disbursed_at",
        "disbursed_amount",
        "withdrawn_at",
        "paid_to",
    )
    search_fields = (
        "id__exact",
        "reference__exact",
        "partner_reference__exact",
        "native_id__exact",
        "contract_number__exact",
        "request_id__exact",
    )
    search_help_text = (
        "proposal_id, referência do parceiro ou nossa, id no banco, número do contrato, ou X-Request-Id do envio, da "
        "formalização ou do cancelamento; sempre inteiro"
    )
    change_form_outer_before_template = "proposals/heading.html"
    fields = readonly_fields = (
        "id",
        "partner",
        "offer_page",
        "query_page",
        "why",
        "waits",
        "partner_reference",
        "reference",
        "native_id",
        "native_status",
        "paid_to",
        "signature_expires_at",
        *("paid_amount" if name == "disbursed_amount" else name for name in Proposal.KEPT),
        "withdrawn_at",
        "trouble",
        "attempts",
        "reconciles",
        "due_at",
        "request_id",
        "created_at",
        "updated_at",
        "timeline",
    )
    actions = ("reconcile_selection",)
    actions_detail = ("reconcile_one",)
    masked_cpf = Column("CPF", lambda proposal: mask_cpf(proposal.dataset["titular"]["cpf"]))
    amount = Column("oferta", _amount)
    coloured_status = Column("situação", lambda row: row.status_in_words, "status", _STATUS_COLOURS)
    coloured_submission = Column("envio", Proposal.get_submission_display, "submission", _SUBMISSION_COLOURS)
    why = _with_code("motivo do fim", "reason")
    waits = Column("etapa", _waits)
    paid_to = Column("recebimento", _paid_to)
    paid_amount = in_reais("valor pago", "disbursed_amount")
    trouble = _with_code("erro", "error")
    offer_page = Column("página da oferta", lambda proposal: link(page_of(Offer, proposal.offer_id), proposal.offer_id))
    query_page = Column("consulta de origem", _query_page)
    timeline = Column("linha do tempo", _timeline)

    def get_fieldsets(self, request: HttpRequest, obj: Proposal | None = None) -> Any:
        """The timeline, then the fields with a value; the others are folded."""
        told: list[str] = []
        empty: list[str] = []
        for name in self.fields[:-1]:
            value = lookup_field(name, obj, self)[2] if obj and not obj._state.adding else ""
            (empty if value in (None, "", "—") else told).append(name)
        folded = ("Sem valor", {"fields": empty, "classes": ["collapse"]})
        return [(None, {"fields": ["timeline"]}), (None, {"fields": told}), *([folded] if empty else [])]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The page, under a heading with the proposal's amount, bank and states."""
        if proposal := context.get("original"):
            status, submission = proposal.status_in_words, proposal.get_submission_display()
            is_unknown = proposal.submission == Proposal.Submission.UNKNOWN  # nobody knows whether the bank has it
            states = {} if is_unknown else {status: _STATUS_COLOURS.get(status)}
            if proposal.submission != Proposal.Submission.ACCEPTED:
                states[f"envio: {submission}"] = _SUBMISSION_COLOURS.get(submission)
            if proposal.stage:
                states[f"etapa: {proposal.get_stage_display()}"] = "warning" if proposal.stage_reason else "info"
            context["heading"] = {
                "amount": self.amount(proposal),
                "bank": self.bank(proposal),
                "cpf": self.masked_cpf(proposal),
                "states": states,
                "why": self.why(proposal) if proposal.reason else "",
                "who_acts": _who_acts(proposal),
            }
        return super().render_change_form(request, context, *args, **kwargs)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Proposal | None:
        proposal: Proposal | None = super().get_object(request, object_id, from_field)
        if proposal is not None and "origin" not in vars(proposal):  # one row serves all parts of a page
            vars(proposal)["reader_may"] = request.user.has_perm
            vars(proposal)["origin"] = origin_of(proposal)
        return proposal

    def identified_by(self, text: str) -> list[Q]:
        """Also the id of each request that called the bank; the row itself has only that of its last attempt. The ids
        are read instead of joined, so that every condition uses its index."""
        calls = BankCall.objects.filter(request_id=text).order_by().values_list("proposal_id", flat=True)
        return [*super().identified_by(text), Q(pk__in=list(calls[:MOST]))]

    @admin.action(description="Conciliar agora as propostas selecionadas", permissions=["act"])
    def reconcile_selection(self, request: HttpRequest, queryset: QuerySet[Proposal]) -> None:
        ids = hasten_unknown(queryset)
        for proposal in Proposal.objects.filter(pk__in=ids):
            audit.record(Action.PUSHED, request=request, obj=proposal, detail="Conciliação antecipada.")
        if ids:
            self.message_user(request, f"Em conciliação agora: {len(ids)}.", messages.SUCCESS)
        else:
            self.message_user(request, "Nenhuma tem resultado desconhecido.", messages.WARNING)

    @Confirmed("Conciliar agora", "update", "act", "O serviço perguntará ao banco em segundos.")
    @offered_if(lambda proposal: proposal.submission == Proposal.Submission.UNKNOWN)
    def reconcile_one(self, request: HttpRequest, proposal: Proposal, form: forms.Form) -> Done:
        hasten_unknown(Proposal.objects.filter(pk=proposal.pk))
        return Done("Conciliação antecipada.", Action.PUSHED)
