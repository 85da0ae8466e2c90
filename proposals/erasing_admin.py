"""Erasures of holders' data: read-only lists, and the action, which first shows what would be erased."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from foundation import audit
from foundation.audit import Action
from foundation.backoffice.admins import ReadOnlyAdmin
from foundation.backoffice.cells import Column, table
from foundation.encryption import blind_index
from foundation.formats import cpf_is_valid, only_digits
from proposals import retention
from proposals.models import Erasure, ErasureRequest

#: The counts of an erasure, with their labels.
_COUNTED = {
    "proposals": "propostas",
    "steps": "passos do titular",
    "offers": "ofertas",
    "queries": "consultas",
    "answers": "respostas de consultas mantidas",
    "sessions": "sessões",
    "masked_sessions": "sessões mascaradas",
    "events": "eventos de webhook",
    "evidence": "evidências",
}
TITLE = "Apagar dados de um titular"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{_COUNTED[name]}: {number}" for name, number in counts.items() if number) or "nada"


def _names(partners: list[str] | None) -> str:
    if partners is None:
        return "não registrados"
    return ", ".join(partners) or "nenhum"


class CpfForm(forms.Form):
    cpf = forms.CharField(label="CPF", max_length=14, widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}))

    def clean_cpf(self) -> str:
        digits = only_digits(self.cleaned_data["cpf"])
        if not cpf_is_valid(digits):
            raise forms.ValidationError("Informe um CPF válido.")
        return digits


class ConfirmForm(CpfForm):
    """The CPF again, as a typed confirmation. `index` is the keyed hash of the CPF that was previewed."""

    index = forms.CharField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["cpf"].label = "Para confirmar, digite o CPF de novo"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cpf = cleaned.get("cpf")
        if cpf and blind_index("cpf", cpf) != cleaned.get("index"):
            self.add_error("cpf", "Este não é o CPF que foi conferido. Nada foi apagado.")
        return cleaned


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin):
    """What was erased, when and by whom. Erasures are searched by CPF; the rows do not store it."""

    list_display = ("at", "by", "erased_counts", "kept_counts", "left_counts")
    list_filter = ("at",)
    fields = readonly_fields = (
        "at",
        "by",
        "cpf_index",
        "erased_counts",
        "kept_counts",
        "left_counts",
        "partners_to_inform",
    )
    actions_list = ("erase",)
    erased_counts = Column("apagados", lambda erasure: _counts(erasure.erased))
    kept_counts = Column("mantidos como prova", lambda erasure: _counts(erasure.kept))
    left_counts = Column("a repetir", lambda erasure: _counts(erasure.left))
    partners_to_inform = Column("parceiros a avisar", lambda erasure: _names(erasure.partners))

    @action(description=TITLE, permissions=["proposals.erase_holder"], icon="person_remove")
    def erase(self, request: HttpRequest) -> HttpResponse:
        """Asks for the CPF, shows what would be erased and whom to inform, and erases when it is typed again."""
        is_confirmation = "index" in request.POST
        form = ConfirmForm(request.POST) if is_confirmation else CpfForm(request.POST or None)
        if form.is_valid():
            step = self._erase if is_confirmation else self._preview
            return step(request, form.cleaned_data["cpf"])
        if is_confirmation:
            # Return to the first step, because the button that erases is only shown below a preview.
            for message in form.errors.get("cpf", ["Confira o CPF de novo."]):
                self.message_user(request, message, messages.ERROR)
            form = CpfForm()
        text = (
            "Apaga tudo o que há do titular em todos os parceiros, menos o que prova um contrato ou uma autorização: "
            "propostas aceitas e evidências. O passo seguinte mostra o que seria apagado, e ainda não apaga. O CPF não "
            "aparece em endereços nem em registros."
        )
        return self.form_page(request, form, title=TITLE, text=text, button="Ver o que seria apagado")

    def _preview(self, request: HttpRequest, cpf: str) -> HttpResponse:
        index = blind_index("cpf", cpf)
        audit.record(Action.SEARCHED, request=request, obj=audit.Subject(Erasure, index))
        preview = retention.preview(cpf)
        rows = [
            ("Será apagado", _counts(preview.erased)),
            ("Fica, como prova", _counts(preview.kept)),
            ("Em andamento: repita depois", _counts(preview.left)),
            ("Parceiros a avisar", _names(preview.partners)),
        ]
        erasure_request = retention.waiting_for(cpf).first() if settings.ERASURE_BY_TWO else None
        text = "Não há como desfazer. O parceiro não é avisado pelo serviço: avise-o, para que apague o que tem."
        if erasure_request is not None:
            rows.append(("Pedido por", f"{erasure_request.asked_by}: falta a confirmação de outra pessoa"))
        elif settings.ERASURE_BY_TWO:
            text += " Este serviço pede duas pessoas: depois do seu pedido, outra confirma nesta mesma página."
        return self.form_page(
            request,
            ConfirmForm(initial={"index": index}),
            title=TITLE,
            text=text,
            details=table(("", ""), rows),
            button="Pedir a exclusão" if settings.ERASURE_BY_TWO and erasure_request is None else "Apagar",
            danger=True,
        )

    def _erase(self, request: HttpRequest, cpf: str) -> HttpResponse:
        operator = request.user.get_username()
        with transaction.atomic():
            if settings.ERASURE_BY_TWO:
                erasure = retention.ask_or_confirm(cpf, operator)
            else:
                erasure = retention.erase(cpf, operator)
            if erasure is None:
                text = "Exclusão pedida; outra pessoa com a permissão tem de confirmar em até 7 dias."
                index = blind_index("cpf", cpf)
                audit.record(Action.PUSHED, request=request, obj=audit.Subject(ErasureRequest, index), detail=text)
                self.message_user(request, text, messages.WARNING)
                return HttpResponseRedirect(self.list_address)
            text = f"Apagados: {_counts(erasure.erased)}. Parceiros a avisar: {_names(erasure.partners)}."
            audit.record(Action.ERASED, request=request, obj=erasure, detail=text)
        self.message_user(request, text, messages.SUCCESS)
        if any(erasure.left.values()):
            text = f"Em andamento, repita em alguns minutos: {_counts(erasure.left)}."
            self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(self.list_address)


@admin.register(ErasureRequest)
class ErasureRequestAdmin(ReadOnlyAdmin):
    """Who requested an erasure, and whether another person confirmed it."""

    list_display = ("asked_at", "asked_by", "state")
    list_select_related = ("erasure",)
    fields = readonly_fields = ("asked_at", "asked_by", "state", "done")
    state = Column(
        "situação",
        lambda row: "feita" if row.erasure_id else "à espera" if row.is_waiting else "vencido",
        label={"à espera": "warning", "feita": "success", "vencido": "info"},
    )
    done = Column("exclusão", lambda row: f"{row.erasure}: {row.erasure.by}" if row.erasure else "—")
