"""The second factor of operators."""

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError
from django.test import Client
from django.utils import timezone
from django_otp.oath import totp

from foundation.models import RECOVERY_CODES, AuditEntry, RegisteredPhone
from tests.operators import printed
from tests.plans import execute
from tests.unit.test_settings import GOOD, read

PAGE = "/admin/second-factor/"
PASSWORD = "a long enough password"
RECOVERY = re.compile(r"<li>([A-Z2-7 ]+)</li>")


@pytest.fixture
def operator(db: None, settings: Any) -> Client:
    """An operator who has given the right password."""
    settings.SECOND_FACTOR = True
    User.objects.create_superuser("operadora", password=PASSWORD)
    return logged_in()


def logged_in() -> Client:
    """A further session of the operator, after the password."""
    client = Client()
    client.force_login(User.objects.get())
    return client


def offered_key(client: Client) -> str:
    """The key that the page shows at a visit."""
    page = client.get(PAGE).text
    assert "Código QR" in page
    [key] = re.findall(r"font-mono\">([A-Z2-7 ]+)</p>", page)
    return key.replace(" ", "")


def code(key: str = "") -> str:
    """The code that the phone with `key` shows; by default, the registered phone."""
    return f"{totp(base64.b32decode(key or RegisteredPhone.objects.get().key)):06d}"


def give(client: Client, digits: str, then: str = "/admin/partners/partner/", password: str = PASSWORD) -> Any:
    return client.post(f"{PAGE}?next={then}", {"code": digits, "password": password})


def register(client: Client) -> list[str]:
    """Register a phone. Returns the recovery codes."""
    page = give(client, code(offered_key(client))).text
    return RECOVERY.findall(page)


def let_pass() -> None:
    """Let the time pass for which a used or a wrong code blocks the next."""
    RegisteredPhone.objects.update(last_step=-1, throttling_failure_timestamp=timezone.now() - timedelta(days=1))


@pytest.mark.control("V6")
def test_no_page_opens_by_the_password_alone(operator: Client) -> None:
    for path in ("/admin/", "/admin/partners/partner/", "/admin/password_change/"):
        assert operator.get(path).url == f"{PAGE}?next={path.replace('/', '%2F')}"
    assert operator.post("/admin/partners/partner/add/", {}).status_code == 302
    assert Client().get(PAGE).url.startswith("/admin/login/"), "and not this one without the password"


def test_each_visit_shows_a_new_key_until_one_is_confirmed(operator: Client) -> None:
    """Before the fix, whoever had the first password saw the key that the owner confirmed later, and had it too."""
    intruder = logged_in()
    seen = {offered_key(intruder), offered_key(intruder)}
    mine = offered_key(operator)
    assert len(seen | {mine}) == 3
    give(operator, code(mine))
    assert operator.get("/admin/").status_code == 200
    for key in seen:
        let_pass()
        assert give(intruder, code(key)).status_code == 200
    assert intruder.get("/admin/").status_code == 302


def test_confirming_asks_for_the_password_again(operator: Client, settings: Any) -> None:
    """Before the fix, an open session alone could register a phone. Wrong passwords count like failed logins."""
    for wrong in ("", "another long password"):
        key = offered_key(operator)
        assert "Senha incorreta" in give(operator, code(key), password=wrong).text
    assert not RegisteredPhone.objects.exists()
    assert AuditEntry.objects.filter(action="log_in_failed", who="operadora").count() == 2


def test_neither_the_key_nor_a_recovery_code_is_plain_in_the_database(operator: Client) -> None:
    """Before the fix, whoever read the database had every operator's key."""
    key = offered_key(operator)
    [session] = Session.objects.all()
    assert key not in str(session.get_decoded())
    codes = [each.replace(" ", "") for each in RECOVERY.findall(give(operator, code(key)).text)]
    [[stored]] = execute("SELECT row_to_json(p)::text FROM foundation_registeredphone p")
    forms = (key, base64.b32decode(key).hex(), *codes)
    assert not any(form in stored for form in forms)
    assert len(codes) == RECOVERY_CODES


