"""The simulated banks. A new bank needs a file here and a line in `BANKS`."""

from __future__ import annotations

from providers.simulator.bank import Bank
from providers.simulator.banks.aroeira import Aroeira
from providers.simulator.banks.canela import Canela
from providers.simulator.banks.cedro import Cedro
from providers.simulator.banks.imbuia import Imbuia
from providers.simulator.banks.ipe import Ipe
from providers.simulator.banks.jatoba import Jatoba
from providers.simulator.banks.peroba import Peroba
from providers.simulator.banks.sucupira import Sucupira

BANKS: tuple[type[Bank], ...] = (Aroeira, Canela, Cedro, Imbuia, Ipe, Jatoba, Peroba, Sucupira)
