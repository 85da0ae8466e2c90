"""The front of this run's simulated banks: a gateway that demands a client certificate, reached through a proxy with a
password (`simulator/front.py`). The banks are reached without it, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.certificates import Certificates, Change, proxy_secret

if TYPE_CHECKING:
    from providers.models import Provider  # needs the settings


def way_to(name: str) -> tuple[str, Change]:
    """The address of the bank `name` behind the gateway, and the way to it."""
    from partners.management.commands.seed_sandbox import _front  # needs the settings

    root, way = _front(Path(os.environ["DATA_DIR"]) / "front")  # which the simulator serves
    return f"{root}/{name}", way


def connection_to(name: str) -> dict[str, Any]:
    """What a `Connection` to the bank `name` behind the front needs."""
    url, way = way_to(name)
    secrets = {Certificates(way.certificate).fingerprint: way.private_key, **proxy_secret(way.proxy)}
    own = {"certificates": (way.certificate,), "authorities": way.authorities, "way_secrets": secrets}
    return {"base_url": url, **own}


def put_behind(bank: Provider) -> None:
    """Have the stored `bank` reached through the front."""
    credentials = dict(bank.credentials)
    url, way = way_to(bank.name)
    bank.base_url, bank.credentials = url, credentials
    bank.change_way(way)
    bank.save()
