"""Pure functions for the market's formats: CPF, CNPJ, phone, CEP, PIX keys, money. No I/O, no Django."""

import ipaddress
import re
import unicodedata
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

from validate_docbr import CNPJ, CPF

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_CPF = CPF()
_CNPJ = CNPJ()
CENT = Decimal("0.01")
#: The maximum number of names in one line.
LISTED = 5
#: A percentage of fewer cases than these says nothing.
PERCENT_BASE = 20
_NOT_DIGIT = re.compile(r"\D", re.ASCII)
_CNPJ_SHAPE = re.compile(r"[0-9A-Z]{12}[0-9]{2}", re.ASCII)
_CNPJ_MASKED = re.compile(r"\w{2}X?\w{3}X?\w{3}X?\w{4}X?\w{2}".replace("X", r"[._:/\-\s]"), re.ASCII)
#: The time zone of banks that write local times. Brazil has had no daylight saving time since 2019.
BRASILIA = timezone(timedelta(hours=-3))
_TAG = re.compile(r"<[/!a-zA-Z][^>]*>")
#: The maximum length of a bank's sentence that is passed on.
SENTENCE_LENGTH = 300
_SECONDS = "%Y-%m-%dT%H:%M:%SZ"
_REAIS = re.compile(r"-?(?:\d{1,3}(?:\.\d{3})*|\d+),\d{2}", re.ASCII)

# What must never reach a log line. Our own code does not log it, but an exception's text or a library's message might
# quote it: CPF (bare or masked), e-mail, phone (10-13 digits), our keys and secrets. A key's visible prefix, which ends
# with an ellipsis, is no secret.
_NUMBER = r"(?<![\w-])(?:\d{3}\.\d{3}\.\d{3}-\d{2}|\+?\d{10,14})(?![\w-])"
_EMAIL = r"[\w.+-]+@[\w-]+\.[\w.-]+"
_OURS = r"cpk_(?:live|test)_(?![\w-]{6}…)[\w-]+|whsec_[\w+/=-]+|(?<=Bearer )[\w.~+/-]+=*"
_PERSONAL = re.compile(f"{_NUMBER}|{_EMAIL}|{_OURS}")
#: The same for text without "@", where the search for e-mail addresses would take three quarters of the time.
_PERSONAL_WITHOUT_EMAIL = re.compile(f"{_NUMBER}|{_OURS}")


def to_ip(text: str) -> IPAddress | None:
    """The address that `text` is. An IPv4-mapped address becomes IPv4. None for a zone id and for any other text."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return address
    return None if address.scope_id is not None else address.ipv4_mapped or address


def without_personal_data(text: str) -> str:
    """`text` with `[oculto]` for what looks like personal data or a secret. People's names are not recognized."""
    return (_PERSONAL if "@" in text else _PERSONAL_WITHOUT_EMAIL).sub("[oculto]", text)


def unaccented(text: str) -> str:
    """`text` in upper case, without accents, with single spaces."""
    bare = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return " ".join(bare.upper().split())


def only_digits(text: str) -> str:
    """The ASCII digits of `text`."""
    return _NOT_DIGIT.sub("", text)


def cpf_is_valid(cpf: str) -> bool:
    """True if `cpf` is 11 digits with valid check digits, not all equal. A mask is not accepted."""
    return len(cpf) == 11 and cpf.isascii() and cpf.isdigit() and bool(_CPF.validate(cpf))


def cnpj_is_valid(cnpj: str) -> bool:
    """True if `cnpj` is 12 of [0-9A-Z] and 2 valid check digits (alphanumeric since 2026). A mask is not accepted."""
    return bool(_CNPJ_SHAPE.fullmatch(cnpj)) and bool(_CNPJ.validate(cnpj))


def unmask_cnpj(text: str) -> str:
    """`text` without the CNPJ's mask, in upper case. The result is not validated."""
    return re.sub(r"[./\-\s]", "", text).upper()


def is_tax_number(text: str) -> bool:
    """True if `text`, without the characters of a mask, is a valid CPF or CNPJ. A CNPJ has letters, too, so its mask
    must be in place: `loja-` and the seconds since 1970 would be one in a hundred times."""
    bare = re.sub(r"[._:/\-\s]", "", text)
    return cpf_is_valid(bare) or (bool(_CNPJ_MASKED.fullmatch(text)) and cnpj_is_valid(bare.upper()))


def mask_cpf(cpf: str) -> str:
    """`12345678901` as `***.456.789-**`, which lists and pages may show."""
    return f"***.{cpf[3:6]}.{cpf[6:9]}-**" if len(cpf) == 11 else "***"


def mask_phone(phone: str) -> str:
    """`11987654321` as `(11) *****-4321`."""
    return f"({phone[:2]}) *****-{phone[-4:]}" if len(phone) in (10, 11) else "***"


