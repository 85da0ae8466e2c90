"""Filters of the holder's page and of the dossier."""

from datetime import datetime

from django import template
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
def breakable(text: str) -> SafeString:
    """`text` in which a line may end after an at sign, so that a narrow screen cuts no word of an e-mail address."""
    return mark_safe(conditional_escape(text).replace("@", "@<wbr>"))  # noqa: S308 - escaped


@register.filter
def moment(text: str) -> datetime:
    """The time that a record has as ISO 8601 text, for the filter `date`."""
    return datetime.fromisoformat(text)
