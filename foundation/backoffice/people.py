"""Pages for rows about a person. The back office's search finds them by CPF, because a URL must not contain a CPF."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest

from foundation.backoffice.admins import ReadOnlyAdmin
from foundation.formats import cpf_is_valid, only_digits


class PersonalRowsAdmin(ReadOnlyAdmin):
    """Read-only rows about a person. The model's column `cpf_index`, a keyed hash, finds those of one person."""

    linked_by: tuple[str, ...] = ("cpf_index",)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, term: str) -> tuple[QuerySet, bool]:
        """No rows for a CPF, because the search text is part of the URL."""
        if cpf_is_valid(only_digits(term)):
            self.message_user(request, "Para buscar por CPF, use a busca do menu.", messages.WARNING)
            return queryset.none(), False
        return super().get_search_results(request, queryset, term)
