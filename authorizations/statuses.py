"""The statuses of a session."""

from django.db import models


class Status(models.TextChoices):
    PENDING = "pending", "pendente"
    AUTHORIZED = "authorized", "autorizada"
    EXPIRED = "expired", "expirada"
    DECLINED = "declined", "recusada"
    REVOKED = "revoked", "revogada"
