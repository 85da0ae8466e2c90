"""Windows in which an operator keeps a bank out of service, planned or started at once."""

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class Maintenance(models.Model):
    """A window in which the service does not call the bank. Partners read its reason and its end."""

    provider = models.ForeignKey("providers.Provider", models.CASCADE, related_name="maintenance", verbose_name="banco")
    starts_at = models.DateTimeField("início", default=timezone.now)
    ends_at = models.DateTimeField("fim")
    reason = models.CharField("motivo", max_length=200, help_text="Os parceiros leem este texto.")

    class Meta:
        verbose_name = "janela fora do ar"
        verbose_name_plural = "janelas fora do ar"
        ordering = ("-starts_at",)
        constraints = [
            models.CheckConstraint(
                name="maintenance_has_a_length",
                condition=Q(ends_at__gt=F("starts_at")),
                violation_error_message="O fim tem de ser depois do início.",
            )
        ]
        indexes = [models.Index(fields=("provider", "ends_at"), name="maintenance_of_bank")]

    def __str__(self) -> str:
        return out_of_service(self.ends_at, self.reason)

    def clean(self) -> None:
        """Raises ValidationError for a window that has already ended."""
        if self._state.adding and self.ends_at is not None and self.ends_at <= timezone.now():
            raise ValidationError({"ends_at": "O fim já passou."})

    @classmethod
    def now(cls, names: Iterable[str]) -> dict[str, Self]:
        """The current window of each bank of `names`, by bank name. If there are several, the one that ends last."""
        moment = timezone.now()
        windows = cls.objects.filter(provider__in=list(names), starts_at__lte=moment, ends_at__gt=moment)
        return {window.provider_id: window for window in windows.order_by("ends_at")}


def out_of_service(until: datetime, reason: str) -> str:
    """A phrase such as `fora do ar até 22/11/2026 18:00, horário de Brasília: motivo`. It names the day and the
    time zone because a query's answers keep it, and partners read it on another day or in another time zone."""
    return f"fora do ar até {timezone.localtime(until):%d/%m/%Y %H:%M}, horário de Brasília: {reason}"


def window_sql(name: str) -> str:
    """An SQL expression for the bank's current window: a JSON array of end and reason, or null. `name` is an SQL
    expression for the bank's name."""
    return (
        "(SELECT json_build_array(w.ends_at, w.reason) FROM providers_maintenance w"  # noqa: S608 - names of ours
        f" WHERE w.provider_id = {name}"
        " AND w.starts_at <= now() AND w.ends_at > now() ORDER BY w.ends_at DESC LIMIT 1)"
    )
