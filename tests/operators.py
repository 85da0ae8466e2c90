"""Operators of the back office, the addresses of its pages, and their commands."""

import io
import json
import uuid
from collections.abc import Iterable
from itertools import chain
from typing import Any

from bs4 import BeautifulSoup
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.management import call_command
from django.db.models import Model
from django.test import Client, RequestFactory, override_settings
from django.urls import resolve, reverse


class Browser(Client):
    """A browser in the back office. It is served as in a web process, which has no private keys to the credentials of
    banks."""

    def request(self, **request: Any) -> Any:
        with override_settings(BANK_CREDENTIALS_KEYS=()):
            return super().request(**request)


def page_of(row: Model, step: str = "change") -> str:
    """The address of a row's page, or of an action on it."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{step}", args=[quote(row.pk)])


def see(client: Client, page: Model | str, *told: str, hidden: Iterable[str] = ()) -> str:
    """The text of a page, which is an address or the page of a row. It has all texts of `told` and none of `hidden`."""
    return says(client.get(page if isinstance(page, str) else page_of(page)), *told, hidden=hidden)


def says(response: Any, *told: str, hidden: Iterable[str] = (), status: int | None = None) -> str:
    """The same of a response, which has this `status`, if one is given."""
    text, about = response.text, (response.status_code, response.request["PATH_INFO"])
    assert status in (None, response.status_code), about
    assert ([each for each in told if each not in text], [each for each in hidden if each in text]) == ([], []), about
    return text  # type: ignore[no-any-return]


def is_list(address: str) -> bool:
    """True for the address of a model's list."""
    return str(resolve(address.partition("?")[0]).url_name).endswith("_changelist")


def rows_at(user: User, address: str) -> list[Any]:
    """The rows of the list at this address. The list's page reads them in the same way, but takes ten times as long to
    show them. Raises IncorrectLookupParameters or SuspiciousOperation if the list refuses the address."""
    request = RequestFactory().get(address)
    request.user, request._messages = user, CookieStorage(request)  # type: ignore[attr-defined]
    changes = resolve(request.path).func.model_admin.get_changelist_instance(request)  # type: ignore[attr-defined]
    return list(changes.result_list)


def operator_with(*permissions: str, name: str = "") -> Client:
    """The browser of an operator who has these permissions and no other."""
    ours = Permission.objects.exclude(content_type__app_label="sessions")  # Django has sessions of its own
    user = User.objects.create_user(name or f"u{uuid.uuid4().hex}", is_staff=True)
    user.user_permissions.set(ours.filter(codename__in=permissions))
    assert user.user_permissions.count() == len(permissions)
    client = Client()
    client.force_login(user)
    return client


#: What a row's page says after a confirmed action that it does not offer.
NOT_NOW = "Nada foi feito: na situação de agora, esta ação não cabe."


def rendered_form(page: Any) -> dict[str, Any]:
    """What the browser sends from an admin's `page` (a response) on which the operator changed nothing."""
    formsets = [inline.formset for inline in page.context["inline_admin_formsets"]]
    shown = ([formset.management_form, *formset.initial_forms] for formset in formsets)
    fields = chain(page.context["adminform"].form, *chain.from_iterable(shown))
    values = {field.html_name: field.value() for field in fields}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def save(client: Client, row: Model, changes: dict[str, Any], **headers: str) -> Any:
    """The answer to the form of a row's page, on which the operator made these changes."""
    return client.post(page_of(row), rendered_form(client.get(page_of(row))) | changes, headers=headers)


def press(client: Client, page: Any, button: str, **typed: Any) -> Any:
    """The answer, after redirects, to the form of `page` (an address or a response) that has this button. It is sent as
    by a browser: what the form shows, and what the operator has `typed` into its fields."""
    shown = client.get(page) if isinstance(page, str) else page
    html = BeautifulSoup(shown.content, "html.parser")
    [pressed] = [each for each in html.find_all("button", type="submit") if each.text.strip().endswith(button)]
    form = html.find("form", id=pressed["form"]) if pressed.get("form") else pressed.find_parent("form")
    sent = {pressed["name"]: ""} if pressed.get("name") else {}
    fields = form.find_all(["input", "select", "textarea"])
    for field in fields:
        if field.name == "select":
            chosen = field.find_all("option", selected=True) or ([] if field.has_attr("multiple") else [field.option])
            sent[field["name"]] = [each["value"] for each in chosen]
        elif field.name == "textarea":
            sent[field["name"]] = field.text.removeprefix("\n")
        elif field.has_attr("checked") or field.get("type") not in ("checkbox", "radio"):
            sent.setdefault(field["name"], []).append(field.get("value", "on" if field.has_attr("checked") else ""))
    assert {"csrfmiddlewaretoken", *typed} <= {field["name"] for field in fields}
    return client.post(form.get("action") or shown.request["PATH_INFO"], sent | typed, follow=True)


def bank_form(name: str, /, **changes: Any) -> dict[str, Any]:
    """What the browser sends from the page of the bank `name`, with these changes."""
    bank = {"enabled": "on", "base_url": f"http://127.0.0.1:1/{name}", "circuit": "auto", "max_in_flight": "64"}
    windows = {"maintenance-TOTAL_FORMS": "0", "maintenance-INITIAL_FORMS": "0"}
    return {**bank, **windows, "new_callback_secret": "", **changes}


def printed(command: str, *arguments: object, **options: Any) -> Any:
    """The one JSON object that a command prints, in one line."""
    out = io.StringIO()
    call_command(command, *map(str, arguments), stdout=out, **options)
    assert out.getvalue().count("\n") == 1
    return json.loads(out.getvalue())
