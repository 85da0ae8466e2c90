"""Factories of rows for tests. Unspecified values are plausible and fictitious."""

from typing import Any

import factory
from django.db.models import QuerySet
from django.test import Client
from factory.django import DjangoModelFactory

from foundation.encryption import sealed
from partners.models import Allowance, ApiKey, Partner
from providers.models import Provider


class ProviderFactory(DjangoModelFactory):
    """A bank's row. `ProviderFactory(name="ipe")` called twice returns the same row."""

    class Meta:
        model = Provider
        django_get_or_create = ("name",)

    name = factory.Sequence(lambda n: f"banco-{n}")
    base_url = factory.LazyAttribute(lambda bank: f"http://127.0.0.1:1/{bank.name}")


def move_bank(name: str, base_url: str) -> None:
    """Give the bank `name` another address, and seal its secrets for that."""
    bank = Provider.objects.get(name=name)
    bank.credentials, bank.way_secrets = dict(bank.credentials), dict(bank.way_secrets)
    bank.base_url = base_url
    bank.save(update_fields=["base_url", "credentials", "way_secrets"])


class PartnerFactory(DjangoModelFactory):
    """An active partner; `PartnerFactory(providers=["ipe"])` also allows those banks."""

    class Meta:
        model = Partner
        skip_postgeneration_save = True

    name = factory.Sequence(lambda n: f"Parceiro {n}")

    @factory.post_generation
    def providers(partner: Partner, create: bool, names: list[str] | None, **_: Any) -> None:  # noqa: N805
        wanted = [ProviderFactory.build(name=name) for name in names or []]
        Provider.objects.bulk_create(wanted, ignore_conflicts=True)
        Allowance.objects.bulk_create([Allowance(partner=partner, provider=bank) for bank in wanted])


def update_encrypted(rows: QuerySet[Any], **values: Any) -> None:
    """Like `rows.update(**values)`, for encrypted fields, whose values are encrypted for each row."""
    for row in rows:
        rows.filter(pk=row.pk).update(**{name: sealed(row, name, value) for name, value in values.items()})


def issue_key(partner: Partner | None = None, **options: Any) -> tuple[ApiKey, str]:
    """A key of `partner` (default: a new one) and its text."""
    return ApiKey.issue(partner or PartnerFactory(), **options)


def http_of(partner: Partner | None = None) -> Client:
    """The requests of `partner` (default: a new one), served in this process."""
    return Client(headers={"X-Partner-Api-Key": issue_key(partner)[1]})
