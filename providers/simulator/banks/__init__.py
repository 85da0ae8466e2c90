"""The simulated banks. A new one is one file here and one line in `BANKS`."""

from __future__ import annotations

from ..bank import Bank
from .ipe import Ipe

BANKS: tuple[type[Bank], ...] = (Ipe,)