def test_a_recovery_code_passes_once_in_place_of_the_phone(operator: Client) -> None:
    [first, *_] = register(operator)
    other = logged_in()
    assert give(other, first.lower()).status_code == 302
    assert other.get("/admin/").status_code == 200
    entry = AuditEntry.objects.filter(action="second_factor_passed").first()
    assert entry.detail == f"Código de recuperação; restam {RECOVERY_CODES - 1}."
    third = logged_in()
    assert give(third, first).status_code == 200, "a code passes once"
    assert third.get("/admin/").status_code == 302


def test_who_has_passed_registers_another_phone_and_the_earlier_one_ends(operator: Client) -> None:
    earlier = register(operator)
    before = RegisteredPhone.objects.get().key
    other = logged_in()
    let_pass()
    give(other, code())
    later = register(operator)
    assert RegisteredPhone.objects.get().key != before
    assert other.get("/admin/").status_code == 302, "other open sessions have to pass again"
    assert give(other, earlier[0]).status_code == 200
    let_pass()
    assert give(other, later[0]).status_code == 302


def test_a_code_of_the_shown_key_registers_the_phone_and_another_session_needs_another_code(operator: Client) -> None:
    key = offered_key(operator)
    used = code(key)
    assert key in give(operator, "000000").text.replace(" ", ""), "a wrong first code keeps the key on the page"
    assert "/admin/partners/partner/" in give(operator, used).text
    assert (operator.get("/admin/").status_code, RegisteredPhone.objects.get().key) == (200, key)
    other = logged_in()
    assert "Código QR" not in other.get(PAGE).text, "the key is not shown again"
    assert other.get("/admin/").status_code == 302
    assert give(other, used).status_code == 200, "a code counts once"
    let_pass()
    assert give(other, code(), then="https://evil.example/admin/").url == "/admin/", "it leads to no other site"
    assert other.get("/admin/").status_code == 200


def test_wrong_codes_hold_back_the_right_one(operator: Client) -> None:
    """Before the fix, only well-formed codes counted as wrong: the right one passed a second after the first."""
    register(operator)
    other = logged_in()
    for number, wrong in enumerate(("000000", "12345", "1234567", "abcdef", "1\0", "", "１２３４５６"), 1):
        let_pass()
        assert give(other, wrong).status_code == 200
        assert RegisteredPhone.objects.get().throttling_failure_count == number, wrong
    # The wait is 64 s now. The clock is set to its beginning, however long the requests above took.
    RegisteredPhone.objects.update(last_step=-1, throttling_failure_timestamp=timezone.now() + timedelta(hours=1))
    assert give(other, code()).status_code == 200
    let_pass()
    assert give(other, code()).status_code == 302
    assert RegisteredPhone.objects.get().throttling_failure_count == 0
    failed = AuditEntry.objects.filter(action="second_factor_failed")
    assert {entry.who for entry in failed} == {"operadora"}


def test_a_lost_phone_is_taken_away_by_command(operator: Client) -> None:
    register(operator)
    assert printed("reset_second_factor", "operadora") == {"account": "operadora", "removed": 1}
    assert operator.get("/admin/").status_code == 302, "open sessions too"
    with pytest.raises(CommandError):
        printed("reset_second_factor", "ninguem")


@pytest.mark.control("CMN I")
def test_production_requires_it_unless_a_setting_says_otherwise() -> None:
    """Before the fix, an empty SECOND_FACTOR turned the second factor off in production."""
    told = ({**GOOD}, {**GOOD, "SECOND_FACTOR": ""}, {**GOOD, "SECOND_FACTOR": "false"}, {})
    assert [read(**variables)["SECOND_FACTOR"] for variables in told] == [True, True, False, False]
