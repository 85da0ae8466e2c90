"""Settings with a second adapter for each bank, `NAME_2`, to measure with more banks than exist.

A copy uses the same simulated bank. The module is DJANGO_SETTINGS_MODULE and also an installed app, because adapters
can be imported only after Django has loaded the settings.
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
