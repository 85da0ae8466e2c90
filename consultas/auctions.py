"""Auction look-up at the service's own bank, through a bank worker. The result is not stored."""

from typing import Any

import msgspec
from django.conf import settings

from foundation import workers
from foundation.errors import ApiError, NotFound
from partners.models import Partner
from providers import operation, registry
from providers.errors import ProviderError, ProviderNotAllowed, ProviderUnavailable
from providers.models import Provider

_ERRORS: dict[str, type[ApiError]] = {error.code: error for error in (NotFound, ProviderUnavailable, ProviderError)}
#: Longer keys do not exist.
MAX_KEY_LENGTH = 200


def look_up(partner: Partner, key: str, request_id: str) -> dict[str, Any]:
    """The auction's record, including the institution's own fields. Creates nothing at the bank. Raises
    ProviderNotAllowed if the contract lacks the bank, NotFound for an unknown key, and ProviderUnavailable or
    ProviderError for a failure of the bank."""
    bank = registry.AUCTION_BANK
    if partner.allowed_bank(bank.name) is None:
        raise ProviderNotAllowed
    if len(key) > MAX_KEY_LENGTH or "\0" in key:
        raise NotFound
    own = Provider.objects.values_list("timeout_s", flat=True).get(name=bank.name)
    patience_s = (own or settings.BANK_TIMEOUT_S) + 2
    answer = workers.ask("consultas.tasks.look_up_auction", patience_s, key, request_id, str(partner.pk))
    if answer is None:
        raise ProviderUnavailable
    return msgspec.json.decode(answer, type=dict[str, Any])


def run(key: str, request_id: str, partner_id: str) -> dict[str, Any]:
    """From a worker: ask the bank for the key's record. Raises as `look_up`, without the bank's words."""
    name = registry.AUCTION_BANK.name
    try:
        return operation.client(name, request_id=request_id, partner=partner_id).auction_proposal(key)
    except ApiError as error:
        raise _ERRORS.get(error.code, ProviderUnavailable)() from None
