"""The codes for why there is no offer, no proposal or no answer. One set serves all banks. It may grow: partners treat
an unknown code like `other` (the guide tells them so).

`banks/<bank>.json` maps the bank's sentences and codes, as its manual gives them, to ours (`Bank.reasons`). The
partner guide's table is generated from `MEANINGS`. Tests compare both.
"""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from foundation.formats import sentence


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
    """What a code means, what a partner should do, its usual source, and whether the same call may succeed later.
    `meaning` is also the reason's message if nobody gave a sentence."""

    meaning: str
    advice: str
    source: ReasonSource = ReasonSource.BANK
    retryable: bool = False


_HOLDER, _PARTNER, _SERVICE = ReasonSource.HOLDER, ReasonSource.PARTNER, ReasonSource.SERVICE
MEANINGS: dict[ReasonCode, Meaning] = {
    ReasonCode.NO_MARGIN: Meaning(
        "O titular não tem margem consignável suficiente.", "Tente um valor menor, ou outro mês."
    ),
    ReasonCode.NO_EMPLOYMENT_LINK: Meaning(
        "O banco não encontrou vínculo de emprego ativo.", "Confira o CPF com o titular."
    ),
    ReasonCode.EMPLOYER_NOT_ELIGIBLE: Meaning("O banco não atende este empregador.", "Ofereça outro banco."),
    ReasonCode.WORKER_NOT_ELIGIBLE: Meaning(
        "O vínculo do titular não é elegível, como em experiência ou aviso.", "Ofereça outro banco."
    ),
    ReasonCode.AGE_LIMIT: Meaning(
        "A idade do titular está fora do limite do banco.", "Tente um prazo menor, ou outro banco."
    ),
    ReasonCode.EXISTING_CONTRACT: Meaning("O titular já tem contrato ou proposta neste banco.", "Ofereça outro banco."),
    ReasonCode.CREDIT_POLICY: Meaning("A política de crédito do banco não permite a operação.", "Ofereça outro banco."),
    ReasonCode.RATE_CAPPED: Meaning(
        "O banco baixou ou recusou a taxa por causa de outras propostas ativas do titular.",
        "Mostre ao titular a taxa nova, ou ofereça outro banco.",
    ),
    ReasonCode.DATA_MISMATCH: Meaning(
        "Os dados enviados não conferem ou não bastam ao banco.", "Corrija os dados e chame de novo.", source=_PARTNER
    ),
    ReasonCode.INVALID_ACCOUNT: Meaning(
        "O banco não pode pagar na conta ou chave informada.", "Peça outra conta ao titular e reenvie.", source=_PARTNER
    ),
    ReasonCode.AUTHORIZATION_REFUSED: Meaning(
        "O titular recusou a autorização.", "Só consulte de novo se o titular quiser.", source=_HOLDER
    ),
    ReasonCode.AUTHORIZATION_EXPIRED: Meaning(
        "O titular não autorizou no prazo.", "Consulte de novo: um novo passo é aberto.", source=_HOLDER, retryable=True
    ),
    ReasonCode.SIGNATURE_REFUSED: Meaning(
        "O titular recusou a assinatura do contrato.", "Só envie de novo se o titular quiser.", source=_HOLDER
    ),
    ReasonCode.SIGNATURE_EXPIRED: Meaning(
        "O contrato não foi assinado no prazo.", "Envie de novo a oferta, se o titular quiser.", source=_HOLDER
    ),
    ReasonCode.OFFER_EXPIRED: Meaning("O banco não tem mais a oferta.", "Consulte de novo, ou use `replacement`."),
    ReasonCode.CANCELLED: Meaning("A proposta foi cancelada.", "Nada; a oferta pode ser reenviada.", source=_PARTNER),
    ReasonCode.AVERBATION_REFUSED: Meaning(
        "O desconto em folha não foi averbado.", "Consulte de novo: a margem pode ter mudado."
    ),
    ReasonCode.WITHDRAWN: Meaning(
        "O titular desistiu do contrato no prazo do banco.", "Só envie de novo se o titular quiser.", source=_HOLDER
    ),
    ReasonCode.BANK_CLOSED: Meaning(
        "O banco está fora do horário, em virada de folha ou em janela do operador.",
        "Chame de novo mais tarde, em horas.",
        retryable=True,
    ),
    ReasonCode.TIMEOUT: Meaning(
        "O banco não respondeu a tempo.", "Chame de novo; um envio repetido nunca é feito em dobro.", retryable=True
    ),
    ReasonCode.UNAVAILABLE: Meaning("O banco está fora do ar.", "Chame de novo em instantes.", retryable=True),
    ReasonCode.UNREADABLE: Meaning("O banco respondeu de forma inesperada.", "Avise o operador se persistir."),
    ReasonCode.HELD_BACK: Meaning(
        "O serviço poupou o banco, que falha ou está no seu limite.",
        "Chame de novo em 15 s ou mais.",
        source=_SERVICE,
        retryable=True,
    ),
    ReasonCode.DISABLED: Meaning(
        "O operador desativou o banco, ou o pausou para o parceiro.", "Espere o aviso do operador.", source=_SERVICE
    ),
    ReasonCode.OTHER: Meaning("O banco deu um motivo que não está nesta lista: está em `message`.", "Leia `message`."),
}


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
        """The reason as JSON data."""
        return {"code": self.code, "source": self.source, "message": self.message, "retryable": self.retryable}


def folded(words: str) -> str:
    """A bank's sentence in a form to compare: without case, accents, surrounding spaces and a final full stop."""
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return " ".join(plain.casefold().split()).rstrip(".! ")
