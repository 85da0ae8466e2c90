"""The API reference as a web page, and how few bytes it and the guide are sent in."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles.finders import find
from django.test import Client
from playwright.sync_api import Browser, expect
from pytest_django.live_server_helper import LiveServer

from config import reference
from config.api_reference import laboratory_tags
from config.local import guide
from tests.browser import DESK, PHONE, is_wider_than_its_window, watch


def test_each_english_text_of_redoc_is_found_and_replaced() -> None:
    """A new release of Redoc that says something else must not bring English back unnoticed."""
    english = Path(str(find(reference._REDOC))).read_text("utf-8")
    assert [text for text in reference.PORTUGUESE if text not in english] == []
    assert "redoc.ly/redoc/logo" not in reference._redoc()


@pytest.mark.parametrize(
    "path", ["/docs/", "/docs/redoc.js", "/docs/guia/", "/docs/guia/searchindex.js", "/schema/", "/schema/?format=json"]
)
def test_what_is_larger_than_a_kilobyte_is_sent_compressed(client: Client, settings: Any, path: str) -> None:
    """Before the fix, the reference's script had 1.59 MB on the wire, and the schema 698 KB."""
    guide.build()
    settings.GUIDE_ROOT = guide.DEFAULT_FOLDER
    plain, packed = client.get(path), client.get(path, headers={"Accept-Encoding": "gzip"})
    body = b"".join(packed)  # type: ignore[arg-type]  # a file comes in parts, and is closed
    assert (packed["Content-Encoding"], packed["Vary"].split(", ")[-1]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(body) == b"".join(plain)  # type: ignore[arg-type]
    assert "Content-Encoding" not in plain


def test_the_laboratory_is_a_group_of_the_reference_where_there_is_one(client: Client, settings: Any) -> None:
    """Before the fix, the reference did not say that there is a laboratory."""
    schema = client.get("/schema/?format=json").json()
    [group] = [tag for tag in schema["tags"] if tag["name"] == "Laboratorio"]
    assert settings.LABORATORY_URL in group["description"]
    assert f'href="{settings.LABORATORY_URL}"' in client.get("/docs/").content.decode()
    settings.LABORATORY_URL = ""
    assert "Laboratório" not in client.get("/docs/").content.decode()
    assert laboratory_tags("") == []


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_it_is_read_and_searched_in_a_browser(chromium: Browser, live_server: LiveServer) -> None:
    """Its menu and its search find an operation, under the page's policy, and nothing is fetched from elsewhere."""
    faults: list[str] = []
    for width in (DESK, PHONE):
        with chromium.new_context(viewport={"width": width, "height": 900}, locale="pt-BR") as window:
            page = window.new_page()
            watch(page, live_server.url, faults)
            page.goto(f"{live_server.url}/docs/")
            expect(page.locator("#tag\\/Propostas h2")).to_be_visible(timeout=60_000)
            assert not is_wider_than_its_window(page)
            if width == DESK:
                page.get_by_label("Buscar").press_sequentially("leilão")
                page.locator('[role="search"] [role="menuitem"]', has_text="leilão").click(timeout=60_000)
                expect(page).to_have_url(re.compile("operation/auction_lookup$"))
    # Redoc warns of a field that is optional and nullable, and that a rule of the body requires.
    assert [fault for fault in faults if "Incompatible types in allOf" not in fault] == []
