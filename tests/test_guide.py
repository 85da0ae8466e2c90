"""The guide's and the API reference's web pages: made without a warning, served under a strict policy and in few bytes,
readable and searchable in a browser."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.contrib.staticfiles.finders import find
from django.core.signals import request_finished
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from config import documents
from config.api_reference import laboratory_tags
from config.local import guide
from tests.browser import DESK, PHONE, is_wider_than_its_window, watch

FOLDER = guide.DEFAULT_FOLDER


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    """Sphinx's warnings, a dead link for example, are errors."""
    guide.build()


@pytest.fixture(autouse=True)
def _served(settings: object) -> None:
    settings.GUIDE_ROOT = FOLDER  # type: ignore[attr-defined]


def code_inside(page: Path) -> Iterator[str]:
    """Code inside a page, and what a page fetches from elsewhere."""
    for tag in BeautifulSoup(page.read_text(), "html.parser").find_all(True):
        if tag.name == "style" or tag.has_attr("style") or (tag.name == "script" and not tag.has_attr("src")):
            yield f"{tag.name} {tag.attrs}"
        yield from (f"{tag.name} {name}" for name in tag.attrs if name.startswith("on"))
        fetched = tag.get("src") or (tag.get("href") if tag.name == "link" else None)
        if fetched and re.match(r"(https?:)?//", fetched):
            yield f"{tag.name} {fetched}"


def pages() -> Iterator[Path]:
    yield from sorted(FOLDER.rglob("*.html"))


def test_no_page_has_code_inside_or_fetches_from_elsewhere() -> None:
    found = {str(page.relative_to(FOLDER)): list(code_inside(page)) for page in pages()}
    assert len(found) > 20
    assert {name: each for name, each in found.items() if each} == {}
    scripts = "".join(script.read_text() for script in FOLDER.rglob("*.js") if script.name != "doctools.js")
    assert "new Function" not in scripts.replace('new Function("return this")()', "")


def test_unchanged_sources_are_not_built_again() -> None:
    assert guide.build() is False


def test_each_page_names_the_language_of_its_readers() -> None:
    languages = {page: re.search(r'<html[^>]* lang="([^"]+)"', page.read_text()) for page in pages()}
    told = {str(page.relative_to(FOLDER)): found[1] for page, found in languages.items() if found}
    english = {name for name, language in told.items() if language != "pt-BR"}
    assert not any(name.startswith("partners/") for name in english)
    assert {name for name in told if name.startswith("team/")} - english == {
        f"team/{name}.html" for name in ("index", "operator-guide", "search", "genindex")
    }


def test_partners_are_served_their_own_pages_only(client: Client) -> None:
    """Before the fix, decisions, operations and the banks' manuals were served to partners, and their search found
    them."""
    served = {page.stem for page in (FOLDER / "partners").rglob("*.html")} - {"search", "genindex"}
    assert served == {page.stem for page in guide.SOURCES.glob("*.md")}
    index = (FOLDER / "partners" / "searchindex.js").read_text()
    assert re.search(r'"?docnames"?:(\[[^]]*\])', index)[1].replace('"', "").strip("[]").split(",") == sorted(served)
    for page in ("operator-guide.html", "decisions/README.html", "../team/operations.html"):
        assert client.get(f"/docs/guia/{page}").status_code in (404, 422)
    login = client.get("/admin/guia/operations.html")
    assert (login.status_code, login["Location"].partition("?")[0]) == (302, "/admin/login/")


def test_operators_are_led_to_their_guide(admin_client: Client) -> None:
    """Before the fix, the guide's first address was 404."""
    response = admin_client.get("/admin/guia/", follow=True)
    assert (response.status_code, response.redirect_chain) == (200, [("/admin/guia/operator-guide.html", 302)])
    assert "Guia do operador" in b"".join(response).decode()  # the file, and closed


def test_the_theme_speaks_portuguese() -> None:
    """Before the fix, partners read "On this page", "Next" and "Previous"."""
    text = "".join(page.read_text() for page in (FOLDER / "partners").glob("*.html"))
    assert re.findall(rf'[">]\s*({"|".join(map(re.escape, guide.CHROME))})\s*["<]', text) == []
    told = set(re.findall(r'aria-label="([^"]+)"', text)) | set(re.findall(r"<span>([A-Z][^<]+)</span>", text))
    assert set(guide.CHROME.values()) - {"Ir ao conteúdo", "Nesta página", "Início"} <= told


