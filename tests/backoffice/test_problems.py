"""What the first page says of one subject each. `tests/test_admin.py` has the page as a whole."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.banks import end_in_words
from backoffice.problems.partners import refused_keys
from backoffice.problems.problem import Problem
from foundation import audit
from foundation.models import AuditEntry, Channel
from partners.failed_calls import FailedCall
from partners.models import ApiKey
from proposals.models import ErasureRequest
from providers.outcomes import Outcome, write
from tests.factories import PartnerFactory, ProviderFactory, issue_key
from tests.operators import operator_with
from tests.plans import assert_found_by, copy_rows
from tests.webhooks.deliveries import leave_attempts, new_partner, send

pytestmark = pytest.mark.django_db


def problems(client: Client) -> list[Problem]:
    return list(client.get("/admin/").context["problems"])


def fail(minutes_ago: float, times: int = 1, **fields: Any) -> None:
    """So many failed calls, of one row."""
    at = timezone.now() - timedelta(minutes=minutes_ago)
    FailedCall.objects.create(at=at, times=times, method="GET", route="/r", request_id="r", **fields)


UNAUTHORIZED = {"status": 401, "code": "unauthorized"}


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"revoked_at": 9, "last_used_at": 12}, "foi revogada em {revoked_at}; a última aceita foi em {last_used_at}"),
        ({"expires_at": 9, "last_used_at": 12}, "expirou em {expires_at}; a última aceita foi em {last_used_at}"),
        ({"networks": ["192.0.2.0/24"]}, "não vale deste endereço; nenhuma foi aceita até hoje"),
        ({}, "vale agora; nenhuma foi aceita até hoje"),  # the partner was suspended
    ],
)
def test_a_partner_whose_calls_are_all_refused_for_the_key_is_a_problem(
    admin_client: Client, ends: dict[str, Any], words: str
) -> None:
    """Before the fix, the page said `Tudo bem` while every call of the partner got 401."""
    partner, other = PartnerFactory(name="Um"), PartnerFactory(name="Dois")
    key, _ = issue_key(partner)
    issue_key(partner)
    now = timezone.now()
    times = {name: now - timedelta(minutes=ago) for name, ago in ends.items() if isinstance(ago, int)}
    ApiKey.objects.filter(pk=key.pk).update(**{**ends, **times})
    for minutes_ago in (9, 5):
        fail(minutes_ago, partner=partner, key_prefix=key.prefix, **UNAUTHORIZED)
        fail(minutes_ago, partner=other, **UNAUTHORIZED)
        fail(minutes_ago, times=99, **UNAUTHORIZED)
    assert problems(admin_client) == [], "two calls are no news, and a stranger is nobody's problem"
    fail(1, times=40, partner=partner, **UNAUTHORIZED)
    [problem] = problems(admin_client)
    assert problem.title == "Um: 42 chamadas recusadas na última hora"
    words = words.format(**{name: f"{timezone.localtime(at):%d/%m %H:%M}" for name, at in times.items()})
    assert problem.cause == f"A chave {key.prefix}… {words}"
    assert admin_client.get(problem.address).context["cl"].result_count == 3
    ApiKey.objects.exclude(pk=key.pk).update(last_used_at=now - timedelta(minutes=3))
    assert problems(admin_client) == [], "the partner's other key is in use"
    FailedCall.objects.update(at=now - timedelta(minutes=2.5))
    assert problems(admin_client) == [], "and may have been until a minute after the last noted use"
    ApiKey.objects.update(last_used_at=None)
    partner.suspend(hold_deliveries=False)
    assert problems(admin_client) == [], "a suspended partner has its own line"


@pytest.mark.parametrize(("limit", "least"), [("cpfs-per-day", 3), ("per-minute", 60), ("in-flight", 60)])
def test_a_partner_whose_limit_is_used_up_is_a_problem(admin_client: Client, limit: str, least: int) -> None:
    """Before the fix, no page but the partner's own told it."""
    partner = PartnerFactory(name="Um")
    issue_key(partner)
    ApiKey.objects.update(last_used_at=timezone.now())
    refused = {"partner": partner, "status": 429, "code": "rate_limited"}
    fail(61, times=99, field=limit, **refused)
    fail(9, times=least - 2, field=limit, **refused)
    fail(1, field=limit, **refused)
    fail(1, times=99, field="resends", **refused)
    assert problems(admin_client) == []
    fail(2, field=limit, **refused)
    [problem] = problems(admin_client)
    assert problem.title == f"Um: {least} chamadas recusadas na última hora"
    assert problem.cause.startswith("O limite de ")
    assert admin_client.get(problem.address).context["cl"].result_count == 5
    FailedCall.objects.update(at=F("at") - timedelta(minutes=5))
    assert problems(admin_client) == [], "the limit was raised, or the day is over"


