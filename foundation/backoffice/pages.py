"""Addresses of the back office's lists and rows, and pages of its own beside them."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse


def list_of(model: type[Model], filters: str = "") -> str:
    """The address of the list of `model`, with `filters` as a query string."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return f"{address}?{filters}" if filters else address


def page_of(row: Model | type[Model], key: Any = None) -> str:
    """The address of the page of `row`, or of the row of that model with the primary key `key`."""
    address = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return reverse(address, args=[quote(row.pk if isinstance(row, Model) else key)])


def page(request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
    """A page in the back office's frame: its menu, and what every page shows."""
    return TemplateResponse(request, template, {**admin.site.each_context(request), "title": title, **context})
