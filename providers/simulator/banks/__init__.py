"""The simulated banks. A new one is one file here and one line in `BANKS`."""

from __future__ import annotations

from ..bank import Bank
from .aroeira import Aroeira
from .canela import Canela
from .cedro import Cedro
from .imbuia import Imbuia
from .ipe import Ipe
from .jatoba import Jatoba
from .peroba import Peroba
from .sucupira import Sucupira

BANKS: tuple[type[Bank], ...] = (Aroeira, Canela, Cedro, Imbuia, Ipe, Jatoba, Peroba, Sucupira)
