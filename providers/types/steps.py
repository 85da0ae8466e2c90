"""An external step that a holder owes a bank before the bank makes offers."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ActionType(StrEnum):
    """The step that the holder still owes, as the contract spells it."""

    SIGNATURE = "signature"
    BIOMETRICS = "biometria"
    PAYROLL_DATA = "dataprev"
    CHAT_LINK = "whatsapp_link"
    FORMALIZATION = "formalization"


class StepOutcome(StrEnum):
    """The state of an external step, as `check` found it."""

    OPEN = "open"
    APPROVED = "approved"
    REFUSED = "refused"
    EXPIRED = "expired"


@dataclass(frozen=True)
class BankAction:
    """An external step that the holder owes. `reference` is the bank's id of the step, which `check` takes.
    `expires_at` is when the bank abandons the step, if the bank says so."""

    type: ActionType
    url: str | None
    detail: str
    reference: str
    expires_at: datetime | None = None
