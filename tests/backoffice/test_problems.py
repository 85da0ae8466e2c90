"""What the first page says of one subject each. `tests/test_admin.py` has the page as a whole."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.problems import banks
from backoffice.problems.banks import end_in_words, moved
from backoffice.problems.checks import look
from backoffice.problems.partners import refused_keys
from backoffice.problems.problem import Problem
from foundation import audit
from foundation.models import AuditEntry, Channel
from partners.failed_calls import FailedCall
from partners.models import ApiKey, Partner
from proposals.models import ErasureRequest
from providers.health import Health, Kind
from providers.models import ClientCertificate
from providers.outcomes import Outcome, write
from tests.factories import PartnerFactory, ProviderFactory, issue_key
from tests.operators import operator_with, printed
from tests.plans import assert_found_by, copy_rows, execute
from tests.webhooks.deliveries import leave_attempts, new_partner, send
from webhooks.models import Event

pytestmark = pytest.mark.django_db


REFUSED = "Na última hora nenhuma chave conhecida foi recusada, e nenhum limite de parceiro recusou chamadas."


def problems(client: Client) -> list[Problem]:
    return list(client.get("/admin/").context["problems"])


def told() -> tuple[list[str], list[str], list[str]]:
    """The titles of the problems and of the neutral lines, and what is well."""
    found, well = look(lambda permission: True)
    return (
        [each.title for each in found if not each.is_neutral],
        [each.title for each in found if each.is_neutral],
        well,
    )


def fail(minutes_ago: float, times: int = 1, **fields: Any) -> None:
    """So many failed calls, of one row."""
    at = timezone.now() - timedelta(minutes=minutes_ago)
    FailedCall.objects.create(at=at, times=times, method="GET", route="/r", request_id="r", **fields)


UNAUTHORIZED = {"status": 401, "code": "unauthorized"}


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (
            {"revoked_at": 9, "last_used_at": 12},
            "foi revogada em {revoked_at}; a última aceita foi em {last_used_at} ou no minuto seguinte",
        ),
        (
            {"expires_at": 9, "last_used_at": 12},
            "expirou em {expires_at}; a última aceita foi em {last_used_at} ou no minuto seguinte",
        ),
        ({"networks": ["192.0.2.0/24"]}, "só vale de alguns endereços; nenhuma foi aceita até hoje"),
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
    FailedCall.objects.update(at=timezone.now())
    partner.resume()
    audit.record(audit.Action.RESUMED, obj=partner)
    assert problems(admin_client) == [], "and one that was suspended needs no other key"
    fail(0, times=3, partner=partner, key_prefix=key.prefix, **UNAUTHORIZED)
    assert len(problems(admin_client)) == 1


@pytest.mark.parametrize(
    ("end", "used", "first", "last", "is_told"),
    [
        ("revoked_at", 90, 80, 50, True),  # before the fix, who gave up within a minute was not told
        ("expires_at", 90, 80, 50, True),
        ("", 90, 80, 50, False),  # a call may have been accepted after that
        ("", 190, 80, 50, True),
        ("revoked_at", 70, 80, 50, False),
    ],
)
def test_a_partner_that_gave_up_soon_is_told_if_its_key_had_ended(
    end: str, used: int, first: int, last: int, is_told: bool
) -> None:
    partner, now = PartnerFactory(name="Um"), timezone.now()
    key, _ = issue_key(partner)
    ends = {end: now - timedelta(seconds=85)} if end else {}
    ApiKey.objects.update(last_used_at=now - timedelta(seconds=used), **ends)
    for seconds_ago in (first, last):
        fail(seconds_ago / 60, times=2, partner=partner, key_prefix=key.prefix, **UNAUTHORIZED)
    red, neutral, well = told()
    assert red == (["Um: 4 chamadas recusadas na última hora"] if is_told else [])
    assert neutral == ([] if is_told else ["4 chamadas recusadas com 401 na última hora: Um"])
    assert REFUSED not in well


def test_each_key_that_is_refused_is_told() -> None:
    """Before the fix, the calls of all keys were told to be refused because one of them was revoked."""
    partner, now = PartnerFactory(name="Um"), timezone.now()
    keys = [issue_key(partner)[0] for _ in range(3)]
    for key, ends in zip(keys, ("revoked_at", "expires_at"), strict=False):
        ApiKey.objects.filter(pk=key.pk).update(**{ends: now - timedelta(minutes=9)})
        fail(5, times=2, partner=partner, key_prefix=key.prefix, **UNAUTHORIZED)
    [problem] = refused_keys()
    assert sorted(f"{key}" in problem.cause for key in keys) == [False, True, True]
    assert "foi revogada em" in problem.cause
    assert "expirou em" in problem.cause


def test_what_is_well_of_keys_and_limits_is_told_only_if_nothing_was_refused() -> None:
    """Before the fix, `Nenhum parceiro tem as chamadas recusadas` stood there while a limit refused 59 an hour."""
    partner = PartnerFactory(name="Um")
    fail(1, times=9, **UNAUTHORIZED)
    fail(1, times=9, partner=partner, field="resends", status=429, code="rate_limited")
    assert (*told()[:2], REFUSED in told()[2]) == ([], [], True)
    for field, times in (("per-minute", 59), ("cpfs-per-day", 2)):
        fail(1, times=times, partner=partner, field=field, status=429, code="rate_limited")
    assert (*told()[:2], REFUSED in told()[2]) == (
        [],
        ["61 chamadas recusadas por um limite na última hora: Um"],
        False,
    )
    FailedCall.objects.all().delete()
    assert REFUSED in told()[2]
    partner.suspend(hold_deliveries=False)
    assert REFUSED not in told()[2], "it is refused"


@pytest.mark.parametrize("by", ["page", "command"])
def test_a_limit_that_was_changed_is_no_problem_until_it_refuses_again(by: str) -> None:
    """Before the fix, the page called for a higher limit until five minutes after it was raised."""
    partner, other = PartnerFactory(name="Um", rate_limit=5), PartnerFactory(name="Dois", rate_limit=5)
    for each in (partner, other):
        fail(1, times=60, partner=each, field="per-minute", status=429, code="rate_limited")
    titles = [f"{name}: 60 chamadas recusadas na última hora" for name in ("Dois", "Um")]
    assert told()[0] == titles
    if by == "command":
        printed("set_limits", partner.pk, "--per-minute", 50)
    else:
        audit.record(audit.Action.CHANGED, obj=partner, changes={"rate_limit": [5, 50]})
    audit.record(audit.Action.CHANGED, obj=other, changes={"name": ["2", "Dois"]})
    neutral = "60 chamadas recusadas por um limite na última hora: Um"
    assert told()[:2] == (titles[:1], [neutral])
    fail(-1, times=1, partner=partner, field="per-minute", status=429, code="rate_limited")
    assert told()[0] == [titles[0], "Um: 61 chamadas recusadas na última hora"]


def test_a_bank_s_address_is_told_as_it_is_now() -> None:
    """Before the fix, `Para lá vão as credenciais e os dados dos titulares` was told of an address that had been taken
    back, and of one that was only tried."""
    bank = ProviderFactory(name="ipe", base_url="https://a.example")
    for action, old, new in (
        (audit.Action.CHANGED, "https://a.example", "https://b.example"),
        (audit.Action.TRIED, "https://b.example", "https://c.example"),
        (audit.Action.CHANGED, "https://b.example", "https://a.example"),
    ):
        audit.record(action, obj=bank, changes={"base_url": [old, new]})
    assert [(each.title, each.advice.partition(" Confirme")[0]) for each in moved()] == [
        ("Ipê: novo endereço", "Para lá vão as credenciais e os dados dos titulares."),
        ("Ipê: teste de novo endereço", "Para lá foram as credenciais digitadas; não é o endereço de agora."),
        ("Ipê: novo endereço", "Para lá foram as credenciais; não é o endereço de agora."),
    ]


def test_events_without_a_way_out_leave_out_that_partners_receive() -> None:
    """Before the fix, `Os parceiros recebem os seus eventos` stood below `1 evento não pode sair`."""
    sentence = "Os parceiros recebem os seus eventos: nenhum está atrasado, nem ficou sem entrega."
    assert sentence in told()[2]
    partner = new_partner("https://partner.example/w")
    send(partner)
    for changes in ({"webhook_secret": None}, {"deliveries_held": True}, {"webhook_url": ""}):
        type(partner).objects.update(**changes)
        red, neutral, well = told()
        assert len(red + neutral) == 1
        assert sentence not in well


def test_events_that_wait_after_few_failures_are_told_beside_what_is_well() -> None:
    """Before the fix, `Os parceiros recebem os seus eventos: nenhum está atrasado` stood above them."""
    partner = new_partner("https://partner.example/w")
    first, second = send(partner, 2)
    leave_attempts(first, 1, "status", minutes_ago=3)
    leave_attempts(second, 19, minutes_ago=2)
    Event.objects.filter(pk=first.pk).update(fault="status", failures=1)
    Event.objects.filter(pk=second.pk).update(state=Event.State.DELIVERED, due_at=None)
    red, neutral, well = told()
    assert (red, neutral) == ([], [f"1 evento espera nova tentativa: {partner.name}"])
    assert not [each for each in well if each.startswith("Os parceiros recebem")]


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
    write("ipe", {(Outcome.LOGIN_REFUSED, "p"): 3}, timezone.now().timestamp() - 60, {})
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


@pytest.mark.parametrize(("days", "words"), [(-1, "Desde então"), (1, "Depois disso")])
def test_what_a_certificate_that_has_ended_or_will_end_means(monkeypatch: Any, days: int, words: str) -> None:
    ends = ClientCertificate("ipe", timezone.now() + timedelta(days=days))
    monkeypatch.setattr(banks, "client_certificates", lambda: [ends])
    [problem] = banks.certificates()
    assert problem.cause == f"{words} o banco pode recusar as nossas conexões."


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
    """With so many partners that it costs more to look each of them up."""
    partner, *_ = PartnerFactory.create_batch(100)
    execute(f"ANALYZE {Partner._meta.db_table}")
    fail(20 * 60, partner=partner, **UNAUTHORIZED)
    copy_rows(
        FailedCall.objects.get(partner=partner),
        5000,
        id="nextval('partners_failedcall_id_seq')",
        at="at - n * interval '9 s'",
    )
    fail(1, times=9, partner=PartnerFactory(), **UNAUTHORIZED)
    assert_found_by("failed_call_newest", "MIN(", lambda: list(refused_keys()))


def test_who_may_not_send_again_gets_no_link_to_it(admin_client: Client) -> None:
    """Before the fix, `Reenviar desde a falha` led those of the role support to a refusal."""
    partner = new_partner("https://partner.example/w")
    leave_attempts(*send(partner), 3, "refused")
    support = operator_with("view_event", "view_partner")
    for client, is_offered in ((admin_client, True), (support, False)):
        [problem] = problems(client)
        assert ("Reenviar desde a falha" in [link.name for link in problem.more]) is is_offered
        page = client.get(reverse("partner", args=[partner.pk])).text
        assert ("reenviar desde a falha" in page, "Avise o parceiro" in page) == (is_offered, True)


def test_an_outage_that_two_checks_find_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fix, twice, if the first query became overdue between the two looks."""
    outages = (Problem("Redis", "/admin/", since=since) for since in (None, timezone.now()))
    monkeypatch.setattr("backoffice.problems.checks.redis_answers", lambda: False)
    for module in ("work", "banks"):
        monkeypatch.setattr(f"backoffice.problems.{module}.redis_away", lambda: next(outages))
    monkeypatch.setattr("backoffice.problems.banks.health_of", lambda: {"ipe": Health(Kind.UNREAD)})
    assert [each.title for each in look(lambda permission: permission == "providers.view_provider")[0]] == ["Redis"]
