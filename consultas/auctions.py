"""Auction look-up at the service's own bank, by way of a bank worker. Nothing of it is stored."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

import gevent
import msgspec
from django.conf import settings
from django.db import connection

from foundation import workers
from foundation.encryption import decrypt, encrypt
from foundation.errors import ApiError, NotFound
from partners.models import Partner
from providers import registry
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable
from providers.models import Provider

_ERRORS: dict[str, type[ApiError]] = {error.code: error for error in (NotFound, ProviderUnavailable, ProviderError)}
#: Longer than any real key; what exceeds it can't name an auction.
MAX_KEY_LENGTH = 200


@dataclass(frozen=True)
class Outcome:
    """What a worker answers to a look-up: the record, or the code of the error."""

    record: dict[str, Any] | None = None
    error: str = ""


def look_up(partner: Partner, key: str, request_id: str) -> dict[str, Any]:
    """The auction's record, with the institution's own fields passed through.

    Raises ProviderNotAllowed without the bank in the contract, NotFound for an unknown key and
    ProviderUnavailable or ProviderError for a failure of the bank. Creates nothing at the bank.
    """
    bank = registry.auction_bank()
    if bank.name not in {allowed.name for allowed in partner.allowed_banks()}:
        raise ProviderNotAllowed
    if len(key) > MAX_KEY_LENGTH or "\0" in key:
        raise NotFound
    own = Provider.objects.values_list("timeout_s", flat=True).get(name=bank.name)
    patience_s = (own or settings.BANK_TIMEOUT_S) + 2
    # The key is a capability: whoever reads the broker must not learn it.
    answer = workers.ask(
        "consultas.tasks.look_up_auction", f"auction-{uuid.uuid4().hex}", patience_s, encrypt(key), request_id
    )
    if answer is None:
        raise ProviderUnavailable
    outcome = msgspec.json.decode(answer, type=Outcome)
    if outcome.record is None:
        raise _ERRORS.get(outcome.error, ProviderUnavailable)()
    return outcome.record


def run(encrypted_key: str, request_id: str) -> Outcome:
    """From a worker: ask the bank for the record of the key."""
    adapter = registry.auction_bank()
    provider = Provider.objects.filter(name=adapter.name, enabled=True).first()
    connection.close()
    try:
        if provider is None:
            raise ProviderUnavailable(held_back=True)
        account = provider.connection()
        deadline = time.monotonic() + account.timeout_s
        bank = adapter(account, deadline=deadline, request_id=request_id)
        # The timer is the backstop for a bank that drips its headers: no socket time-out ends that.
        with gevent.Timeout(account.timeout_s + 0.5, ProviderUnavailable()):
            return Outcome(record=bank.auction_proposal(decrypt(encrypted_key)))
    except ApiError as error:
        return Outcome(error=error.code)
