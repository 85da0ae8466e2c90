"""A partner's delivery health, told from its last attempts, and the metrics of the outbox."""

from datetime import timedelta

import pytest
from django.utils import timezone

from config.metrics import outbox
from partners.models import Partner
from tests.plans import assert_read_by, copy_rows, executed
from tests.webhooks.deliveries import an_event, leave_attempts, new_partner, send
from webhooks import delivery, health
from webhooks.models import Attempt, Event

URL, PARTNERS = "https://partner.example/w", "webhook_partners"
pytestmark = pytest.mark.django_db


@pytest.fixture
def partner() -> Partner:
    return new_partner(URL)


def told(partner: Partner) -> tuple[str, int, int]:
    """State, failed attempts and all attempts looked at."""
    [found] = health.of_partners(partner.pk)
    return found.state, found.failed, len(found.faults)


@pytest.mark.parametrize(
    ("attempts", "waits", "state", "failed", "seen"),
    [
        ([("", 1)], True, "receiving", 0, 1),
        ([("timeout", 1)], True, "down", 1, 1),
        ([("", 40), ("status", 1)], True, "receiving", 1, 20),
        ([("", 40), ("status", 2)], True, "failing", 2, 20),
        ([("", 40), ("status", 3)], True, "down", 3, 20),
        ([("status", 40), ("", 1)], True, "failing", 19, 20),
        # Before the fix, one event that waited for a retry kept its partner red after 134 deliveries.
        ([("status", 40), ("", 134)], True, "receiving", 0, 20),
        ([("", 5), ("internal", 40)], True, "receiving", 0, 5),
        # Before the fix, a partner with few events was red for a day after everything was delivered.
        ([("status", 10), ("", 3)], False, "receiving", 10, 13),
        ([("status", 10), ("", 3)], True, "failing", 10, 13),
        ([("status", 10), ("", 2)], False, "failing", 10, 12),
        ([("status", 1), ("", 1)], False, "receiving", 1, 2),
        ([("", 8), ("status", 2)], False, "failing", 2, 10),
        ([("", 8), ("status", 3)], False, "down", 3, 11),
    ],
)
def test_the_last_attempts_decide_and_whether_an_event_waits(
    partner: Partner, attempts: list[tuple[str, int]], waits: bool, state: str, failed: int, seen: int
) -> None:
    later = {"due_at": timezone.now() + timedelta(hours=5), "fault": "status"}
    made = [(minutes_ago, *each) for minutes_ago, each in zip((180, 120), attempts, strict=False)]
    an_event(partner, *made, **later if waits else {"state": "delivered"})
    assert told(partner) == (state, failed, seen)


def test_a_trouble_is_over_by_its_own_failures_and_not_by_those_of_an_earlier_one(partner: Partner) -> None:
    """Before the fix, a partner stayed red for as long as it had no third event, after all had been delivered."""
    an_event(partner, (22, "status", 8), (20, "", 12), (8, "status", 2), (6, "", 2), state="delivered")
    assert told(partner) == ("receiving", 6, 20)


@pytest.mark.parametrize(
    ("waiting", "failures", "state"), [(3, 2, "failing"), (2, 2, "receiving"), (3, 1, "receiving")]
)
def test_a_partner_that_recovers_is_told_while_missed_events_wait(
    partner: Partner, waiting: int, failures: int, state: str
) -> None:
    """Before the fix, twenty good attempts hid 16 events that an outage had left to later attempts."""
    missed = send(partner, waiting)
    leave_attempts(missed[0], 30, "status", minutes_ago=10)
    leave_attempts(missed[0], 20)
    Event.objects.update(due_at=timezone.now() + timedelta(seconds=40), fault="status", failures=failures)
    [found] = health.of_partners()
    next_at = timezone.localtime(Event.objects.earliest("due_at").due_at)
    words = f"recebe, mas 3 eventos que falharam esperam nova tentativa, a próxima em {next_at:%d/%m %H:%M}"
    words = words if state == "failing" else "recebe"
    assert (found.state, found.words, found.failing_since) == (state, words, None)


