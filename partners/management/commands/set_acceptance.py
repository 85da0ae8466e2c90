from __future__ import annotations

from partners import registration
from partners.management.base import SettingsCommand


class Command(SettingsCommand):
    help = "Define o que a página do titular diz do parceiro e de onde vale o aceite; vale já no próximo aceite."
    group = registration.PAGE
