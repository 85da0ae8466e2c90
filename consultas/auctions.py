"""Auction look-up at the service's own bank, by way of a bank worker."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import gevent
from django.conf import settings
from django.db import connection
from django.utils import timezone

from consultas.models import AuctionLookup
from foundation import workers
from foundation.errors import ApiError, NotFound
from partners.models import Partner
from providers import registry
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable
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
    try:
        own = Provider.objects.values_list("timeout_s", flat=True).get(name=bank.name)
        patience_s = (own or settings.BANK_TIMEOUT_S) + 2
        if not workers.ask("consultas.tasks.look_up_auction", str(lookup.pk), patience_s):
            raise ProviderUnavailable
        lookup.refresh_from_db()
    finally:
        # The row only carries key and record between two processes; nobody needs the holder's data later.
        AuctionLookup.objects.filter(pk=lookup.pk).delete()
    if lookup.record is None:
        raise _ERRORS.get(lookup.error, ProviderUnavailable)()
    return lookup.record


def run(lookup: AuctionLookup) -> None:
    """From a worker: ask the bank, and store the record or the code of the error."""
    adapter = registry.auction_bank()
    provider = Provider.objects.filter(name=adapter.name, enabled=True).first()
    connection.close()
    record, error_code = None, ""
    try:
        if provider is None:
            raise ProviderUnavailable(held_back=True)
        account = provider.connection()
        deadline = time.monotonic() + account.timeout_s
        bank = adapter(account, deadline=deadline, request_id=lookup.request_id)
        # The timer is the backstop for a bank that drips its headers: no socket time-out ends that.
        with gevent.Timeout(account.timeout_s + 0.5, ProviderUnavailable()):
            record = bank.auction_proposal(lookup.key)
    except ApiError as error:
        error_code = error.code
    AuctionLookup.objects.filter(pk=lookup.pk).update(record=record, error=error_code)


def purge() -> None:
    """Delete look-ups whose waiting request died before it could."""
    AuctionLookup.objects.filter(created_at__lt=timezone.now() - timedelta(minutes=10)).delete()