@pytest.mark.parametrize("path", ["", "index.html", "webhooks.html", "_static/guide.css"])
def test_a_page_is_served_under_a_strict_policy(client: Client, path: str) -> None:
    response = client.get(f"/docs/guia/{path}")
    assert response.status_code == 200
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"".join(response)  # type: ignore[arg-type]  # the file, and closed


@pytest.mark.parametrize(
    "file", sorted([*guide.SOURCES.glob("*.json"), *guide.SOURCES.glob("samples/*.*")]), ids=lambda file: file.name
)
def test_each_file_of_the_samples_is_served_and_shown(client: Client, file: Path) -> None:
    """Before the fix, the samples read files that no page had, and a partner had to copy the programs out of it."""
    response = client.get(f"/docs/guia/{file.name}")
    assert b"".join(response) == file.read_bytes()  # type: ignore[arg-type]  # the file, and closed
    is_body = file.suffix == ".json"
    assert (response["Content-Type"] == "application/json") is is_body
    shown = f"/docs/guia/{file.name}" if is_body else f"samples/{file.name}"
    assert shown in (guide.SOURCES / "clientes.md").read_text()


def test_the_body_of_a_submission_is_shown_whole() -> None:
    assert (guide.SOURCES / "proposta.json").read_text() in (guide.SOURCES / "propostas.md").read_text()


@pytest.mark.parametrize(
    "path", ["nothing.html", "_static/", "%00", "../settings.py", "..%2f..%2fmanage.py", "a" * 300]
)
def test_nothing_else_is_served(client: Client, path: str) -> None:
    """Before the fixes, 500 where no file can have the name, and an error in the log where it leads out."""
    assert [client.get(f"/docs/{folder}/{path}").status_code for folder in ("guia", "clientes")] == [404, 404]


def test_a_page_with_addresses_ends_its_request_once(client: Client) -> None:
    """Before the fix, the view told everybody that its request had ended, and Django closed the connection to the
    database in the middle of it."""
    ended: list[object] = []

    def note(**_: object) -> None:
        ended.append(None)

    request_finished.connect(note)
    try:
        client.get("/docs/guia/index.html")
    finally:
        request_finished.disconnect(note)
    assert len(ended) == 1


def test_a_guide_that_was_not_built_is_404(client: Client, settings: object, tmp_path: Path) -> None:
    settings.GUIDE_ROOT = tmp_path / "none"  # type: ignore[attr-defined]
    assert client.get("/docs/guia/").status_code == 404


def test_reference_and_guide_lead_to_each_other(client: Client) -> None:
    external = client.get("/schema/?format=json").json()["externalDocs"]
    assert external["url"].endswith("/docs/guia/")
    assert 'href="/docs/"' in (FOLDER / "partners" / "index.html").read_text()
    assert client.get("/docs/guia")["Location"] == "/docs/guia/"


@pytest.mark.parametrize("laboratory", ["http://127.0.0.1:1/lab/", ""])
def test_its_calls_name_the_service_that_shows_it(client: Client, settings: Any, laboratory: str) -> None:
    """Before the fix, a reader had to put the sandbox's address into each call. Production shows an example host."""
    settings.LABORATORY_URL, settings.PUBLIC_BASE_URL = laboratory, "http://here.example"
    text = b"".join(client.get("/docs/guia/index.html")).decode()  # type: ignore[arg-type]
    assert ("http://here.example" in text, "http://127.0.0.1:1/lab/holders" in text) == (bool(laboratory),) * 2
    assert ("https://sandbox.example" in text, "https://simulador.example" in text) == (not laboratory,) * 2


