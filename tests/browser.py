"""Shared parts of tests in a real Chromium: a check of each page, an operator's browser, and axe-core."""

from collections.abc import Sequence
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Geolocation, Page, ViewportSize

#: Chromium runs as root with these arguments, and contacts no other host. Scripts are optimized in their own thread.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--single-threaded",
)
# Violations are written to the console, so that those during the page's load are noticed, too.
WATCH_POLICY = (
    "document.addEventListener('securitypolicyviolation', e => console.error('CSP', e.violatedDirective, e.blockedURI))"
)
DESK, PHONE = 1400, 390
SCREEN: ViewportSize = {"width": 360, "height": 740}
#: The axe-core impacts that hinder or prevent people from using a page.
SERIOUS = ("moderate", "serious", "critical")
ANY = ("minor", *SERIOUS)
#: The axe-core rules that find something else in dark colours than in light ones.
OF_COLOURS = ("color-contrast", "link-in-text-block")
#: Marks the first of all texts in the same colours, if these are not among those seen. Returns these colours: all that
#: decides about the contrast of a text, and of a link to the words around it.
NEW_COLOURS = """seen => {
    const known = new Set(seen), grounds = new Map(), found = [];
    for (const each of document.querySelectorAll('*')) {
        const style = getComputedStyle(each), around = each.parentElement;
        const own = [style.backgroundColor, style.backgroundImage, style.opacity].join();
        const ground = (grounds.get(around) ?? '') + (own === 'rgba(0, 0, 0, 0),none,1' ? '' : own);
        grounds.set(each, ground);
        each.removeAttribute('data-new');
        const has_text = [...each.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!has_text && !each.matches('input, select, textarea')) continue;
        const words = [style.color, style.fontSize, style.fontWeight, style.textDecorationLine];
        const colours = [each.matches('a'), ground, ...words, around && getComputedStyle(around).color].join();
        if (known.has(colours) || !each.checkVisibility({visibilityProperty: true})) continue;
        known.add(colours), found.push(colours), each.setAttribute('data-new', '');
    }
    return found;
}"""


def watch(page: Page, own: str, faults: list[str]) -> None:
    """Append to `faults` each request of `page` outside of the base URL `own`, each violation of the page's policy, and
    each error of its scripts."""

    def on_request(request: Any) -> None:
        if not request.url.startswith((own, "data:", "blob:")):
            faults.append(f"foreign request: {request.url}")

    def on_console(message: Any) -> None:
        # Chromium also reports our own 404 and 410 pages as errors.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            faults.append(f"console: {message.text}")

    page.on("request", on_request)
    page.on("console", on_console)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.add_init_script(WATCH_POLICY)


class Window:
    """A window of the browser `chromium` for the pages below the base URL `own`. One test after the other uses it: a
    new one takes several times as much processor time as a page. Takes Playwright's context options."""

    def __init__(self, chromium: Browser, own: str, **options: Any) -> None:
        context = chromium.new_context(locale="pt-BR", timezone_id=settings.TIME_ZONE, **options)
        context.set_default_timeout(30_000)
        self.own, self.page, self._faults = own, context.new_page(), list[str]()
        watch(self.page, own, self._faults)

    def clear(self) -> list[str]:
        """Make the window fit for the next test. Returns the faults of its pages (`watch`)."""
        context = self.page.context
        context.set_offline(False)
        context.clear_cookies()
        context.clear_permissions()
        self.page.emulate_media(media="null", color_scheme="null")
        found, self._faults[:] = list(self._faults), []
        return found

    def close(self) -> None:
        """Close the window."""
        self.page.context.close()


class Desk(Window):
    """An operator's window in the back office. The fixture `desk` fails a test whose pages have faults."""

    def open(self, path: str, user: User, permissions: Sequence[str] = ()) -> Page:
        """Open `path` as the operator `user`, in place of what the window shows."""
        self.page.set_viewport_size({"width": DESK, "height": 900})
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        self.page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": self.own}])
        self.page.context.grant_permissions(permissions)
        self.page.goto(self.own + path)
        return self.page

    def clear(self) -> list[str]:
        if self.page.url.startswith(self.own):
            self.page.evaluate("localStorage.clear()")
            self.page.goto("about:blank")
        return super().clear()


class Phone(Window):
    """A holder's phone."""

    def __init__(self, chromium: Browser, own: str) -> None:
        super().__init__(chromium, own, is_mobile=True, has_touch=True)
        self._commands = self.page.context.new_cdp_session(self.page)

    def open(
        self,
        path: str,
        *,
        script: bool = True,
        viewport: ViewportSize = SCREEN,
        geolocation: Geolocation | None = None,
        permissions: Sequence[str] = (),
    ) -> Page:
        """Open `path` without cookies, with scripts or without, at a place and with the holder's permissions."""
        self.page.set_viewport_size(viewport)
        self.page.context.grant_permissions(permissions)
        self.page.context.set_geolocation(geolocation)
        self._commands.send("Emulation.setScriptExecutionDisabled", {"value": not script})
        self.page.goto(self.own + path)
        return self.page


def violations(
    page: Page, seen: set[str], *, of_colours_alone: bool = False, but: str = "", impacts: Sequence[str] = SERIOUS
) -> list[str]:
    """What axe-core finds, a line for each element: by the rules `OF_COLOURS` at texts in colours that are not among
    those `seen` before, because they take most of the time; and by all other rules outside of `but`, a selector."""
    found = []
    if not of_colours_alone:
        others = {"rules": {rule: {"enabled": False} for rule in OF_COLOURS}}
        found = _found(page, impacts, others, **({"exclude": [[but]]} if but else {"include": [["html"]]}))
    if new := page.evaluate(NEW_COLOURS, list(seen)):
        seen.update(new)
        found += _found(page, impacts, {"runOnly": list(OF_COLOURS)}, include=[["[data-new]"]])
    return found


def _found(page: Page, impacts: Sequence[str], rules: dict[str, Any], **context: Any) -> list[str]:
    """The policy of the page may stay in force: Playwright puts the script in from outside, once for each page, because
    Chromium takes long to read it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        "([context, options]) => axe.run(context, options).then(results => results.violations)",
        [context, {"resultTypes": ["violations"], "preload": False, **rules}],
    )
    return [
        f"{each['id']}: {' '.join(node['target'])}"
        for each in found
        if each["impact"] in impacts
        for node in each["nodes"]
    ]


def darken(page: Page, is_dark: bool) -> None:
    """Show the back office's page in its dark or its light colours."""
    page.evaluate("isDark => document.documentElement.classList.toggle('dark', isDark)", is_dark)


def is_wider_than_its_window(page: Page) -> bool:
    """True if the page must be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
