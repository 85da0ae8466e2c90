"""A partner's registration: what it still lacks, and its webhook."""

from __future__ import annotations

from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet
from django.utils import timezone

from partners.models import ApiKey, Partner

_WEBHOOK = ("webhook_url", "webhook_events")


def with_facts(partners: QuerySet[Partner]) -> QuerySet[Partner]:
    """`partners` with the annotations that `gaps` needs. No secret is read."""
    unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    live = ApiKey.objects.filter(unexpired, partner=OuterRef("pk"), revoked_at=None)
    has_secret = ExpressionWrapper(Q(webhook_secret__isnull=False), BooleanField())
    return partners.annotate(has_live_key=Exists(live), has_secret=has_secret).prefetch_related("allowances")


def set_webhook(partner: Partner, *, url: str | None, events: list[str] | None, rotate_secret: bool) -> str | None:
    """Store the URL and the events that are given; an empty URL is none. Returns the new secret if `rotate_secret` asks
    for one. Inside a transaction. Raises ValidationError for a URL that deliveries may not use."""
    if url is not None:
        partner.webhook_url = url
    if events is not None:
        partner.webhook_events = events
    partner.clean_fields(exclude={field.name for field in Partner._meta.fields} - {*_WEBHOOK})
    partner.save(update_fields=_WEBHOOK)
    return partner.rotate_webhook_secret() if rotate_secret else None


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
