"""Creates partners for a measurement: `python -m bench.partners COUNT BANKS`, in the environment of a service.

Prints their keys as a JSON list. Each partner is allowed the first BANKS banks of the registry, copies included.
"""

from __future__ import annotations

import json
import os
import sys

import django


def main(count: int, banks: int) -> list[str]:
    """The keys of `count` new partners."""
    from partners.models import Allowance, ApiKey, Partner
    from providers import registry
    from providers.models import Provider

    banks_by_name = {bank.name: bank for bank in Provider.objects.all()}
    for name in registry.names():
        if name not in banks_by_name:
            like = banks_by_name[name.removesuffix("_2")]
            banks_by_name[name] = Provider.objects.create(
                name=name, enabled=True, base_url=like.base_url, credentials=like.credentials
            )
    # The original banks come first, then the copies, so that the first eight are the same for every larger number.
    order = sorted(banks_by_name, key=lambda name: (name.endswith("_2"), name))[:banks]
    keys = []
    for number in range(count):
        partner = Partner.objects.create(name=f"Parceiro {banks}-{number}")
        Allowance.objects.bulk_create(Allowance(partner=partner, provider=banks_by_name[name]) for name in order)
        keys.append(ApiKey.issue(partner, "bench")[1])
    return keys


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
