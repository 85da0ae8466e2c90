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
    return _described(partner, _known(partner))


def bank(partner: Partner, name: str) -> shapes.Provider:
    """One bank of the contract. Raises NotFound for any other name."""
    [described] = _described(partner, [_one(partner, name)])
    return described


def options(partner: Partner, name: str, field: str, filters: dict[str, str]) -> list[shapes.FieldOption]:
    """The values that a bank of the contract accepts in `field`, from its own list.

    Raises NotFound for a bank outside the contract, and for a field without such a list. Raises InvalidInput if
    `filters` do not choose a part of the list.
    """
    _, adapter = _one(partner, name)
    choices = requirements.options(adapter, field, filters)
    if choices is None:
        raise NotFound("Este banco não tem uma lista própria para este campo.")
    return choices


def _known(partner: Partner) -> list[tuple[AllowedBank, type[Bank]]]:
    """The banks of the contract, with their adapters."""
    return [(each, adapter) for each in partner.allowed_banks() if (adapter := registry.get(each.name))]


def _one(partner: Partner, name: str) -> tuple[AllowedBank, type[Bank]]:
    for allowed, adapter in _known(partner):
        if allowed.name == name:
            return allowed, adapter
    raise NotFound("Banco desconhecido.")


def _described(partner: Partner, known: list[tuple[AllowedBank, type[Bank]]]) -> list[shapes.Provider]:
    states = health_of([allowed.name for allowed, _ in known])

    def status(bank: AllowedBank) -> str:
        return UNAVAILABLE if bank.is_paused else states[bank.name].for_partner(str(partner.pk))

    return [requirements.described(adapter, status(allowed)) for allowed, adapter in known]
