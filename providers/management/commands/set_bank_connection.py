import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from foundation import audit
from foundation.encryption import WrongKey
from providers.certificates import Change, described, proxy_names
from providers.models import Provider


class Command(audit.AuditedCommand):
    help = (
        "Define o certificado de cliente, as autoridades e o proxy para um banco. O que não é dado fica; um hífen no "
        "lugar do arquivo ou da URL apaga."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("bank", metavar="BANK")
        parser.add_argument("--certificate", metavar="FILE", default="", help="certificado e os dos emissores, em PEM")
        parser.add_argument("--key", metavar="FILE", default="", help="chave privada do certificado, em PEM sem senha")
        parser.add_argument("--authorities", metavar="FILE", default="", help="autoridades do banco, em PEM")
        parser.add_argument("--proxy", metavar="URL", default="", help="http://usuario:senha@host:porta")

    def handle(
        self, *args: Any, bank: str, certificate: str, key: str, authorities: str, proxy: str, **options: Any
    ) -> None:
        """Prints `{bank, certificate, former_certificate, authorities, proxy}`: fingerprints, and whether there is a
        proxy."""
        change = Change(_content(certificate), _content(key), _content(authorities), proxy)
        try:
            change.check()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        given = {"bank": bank, "certificate": certificate, "key": key, "authorities": authorities, "proxy": proxy}
        with self.audited(given):
            provider = Provider.objects.select_for_update().filter(pk=bank).first()
            if provider is None:
                raise CommandError(f"Não há banco {bank}.")
            self.concerns(provider)
            _lead(provider, change)
            provider.save()
        fields = ("certificate", "former_certificate", "authorities")
        shown: dict[str, Any] = {name: described(getattr(provider, name)) for name in fields}
        self.stdout.write(
            json.dumps({"bank": bank, **shown, "proxy": bool(proxy_names(provider.way_secrets))}, ensure_ascii=False)
        )


def _lead(provider: Provider, change: Change) -> None:
    """Apply `change`. The credentials are sealed again for another way, by a process that may open them. Raises
    CommandError in any other."""
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
