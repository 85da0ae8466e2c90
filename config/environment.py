"""Reads the environment variables of a deployment.

A wrong value raises ImproperlyConfigured while the settings load. The error quotes no value that may be secret.
"""

import ipaddress
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import environ
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")

# The image sets DEFAULT_ENVIRONMENT. With it, an empty ENVIRONMENT means production, just like a missing one.
ENVIRONMENT = env.str("ENVIRONMENT", "") or env.str("DEFAULT_ENVIRONMENT", "") or "development"
if ENVIRONMENT not in ("development", "sandbox", "production"):
    raise ImproperlyConfigured("ENVIRONMENT must be development, sandbox or production")
PRODUCTION = ENVIRONMENT == "production"


def required_in_production(name: str, default: str) -> str:
    """The text of the variable `name`. Outside production, an empty variable gives `default`. In production, raises
    unless the variable is set to something else than `default`."""
    value: str = env.str(name, "")
    if PRODUCTION and value.strip().rstrip("/") in ("", default):
        raise ImproperlyConfigured(f"{name} must be set in production")
    return value or default


def list_required_in_production(name: str, default: str) -> list[str]:
    """The items of the comma-separated list `name`. In production, raises for an empty item and for `default`."""
    items = [item.strip() for item in required_in_production(name, default).split(",")]
    if PRODUCTION and ("" in items or default in items):
        raise ImproperlyConfigured(f"{name} must not hold an empty item or the development default in production")
    return items


def not_guessable(name: str, value: str, *, least: int) -> None:
    """In production, raises if `value`, the secret in the variable `name`, has fewer than `least` characters or fewer
    than 10 different ones. A generated secret has more."""
    if PRODUCTION and (len(value) < least or len(set(value)) < 10):
        raise ImproperlyConfigured(f"{name} is too weak for production: docs/operations.md says how to make one")


def public_key_of(name: str, private: str) -> str:
    """The public key, in hex, of the X25519 key `private` from the variable `name`."""
    try:
        return X25519PrivateKey.from_private_bytes(bytes.fromhex(private)).public_key().public_bytes_raw().hex()
    except ValueError:
        raise ImproperlyConfigured(f"{name}: each must be 32 bytes in hex") from None


def networks(name: str, default: list[str]) -> list[str]:
    """The comma-separated IP addresses and networks in `name`. Raises for any other item."""
    items: list[str] = [item.strip() for item in env.list(name, default=default)]
    for item in items:
        try:
            ipaddress.ip_network(item, strict=False)
        except ValueError:
            raise ImproperlyConfigured(f"{name}: {item!r} is neither an address nor a network") from None
    return items


def whole(name: str, default: int, least: int = 1) -> int:
    """The integer in `name`, at least `least`. An empty variable gives `default`."""
    text: str = env.str(name, "").strip() or str(default)
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise ImproperlyConfigured(f"{name} must be a whole number")
    if int(text) < least:
        raise ImproperlyConfigured(f"{name} must be at least {least}")
    return int(text)


def flag(name: str, default: bool) -> bool:
    """The boolean in `name`. An empty variable gives `default`. Raises for any other word."""
    text: str = env.str(name, "").strip().lower()
    if text and text not in env.BOOLEAN_TRUE_STRINGS and text not in ("false", "0", "no", "n", "off"):
        raise ImproperlyConfigured(f"{name} must be true or false")
    return text in env.BOOLEAN_TRUE_STRINGS if text else default


def no_address(name: str, *schemes: str) -> ImproperlyConfigured:
    """The error for a variable `name` that is no URL with one of `schemes`, without the value: it may be secret."""
    begins = " or ".join(f"{scheme}://" for scheme in schemes)
    return ImproperlyConfigured(
        f"{name} must be an address that begins with {begins}; in a password, / is written as %2F, ? as %3F"
    )


def address(name: str, value: str, *schemes: str) -> str:
    """`value` of the variable `name`. Raises unless it is a URL with one of `schemes` and with a host."""
    try:
        parts = urlsplit(value)
        sound = parts.scheme in schemes and (parts.hostname or parts.scheme == "unix") and parts.port != 0
    except ValueError:  # the port is not a number
        sound = False
    if not sound:
        raise no_address(name, *schemes)
    return value


def is_local(host: str) -> bool:
    """True if `host` can be reached only from this machine or its private network."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".test"))


def local_services(data_dir: Path) -> dict[str, str]:
    """URLs of the embedded PostgreSQL and Redis that `make run` (config/local/servers.py) stored in `data_dir`."""
    try:
        services: dict[str, str] = json.loads((data_dir / "services.json").read_text())
    except FileNotFoundError:
        return {}
    return services


def credentials_keys(development_key: str) -> tuple[list[str], str]:
    """The private keys in BANK_CREDENTIALS_KEYS (none where no bank is called), and the first one's public key.

    Outside production, `development_key` is the private key if neither variable is set. Raises if the public key is
    unknown or does not belong to the first private key.
    """
    private = env.str("BANK_CREDENTIALS_KEYS", "").strip()
    public: str = env.str("BANK_CREDENTIALS_PUBLIC_KEY", "").strip().lower()
    if not PRODUCTION and not public and private in ("", "none"):
        public = public_key_of("BANK_CREDENTIALS_KEYS", development_key)
        private = private or development_key
    keys = [] if private in ("", "none") else [key.strip() for key in private.split(",")]
    publics = [public_key_of("BANK_CREDENTIALS_KEYS", key) for key in keys]
    for key in keys:
        not_guessable("BANK_CREDENTIALS_KEYS", key, least=64)
    public = public or "".join(publics[:1])
    if publics and publics[0] != public:
        raise ImproperlyConfigured("BANK_CREDENTIALS_PUBLIC_KEY does not belong to the first of BANK_CREDENTIALS_KEYS")
    if not re.fullmatch(r"[0-9a-f]{64}", public):
        raise ImproperlyConfigured("BANK_CREDENTIALS_PUBLIC_KEY must be set: 32 bytes in hex (docs/operations.md)")
    return keys, public


def encryption_keys(name: str, default: str) -> list[str]:
    """The comma-separated keys in `name`, each 32 bytes in URL-safe base64. Raises for an invalid key, and where
    `list_required_in_production` raises."""
    keys = list_required_in_production(name, default)
    for number, key in enumerate(keys, 1):
        if not re.fullmatch(r"[A-Za-z0-9_-]{43}=", key):
            raise ImproperlyConfigured(f"{name}: number {number} is not 32 bytes in URL-safe base64")
        not_guessable(name, key, least=43)
    return keys
