"""The banks of a partner's contract, for that partner. Other banks are treated as unknown."""

from __future__ import annotations

from typing import Any

import structlog
from redis.exceptions import RedisError

from foundation.errors import NotFound
from partners.models import AllowedBank, Partner
from proposals import requirements
from providers import registry
from providers.bank import Bank
from providers.breaker import ALL, Breaker
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider

log = structlog.get_logger(__name__)

AVAILABLE, DEGRADED, UNAVAILABLE = "available", "degraded", "unavailable"
STATUSES = (AVAILABLE, DEGRADED, UNAVAILABLE)
_BY_BREAKER = {"closed": AVAILABLE, "half_open": DEGRADED, "open": UNAVAILABLE}
_WORSE = ("closed", "half_open", "open")
_BY_CIRCUIT = {Circuit.OPEN: UNAVAILABLE, Circuit.CLOSED: AVAILABLE}


def banks(partner: Partner) -> list[dict[str, Any]]:
    """The banks of the contract, sorted by name."""
    return _described(partner, partner.allowed_banks())


def bank(partner: Partner, name: str) -> dict[str, Any]:
    """One bank of the contract. Raises NotFound for any other name."""
    [described] = _described(partner, [_allowed(partner, name)])
    return described


def options(partner: Partner, name: str, field: str, filters: dict[str, str]) -> list[dict[str, str]]:
    """The values that a bank of the contract accepts in `field`, from its own list.

    Raises NotFound for a bank outside the contract, and for a field without such a list.
    """
    choices = requirements.options(_adapter(_allowed(partner, name)), field, filters)
    if choices is None:
        raise NotFound("Este banco não tem uma lista própria para este campo.")
    return choices


def _allowed(partner: Partner, name: str) -> AllowedBank:
    for allowed in partner.allowed_banks():
        if allowed.name == name:
            return allowed
    raise NotFound("Banco desconhecido.")


def _adapter(allowed: AllowedBank) -> type[Bank]:
    adapter = registry.get(allowed.name)
    if adapter is None:
        raise NotFound("Banco desconhecido.")
    return adapter


def _described(partner: Partner, allowed: list[AllowedBank]) -> list[dict[str, Any]]:
    connected = [each for each in allowed if registry.get(each.name) is not None]
    states = _states([each.name for each in connected], partner)
    return [
        requirements.described(_adapter(each), states.get(each.name, UNAVAILABLE) if each.enabled else UNAVAILABLE)
        for each in connected
    ]


def _states(names: list[str], partner: Partner) -> dict[str, str]:
    """The state of each bank for `partner`: an operator's setting, otherwise the worse of the breaker's state for all
    and for the partner. Without Redis the breaker counts as closed."""
    closed = dict.fromkeys(Maintenance.now(names), UNAVAILABLE)
    circuits = dict(Provider.objects.filter(name__in=names).values_list("name", "circuit"))
    try:
        of_all, own = (Breaker.states(names, scope) if names else {} for scope in (ALL, str(partner.pk)))
    except RedisError:
        log.warning("breaker_unreachable")
        of_all = own = {}
    return {
        name: closed.get(name)
        or _BY_CIRCUIT.get(Circuit(circuit))
        or _BY_BREAKER[max(of_all.get(name, "closed"), own.get(name, "closed"), key=_WORSE.index)]
        for name, circuit in circuits.items()
    }
