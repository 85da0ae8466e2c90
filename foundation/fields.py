"""Strict serializer fields of the partner contract: a value of the wrong JSON type is an error and is not converted.

No message repeats the value, because it may be personal data or text that cannot be encoded.
"""

import datetime
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework import serializers
from rest_framework.fields import empty

TEXT_LENGTH = 120
USER_AGENT_LENGTH = 512

_SURROGATE = re.compile("[\ud800-\udfff]")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
#: The options of a field that may be missing or null.
OPTIONAL: dict[str, Any] = {"required": False, "allow_null": True}
#: The earliest date that a field accepts.
EARLIEST = datetime.date(1900, 1, 1)
_POSTGRES_INTEGER = 2**31 - 1


class _Messages:
    """Messages that every field shares, and the field's part of the OpenAPI document."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "required": "Campo obrigatório.",
        "null": "O campo não pode ser nulo.",
        "min_value": "Deve ser no mínimo {min_value}.",
        "max_value": "Deve ser no máximo {max_value}.",
    }

    keywords: ClassVar[dict[str, Any]] = {}

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema keywords that Django REST framework's class does not provide: by default the class's `keywords`.
        A `description` is appended to the field's own."""
        return dict(self.keywords)


class TextField(_Messages, serializers.CharField):
    """Trimmed text, by default at most 120 characters, without NUL and lone surrogates, which cannot be stored."""

    default_error_messages = {
        "invalid": "Deve ser um texto.",
        "blank": "O campo não pode ficar vazio.",
        "max_length": "Deve ter no máximo {max_length} caracteres.",
        "min_length": "Deve ter no mínimo {min_length} caracteres.",
        "nul": "O texto contém o caractere nulo.",
        "surrogate": "O texto contém caracteres Unicode inválidos.",
    }

    def __init__(self, *, max_length: int | None = TEXT_LENGTH, **kwargs: Any) -> None:
        super().__init__(max_length=max_length, **kwargs)

    def json_schema(self) -> dict[str, Any]:
        text = r"[^\u0000]*"
        return (
            {"pattern": f"^{text}$"} if self.allow_blank else {"minLength": 1, "pattern": rf"^{text}[^\u0000\s]{text}$"}
        )

    def run_validation(self, data: Any = empty) -> Any:
        # CharField would call str() on any value, which fails for a deeply nested one.
        if data is not empty and data is not None and not isinstance(data, str):
            self.fail("invalid")
        return super().run_validation(data)

    def to_internal_value(self, data: str) -> Any:
        if "\0" in data:
            self.fail("nul")
        if _SURROGATE.search(data):
            self.fail("surrogate")
        return data.strip() if self.trim_whitespace else data