@pytest.mark.parametrize(
    ("attempts", "first"),
    [
        ([(50, "", 1), (40, "dns", 1), (30, "timeout", 1), (20, "", 1)], 2),
        # Before the fix, an outage began anew with each success after it, and was soon as young as the newest of them.
        ([(60, "", 30), (11, "status", 300), (5, "", 1), (4, "status", 300), (1, "", 19)], 31),
        # Before the fix, a partner that failed two of three times always looked new.
        ([(60, "", 30), *((40 - n, fault, 1) for n in range(39) for fault in ("status", "status", ""))], 31),
        ([(60, "", 30), *((40 - n, fault, 1) for n in range(40) for fault in ("", "status", "status", "status"))], 32),
        # An earlier trouble is over after enough good attempts in enough time.
        ([(30, "status", 9), (25, "", 10), (10, "status", 3)], 20),
        ([(30, "status", 9), (25, "", 3), (10, "status", 3)], 13),
        # Before the fix, two failures after twelve good attempts in twelve minutes began with the outage before.
        ([(22, "status", 8), (20, "", 12), (8, "status", 2)], 21),
        # Before the fix, a trouble began with one that had ended less than ten minutes earlier.
        ([(10, "status", 9), (9, "", 90), (7, "status", 3)], 100),
        ([(90, "status", 9), (60, "", 3), (10, "status", 3)], 13),
        ([(90, "status", 9), (60, "", 2), (10, "status", 3)], 1),
        ([(90, "status", 9), (60, "internal", 90), (10, "status", 3)], 1),
        # The last day counts, and the whole series that no success ended.
        ([(1500, "status", 9), (900, "", 1), (800, "status", 3)], 11),
        ([(1500, "status", 9), (1450, "status", 9), (10, "status", 3)], 1),
    ],
)
def test_a_trouble_is_told_since_its_first_failure_after_a_calm_time(
    partner: Partner, attempts: list[tuple[int, str, int]], first: int
) -> None:
    an_event(partner, *attempts, due_at=timezone.now() + timedelta(hours=5), fault="status")
    [found] = health.of_partners()
    assert found.state != "receiving"
    assert Attempt.objects.get(at=found.failing_since).number == first


@pytest.mark.parametrize(
    ("waiting", "delivered_ago", "good", "first"),
    [(1, None, 18, 0), (0, 4, 18, 0), (0, 6, 18, 28), (2, None, 19, 28), (3, None, 19, 0)],
    ids=["one waits", "one waited", "none waited", "few wait, and deliveries hardly failed", "several were missed"],
)
def test_a_trouble_goes_on_while_events_wait(
    partner: Partner, waiting: int, delivered_ago: float | None, good: int, first: int
) -> None:
    missed, other = send(partner, max(1, waiting)), send(partner)[0]
    for n in range(9):
        leave_attempts(missed[n % len(missed)], 1, "status", minutes_ago=20 - n / 60)
    leave_attempts(other, good, minutes_ago=10)
    if delivered_ago is not None:
        leave_attempts(missed[0], 1, minutes_ago=delivered_ago)
        Event.objects.filter(pk=missed[0].pk).update(state="delivered", due_at=None)
    leave_attempts(other, 3, "status", minutes_ago=5)
    [found] = health.of_partners()
    assert found.state != "receiving"
    assert found.failing_since == Attempt.objects.order_by("at")[first].at


def test_a_long_trouble_is_read_by_the_index_of_failures(partner: Partner) -> None:
    an_event(partner, (1400, "status", 1))
    changed = {
        "id": "nextval('webhooks_attempt_id_seq')",
        "number": "number + n",
        "at": "at + n * interval '8 seconds'",
    }
    copy_rows(Attempt.objects.get(), 10_000, **changed, fault="CASE WHEN n % 3 = 0 THEN '' ELSE 'status' END")
    with executed() as statements:
        [found] = health.of_partners()
    assert found.failing_since == Attempt.objects.order_by("at")[0].at
    assert_read_by("attempt_newest_failure", statements[0])


