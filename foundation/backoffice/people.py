"""Pages for rows about a person. They are searched by CPF in a POST form, because a URL must not contain a CPF."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from foundation import audit
from foundation.backoffice.admins import ReadOnlyAdmin
from foundation.encryption import blind_index
from foundation.formats import cpf_is_valid, only_digits

#: Help text of a form field whose value must not appear in a URL.
NOT_IN_ADDRESSES = "O que for digitado aqui não aparece em endereços nem em registros."


class CpfForm(forms.Form):
    cpf = forms.CharField(label="CPF", max_length=14, widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}))

    def clean_cpf(self) -> str:
        digits = only_digits(self.cleaned_data["cpf"])
        if not cpf_is_valid(digits):
            raise forms.ValidationError("Informe um CPF válido.")
        return digits


class PersonalRowsAdmin(ReadOnlyAdmin):
    """Read-only rows about a person. The model's column `cpf_index`, a keyed hash, finds those of one person."""

    actions_list: tuple[str, ...] = ("find",)
    linked_by: tuple[str, ...] = ("cpf_index",)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, term: str) -> tuple[QuerySet, bool]:
        """No rows for a CPF, because the search text is part of the URL."""
        if cpf_is_valid(only_digits(term)):
            self.message_user(request, "Para buscar por CPF, use “Localizar CPF”.", messages.WARNING)
            return queryset.none(), False
        return super().get_search_results(request, queryset, term)

    @action(description="Localizar CPF", permissions=["view"], icon="search")
    def find(self, request: HttpRequest) -> HttpResponse:
        """The list of one person's rows. The URL identifies the person by the keyed hash of the CPF."""
        form = CpfForm(request.POST or None)
        if form.is_valid():
            index = blind_index("cpf", form.cleaned_data["cpf"])
            audit.record(audit.Action.SEARCHED, request=request, obj=audit.Subject(self.model, index))
            return HttpResponseRedirect(f"{self.list_address}?cpf_index={index}")
        return self.form_over_list(request, form, title="Localizar CPF", text=NOT_IN_ADDRESSES, button="Localizar")
