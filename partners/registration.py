"""A partner's registration: the settings that operators make, in groups, and what it still lacks."""

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from partners.models import ApiKey, Partner

#: The settings by group, as the form of the back office shows them: the fields of `Partner`. Those of `LIMITS` and
#: `WEBHOOK` have an option of the group's command (`manage.py set_…`). `PUT /webhook` names its fields as the options.
LIMITS = {"rate_limit": "per_minute", "in_flight_limit": "in_flight", "daily_cpf_limit": "cpfs_per_day"}
PAGE = ("cnpj", "privacy_contact", "return_hosts", "sms_code", "json_acceptance", "dossier_by_api")
WEBHOOK = {"webhook_url": "url", "webhook_events": "events"}


def with_facts(partners: QuerySet[Partner]) -> QuerySet[Partner]:
    """`partners` with the annotations that `gaps` needs. No secret is read."""
    live = ApiKey.objects.filter(ApiKey.live(timezone.now()), partner=OuterRef("pk"))
    with_keys = partners.annotate(has_live_key=Exists(live), has_secret=Q(webhook_secret__isnull=False))
    return with_keys.prefetch_related("allowances")


def change(partner: Partner, values: dict[str, Any]) -> None:
    """Store `values` of limits or of the webhook, by field. Raises ValidationError."""
    for name, value in values.items():
        setattr(partner, name, value)
    partner.clean_fields(exclude={field.name for field in Partner._meta.fields} - values.keys())
    partner.save(update_fields=[*values])


def gaps(partner: Partner) -> list[str]:
    """Portuguese phrases for what is missing in the registration of a partner from `with_facts`."""
    facts = vars(partner)
    checks = {
        "sem chave": not facts["has_live_key"],
        "sem bancos": not partner.allowances.all(),
        "sem URL": not partner.webhook_url,
        "sem segredo": not facts["has_secret"],
        "sem eventos": not partner.webhook_events,
    }
    gaps = [words for words, is_missing in checks.items() if is_missing]
    return gaps + [f"sem {words}" for words in partner.missing_on_page.values()]
