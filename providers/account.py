"""Tries a bank's account: address, credentials and way, before an operator keeps them.

The web process cannot open what it seals. A worker that calls banks opens it, logs in, and says what happened. Nothing
of a holder is sent.
"""

import time
import uuid
from typing import Any

import msgspec
from django.conf import settings

from foundation import workers
from foundation.encryption import Sealed, sealed
from foundation.errors import ApiError
from providers import registry
from providers.errors import LoginRefused
from providers.models import Provider
from providers.operation import BankClient

REFUSED = "O banco recusou estas credenciais."
UNHEARD = "Nenhum processo que chama bancos respondeu a tempo."
#: What the worker gets. The secrets are sealed.
_PLAIN = ("name", "base_url", "certificate", "former_certificate", "authorities")
_SECRETS = ("credentials", "way_secrets")
#: How much longer than the bank may take its answer may take from the worker, in seconds.
_WAY_S = 2


def can_be_tried(name: str) -> bool:
    """False for a bank without a log-in, whose every request is signed: its first call shows whether it lets us in."""
    bank = registry.get(name)
    return bank is not None and bank.logs_in()


def problem_with(provider: Provider) -> str:
    """Why the bank does not let us in with the account of `provider`, which need not be saved, in Portuguese. Empty if
    it does. Takes as long as the bank may take, at most BANK_TIMEOUT_S; holds no database connection."""
    limit_s = min(provider.timeout_s or settings.BANK_TIMEOUT_S, settings.BANK_TIMEOUT_S)
    secrets = {name: sealed(provider, name, getattr(provider, name)).token for name in _SECRETS}
    account = {name: getattr(provider, name) for name in _PLAIN} | secrets | {"timeout_s": limit_s}
    told = workers.ask("providers.tasks.try_account", limit_s + _WAY_S, account)
    return UNHEARD if told is None else msgspec.json.decode(told, type=str)


def tried(account: dict[str, Any]) -> str:
    """For the worker: log in with this account. Returns what `problem_with` returns."""
    secrets = {name: Sealed(account.pop(name)) for name in _SECRETS}
    provider = Provider(**account, **secrets)
    bank, connection = registry.get(provider.name), provider.connection()
    if bank is None:
        return UNHEARD
    deadline = time.monotonic() + connection.timeout_s
    try:
        BankClient(bank, connection, deadline=deadline, request_id=uuid.uuid4().hex, partner="").log_in()
    except LoginRefused:
        return REFUSED
    except ApiError as failure:
        return failure.message
    return ""
