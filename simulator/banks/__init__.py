"""The simulated banks. A new bank needs a file here and a line in `BANKS`."""

from __future__ import annotations

from simulator.bank import Bank
from simulator.banks.aroeira import Aroeira
from simulator.banks.canela import Canela
from simulator.banks.cedro import Cedro
from simulator.banks.imbuia import Imbuia
from simulator.banks.ipe import Ipe
from simulator.banks.jatoba import Jatoba
from simulator.banks.peroba import Peroba
from simulator.banks.sucupira import Sucupira

BANKS: tuple[type[Bank], ...] = (Aroeira, Canela, Cedro, Imbuia, Ipe, Jatoba, Peroba, Sucupira)
