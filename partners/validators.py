"""Checks of an operator's input about a partner. Each raises ValidationError with a message for the operator."""

import ipaddress
import re
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

from foundation.formats import cnpj_is_valid

PORTFOLIO_LENGTH, MOST_PORTFOLIOS = 60, 100
MOST_NETWORKS = 50
_HOST = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", re.ASCII)


def validate_webhook_url(url: str) -> None:
    """`WEBHOOKS_ALLOW_PRIVATE` (anywhere but production) also allows http, private addresses and any port. The
    addresses of a host name are checked at every delivery."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValidationError("A URL do webhook é inválida.") from None
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise ValidationError("A URL do webhook deve ser completa, como https://exemplo.com.br/webhooks.")
    if parts.username is not None or parts.fragment:
        raise ValidationError("A URL do webhook não pode conter usuário, senha nem fragmento.")
    if settings.WEBHOOKS_ALLOW_PRIVATE:
        return
    if parts.scheme != "https":
        raise ValidationError("A URL do webhook deve usar https.")
    if settings.WEBHOOK_PORTS and (port or 443) not in settings.WEBHOOK_PORTS:
        ports = ", ".join(map(str, settings.WEBHOOK_PORTS))
        raise ValidationError(f"A URL do webhook deve usar uma destas portas: {ports}.")
    try:
        public = ipaddress.ip_address(host).is_global
    except ValueError:  # the host is a name
        public = host != "localhost"
    if not public:
        raise ValidationError("A URL do webhook não pode apontar para um endereço privado.")


def split_names(text: str, separator: str = ",") -> list[str]:
    """The distinct names in `a, b`, in their order."""
    return list(dict.fromkeys(part.strip() for part in text.split(separator) if part.strip()))


def validate_cnpj(cnpj: str) -> None:
    if not cnpj_is_valid(cnpj):
        raise ValidationError("Informe um CNPJ válido: 14 caracteres.")


def validate_hosts(hosts: list[str]) -> None:
    if not isinstance(hosts, list) or not all(isinstance(host, str) and _HOST.fullmatch(host) for host in hosts):
        raise ValidationError("Informe domínios como chat.exemplo.com.br, sem https:// e sem caminho.")


def validate_networks(networks: list[str]) -> None:
    if not isinstance(networks, list) or len(networks) > MOST_NETWORKS:
        raise ValidationError(f"Informe até {MOST_NETWORKS} endereços ou redes.")
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise ValidationError(f"“{network}” não é um endereço IP nem uma rede como 203.0.113.0/24.") from None


def validate_portfolios(portfolios: list[str]) -> None:
    named = isinstance(portfolios, list) and all(
        isinstance(name, str) and name == name.strip() and name.isprintable() and 0 < len(name) <= PORTFOLIO_LENGTH
        for name in portfolios
    )
    if not named or len(portfolios) != len(set(portfolios)) or len(portfolios) > MOST_PORTFOLIOS:
        raise ValidationError(
            f"Informe até {MOST_PORTFOLIOS} carteiras diferentes, com até {PORTFOLIO_LENGTH} caracteres."
        )