def test_a_failure_is_told_since_its_first_attempt_and_by_its_newest_fault(partner: Partner) -> None:
    an_event(partner, (500, "dns", 2), (400, "", 5), (300, "timeout", 30), (200, "refused", 1))
    [found] = health.of_partners()
    assert found.failing_since == Attempt.objects.get(number=8).at
    faults = "conexão recusada (1×), tempo esgotado (19×)"  # before the fix, all 20 were told to be the newest one
    assert found.words == f"não recebe: 20 das últimas 20 tentativas falharam ({faults})"


def test_a_refusal_is_told_with_its_http_status(partner: Partner) -> None:
    """Before the fix, `resposta fora de 2xx` was all that the first page said."""
    [event] = send(partner)
    leave_attempts(event, 1, "status", minutes_ago=10)
    Attempt.objects.update(status=503)
    leave_attempts(event, 1)
    [found] = health.of_partners()
    assert found.words.endswith("(resposta fora de 2xx: 503); a última deu certo")


def test_what_says_nothing_about_now_is_left_out(partner: Partner) -> None:
    """Attempts of another day, attempts to an earlier URL, and partners to which nothing can be sent."""
    [event] = send(partner)
    leave_attempts(event, 5, "dns", minutes_ago=25 * 60)
    assert health.of_partners() == []
    leave_attempts(event, 5, "dns")
    Partner.objects.update(webhook_url="https://moved.example/w")
    assert health.of_partners() == []
    Partner.objects.update(webhook_url=URL)
    assert told(partner)[0] == "down"
    Partner.objects.update(deliveries_held=True)
    assert health.of_partners() == []


def test_all_partners_are_told_in_one_statement(django_assert_num_queries: object) -> None:
    for fault in ("", "dns", "timeout"):
        leave_attempts(*send(new_partner(URL)), 5, fault)
    with django_assert_num_queries(1):  # type: ignore[operator]
        assert sorted(each.state for each in health.of_partners()) == ["down", "down", "receiving"]


# --- Metrics ------------------------------------------------------------------------------------------------------


def read() -> dict[str, float]:
    """The gauges by name, those of events by state."""
    samples = [sample for family in outbox() for sample in family.samples]
    return {sample.labels.get("state", sample.name): sample.value for sample in samples if sample.name != PARTNERS}


def test_partners_by_what_their_last_attempts_say(partner: Partner) -> None:
    leave_attempts(*send(new_partner("https://down.example/w")), 5, "dns")
    leave_attempts(*send(partner), 5)
    samples = [sample for family in outbox() for sample in family.samples if sample.name == PARTNERS]
    assert {sample.labels["state"]: sample.value for sample in samples} == {"receiving": 1, "failing": 0, "down": 1}


def test_what_waits_for_a_later_time_for_an_address_or_in_flight_is_not_overdue(partner: Partner) -> None:
    assert read() == {"due": 0, "claimed": 0, "unreachable": 0, "failed": 0, "webhook_oldest_due_seconds": 0}
    later, overdue = (an_event(partner, due_at=timezone.now() + timedelta(hours=1)) for _ in range(2))
    for state in ("failed", "delivered"):
        an_event(partner, state=state)
    mute = new_partner(URL)
    Partner.objects.filter(pk=mute.pk).update(webhook_secret=None)
    for unreachable in (new_partner(""), mute):
        send(unreachable)
    send(partner)
    assert len(delivery.claim(10)) == 1
    Event.objects.filter(state="due").exclude(pk=later.pk).update(due_at=timezone.now() - timedelta(seconds=400))
    Event.objects.filter(pk=overdue.pk).update(due_at=timezone.now() - timedelta(seconds=90))
    gauges = read()
    assert 90 <= gauges.pop("webhook_oldest_due_seconds") < 120
    assert gauges == {"due": 5, "claimed": 1, "unreachable": 2, "failed": 1}
