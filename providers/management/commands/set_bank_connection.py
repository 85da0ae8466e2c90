from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from foundation.audit import JSONCommand
from foundation.encryption import WrongKey
from providers.certificates import Change, described, proxy_names
from providers.models import Provider


class Command(JSONCommand):
    help = (
        "Define o certificado de cliente, as autoridades e o proxy para um banco. O que não é dado fica; um hífen no "
        "lugar do arquivo ou da URL apaga."
    )
    arguments = {
        "bank": {"metavar": "BANK"},
        "--certificate": {"metavar": "FILE", "default": "", "help": "certificado e os dos emissores, em PEM"},
        "--key": {"metavar": "FILE", "default": "", "help": "chave privada do certificado, em PEM sem senha"},
        "--authorities": {"metavar": "FILE", "default": "", "help": "autoridades do banco, em PEM"},
        "--proxy": {"metavar": "URL", "default": "", "help": "http://usuario:senha@host:porta"},
    }

    def act(
        self, *, bank: str, certificate: str, key: str, authorities: str, proxy: str, **options: Any
    ) -> dict[str, Any]:
        """`{bank, certificate, former_certificate, authorities, proxy}`: fingerprints, and True with a proxy."""
        change = Change(_content(certificate), _content(key), _content(authorities), proxy)
        change.check()
        provider = Provider.objects.select_for_update().filter(pk=bank).first()
        if provider is None:
            raise CommandError(f"Não há banco {bank}.")
        self.concerns(provider)
        _lead(provider, change)
        provider.save()
        fields = ("certificate", "former_certificate", "authorities")
        shown = {name: described(getattr(provider, name)) for name in fields}
        return {"bank": bank, **shown, "proxy": bool(proxy_names(provider.way_secrets))}


def _lead(provider: Provider, change: Change) -> None:
    """Apply `change`. Credentials are sealed again for another way. Raises CommandError where they do not open."""
    try:
        if provider.is_led_elsewhere_by(change):
            provider.open_credentials()
    except WrongKey:
        raise CommandError(
            "As credenciais guardadas só valem para o caminho de agora. Mude-o na página do banco, onde elas se "
            "digitam de novo, ou rode este comando num processo que chama bancos."
        ) from None
    provider.change_way(change)


def _content(file: str) -> str:
    """The content of `file`; a hyphen and nothing stay what they are. Raises CommandError."""
    try:
        return file if file in ("", "-") else Path(file).read_text()
    except (OSError, UnicodeDecodeError):
        raise CommandError(f"Não se lê o arquivo {file}.") from None
