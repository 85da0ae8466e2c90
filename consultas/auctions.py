"""Auction look-up at the service's own bank, through a bank worker. The result is not stored."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import msgspec
from django.conf import settings

from foundation import workers
from foundation.encryption import decrypt, encrypt
from foundation.errors import ApiError, NotFound
from foundation.sealing import place
from partners.models import Partner
from providers import operation, registry
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable
from providers.models import Provider

_ERRORS: dict[str, type[ApiError]] = {error.code: error for error in (NotFound, ProviderUnavailable, ProviderError)}
#: Longer keys do not exist.
MAX_KEY_LENGTH = 200


@dataclass(frozen=True)
class Outcome:
    """A worker's answer to a look-up: the record, or the code of the error."""

    record: dict[str, Any] | None = None
    error: str = ""


def look_up(partner: Partner, key: str, request_id: str) -> dict[str, Any]:
    """The auction's record, including the institution's own fields.

    Raises ProviderNotAllowed if the contract lacks the bank, NotFound for an unknown key, and ProviderUnavailable or
    ProviderError for a failure of the bank. Creates nothing at the bank.
    """
    bank = registry.auction_bank()
    if partner.allowed_bank(bank.name) is None:
        raise ProviderNotAllowed
    if len(key) > MAX_KEY_LENGTH or "\0" in key:
        raise NotFound
    own = Provider.objects.values_list("timeout_s", flat=True).get(name=bank.name)
    patience_s = (own or settings.BANK_TIMEOUT_S) + 2
    # Encrypted, because anyone who knows the key can read the auction.
    answer = workers.ask(
        "consultas.tasks.look_up_auction",
        f"auction-{uuid.uuid4().hex}",
        patience_s,
        encrypt(key, _sealed_for(request_id)),
        request_id,
        str(partner.pk),
    )
    if answer is None:
        raise ProviderUnavailable
    outcome = msgspec.json.decode(answer, type=Outcome)
    if outcome.record is None:
        raise _ERRORS.get(outcome.error, ProviderUnavailable)()
    return outcome.record


def _sealed_for(request_id: str) -> bytes:
    return place("auction key", request_id)


def run(encrypted_key: str, request_id: str, partner_id: str) -> Outcome:
    """From a worker: ask the bank for the key's record."""
    name = registry.auction_bank().name
    try:
        bank = operation.client(name, request_id=request_id, partner=partner_id)
        return Outcome(record=bank.auction_proposal(decrypt(encrypted_key, _sealed_for(request_id))))
    except ApiError as error:
        return Outcome(error=error.code)
