"""The banks of a partner's contract, for that partner. Other banks are treated as unknown."""

from __future__ import annotations

from foundation.errors import NotFound
from partners.contract import AllowedBank
from partners.models import Partner
from proposals import requirements, shapes
from providers import registry
from providers.bank import Bank
from providers.health import UNAVAILABLE, health_of


def banks(partner: Partner) -> list[shapes.Provider]:
    """The banks of the contract, sorted by name."""
    return _described(partner, partner.allowed_banks())


def bank(partner: Partner, name: str) -> shapes.Provider:
    """One bank of the contract. Raises NotFound for any other name."""
    [described] = _described(partner, [_allowed(partner, name)])
    return described


def options(partner: Partner, name: str, field: str, filters: dict[str, str]) -> list[shapes.FieldOption]:
    """The values that a bank of the contract accepts in `field`, from its own list.

    Raises NotFound for a bank outside the contract, and for a field without such a list.
    """
    choices = requirements.options(_adapter(_allowed(partner, name)), field, filters)
    if choices is None:
        raise NotFound("Este banco não tem uma lista própria para este campo.")
    return choices


def _allowed(partner: Partner, name: str) -> AllowedBank:
    allowed = partner.allowed_bank(name)
    if allowed is None:
        raise NotFound("Banco desconhecido.")
    return allowed


def _adapter(allowed: AllowedBank) -> type[Bank]:
    adapter = registry.get(allowed.name)
    if adapter is None:
        raise NotFound("Banco desconhecido.")
    return adapter


def _described(partner: Partner, allowed: list[AllowedBank]) -> list[shapes.Provider]:
    connected = [each for each in allowed if registry.get(each.name) is not None]
    states = health_of([each.name for each in connected])

    def status(bank: AllowedBank) -> str:
        return UNAVAILABLE if bank.is_paused else states[bank.name].for_partner(str(partner.pk))

    return [requirements.described(_adapter(each), status(each)) for each in connected]
