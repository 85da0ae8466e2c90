"""What holds for every page of the back office."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
IDS = ("abc", "%00", "evt_%00", "99999999999999999999999", "7c9e6679-7425-40de-944b-e07fc1f90ae7", "%ff", "🙂" * 300)


def _list_of(model: type) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_an_id_that_nothing_bears_is_not_found(admin_client: Client, model: type) -> None:
    desk = admin.site._registry[model]
    steps = ["change", "history", "delete", *getattr(desk, "actions_detail", ())]
    told = {}
    for wrong in IDS:
        for step in steps:
            for send in (admin_client.get, admin_client.post):
                told[wrong, step, send.__name__] = send(f"{_list_of(model)}{wrong}/{step}/").status_code
    assert {key: status for key, status in told.items() if status not in (302, 403, 404)} == {}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_a_list_outlives_any_search_and_filter(admin_client: Client, model: type) -> None:
    fields = ["q", "p", "o", "pk", "id__in", *(field.name for field in model._meta.concrete_fields)]
    for name in fields:
        for value in ("%00", "abc", "%ff", "99999999999999999999999"):
            assert admin_client.get(f"{_list_of(model)}?{name}={value}").status_code in (200, 302, 422), (name, value)
