"""One call to a proposal's bank, from a worker: with a time limit, and a row for operators."""

import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from foundation.database import outlasts_restart
from foundation.errors import ApiError, NotFound
from proposals.models import BankCall
from providers import registry
from providers.bank import Bank
from providers.errors import ProviderError
from providers.operation import BankClient, client

log = structlog.get_logger(__name__)
T = TypeVar("T")


def adapter(provider: str) -> type[Bank]:
    """The adapter of a proposal's bank. Raises LookupError if the bank left the registry."""
    bank = registry.get(provider)
    if bank is None:
        raise LookupError(provider)
    return bank


def call_bank(row: BankCall, ask: Callable[[BankClient], T], *, seconds: float | None = None, keep: bool = True) -> T:
    """Call `ask` with a client of the bank of the row's proposal, and return its result. The limit is `seconds`, by
    default the bank's own time-out. Outcome and duration are stored in `row`; if `keep` is False, only for a bank that
    does not know the proposal. Raises the ApiError that `ask` raises. Any other exception is a bug of ours and raised
    as ProviderError, because what the bank did is then as unknown as after a time-out."""
    proposal, begun = row.proposal, time.monotonic()
    outcome = ProviderError.code
    try:
        partner = str(proposal.partner_id)
        answer = ask(client(proposal.provider, request_id=row.request_id, partner=partner, seconds=seconds))
        outcome = "ok" if answer is not None else "not_found"
    except ApiError as error:
        outcome = error.code
        log.warning("bank_call_failed", bank=proposal.provider, operation=row.operation, code=error.code)
        raise
    except Exception:
        log.exception("bank_call_broke", bank=proposal.provider, operation=row.operation)
        raise ProviderError from None
    finally:
        if keep or outcome == NotFound.code:
            row.outcome, row.ms = outcome, round((time.monotonic() - begun) * 1000)
            _store(row)
    return answer


@outlasts_restart
def _store(row: BankCall) -> None:
    """Store outcome and duration of a call, whether its row exists or not. A repeat after a lost connection may find
    the row of the first attempt."""
    BankCall.objects.bulk_create([row], update_conflicts=True, unique_fields=["id"], update_fields=["outcome", "ms"])
