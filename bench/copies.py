"""The service's settings with a second adapter for each bank, `NAME_2`, to measure more banks than there are.

A copy speaks to the same simulated bank. Used as DJANGO_SETTINGS_MODULE, and as an application of its own, because
adapters can be imported only when Django has its settings.
"""

from __future__ import annotations

from django.apps import AppConfig

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.copies.Copies"]


class Copies(AppConfig):
    name = "bench"

    def ready(self) -> None:
        from providers import registry
        from providers.bank import Bank

        copies: dict[str, type[Bank]] = {}
        for bank in registry.BANKS:
            name = f"{bank.name}_2"
            copies[name] = type(f"{bank.__name__}2", (bank,), {"name": name})
        registry.BANKS += tuple(copies.values())
        registry._BY_NAME.update(copies)