def mask_account(number: str) -> str:
    """The last two digits of an account number after four asterisks. Only asterisks for three digits or fewer."""
    return f"****{number[-2:]}" if len(number) > 3 else "****"


def local_phone(text: str) -> str | None:
    """A phone in the contract's form: 10-11 digits unchanged (also if they begin with area code 55); 12-13 digits
    without the leading 55. None for anything else."""
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) in (10, 11):
        return text
    if len(text) in (12, 13) and text.startswith("55"):
        return text[2:]
    return None


def is_one_word(name: str) -> bool:
    """True if a person's name is a single word. Banks refuse a father's name of one word, so it is omitted."""
    return len(name.split()) < 2


def to_uuid(text: str) -> uuid.UUID | None:
    """The UUID that `text` is, of 36 characters with hyphens. None for any other text."""
    try:
        return uuid.UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def money(value: Decimal) -> Decimal:
    """`value` in reais, rounded half up to cents."""
    return value.quantize(CENT, ROUND_HALF_UP)


def to_cents(value: Decimal) -> int:
    """Reais as whole cents."""
    return int(money(value) * 100)


def from_cents(cents: int) -> Decimal:
    """Whole cents as reais."""
    return (Decimal(cents) / 100).quantize(CENT)


def to_reais_text(value: Decimal) -> str:
    """`1234.5` as `1.234,50`."""
    return f"{money(value):,.2f}".translate(str.maketrans(",.", ".,"))


def from_reais_text(text: str) -> Decimal:
    """`1.234,56` or `-1,50` (a leading `R$` allowed) as Decimal. Raises ValueError."""
    bare = text.removeprefix("R$").strip()
    if not _REAIS.fullmatch(bare):
        raise ValueError("not an amount in Brazilian notation")
    return Decimal(bare.replace(".", "").replace(",", "."))


def to_decimal(text: str) -> Decimal:
    """A plain decimal in text (`1234.56`). Raises ValueError, also for NaN and infinity."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError("not a decimal") from None
    if not value.is_finite():
        raise ValueError("not a finite decimal")
    return value


def counted(number: int, one: str, many: str, none: str) -> str:
    """How many of something, in Portuguese: `none` as it is for 0, else `1 CPF` or `1.200 CPFs`."""
    return f"{number:,}".replace(",", ".") + f" {one if number == 1 else many}" if number else none


def listed(names: Sequence[str], total: int) -> str:
    """The first LISTED of `names`, and how many more of `total` there are: `Alfa, Beta e mais 3`."""
    rest = total - len(names[:LISTED])
    return ", ".join(names[:LISTED]) + (f" e mais {rest}" if rest else "")


def share_of(part: int | Decimal, whole: int | Decimal) -> Decimal | None:
    """`part` as a percentage of `whole`. None if `whole` is below PERCENT_BASE."""
    return Decimal(part) * 100 / Decimal(whole) if whole >= PERCENT_BASE else None


def sentence(text: str) -> str:
    """A bank's sentence as partners may read it: one line of plain text, without markup and control characters, at most
    SENTENCE_LENGTH characters."""
    readable = "".join(each if each.isprintable() else " " for each in _TAG.sub(" ", text))
    line = " ".join(readable.split())
    return line if len(line) <= SENTENCE_LENGTH else line[: SENTENCE_LENGTH - 1].rstrip() + "…"


def iso_utc(moment: datetime) -> str:
    """An aware time as the contract writes it: `2026-01-31T12:00:00.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_utc_seconds(moment: datetime) -> str:
    """An aware time in whole seconds of UTC: `2026-01-31T12:00:00Z`."""
    return moment.astimezone(UTC).strftime(_SECONDS)


def from_iso_utc(text: str) -> datetime:
    """The aware time of `2026-01-31T12:00:00Z`. Raises ValueError for any other form."""
    return datetime.strptime(text, _SECONDS).replace(tzinfo=UTC)


def to_br_date(day: date) -> str:
    """A date as `31/01/2026`."""
    return f"{day.day:02}/{day.month:02}/{day.year:04}"


@lru_cache(maxsize=1024)  # many offers and holders have the same dates
def from_br_date(text: str) -> date:
    """`31/01/2026` as a date. Raises ValueError."""
    return datetime.strptime(text, "%d/%m/%Y").replace(tzinfo=BRASILIA).date()


def from_br_moment(text: str) -> datetime:
    """`31/01/2026 09:00:00`, Brasília time, as an aware time in UTC. Raises ValueError."""
    return datetime.strptime(text, "%d/%m/%Y %H:%M:%S").replace(tzinfo=BRASILIA).astimezone(UTC)


def to_br_time(moment: datetime) -> tuple[str, str]:
    """An aware time as Brasília's date and time of day: (`31/01/2026`, `09:00:00`)."""
    local = moment.astimezone(BRASILIA)
    return to_br_date(local), f"{local:%H:%M:%S}"