class DateField(_Messages, serializers.DateField):
    """A date as `YYYY-MM-DD`. With `not_future`, a date from 1900 to today (in Brasília's time)."""

    default_error_messages = {
        "invalid": "Informe uma data real no formato AAAA-MM-DD.",
        "future": "A data não pode estar no futuro.",
        "early": "A data não pode ser anterior a 1900.",
    }

    def __init__(self, *, not_future: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.not_future = not_future

    def to_internal_value(self, value: Any) -> datetime.date:
        if not isinstance(value, str) or not _ISO_DATE.fullmatch(value):
            self.fail("invalid")
        try:
            date = datetime.date.fromisoformat(value)
        except ValueError:
            self.fail("invalid")
        if self.not_future and date > timezone.localdate():
            self.fail("future")
        if self.not_future and date < EARLIEST:
            self.fail("early")
        return date


class BooleanField(_Messages, serializers.BooleanField):
    """Only `true` or `false`."""

    default_error_messages = {"invalid": "Deve ser true ou false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class IntegerField(_Messages, serializers.IntegerField):
    """An integer without fraction or exponent. By default within 32 bits."""

    default_error_messages = {
        "invalid": "Deve ser um número inteiro.",
    }

    def __init__(
        self, *, min_value: int = -_POSTGRES_INTEGER - 1, max_value: int = _POSTGRES_INTEGER, **kwargs: Any
    ) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


def _as_decimal(data: Any) -> Decimal | None:
    """A JSON number as `parse_json_object` returns it. None for anything else, booleans included."""
    if isinstance(data, bool) or not isinstance(data, (int, Decimal)):
        return None
    return Decimal(data)


class DecimalField(_Messages, serializers.DecimalField):
    """A number with at most `max_digits` digits, `decimal_places` of them after the point. The defaults fit reais."""

    default_error_messages = {
        "invalid": "Deve ser um número.",
        "max_decimal_places": "Deve ter no máximo {max_decimal_places} casas decimais.",
        "max_whole_digits": "Deve ter no máximo {max_whole_digits} dígitos antes da vírgula.",
    }

    max_digits: int
    decimal_places: int

    def __init__(self, *, max_digits: int = 12, decimal_places: int = 2, **kwargs: Any) -> None:
        # DRF would write the limit as 0.01; Portuguese readers expect 0,01.
        messages: dict[str, Any] = {
            name: _Messages.default_error_messages[name].format(**{name: f"{kwargs[name]}".replace(".", ",")})
            for name in ("min_value", "max_value")
            if name in kwargs
        }
        super().__init__(max_digits, decimal_places, coerce_to_string=False, error_messages=messages, **kwargs)

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        # DRF's own method takes an empty text for null if null is allowed.
        return super(serializers.DecimalField, self).validate_empty_values(data)

    def json_schema(self) -> dict[str, Any]:
        # Described in words: `multipleOf: 0.01` would refuse 19.99, because validators divide binary floats.
        return {"description": f"No máximo {self.decimal_places} casas decimais."}

    def to_internal_value(self, data: Any) -> Decimal:
        value = _as_decimal(data)
        if value is None:
            self.fail("invalid")
        # Check the size first: arithmetic fails on 1e9999999.
        whole = self.max_digits - self.decimal_places
        if value.copy_abs() >= 10**whole:
            self.fail("max_whole_digits", max_whole_digits=whole)
        _, digits, exponent = value.as_tuple()
        surplus = -int(exponent) - self.decimal_places
        if surplus > 0 and any(digits[-surplus:]):
            self.fail("max_decimal_places", max_decimal_places=self.decimal_places)
        return value.quantize(Decimal(1).scaleb(-self.decimal_places)) + 0  # + 0 turns -0 into 0


class NumberField(_Messages, serializers.FloatField):
    """A measured number, such as a latitude, as a Decimal rounded to 8 decimals (about a millimetre) without trailing
    zeros. Equal numbers therefore have equal texts, which the detection of repeated requests needs."""

    default_error_messages = {
        "invalid": "Deve ser um número.",
    }

    min_value: int
    max_value: int

    def __init__(self, *, min_value: int, max_value: int, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)

    def to_internal_value(self, data: Any) -> Decimal:  # type: ignore[override]  # Decimal, where DRF returns a float
        value = _as_decimal(data)
        if value is None:
            self.fail("invalid")
        if value < self.min_value or value > self.max_value:
            return value  # the validators report which limit is broken
        _, _, exponent = value.as_tuple()
        rounded = round(value, 8) if int(exponent) < -8 else value
        return Decimal(f"{rounded.normalize():f}") + 0  # + 0 turns -0 into 0


class ChoiceField(_Messages, serializers.ChoiceField):
    """One of a set of words or integers, compared with their type."""

    default_error_messages = {"invalid_choice": "Valor inválido. Use um destes: {allowed}."}

    def __init__(self, choices: Iterable[str | int], **kwargs: Any) -> None:
        super().__init__(list(choices), **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        if type(data) not in (str, int) or not any(type(c) is type(data) and c == data for c in self.choices):
            self.fail("invalid_choice", allowed=", ".join(map(str, self.choices)))
        return data


class ListField(_Messages, serializers.ListField):
    """A list. A fault of an item is named by its index (`providers.0`)."""

    default_error_messages = {
        "not_a_list": "Deve ser uma lista.",
        "empty": "A lista não pode ficar vazia.",
        "min_length": "Deve ter no mínimo {min_length} itens.",
        "max_length": "Deve ter no máximo {max_length} itens.",
    }

    def to_internal_value(self, data: Any) -> list[Any]:
        """The validated items. A list that is too long is refused before any item is validated."""
        if self.max_length is not None and isinstance(data, list) and len(data) > self.max_length:
            self.fail("max_length", max_length=self.max_length)
        return super().to_internal_value(data)


class BlockList(_Messages, serializers.ListSerializer):
    """The class of `Block(many=True)`. `allow_null` concerns the list alone, although DRF passes it on."""

    default_error_messages = ListField.default_error_messages

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["child"].allow_null = False
        super().__init__(*args, **kwargs)


class Block(_Messages, serializers.Serializer):
    """Base class of the contract's objects: the body and the blocks in it. Unknown fields are ignored.

    One instance serves many requests (foundation/validation.py), so validation must not store anything in it. If a
    block's fields depend on the body, `variant_for` names the variant and `get_fields` reads it as `self.variant`.
    """

    default_error_messages = {"invalid": "Deve ser um objeto."}

    class Meta:
        list_serializer_class = BlockList

    @classmethod
    def variant_for(cls, data: Mapping[str, Any]) -> str:
        return ""

    @property
    def variant(self) -> str:
        """The variant that this instance validates. Empty if it stands for all, as in the API's schema."""
        variant: str = self.context.get("variant", "")
        return variant
