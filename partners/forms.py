"""The forms of the operator's pages for partners and their keys."""

import uuid
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from foundation.encryption import blind_index
from foundation.formats import unmask_cnpj
from partners.models import MAX_KEY_DAYS, ApiKey, Partner, WebhookEvent, default_webhook_events
from partners.validators import split_names, validate_networks


class NamesField(forms.CharField):
    """Names with a `separator` between them. The value is a list."""

    separator = ", "

    def prepare_value(self, value: Any) -> Any:
        return self.separator.join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return split_names(super().to_python(value) or "", self.separator.rstrip(" "))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))


class HostsField(NamesField):
    """Host names, one per line."""

    separator = "\n"

    def to_python(self, value: Any) -> Any:
        return super().to_python(str(value or "").lower())


class AllowanceForm(forms.ModelForm):
    portfolios = NamesField(
        label="Carteiras que pode pedir",
        help_text="Separadas por vírgula. Sem carteira fixa, o originador da chamada vale só se estiver aqui.",
        required=False,
        widget=UnfoldAdminTextInputWidget,
    )

    class Meta:
        help_texts = {
            "paused_until": "Até lá nenhuma consulta do parceiro pergunta a este banco. Envios e propostas continuam."
        }

    def clean_paused_until(self) -> datetime | None:
        until: datetime | None = self.cleaned_data["paused_until"]
        if until and until <= timezone.now() and "paused_until" in self.changed_data:
            raise ValidationError("O fim da pausa já passou. Para encerrá-la, deixe o campo vazio.")
        return until

    def clean_pause_reason(self) -> str:
        """Empty once a pause is ended by its emptied end."""
        is_ended = self.initial.get("paused_until") and not self.cleaned_data.get("paused_until")
        return "" if is_ended else str(self.cleaned_data["pause_reason"])


class CnpjField(forms.CharField):
    """A CNPJ, with or without its mask."""

    def to_python(self, value: Any) -> Any:
        return unmask_cnpj(super().to_python(value) or "")


class PartnerForm(forms.ModelForm):
    """`new_id` is the new partner's id, chosen before the POST, so that a repeated one creates no second."""

    new_id = forms.UUIDField(label="Identificador", widget=forms.HiddenInput)
    webhook_events = forms.MultipleChoiceField(
        label="Eventos do webhook",
        choices=WebhookEvent.choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        initial=default_webhook_events,
    )

    cnpj = CnpjField(label="CNPJ", required=False, widget=UnfoldAdminTextInputWidget)
    return_hosts = HostsField(
        label="Domínios de volta",
        help_text="Um por linha, como chat.exemplo.com.br. Só a eles a página de autorização leva o titular de volta.",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            self.fields.pop("new_id", None)

    def clean(self) -> dict[str, Any] | None:
        new_id = self.cleaned_data.get("new_id")
        if new_id:
            with connection.cursor() as cursor:  # serializes a double click's simultaneous requests
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"partner {new_id}"])
            if Partner.objects.filter(pk=new_id).exists():
                raise ValidationError(
                    "Este parceiro já foi criado, com chave e segredo mostrados. Se eles se perderam, abra o "
                    "parceiro, emita outra chave e troque o segredo."
                )
            self.instance.pk = new_id
        return super().clean()


class NetworksForm(forms.Form):
    networks = NamesField(
        label="Endereços permitidos",
        help_text="Endereços ou redes de que a chave vale, separados por vírgula, como 203.0.113.7, 198.51.100.0/24. "
        "Vazio: de qualquer um.",
        required=False,
        validators=[validate_networks],
        widget=UnfoldAdminTextInputWidget,
    )


class IssueKeyForm(NetworksForm):
    field_order = ("key_id", "label", "days", "networks")
    key_id = forms.UUIDField(widget=forms.HiddenInput)
    label = forms.CharField(label="Rótulo", max_length=60, required=False, widget=UnfoldAdminTextInputWidget)
    days = forms.IntegerField(
        label="Validade em dias",
        help_text="Vazio: a chave não expira.",
        min_value=1,
        max_value=MAX_KEY_DAYS,
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
    )

    def clean_key_id(self) -> uuid.UUID:
        key_id: uuid.UUID = self.cleaned_data["key_id"]
        if ApiKey.objects.filter(pk=key_id).exists():
            raise ValidationError("Esta chave já foi emitida e mostrada. Se ela se perdeu, emita outra.")
        return key_id


class RotateSecretForm(forms.Form):
    """`mark` identifies the secret that the operator wants to replace, without revealing it."""

    mark = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, partner: Partner, data: Any = None) -> None:
        self.current = blind_index("webhook-secret", partner.webhook_secret or "")
        super().__init__(data, initial={"mark": self.current})

    def clean_mark(self) -> None:
        if self.cleaned_data["mark"] != self.current:
            raise ValidationError("O segredo já foi trocado e mostrado. Se ele se perdeu, troque-o de novo.")
