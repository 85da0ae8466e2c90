"""The codes for why there is no offer, no proposal or no answer. One set serves all banks. It may grow: partners treat
an unknown code like `other` (the guide tells them so).

`banks/<bank>.json` maps the bank's sentences and codes, as its manual gives them, to ours (`Bank.reasons`). The
partner guide's table is generated from `MEANINGS`. Tests compare both.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import msgspec

from foundation.formats import sentence, unaccented


class ReasonCode(StrEnum):
    """The codes, as the contract spells them."""

    NO_MARGIN = "no_margin"
    NO_EMPLOYMENT_LINK = "no_employment_link"
    EMPLOYER_NOT_ELIGIBLE = "employer_not_eligible"
    WORKER_NOT_ELIGIBLE = "worker_not_eligible"
    AGE_LIMIT = "age_limit"
    EXISTING_CONTRACT = "existing_contract"
    CREDIT_POLICY = "credit_policy"
    RATE_CAPPED = "rate_capped"
    DATA_MISMATCH = "data_mismatch"
    INVALID_ACCOUNT = "invalid_account"
    AUTHORIZATION_REFUSED = "authorization_refused"
    AUTHORIZATION_EXPIRED = "authorization_expired"
    SIGNATURE_REFUSED = "signature_refused"
    SIGNATURE_EXPIRED = "signature_expired"
    OFFER_EXPIRED = "offer_expired"
    CANCELLED = "cancelled"
    AVERBATION_REFUSED = "averbation_refused"
    WITHDRAWN = "withdrawn"
    BANK_CLOSED = "bank_closed"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    UNREADABLE = "unreadable"
    HELD_BACK = "held_back"
    DISABLED = "disabled"
    OTHER = "other"


class OperatorCode(StrEnum):
    """The codes that only operators read. The partner reads a more general one."""

    LOGIN_REFUSED = "login_refused"
    KEPT_OUT = "kept_out"
    PAUSED = "paused"
    WINDOW = "window"
    FULL = "full"
    LATE = "late"


class ReasonSource(StrEnum):
    """Who gave the reason, as the contract spells it."""

    BANK = "bank"
    HOLDER = "holder"
    PARTNER = "partner"
    SERVICE = "service"


@dataclass(frozen=True)
class Meaning:
    """What a code means, what a partner should do, its usual source, and whether the same call may succeed later, as
    `reasons.json` tells for each. `meaning` is also the reason's message if nobody gave a sentence."""

    meaning: str
    advice: str
    source: ReasonSource = ReasonSource.BANK
    retryable: bool = False


_FILE = Path(__file__).with_name("reasons.json")
MEANINGS = msgspec.json.decode(_FILE.read_bytes(), type=dict[ReasonCode, Meaning])
#: What these codes mean, in words for operators.
OPERATOR_MEANINGS: dict[str, str] = {
    OperatorCode.LOGIN_REFUSED: "O banco recusou as nossas credenciais.",
    OperatorCode.KEPT_OUT: "O serviço não chamou o banco, por ordem do operador (Chamar o banco: nunca).",
    OperatorCode.PAUSED: "O serviço não chamou o banco: este parceiro estava em pausa nele.",
    OperatorCode.WINDOW: "O serviço não chamou o banco, por uma janela do operador.",
    OperatorCode.FULL: "O serviço não chamou o banco (limite de chamadas simultâneas).",
    OperatorCode.LATE: "O banco teve menos do que o seu prazo: a consulta esperou por um processo nosso.",
    ReasonCode.HELD_BACK: "O serviço não chamou o banco (falhas recentes).",
}
#: The codes of answers for which the bank was not called.
NOT_CALLED = (
    OperatorCode.KEPT_OUT,
    OperatorCode.PAUSED,
    OperatorCode.WINDOW,
    OperatorCode.FULL,
    ReasonCode.HELD_BACK,
    ReasonCode.DISABLED,
)


@dataclass(frozen=True)
class Reason:
    """One reason. `message` is Portuguese, for people. `retryable` is True if the same call may succeed later."""

    code: ReasonCode
    source: ReasonSource
    message: str
    retryable: bool

    @classmethod
    def of(cls, code: ReasonCode, message: str | None = None, source: ReasonSource | None = None) -> Self:
        """The reason with that code. Message and source default to the code's own (`MEANINGS`)."""
        meaning = MEANINGS[code]
        return cls(code, source or meaning.source, sentence(message or "") or meaning.meaning, meaning.retryable)

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "source": self.source, "message": self.message, "retryable": self.retryable}


def folded(words: str) -> str:
    """A bank's sentence in a form to compare: without case, accents, surrounding spaces and a final full stop."""
    return unaccented(words).casefold().rstrip(".! ")
