import json
import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from foundation.audit import AuditedCommand
from partners.models import SANDBOX_KEY, Allowance, ApiKey, Partner, WebhookEvent
from providers import registry
from providers.certificates import Change
from providers.models import Provider
from providers.words import data_of

PARTNER_ID = uuid.UUID("5a4d6b0c-0000-4000-8000-000000000001")
PARTNER_NAME = "Parceiro Sandbox"
#: The sandbox has a single partner for all users.
IN_FLIGHT_LIMIT = 1000
ADMIN = "admin"


class Command(AuditedCommand):
    """Idempotent. Operators' changes stay; only the banks' URLs are set to the simulator's."""

    help = "Cria o que o sandbox precisa: bancos simulados, parceiro com a chave pública e usuário do admin."

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("O sandbox não pode ser criado em produção.")
        with self.audited(options):
            new_banks = _seed_banks({name: data_of(name).sandbox for name in registry.names()})
            _seed_partner(new_banks)
            operator = _seed_admin()
        self.stdout.write(f"Bancos: {Provider.objects.count()}, simulados em {settings.SIMULATOR_URL}")
        self.stdout.write(f"Parceiro: {PARTNER_NAME} ({PARTNER_ID})")
        self.stdout.write(f"Chave de API: {SANDBOX_KEY}")
        self.stdout.write(
            f"Segredo do webhook: manage.py set_webhook {PARTNER_ID} --url URL --rotate-secret mostra um novo"
        )
        self.stdout.write(f"Admin: {settings.PUBLIC_BASE_URL}/admin/ ({operator})")


def _seed_banks(banks: dict[str, dict[str, Any]]) -> list[Provider]:
    """Create the missing banks and return them. Existing banks get the simulator's URL, and those credentials and
    callback secrets that they lack."""
    new = []
    front = _front(Path(settings.SIMULATOR_FRONT_DIR)) if settings.SIMULATOR_FRONT_DIR else None
    for name, seed in banks.items():
        root, way = front if seed.pop("has_front", False) and front else (settings.SIMULATOR_URL, Change())
        base_url = f"{root}/{name}"
        bank, created = Provider.objects.select_for_update().get_or_create(
            name=name, defaults={**seed, "base_url": base_url}
        )
        is_moved = bank.base_url != base_url
        settled = {
            "base_url": base_url,
            "credentials": {**seed["credentials"], **bank.credentials},
            "callback_secret": bank.callback_secret or seed.get("callback_secret"),
        }
        if created:
            new.append(bank)
        elif any(getattr(bank, field) != value for field, value in settled.items()):
            for field, value in settled.items():
                setattr(bank, field, value)
            bank.save(update_fields=[*settled, "updated_at"])
        if is_moved or (way.certificate and bank.certificate != way.certificate):
            _secure(bank, way)
    return new


def _front(folder: Path) -> tuple[str, Change]:
    """The address of the gateway before a simulated bank, and the way through it, as the simulator prepared them."""
    known = json.loads((folder / "front.json").read_text())
    certificate, key, authority = ((folder / f"{name}.pem").read_text() for name in ("certificate", "key", "authority"))
    proxy = f"http://{known['user']}@127.0.0.1:{known['proxy_port']}"
    return f"https://127.0.0.1:{known['gateway_port']}", Change(certificate, key, authority, proxy)


def _secure(bank: Provider, way: Change) -> None:
    """Have `bank` reached by `way` alone. What was sealed for another address is not opened."""
    bank.credentials, bank.former_credentials = dict(bank.credentials), {}  # to be sealed for this way
    bank.certificate, bank.way_secrets = "", {}
    bank.change_way(way)
    bank.drop_former_certificate()
    bank.save()


def _seed_partner(new_banks: list[Provider]) -> None:
    """Create the sandbox's partner with its public key and add the new banks to its contract. A new partner asks for
    every event. Its webhook secret is not printed, because the output may stay in logs."""
    partner, created = Partner.objects.get_or_create(
        pk=PARTNER_ID,
        defaults={
            "name": PARTNER_NAME,
            "webhook_events": WebhookEvent.values,
            "in_flight_limit": IN_FLIGHT_LIMIT,
        },
    )
    if ApiKey.find(SANDBOX_KEY) is None:
        ApiKey.issue(partner, "chave pública do sandbox", secret=SANDBOX_KEY)
    Allowance.objects.bulk_create(
        [Allowance(partner=partner, provider=bank) for bank in new_banks], ignore_conflicts=True
    )
    if created:
        partner.rotate_webhook_secret()


def _seed_admin() -> str:
    """Create the back office's user. Returns a sentence that tells the password. If others can reach the sandbox, no
    user with a publicly known password is created or kept active."""
    users = get_user_model().objects
    user = users.filter(username=ADMIN).first()
    if settings.DEVELOPMENT_SECRETS_ALLOWED:
        if user is None:
            users.create_superuser(ADMIN, password=ADMIN)
        return f"{ADMIN} / {ADMIN}"
    if user is not None and user.check_password(ADMIN):
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return "endereço público: crie o usuário com manage.py createsuperuser"
