import pytest
from django.utils import timezone
from authorizations.models import Session
from authorizations import migrations
from tests.authorizations.clients import public
from tests.authorizations.test_page_in_browser import *
from tests.authorizations.test_page_in_browser import chromium, phone, partner
import importlib

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390])
def test_shots(phone, session, scheme, width):
    from django.db import connection

    T = importlib.import_module("authorizations.migrations.0003_first_terms").TEXT
    t = Terms.objects.create(version="x" + scheme + str(width), text=T)
    t.publish()
    Session.objects.update(terms=t)
    o = dict(color_scheme=scheme, viewport={"width": width, "height": 780}, device_scale_factor=1.5)
    d = f"/tmp/w/shots/{scheme}-{width}-"
    page = phone(public(session), geolocation=SAO_PAULO, permissions=["geolocation"], **o)
    page.screenshot(path=d + "ask.png", full_page=True)
    page.screenshot(path=d + "fold.png")
    page.get_by_role("button", name=SHARE).tap()
    page.wait_for_timeout(500)
    page.locator("#location").screenshot(path=d + "shared.png")
    p2 = phone(public(session), **o)
    p2.get_by_role("button", name=SHARE).tap()
    p2.wait_for_timeout(500)
    p2.screenshot(path=d + "refused.png")
    page.get_by_role("button", name=ACCEPT).tap()
    expect_accepted(page)
    page.screenshot(path=d + "accepted.png", full_page=True)
    Session.objects.update(expires_at=timezone.now(), status="pending")
    phone(public(session), **o).screenshot(path=d + "expired.png")
    phone("/partners/v1/authorizations/public/xx", **o).screenshot(path=d + "unknown.png")


from authorizations.models import Terms
