"""Fields for text of a fixed format: CPF, CNPJ, phone, e-mail, IP address and similar."""

import datetime
import re
import uuid
from typing import Any

from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.validators import EmailValidator

from foundation.fields import EARLIEST, TextField
from foundation.formats import cnpj_is_valid, cpf_is_valid, is_tax_number, local_phone, to_ip, to_uuid, unmask_cnpj

EMAIL_LENGTH = 254
# fmt: off
STATES = (
    "AC", "AL", "AM", "AP", "BA", "CE", "DF", "ES", "GO", "MA", "MG", "MS", "MT", "PA",
    "PB", "PE", "PI", "PR", "RJ", "RN", "RO", "RR", "RS", "SC", "SE", "SP", "TO",
)
# fmt: on

_REFERENCE = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_ISO_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})", re.ASCII | re.I)
_CEP = re.compile(r"\d{5}[-.\s]?\d{3}|\d{2}\.\d{3}-\d{3}", re.ASCII)
_MASK = re.compile(r"[.\-/\s]")
_valid_email = EmailValidator(allowlist=[])


class FormatField(TextField):
    """Text of a fixed format, with one error message. `parse` returns the normalized value, or None for invalid text.

    `keywords` describe the format in JSON Schema, as far as that is possible.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=None, trim_whitespace=False, **kwargs)

    def json_schema(self) -> dict[str, Any]:
        return dict(self.keywords)

    def to_internal_value(self, data: str) -> Any:
        value = self.parse(super().to_internal_value(data))
        if value is None:
            self.fail("form")
        return value

    def parse(self, text: str) -> Any:
        raise NotImplementedError


class CPFField(FormatField):
    """11 digits with valid check digits, not all equal. A mask is refused."""

    default_error_messages = {"form": "Informe um CPF válido: 11 dígitos, sem máscara."}
    keywords = {"minLength": 11, "maxLength": 11, "pattern": "^[0-9]{11}$"}

    def parse(self, text: str) -> str | None:
        return text if cpf_is_valid(text) else None


class CNPJField(FormatField):
    """14 characters: 12 of [0-9A-Z] and 2 check digits (alphanumeric since 2026). Masks are removed."""

    default_error_messages = {"form": "Informe um CNPJ válido: 14 caracteres."}
    keywords = {"minLength": 14, "pattern": r"^([./\-\s]*[0-9A-Za-z]){12}([./\-\s]*[0-9]){2}[./\-\s]*$"}

    def parse(self, text: str) -> str | None:
        cnpj = unmask_cnpj(text)
        return cnpj if cnpj_is_valid(cnpj) else None


class PhoneField(FormatField):
    """Area code and number, 10-11 digits. A leading country code 55 is removed."""

    default_error_messages = {"form": "Informe DDD e número: 10 ou 11 dígitos, sem máscara."}
    keywords = {"minLength": 10, "maxLength": 13, "pattern": "^([0-9]{10,11}|55[0-9]{10,11})$"}

    def parse(self, text: str) -> str | None:
        return local_phone(text)


class EmailField(FormatField):
    """An e-mail address of at most 254 characters that banks accept: with a full domain name (Django also accepts
    `localhost` and a bracketed IP address) and without a quoted local part."""

    default_error_messages = {"form": "Informe um e-mail válido, de no máximo 254 caracteres."}
    keywords = {"format": "email", "minLength": 6, "maxLength": EMAIL_LENGTH}

    def parse(self, text: str) -> str | None:
        try:
            _valid_email(text)
        except DjangoValidationError:
            return None
        return text if len(text) <= EMAIL_LENGTH and not set(text) & set('"[') else None


class IPField(FormatField):
    """An IPv4 or IPv6 address in canonical text. An IPv4-mapped address becomes IPv4. Zone ids are refused."""

    default_error_messages = {"form": "Informe um endereço IPv4 ou IPv6 válido."}
    keywords = {"minLength": 2, "maxLength": 45, "pattern": "^[0-9A-Fa-f:.]+$"}

    def parse(self, text: str) -> str | None:
        address = to_ip(text)
        return None if address is None else str(address)


class UFField(FormatField):
    """One of Brazil's 27 states, upper case."""

    default_error_messages = {"form": "Informe a sigla de uma UF do Brasil, como SP."}
    keywords = {"enum": list(STATES)}

    def parse(self, text: str) -> str | None:
        return text if text in STATES else None


class CEPField(FormatField):
    """A postal code: 8 digits. A mask is removed."""

    default_error_messages = {"form": "Informe um CEP de 8 dígitos."}
    keywords = {"minLength": 8, "maxLength": 10, "pattern": r"^([0-9]{5}[-.\s]?[0-9]{3}|[0-9]{2}\.[0-9]{3}-[0-9]{3})$"}

    def parse(self, text: str) -> str | None:
        return _MASK.sub("", text) if _CEP.fullmatch(text) else None


class DigitsField(FormatField):
    """Digits, such as a branch or account number. Masks (`.`, `-`, `/`, blanks) are removed."""

    default_error_messages = {"form": "Informe de 1 a {longest} dígitos."}

    def __init__(self, *, longest: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.longest = longest
        self.error_messages["form"] = self.error_messages["form"].format(longest=longest)

    def json_schema(self) -> dict[str, Any]:
        further = f"([./\\-\\s]*[0-9]){{0,{self.longest - 1}}}"
        return {"minLength": 1, "pattern": f"^[./\\-\\s]*[0-9]{further}[./\\-\\s]*$"}

    def parse(self, text: str) -> str | None:
        digits = _MASK.sub("", text)
        return digits if digits.isascii() and digits.isdigit() and len(digits) <= self.longest else None


class UUIDField(FormatField):
    """A UUID of 36 characters with hyphens. The value is a `uuid.UUID`."""

    default_error_messages = {"form": "Informe um UUID válido."}
    keywords = {"format": "uuid", "minLength": 36, "maxLength": 36}

    def parse(self, text: str) -> uuid.UUID | None:
        return to_uuid(text)


class ReferenceField(FormatField):
    """A caller's own identifier: 1 to 64 of `A-Z a-z 0-9 . _ : -`. A valid CPF or CNPJ is refused, also with a mask,
    because the value is stored in the clear."""

    keywords = {"minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9._:-]+$"}
    default_error_messages = {"form": "Informe de 1 a 64 de A-Z, a-z, 0-9, “.”, “_”, “:” e “-”, sem CPF ou CNPJ."}

    def parse(self, text: str) -> str | None:
        return text if _REFERENCE.fullmatch(text) and not is_tax_number(text) else None


class MomentField(FormatField):
    """A time as RFC 3339, not before 1900. The value is an aware `datetime` in UTC, in microseconds."""

    keywords = {"minLength": 17, "maxLength": 35, "format": "date-time"}
    default_error_messages = {"form": "Informe data e hora com fuso, como 2026-01-31T12:00:00Z."}

    def parse(self, text: str) -> datetime.datetime | None:
        if not _ISO_MOMENT.fullmatch(text):
            return None
        try:
            moment = datetime.datetime.fromisoformat(text.upper()).astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            return None
        return moment if moment.date() >= EARLIEST else None
