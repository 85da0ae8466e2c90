"""The simulated banks: the subclass of `Bank` in each file of this folder, by the files' names."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from simulator.bank import Bank


def _found(file: str) -> type[Bank]:
    """The simulated bank of this file. Raises ValueError if it has none, or several."""
    classes = vars(import_module(f"{__name__}.{file}")).values()
    [bank] = [each for each in classes if isinstance(each, type) and issubclass(each, Bank) and each is not Bank]
    return bank


BANKS = tuple(_found(file) for file in sorted(each.name for each in iter_modules(__path__)))
