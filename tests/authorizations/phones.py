"""The browser of the holder's phone, used by one test after the other."""

from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser import watch

PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "locale": "pt-BR"}


class Phones:
    """The browser of one phone of each kind. A new browser takes three times as much processor time as loading the
    holder's page in it, so later tests use it, too. The page stores nothing but cookies."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._kept: dict[str, Page] = {}
        self._open: dict[str, Page] = {}
        self._faults: list[str] = []

    def open(self, own: str, path: str, *, script: bool = True, spoilt: bool = False, **options: Any) -> Page:
        """Open `path` of the base URL `own` on a phone without cookies. Takes Playwright's context options. If the test
        does something to the browser that `clear` does not undo, it must say that it will be `spoilt`."""
        kind = repr((own, script, options))
        assert kind not in self._open, "a test uses one phone of each kind"
        page = (None if spoilt else self._kept.pop(kind, None)) or self._new(own, script, options)
        self._open["spoilt" if spoilt else kind] = page
        page.goto(own + path)
        return page

    def _new(self, own: str, script: bool, options: dict[str, Any]) -> Page:
        context = self._chromium.new_context(**{**PHONE, "java_script_enabled": script, **options})
        context.set_default_timeout(10_000)
        page = context.new_page()
        watch(page, own, self._faults)
        return page

    def clear(self) -> list[str]:
        """Make the test's phones fit for the next test. Returns the faults of their pages (`tests.browser.watch`)."""
        if spoilt := self._open.pop("spoilt", None):
            spoilt.context.close()
        for page in self._open.values():
            page.context.set_offline(False)
            page.context.clear_cookies()
            page.emulate_media(media="null", color_scheme="null")
        self._kept.update(self._open)
        self._open = {}
        found, self._faults[:] = list(self._faults), []
        return found

    def close(self) -> None:
        """Close all browsers."""
        for page in self._kept.values():
            page.context.close()