def choose_and_copy(page: Page) -> None:
    """Each group of tabs shows the chosen language, on the next page too, and a button copies what is shown."""
    page.get_by_role("button", name="Python", exact=True).first.click()
    shown = page.locator(".literal-block-wrapper:visible")
    expect(shown).to_have_count(5)
    shown.nth(2).get_by_role("button", name="Copiar").click()
    expect(shown.nth(2).get_by_role("button", name="Copiado")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith('body = call("GET", ')
    page.reload()
    expect(page.locator(".languages button[aria-pressed=true]").first).to_have_text("Python")


def search(page: Page, address: str, words: str) -> list[str]:
    """The addresses that the guide's search finds, once it has ended."""
    page.goto(f"{address}/docs/guia/search.html?q={words}")
    expect(page.locator("#search-results .search-summary")).to_contain_text("encontr")
    links = page.locator("#search-results li a")
    return links.evaluate_all("(links) => links.map((link) => link.getAttribute('href'))")  # type: ignore[no-any-return]


def search_as_people_type(page: Page, address: str) -> None:
    """Before the fix, "averbacao" found nothing: a word was found only with its accents."""
    for written, *typed in (("averbação", "averbacao", "AVERBAÇÃO", "averbacoes"), ("não crédito", "nao CREDITO")):
        found = search(page, address, written)
        assert found
        expect(page.locator("#search-results .context").first).to_be_visible()
        assert {words: search(page, address, words) for words in typed} == dict.fromkeys(typed, found)
    expect(page.locator("#search-results .highlighted").first).to_have_text(re.compile("crédito", re.IGNORECASE))


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_it_is_read_and_searched_in_a_browser(chromium: Browser, live_server: LiveServer) -> None:
    """The policy blocks nothing that the pages need, and nothing is fetched from elsewhere."""
    faults: list[str] = []
    with chromium.new_context(viewport={"width": PHONE, "height": 844}, locale="pt-BR") as phone:
        phone.grant_permissions(["clipboard-read", "clipboard-write"])
        page = phone.new_page()
        watch(page, live_server.url, faults)
        for name in sorted(page.name for page in (FOLDER / "partners").glob("*.html")):
            page.goto(f"{live_server.url}/docs/guia/{name}")
            tables = page.evaluate("Math.max(0, ...[...document.querySelectorAll('table')].map((t) => t.scrollWidth))")
            assert (is_wider_than_its_window(page), tables <= PHONE) == (False, True), name
        page.goto(f"{live_server.url}/docs/guia/")
        choose_and_copy(page)
        search_as_people_type(page, live_server.url)
        assert search(page, live_server.url, "assinatura")
        expect(page.locator("#reference-results a").first).to_have_attribute(
            "href", re.compile(r"/docs/#operation/\w+")
        )
    assert faults == []


# --- the reference


def test_each_english_text_of_redoc_is_found_and_replaced() -> None:
    """A new release of Redoc that says something else must not bring English back unnoticed."""
    english = Path(str(find(documents._REDOC))).read_text("utf-8")
    assert [text for text in documents.PORTUGUESE if text not in english] == []
    assert "redoc.ly/redoc/logo" not in documents._redoc()


@pytest.mark.parametrize(
    "path", ["/docs/", "/docs/redoc.js", "/docs/guia/", "/docs/guia/searchindex.js", "/schema/", "/schema/?format=json"]
)
def test_what_is_larger_than_a_kilobyte_is_sent_compressed(client: Client, path: str) -> None:
    """Before the fix, the reference's script had 1.59 MB on the wire, and the schema 698 KB."""
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
def test_the_reference_is_read_and_searched_in_a_browser(chromium: Browser, live_server: LiveServer) -> None:
    """Its menu and its search find an operation, under the page's policy, and nothing is fetched from elsewhere."""
    faults: list[str] = []
    with chromium.new_context(viewport={"width": DESK, "height": 900}, locale="pt-BR") as window:
        page = window.new_page()
        watch(page, live_server.url, faults)
        page.goto(f"{live_server.url}/docs/")
        for width in (PHONE, DESK):
            page.set_viewport_size({"width": width, "height": 900})
            expect(page.locator("#tag\\/Propostas h2")).to_be_visible(timeout=60_000)
            assert not is_wider_than_its_window(page)
        page.get_by_label("Buscar").press_sequentially("leilão")
        page.locator('[role="search"] [role="menuitem"]', has_text="leilão").click(timeout=60_000)
        expect(page).to_have_url(re.compile("operation/auction_lookup$"))
    # Redoc warns of a field that is optional and nullable, and that a rule of the body requires.
    assert [fault for fault in faults if "Incompatible types in allOf" not in fault] == []
