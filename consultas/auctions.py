"""Auction look-up at the service's own bank, by way of a bank worker."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.db import connection

from consultas import fan_out
from consultas.models import AuctionLookup
from partners.models import Partner
from providers import registry
from providers.errors import ApiError, NotFound, ProviderError, ProviderNotAllowed, ProviderUnavailable
from providers.models import Provider

_ERRORS: dict[str, type[ApiError]] = {error.code: error for error in (NotFound, ProviderUnavailable, ProviderError)}
#: Longer than any real key; what exceeds it can't name an auction.
MAX_KEY_LENGTH = 200


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
    lookup = AuctionLookup.objects.create(partner=partner, key=key, request_id=request_id)
    if not fan_out.ask("consultas.tasks.look_up_auction", str(lookup.pk), settings.BANK_TIMEOUT_S + 2):
        raise ProviderUnavailable
    lookup.refresh_from_db()
    if lookup.record is None:
        raise _ERRORS.get(lookup.error, ProviderUnavailable)()
    return lookup.record


def run(lookup: AuctionLookup) -> None:
    """From a worker: ask the bank, and store the record or the code of the error."""
    adapter = registry.auction_bank()
    provider = Provider.objects.filter(name=adapter.name, enabled=True).first()
    connection.close()
    try:
        if provider is None:
            raise ProviderUnavailable(held_back=True)
        deadline = time.monotonic() + settings.BANK_TIMEOUT_S
        bank = adapter(provider.connection(), deadline=deadline, request_id=lookup.request_id)
        lookup.record = bank.auction_proposal(lookup.key)
    except ApiError as error:
        lookup.error = error.code
    lookup.save(update_fields=["record", "error"])
