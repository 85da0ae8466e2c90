"""The back office in a real Chromium: what the policy lets run, what axe-core says, and what a phone shows."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests.browser import DESK, PHONE, Desk, is_wider_than_its_window, shoot, violations

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_superuser("operadora")


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_first_page(desk: Desk, operator: User, width: int) -> None:
    page = desk.open("/admin/", operator, width=width)
    shoot(page, f"first-{width}")
    assert violations(page) == []
    assert not is_wider_than_its_window(page)