def test_who_changed_refused_credentials_last_is_told(admin_client: Client) -> None:
    """Before the fix, the page said `credenciais recusadas`, and nobody knew whose they were."""
    bank = ProviderFactory(name="ipe")
    type(bank).objects.update(updated_at=timezone.now() - timedelta(days=9))
    for action, changes, who in (
        (audit.Action.CHANGED, {"credential_client_secret": ["a", "b"]}, "ana"),
        (audit.Action.TRIED, {"credential_client_secret": ["a", "b"]}, "rui"),
        (audit.Action.CHANGED, {"timeout_s": [1, 2]}, "rui"),
    ):
        audit.record(action, request=audit.Source(who, Channel.BACK_OFFICE), obj=bank, changes=changes)
    write("ipe", {(Outcome.LOGIN_REFUSED, "p"): 3}, timezone.now().timestamp() - 60)
    entry = AuditEntry.objects.earliest("pk")
    [problem] = problems(admin_client)
    assert problem.title == "Ipê: credenciais recusadas"
    assert problem.cause.endswith(f"credenciais mudadas por ana em {timezone.localtime(entry.at):%d/%m %H:%M}")
    [_, trail] = problem.more
    assert trail.name == "Auditoria"
    assert admin_client.get(trail.address, follow=True).context["cl"].result_count == 3
    [for_others] = problems(operator_with("view_provider"))
    assert for_others.more == []


@pytest.mark.parametrize(("hour", "words"), [(23, "vence"), (0, "venceu")])
def test_a_certificate_that_ends_today_is_told_with_its_hour(hour: int, words: str) -> None:
    """Before the fix, `vence em 26/11/2026 (hoje)`: in ten hours, or in one?"""
    ends_at = timezone.localtime().replace(hour=hour, minute=hour and 59, second=hour and 59)
    assert end_in_words(ends_at) == f"{words} em {ends_at:%d/%m/%Y} (hoje, às {ends_at:%H:%M})"


def test_an_erasure_that_waits_for_a_second_person_is_a_problem(admin_client: Client, settings: Any) -> None:
    """Before the fix, it waited until it had to be asked for again."""
    now = timezone.now()
    for who, days in (("ana", 6), ("rui", 1), ("eva", 8)):
        ErasureRequest.objects.create(cpf_index=who, asked_by=who, asked_at=now - timedelta(days=days))
    assert problems(admin_client) == [], "one person is enough"
    settings.ERASURE_BY_TWO = True
    [problem] = problems(admin_client)
    assert problem.title == "2 exclusões de dados esperam por outra pessoa"
    assert (problem.cause, problem.since) == ("Quem pediu: ana, rui", now - timedelta(days=6))
    assert f"{timezone.localtime(now + timedelta(days=1)):%d/%m %H:%M}" in problem.advice
    assert admin_client.get(problem.address).context["cl"].result_count == 3


def test_refused_calls_are_read_by_their_time() -> None:
    partner = PartnerFactory()
    fail(20 * 60, partner=partner, **UNAUTHORIZED)
    copy_rows(
        FailedCall.objects.get(partner=partner),
        5000,
        id="nextval('partners_failedcall_id_seq')",
        at="at - n * interval '9 s'",
    )
    fail(1, times=9, partner=PartnerFactory(), **UNAUTHORIZED)
    assert_found_by("failed_call_newest", "HAVING", lambda: list(refused_keys()))


def test_who_may_not_send_again_gets_no_link_to_it(admin_client: Client) -> None:
    """Before the fix, `Reenviar desde a falha` led those of the role support to a refusal."""
    partner = new_partner("https://partner.example/w")
    leave_attempts(*send(partner), 3, "refused")
    support = operator_with("view_event", "view_partner")
    for client, is_offered in ((admin_client, True), (support, False)):
        [problem] = problems(client)
        assert ("Reenviar desde a falha" in [link.name for link in problem.more]) is is_offered
        page = client.get(reverse("partner", args=[partner.pk])).content.decode()
        assert ("reenviar desde a falha" in page, "Avise o parceiro" in page) == (is_offered, True)
