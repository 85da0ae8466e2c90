"""What a partner may do at each bank now: the banks of its contract, with each bank's switch, the pause of this partner
there, and the portfolios. One SQL expression, read with the partner's key, by its id, and by workers.

What closes a bank to everybody for a time stands in providers/maintenance.py, limits in partners/limits.py.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from django.utils import timezone

from foundation import database

#: The SQL condition of a pause, on a row `a` of the contract.
_PAUSED = "coalesce(a.paused_until > now(), false)"


@dataclass(frozen=True)
class AllowedBank:
    """A bank of a partner's contract. If the contract fixes `portfolio`, it is the `originador` of every call;
    otherwise a call may choose one of `portfolios`. `enabled` is False while an operator has disabled the bank, and
    `is_paused` is True while an operator has paused the partner there."""

    name: str
    portfolio: str | None
    enabled: bool
    portfolios: tuple[str, ...] = ()
    is_paused: bool = False

    def portfolio_for(self, requested: str | None) -> str | None:
        """The portfolio for a call that asks for `requested`. None means the bank's default."""
        return self.portfolio or (requested if requested in self.portfolios else None)


def contract_sql(partner: str) -> str:
    """An SQL expression for the contract as JSON, sorted by bank, for `read`. `partner` is one for the id."""
    return f"""coalesce((SELECT json_agg(json_build_object('name', a.provider_id, 'portfolio', nullif(a.portfolio, ''),
        'enabled', b.enabled, 'portfolios', a.portfolios, 'is_paused', {_PAUSED}) ORDER BY a.provider_id)
    FROM partners_allowance a JOIN providers_provider b ON b.name = a.provider_id
    WHERE a.partner_id = {partner}), '[]')::text"""  # noqa: S608 - names of ours


def pauses_sql(partner: str) -> str:
    """An SQL expression for the partner's pauses, a JSON text for `read_pauses`; null if there is none."""
    pause = "json_build_array(a.paused_until, a.pause_reason)"
    rows = f"partners_allowance a WHERE a.partner_id = {partner} AND {_PAUSED}"
    return f"(SELECT json_object_agg(a.provider_id, {pause})::text FROM {rows})"  # noqa: S608 - names of ours


def read_pauses(text: str | None) -> dict[str, str]:
    """The present pauses in the value of `pauses_sql`, in words for operators, by bank."""
    pauses = msgspec.json.decode(text, type=dict[str, tuple[datetime, str]]) if text else {}
    return {bank: pause_in_words(until, reason) for bank, (until, reason) in pauses.items()}


def pause_in_words(until: datetime, reason: str) -> str:
    """A pause as `25/11/2026 18:00: auditoria`."""
    return f"{timezone.localtime(until):%d/%m/%Y %H:%M}: {reason}"


def read(text: str) -> list[AllowedBank]:
    """The contract in the value of `contract_sql`."""
    return msgspec.json.decode(text, type=list[AllowedBank])


def of(partner: UUID) -> list[AllowedBank]:
    """The contract of the partner with this id, sorted by bank. One statement."""
    row = database.fetch_one(f"SELECT {contract_sql('%s')}", [partner])
    return read(row[0]) if row else []
