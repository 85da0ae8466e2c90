"""The request bodies of the authorization routes."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from authorizations.evidence import BrowserReport
from foundation.errors import InvalidInput
from foundation.fields import (
    OPTIONAL,
    USER_AGENT_LENGTH,
    Block,
    BooleanField,
    ChoiceField,
    IntegerField,
    ListField,
    NumberField,
    TextField,
)
from foundation.format_fields import CPFField, PhoneField, ReferenceField
from foundation.validation import validated

_COLLECTED = ("geolocation", "device", "terms_unfolded")
_MOST_HEADINGS = 99
_EARTH_M = 40_075_000  # the circumference of the earth in metres: no location is less accurate


class OpenSerializer(Block):
    cpf = CPFField(help_text="CPF do titular, 11 dígitos sem máscara, com dígitos verificadores válidos.")
    nome = TextField(help_text="Nome completo do titular.")
    telefone = PhoneField(help_text="DDD e número; um 55 inicial é removido.")
    partner_reference = ReferenceField(
        **OPTIONAL,
        help_text="Nome que o parceiro dá à sessão, sem dados pessoais. Em uma repetição vale o mais novo.",
    )
    return_url = TextField(
        max_length=500,
        **OPTIONAL,
        help_text="Para onde a página leva de volta: https, em um domínio registrado pelo operador.",
    )


class RevokeSerializer(Block):
    motivo = TextField(**OPTIONAL, allow_blank=True, help_text="Por quê, sem dados pessoais.")


class GeolocationBlock(Block):
    lat = NumberField(min_value=-90, max_value=90, help_text="Latitude em graus, WGS 84.")
    lng = NumberField(min_value=-180, max_value=180, help_text="Longitude em graus, WGS 84.")


class GeolocationSerializer(GeolocationBlock):
    """With `accuracy` in metres."""

    accuracy = NumberField(min_value=0, max_value=_EARTH_M, **OPTIONAL, help_text="Precisão em metros.")


def _device_text(max_length: int = 120, *, help_text: str) -> TextField:
    # Browsers send "" for unknown values; desktop Chromium does for the model.
    return TextField(max_length=max_length, **OPTIONAL, allow_blank=True, help_text=help_text)


class DeviceSerializer(Block):
    """The browser's report of the device. Blank and null both mean "not given"."""

    userAgent = _device_text(USER_AGENT_LENGTH, help_text="`User-Agent` segundo o navegador.")
    platform = _device_text(help_text="Plataforma, como `Android`.")
    language = _device_text(help_text="Idioma, como `pt-BR`.")
    timezone = _device_text(help_text="Fuso horário.")
    screen = _device_text(help_text="Largura, altura e densidade da tela.")
    deviceModel = _device_text(help_text="Modelo do aparelho.")


class AcceptSerializer(Block):
    """`POST …/accept`: every field is optional, but they may not contradict one another."""

    accepted = BooleanField(required=False, help_text="O aceite. Pode faltar; `false` é recusado com 422.")
    terms_version = TextField(
        required=False, help_text="A versão dos termos mostrada. Outra que a da sessão é recusada com 422."
    )
    geolocation = GeolocationSerializer(
        **OPTIONAL,
        help_text="Onde o titular está; não com `geolocation_status` `denied` ou `unavailable`.",
    )
    geolocation_status = ChoiceField(
        ("granted", "denied", "unavailable"), **OPTIONAL, help_text="Se o titular deixou ver a localização."
    )
    device = DeviceSerializer(**OPTIONAL, help_text="O que o navegador informa do aparelho.")

    #: A location may not be given together with a reason why there is none.
    keywords = {
        "if": {
            "required": ["geolocation_status"],
            "properties": {"geolocation_status": {"enum": ["denied", "unavailable"]}},
        },
        "then": {"properties": {"geolocation": {"type": "null"}}},
    }

    def validate_accepted(self, value: bool) -> bool:
        if not value:
            raise serializers.ValidationError("Sem o aceite não há autorização.")
        return value

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if data.get("geolocation") and data.get("geolocation_status") in ("denied", "unavailable"):
            raise serializers.ValidationError(
                {"geolocation": "Há uma localização, mas geolocation_status diz que não foi obtida."}
            )
        return data


class PageSerializer(AcceptSerializer):
    """The page's form with what its script collected."""

    terms_unfolded = ListField(
        child=IntegerField(min_value=1, max_value=_MOST_HEADINGS), max_length=_MOST_HEADINGS, required=False
    )


def reported_by_browser(data: dict[str, Any], invalid: Iterable[str] = ()) -> BrowserReport:
    """What the browser reported: validated data of `AcceptSerializer`. `invalid` names the dropped fields."""
    place = data.get("geolocation")
    return BrowserReport(
        geolocation={name: _text(place.get(name)) for name in ("lat", "lng", "accuracy")} if place else None,
        geolocation_status=data.get("geolocation_status"),
        device={key: text for key, text in (data.get("device") or {}).items() if text},
        terms_unfolded=data.get("terms_unfolded"),
        invalid=[*invalid],
    )


def _text(number: Decimal | None) -> str | None:
    return None if number is None else format(number, "f")


def valid_form(form: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The valid fields of the page's form, and the names of invalid ones that the script had collected; `browser` if
    nothing of it could be read. Raises InvalidInput for faults of the form itself: `accepted`, `terms_version`."""
    sent, invalid = dict(form), ["browser"] if form.get("unreadable") else []
    while True:
        try:
            return validated(PageSerializer, sent), invalid
        except InvalidInput as fault:
            names = [detail.field or "" for detail in fault.details]
            if not all(name.startswith(_COLLECTED) for name in names):
                raise
        for name in names:
            block, _, inner = name.partition(".")
            left_out = sent.pop(block, None)
            if block == "device" and inner:  # one text of it
                sent[block] = {key: value for key, value in left_out.items() if key != inner}
        invalid += names
