from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest
from unfold.admin import TabularInline
from unfold.decorators import action, display

from partners.admin import PageWithButtons
from partners.models import SECRETS_OF_PARTNER
from providers.formats import cpf_is_valid, mask_cpf

from .models import AlreadyPurged, Attempt, Event, reference_index

_STATE_COLOURS = {Event.State.DUE: "info", Event.State.DELIVERED: "success", Event.State.FAILED: "danger"}


class AttemptInline(TabularInline):
    """Every try of an event, to read."""

    model = Attempt
    fields = readonly_fields = ("number", "at", "url", "status", "fault", "duration_ms", "excerpt")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Event | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Event | None = None) -> bool:
        return False


@admin.register(Event)
class EventAdmin(PageWithButtons):
    """Events and what became of them. All an operator can do is send one, or a selection, again."""

    list_display = (
        "created_at",
        "partner",
        "name",
        "coloured_state",
        "attempts",
        "trouble",
        "next_attempt_at",
        "id",
    )
    list_filter = ("state", "name", "partner")
    search_fields = ("=id",)
    search_help_text = "webhook-id ou referência externa (proposta, simulação), exatos; nunca um CPF"
    date_hierarchy = "created_at"
    list_per_page = 50
    fields = readonly_fields = (
        "id",
        "partner",
        "name",
        "reference",
        "state",
        "attempts",
        "trouble",
        "next_attempt_at",
        "claimed_until",
        "created_at",
        "delivered_at",
        "purged_at",
    )
    inlines = (AttemptInline,)
    actions = ("resend_selection",)
    actions_submit_line = ("resend_one",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        events: QuerySet[Event] = super().get_queryset(request)
        has_no_secret = ExpressionWrapper(Q(partner__webhook_secret__isnull=True), BooleanField())
        unread = ("body", "external_reference", *SECRETS_OF_PARTNER)
        return events.select_related("partner").defer(*unread).annotate(has_no_secret=has_no_secret)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        found, duplicates = super().get_search_results(request, queryset, search_term)
        term = search_term.strip()
        if term and not cpf_is_valid(term):  # a search stands in the URL, where a CPF must not become a habit
            found |= queryset.filter(reference_index=reference_index(term))
        return found, duplicates

    @display(description="estado", ordering="state", label=_STATE_COLOURS)
    def coloured_state(self, event: Event) -> tuple[str, str]:
        return event.state, event.get_state_display()

    @admin.display(description="última falha")
    def trouble(self, event: Event) -> str:
        if event.state == Event.State.DUE and not event.partner.webhook_url:
            return "parceiro sem URL de webhook"
        if event.state == Event.State.DUE and vars(event)["has_no_secret"]:
            return "parceiro sem segredo de webhook"
        return event.get_fault_display() or "—"

    @admin.display(description="referência externa")
    def reference(self, event: Event) -> str:
        reference = event.external_reference
        if reference is None:
            return "apagada"
        return mask_cpf(reference) if cpf_is_valid(reference) else reference

    @admin.action(description="Reenviar os eventos selecionados", permissions=["change"])
    def resend_selection(self, request: HttpRequest, queryset: QuerySet[Event]) -> None:
        purged = 0
        events = list(queryset)
        for event in events:
            try:
                event.resend()
            except AlreadyPurged:
                purged += 1
            else:
                self.log_change(request, event, "Reenviado.")
        if len(events) > purged:
            self.message_user(request, f"Colocados na fila de entrega: {len(events) - purged}.", messages.SUCCESS)
        if purged:
            self.message_user(request, f"Não reenviados, pois o conteúdo já foi apagado: {purged}.", messages.WARNING)

    @action(description="Reenviar", permissions=["change"])
    def resend_one(self, request: HttpRequest, event: Event) -> None:
        self.resend_selection(request, Event.objects.filter(pk=event.pk))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Event | None = None) -> bool:
        return False
