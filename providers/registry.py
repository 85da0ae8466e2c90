"""Every bank of the service. A new bank needs one line here (see docs/adding-a-bank.md)."""

from providers.bank import Bank
from providers.banks.aroeira import Aroeira
from providers.banks.canela import Canela
from providers.banks.cedro import Cedro
from providers.banks.imbuia import Imbuia
from providers.banks.ipe import Ipe
from providers.banks.jatoba import Jatoba
from providers.banks.peroba import Peroba
from providers.banks.sucupira import Sucupira

BANKS: tuple[type[Bank], ...] = (Aroeira, Canela, Cedro, Imbuia, Ipe, Jatoba, Peroba, Sucupira)
#: The service's own bank, which answers auction look-ups.
AUCTION_BANK: type[Bank] = Ipe

_BY_NAME = {bank.name: bank for bank in BANKS}


def get(name: str) -> type[Bank] | None:
    return _BY_NAME.get(name)


def label(name: str) -> str:
    """The name of the bank for people. Without an adapter, the identifier `name`."""
    bank = get(name)
    return bank.label if bank else name


def names() -> list[str]:
    """The identifiers of all banks, sorted."""
    return sorted(_BY_NAME)
