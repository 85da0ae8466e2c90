"""The hourly figures equal a full count of the rows, whenever and however often the sweep runs."""

import io
import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.db import models
from django.db.models.functions import Concat
from django.forms.models import model_to_dict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from backoffice.figures import metrics, reports, sweep
from backoffice.figures.charts import shown
from backoffice.figures.counting import KEYS, LONGER_MS, latency_class
from backoffice.figures.models import BankHour, BreakerMove, LatencyHour, Progress, QueryHour, ReasonHour
from backoffice.figures.tables import whole_reais
from consultas import pending
from consultas.models import Query, Step, failed
from partners.models import Partner
from proposals import retention
from proposals.models import Proposal
from providers.errors import (
    BankFailure,
    BankFull,
    BankHeldBack,
    BankKeptOut,
    BankPaused,
    BankSwitchedOff,
    LoginRefused,
    ProviderError,
)
from providers.reasons import ReasonCode
from providers.types.query import BankResult, QueryStatus, StepOutcome
from tests.backoffice.figures.rows import a_counted_query, a_moved_proposal, an_answer, an_ended_step
from tests.factories import PartnerFactory
from tests.operators import page_of
from tests.plans import assert_indexed, execute, executed
from tests.proposals.rows import FULL_FLOW, a_proposal, a_step, an_offer

pytestmark = pytest.mark.django_db

BANKS = ("ipe", "jatoba", "cedro")
START = (timezone.now() - timedelta(days=2)).replace(minute=0, second=0, microsecond=0).astimezone(UTC)
LATER = START + timedelta(hours=6)
Figures = dict[str, Counter[tuple[Any, ...]]]


@pytest.fixture
def partners(db: None) -> list[Partner]:
    return [PartnerFactory(), PartnerFactory()]


@pytest.fixture
def rows(partners: list[Partner]) -> None:
    """Rows of each kind within four hours."""
    chance = random.Random(7)

    def moment() -> datetime:
        return START + timedelta(seconds=chance.uniform(0, 4 * 3600))

    for number in range(60):
        at = moment()
        answers = [
            an_answer("ipe", *[1000 * chance.randint(1, 9) for _ in range(chance.randint(0, 3))], at=at),
            an_answer("jatoba", at=at, code=chance.choice([ReasonCode.NO_MARGIN, ReasonCode.CREDIT_POLICY])),
            an_answer(
                "cedro",
                at=at,
                status=QueryStatus.ERROR,
                reached=chance.random() < 0.5,
                elapsed_ms=chance.randint(50, 40_000),
                code=ReasonCode.TIMEOUT,
            ),
        ]
        if number % 7 == 0:  # shared with an earlier query
            answers[0] = an_answer("ipe", 5000, at=at, answered_at=at.timestamp() - 20)
        leader = uuid.uuid4() if number % 5 == 0 else None
        a_counted_query(chance.choice(partners), at, None if number % 11 == 0 else answers, follows=leader)
    for number, state in enumerate([*Step.State, Step.State.APPROVED, Step.State.EXPIRED] * 2):
        if state != Step.State.OPEN:
            amounts = (4000, 7000) if state == Step.State.APPROVED and number % 2 else ()
            an_ended_step(chance.choice(partners), chance.choice(BANKS), moment(), state, *amounts)
    for query in Query.objects.filter(created_at__lt=LATER)[::9]:
        for bank, amounts in (("jatoba", (2000, chance.randint(1000, 12_000))), ("cedro", (3000,))):
            an_ended_step(query.partner, bank, moment(), Step.State.APPROVED, *amounts, query=query)
    ways = (
        (["created", "awaiting_signature", "signed", "disbursed"], None),
        (["created", "awaiting_signature", "signed", "disbursed", "withdrawn"], ReasonCode.WITHDRAWN),
        (["created", "awaiting_signature", "disbursed"], None),  # at a bank that does not report signatures
        (["created", "rejected"], ReasonCode.DATA_MISMATCH),
        (["created", "in_analysis", "awaiting_signature", "expired"], ReasonCode.SIGNATURE_EXPIRED),
        (["created", "awaiting_signature", "signed", "rejected"], ReasonCode.AVERBATION_REFUSED),
        (["created", "in_analysis", "cancelled"], None),  # of a release that stored no reasons
    )
    for number in range(20):
        statuses, code = ways[number % len(ways)]
        moments = sorted(moment() for _ in statuses)
        steps = list(zip(statuses, moments, strict=True))
        amount = Decimal(chance.randint(100_00, 9000_00)) / 100
        a_moved_proposal(chance.choice(partners), chance.choice(BANKS), steps, code, loan_value=amount)


def stored() -> Figures:
    """All figures that are not zero, by table, then by the row's key and the column."""
    found: Figures = {}
    for model, keys in KEYS.items():
        counts = found.setdefault(model.__name__, Counter())
        for row in model._default_manager.all():
            values = model_to_dict(row)
            values["partner_id"] = values.pop("partner", None)
            key = tuple(values.pop(name) for name in keys)
            values.pop("id"), values.pop("partner_id", None)
            counts.update({(*key, name): value for name, value in values.items() if value})
    return found


def full_count(until: datetime) -> Figures:
    """The same, by reading every row from one end to the other."""
    found: Figures = {model.__name__: Counter() for model in KEYS}
    query_hours, bank_hours = found[QueryHour.__name__], found[BankHour.__name__]
    reason_hours, latency_hours = found[ReasonHour.__name__], found[LatencyHour.__name__]

    def hour(at: datetime) -> datetime:
        return datetime(at.year, at.month, at.day, at.hour, tzinfo=UTC)

    for query in Query.objects.filter(created_at__lt=until):
        at, answers = hour(query.created_at), query.stored_answers()
        of_query = (at, query.partner_id)
        amounts = [offer.loan_value for answer in answers for offer in answer.offers]
        query_hours[*of_query, "queries"] += 1
        query_hours[*of_query, "unfinished"] += query.finished_at is None
        query_hours[*of_query, "with_offers"] += bool(amounts)
        query_hours[*of_query, "offers"] += len(amounts)
        query_hours[*of_query, "offered"] += max(amounts, default=0)
        for answer in answers:
            of_bank = (at, answer.provider, query.partner_id)
            kind = (
                {True: "refused", False: "failed"}[answer.reached] if answer.error or answer.status == "error" else ""
            )
            bank_hours[*of_bank, kind or answer.status.value] += 1
            bank_hours[*of_bank, "offers"] += len(answer.offers)
            bank_hours[*of_bank, "offered"] += max((offer.loan_value for offer in answer.offers), default=0)
            if answer.coded and not answer.offers:
                reason_hours[*of_bank, "offer", answer.coded[0].code.value, "count"] += 1
            if answer.reached and not query.follows and answer.answered_at >= query.created_at.timestamp():
                latency_hours[at, answer.provider, latency_class(answer.elapsed_ms), "count"] += 1
    for query in Query.objects.all():
        greatest = max(
            (offer.loan_value for answer in query.stored_answers() for offer in answer.offers), default=Decimal(0)
        )
        steps = Step.objects.filter(query=query, offers__gt=0, closed_at__lt=until)
        for ended, offered in steps.order_by("closed_at").values_list("closed_at", "best_offer"):
            query_hours[hour(ended), query.partner_id, "later_with_offers"] += not greatest
            query_hours[hour(ended), query.partner_id, "later_offered"] += max(0, offered - greatest)
            greatest = max(greatest, offered)
    for step in Step.objects.filter(closed_at__lt=until):
        of_bank = (hour(step.closed_at), step.provider, step.partner_id)
        bank_hours[*of_bank, f"steps_{step.state}"] += 1
        bank_hours[*of_bank, "step_offers"] += step.offers or 0
        bank_hours[*of_bank, "steps_with_offers"] += bool(step.offers)
        bank_hours[*of_bank, "step_offered"] += step.best_offer or 0
        if step.state != "approved":
            reason_hours[*of_bank, "offer", f"authorization_{step.state}", "count"] += 1
    for proposal in Proposal.objects.all():
        amount = proposal.offer.loan_value
        paid = proposal.moves.filter(to_status="disbursed", at__lt=until).first()
        if paid is not None and not proposal.moves.filter(to_status="signed").exists():
            of_bank = (hour(paid.at), proposal.provider, proposal.partner_id)
            bank_hours[*of_bank, "signed"] += 1
            bank_hours[*of_bank, "signed_amount"] += amount
        for move in proposal.moves.filter(at__lt=until):
            column = {"created": "submitted"}.get(move.to_status, move.to_status)
            if column in ("in_analysis", "awaiting_signature"):
                continue
            of_bank = (hour(move.at), proposal.provider, proposal.partner_id)
            bank_hours[*of_bank, column] += 1
            bank_hours[*of_bank, f"{column}_amount"] += amount
            if column in ("rejected", "cancelled", "expired"):
                stage = "payment" if move.from_status == "signed" else "signature"
                code = proposal.reason["code"] if proposal.reason else "other"
                reason_hours[*of_bank, stage, code, "count"] += 1
                reason_hours[*of_bank, stage, code, "amount"] += amount
    return {name: +counts for name, counts in found.items()}


def settled(moment: datetime) -> datetime:
    """The time of the sweep that counts all rows before `moment`."""
    return moment + sweep.settled_after()


def test_refused_credentials_are_counted_apart_from_unreadable_answers(
    admin_client: Client, partners: list[Partner]
) -> None:
    """Before the fix, both were "O banco respondeu de forma inesperada", which sends operators to look for a change of
    the bank's format. Partners read the same code as before."""
    now = timezone.now()
    answers = [failed("ipe", LoginRefused(), 0.1), failed("cedro", ProviderError(), 0.1)]
    assert {each.coded[0].code for each in answers} == {ReasonCode.UNREADABLE}
    query = a_counted_query(partners[0], now - timedelta(hours=1), answers)
    sweep.advance(settled(now))
    counted = set(ReasonHour.objects.values_list("bank", "code", "count"))
    assert counted == {("ipe", "login_refused", 1), ("cedro", "unreadable", 1)}
    pages = (reverse("figures:bank", args=["ipe"]), reverse("figures:funnel"), page_of(query))
    for page in pages:
        assert "O banco recusou as nossas credenciais." in admin_client.get(page).text, page


@pytest.mark.parametrize(
    ("failure", "code", "column"),
    [
        (BankKeptOut(), "kept_out", "closed"),
        (BankPaused(), "paused", "closed"),
        (BankSwitchedOff(), "disabled", "closed"),
        (BankHeldBack(), "held_back", "failed"),
        (BankFull(), "full", "failed"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_an_operators_order_is_no_failure_of_the_bank(
    partners: list[Partner], failure: BankFailure, code: str, column: str
) -> None:
    """Before the fix, a bank that an operator has never called counted a failure for each query."""
    a_counted_query(partners[0], START, [failed("ipe", failure, 0.1)])
    sweep.advance(settled(LATER))
    for sums in (reports.banks(START)["ipe"], reports.answers_of(partners[0].pk, START)):
        assert {name: sums[name] for name in ("closed", "failed") if sums[name]} == {column: 1}
    assert [each.code for each in reports.reasons(START)["offer"]] == [code]


def test_the_figures_equal_a_full_count(rows: None) -> None:
    chance = random.Random(8)
    at = START
    while at < LATER:
        sweep.advance(settled(at))
        at += timedelta(minutes=chance.randint(1, 50))
    sweep.advance(settled(LATER))
    figures = stored()
    assert figures == full_count(LATER)
    assert all(figures.values()), "each table has figures"
    later = Counter(key[-1] for key in figures[QueryHour.__name__])
    assert min(later["later_with_offers"], later["later_offered"]) > 0
    # The first page and the funnel agree. Before the fix, the first page left out offers that came after a step, and
    # the funnel counted a query once for each bank with such offers.
    hours, funnel = reports.hours_of_all(START), reports.funnels(START).whole
    told = [sum(hours.series(hours.rows, name)) for name in ("queries", "with_offers", "offered")]
    assert told == [funnel["asked"], funnel["with_offers"], funnel["offered"]]
    assert funnel["signed"] >= funnel["disbursed"] > 0
    assert Progress.objects.get().until == LATER
    sweep.advance(settled(LATER))
    sweep.advance(settled(START))
    assert stored() == figures, "a sweep that comes again, or whose clock is behind, counts nothing"


#: The funnel's steps after the offers, and their condition on a proposal's move.
_STEPS = {
    "Propostas enviadas": "m.to_status = 'created'",
    "Assinadas": "m.to_status = 'signed' OR m.to_status = 'disbursed' AND m.from_status <> 'signed'",
    "Pagas": "m.to_status = 'disbursed'",
    "Desistências": "m.to_status = 'withdrawn'",
}


def test_the_pages_show_what_sql_counts(rows: None, partners: list[Partner], admin_client: Client) -> None:
    sweep.advance(settled(LATER))

    def moved(condition: str, whose: str) -> tuple[int, Decimal]:
        [found] = execute(
            "SELECT count(*), coalesce(sum(o.loan_value), 0) FROM proposals_move m "
            "JOIN proposals_proposal p ON p.id = m.proposal_id JOIN consultas_offer o ON o.id = p.offer_id "
            f"WHERE m.at >= %s AND m.at < %s AND %s IN ('', p.partner_id::text, p.provider) AND ({condition})",
            [START, LATER, whose],
        )
        return found

    def asked(whose: str) -> tuple[int, int]:
        of = {"partner": whose} if whose else {}
        began = Query.objects.filter(created_at__gte=START, created_at__lt=LATER, **of)
        later = Step.objects.filter(offers__gt=0, closed_at__lt=LATER, **of).values_list("query", flat=True)
        at_once = (each.pk for each in began if any(answer.offers for answer in each.stored_answers()))
        return began.count(), len({*at_once, *later})

    funnel = reverse("figures:funnel")
    for column, whose in (("partner", ""), *(("partner", str(each.pk)) for each in partners), ("bank", "ipe")):
        steps = admin_client.get(funnel, {"period": "7d", column: whose}).context["steps"]
        told = {each["title"]: (each["count"], each["amount"]) for each in steps}
        for title, condition in _STEPS.items():
            number, amount = moved(condition, whose)
            assert told[title] == (shown(number), whole_reais(amount)), (title, whose)
        if column == "partner":
            assert (told["Consultas"][0], told["Com ofertas"][0]) == tuple(map(shown, asked(whose)))
    plots = {plot.title: plot.rows for plot in admin_client.get("/admin/", {"period": "7d"}).context["plots"]}
    sums = [sum(int(row[number]) for row in plots["Propostas por dia"]) for number in (1, 2, 3)]
    assert sums == [moved(condition, "")[0] for condition in [*_STEPS.values()][:3]]
    days = plots["Consultas por dia"]
    assert tuple(sum(int(row[number]) for row in days) for number in (1, 2)) == asked("")


def test_the_same_counts_are_metrics(rows: None) -> None:
    def told() -> Counter[str]:
        counters = (metrics.QUERIES, metrics.ANSWERS, metrics.OFFERS, metrics.PROPOSALS, metrics.PROPOSED)
        families = [family for each in counters for family in each.collect()]
        samples = [(family.name, sample) for family in families for sample in family.samples]
        totals = [(name, sample) for name, sample in samples if sample.name.endswith("_total")]
        return Counter({f"{name} {' '.join(sample.labels.values())}": sample.value for name, sample in totals})

    before = told()
    sweep.advance(settled(LATER))
    found = Counter({name: value - before[name] for name, value in told().items()})
    banks = list(BankHour.objects.filter(bank="ipe"))
    assert found["queries with_offers"] == sum(QueryHour.objects.values_list("with_offers", flat=True))
    assert found["queries unfinished"] == 6
    assert found["query_answers ipe ok"] == sum(row.ok for row in banks)
    assert found["offers ipe"] == sum(row.offers + row.step_offers for row in banks)
    assert sum(BankHour.objects.values_list("withdrawn", flat=True)) == 3
    assert found.get("proposals ipe withdrawn", 0) == sum(row.withdrawn for row in banks)
    assert found["proposals ipe disbursed"] == sum(row.disbursed for row in banks)
    assert found["proposals_reais ipe disbursed"] == pytest.approx(float(sum(row.disbursed_amount for row in banks)))


def test_banks_are_not_blamed_for_queries_that_no_worker_took(partners: list[Partner]) -> None:
    """Before the fix, a bank's page counted a time-out for each query that our stopped worker left."""
    late = {"status": QueryStatus.ERROR, "reached": False, "code": ReasonCode.TIMEOUT}
    for number in range(12):
        answers = [an_answer("ipe", at=START, **late), an_answer("cedro", 5000, at=START)]
        query = a_counted_query(partners[number % 2], START, answers, takes=number % 3)
        a_counted_query(partners[number % 2], START, answers, takes=0, follows=query.pk)
    sweep.advance(settled(LATER))
    figures = stored()
    [(untaken, timed_out, all_of_them)] = execute(
        "SELECT count(*) FILTER (WHERE coalesce(f.takes, q.takes) = 0), "
        "count(*) FILTER (WHERE coalesce(f.takes, q.takes) > 0), count(*) "
        "FROM consultas_query q LEFT JOIN consultas_query f ON f.id = q.follows"
    )
    assert min(untaken, timed_out) > 0
    sums = reports.banks(START)
    assert (sums["ipe"]["failed"], sums["ipe"].answers) == (timed_out, timed_out)
    assert (sums["cedro"]["failed"], sums["cedro"]["ok"]) == (0, all_of_them)
    told = {each.code: each.count for each in reports.reasons(START)["offer"]}
    assert told == {"untaken": untaken, "timeout": timed_out}
    assert [each.code for each in reports.reasons(START, bank="ipe")["offer"]] == ["timeout"]
    rebuild()
    assert stored() == figures


def test_what_may_still_change_is_not_counted(partners: list[Partner]) -> None:
    """A query may change until its deadline, and some time after it."""
    a_counted_query(partners[0], START, [an_answer("ipe", 1000, at=START)])
    sweep.advance(START + timedelta(seconds=89))
    assert not QueryHour.objects.exists()
    sweep.advance(START + timedelta(seconds=91))
    assert QueryHour.objects.get().queries == 1


def test_what_is_erased_before_it_is_counted_is_counted_then(partners: list[Partner]) -> None:
    """Before the fix, the page lacked answered queries whose holder was erased within two minutes."""
    now = timezone.now()
    sweep.advance(now - timedelta(minutes=1))
    for cpf in (FULL_FLOW, "90000000256"):
        offer = an_offer(partners[0], "ipe", cpf=cpf)
        Query.objects.filter(pk=offer.query_id).update(created_at=now, finished_at=now, takes=1)
        query = Query.objects.get(pk=offer.query_id)
        query.answers = msgspec.to_builtins([an_answer("ipe", 3000, at=now), an_answer("cedro", at=now)])
        query.save(update_fields=["answers"])
        an_ended_step(partners[0], "jatoba", now, Step.State.APPROVED, 5000, query=query)
        if cpf == FULL_FLOW:
            a_proposal(offer, Proposal.Submission.ACCEPTED)
    whole = full_count(now + timedelta(hours=1))
    retention.preview(FULL_FLOW)
    for cpf in (FULL_FLOW, "90000000256"):
        erasure = retention.erase(cpf, "ana")
        assert erasure.erased["queries"] + erasure.erased["answers"] > 0
    assert not any(stored().values()), "a page that says up to when it is counted has nothing from after that"
    sweep.advance(settled(now + timedelta(hours=1)))
    assert stored() == whole
    assert all(whole[each.__name__] for each in (QueryHour, BankHour, LatencyHour))


def test_a_step_that_ends_tells_what_it_brought(partners: list[Partner]) -> None:
    amounts = {Step.State.APPROVED: (3000, 5000), Step.State.REFUSED: ()}
    for bank, (state, offered) in zip(BANKS, amounts.items(), strict=False):
        step = a_step(an_offer(partners[0], bank))
        answer = an_answer(bank, *offered, at=START)
        result = BankResult(answer.status, offers=answer.offers)
        assert pending.settle(step, StepOutcome(state.value), result)
    found = Step.objects.order_by("provider").values_list("offers", "best_offer")
    assert list(found) == [(2, Decimal(5000)), (0, None)]


def rebuild(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("rebuild_statistics", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_a_rebuild_finds_the_same(rows: None, partners: list[Partner]) -> None:
    half_hour = LATER - timedelta(hours=2, minutes=30)
    sweep.advance(settled(half_hour))
    figures = stored()
    BankHour.objects.filter(hour=START).delete()
    QueryHour.objects.update(queries=77)
    ReasonHour.objects.update(bank=Concat(models.Value("x"), "bank"), count=models.F("count") + models.F("pk"))
    LatencyHour.objects.update(count=1000)
    told, _ = rebuild()
    assert stored() == figures == full_count(half_hour)
    hours = {key[0] for counts in figures.values() for key in counts}
    assert told.startswith(f"Contado de novo: {len(hours)} horas, ")
    sweep.advance(settled(LATER))
    assert stored() == full_count(LATER), "the sweep goes on where it was"


def test_a_rebuild_of_all_begins_with_the_first_row_and_figures_outlive_their_rows(
    partners: list[Partner], settings: Any
) -> None:
    """Before the fix, it began with the first figure: rows that came later with an earlier time were never counted."""
    a_counted_query(partners[0], START, [an_answer("ipe", 1000, at=START)])
    sweep.advance(settled(LATER))
    early = START - timedelta(hours=5)
    a_counted_query(partners[0], early, [an_answer("ipe", 1000, at=early)])
    rebuild()
    figures = stored()
    assert figures == full_count(LATER)
    Query.objects.all().delete()
    settings.QUERY_RETENTION_DAYS = 1
    _, warning = rebuild()
    assert "mais antigas ficam" in warning
    assert stored() == figures


def test_a_rebuild_counts_the_hours_that_are_named(rows: None) -> None:
    sweep.advance(settled(LATER))
    figures = stored()
    QueryHour.objects.update(queries=77)
    second = START + timedelta(hours=1)
    rebuild("--from", second.isoformat(), "--to", (second + timedelta(hours=1)).isoformat())
    right, wrong = (
        {key: value for key, value in found[QueryHour.__name__].items() if key[-1] == "queries"}
        for found in (figures, stored())
    )
    assert {key for key in right if right[key] == wrong[key]} == {key for key in right if key[0] == second}


def test_old_figures_go(rows: None, partners: list[Partner], settings: Any) -> None:
    sweep.advance(settled(LATER))
    for at in (START, timezone.now()):
        BreakerMove.objects.create(bank="ipe", is_open=True, at=at)
    assert set(sweep.purge().values()) == {0}
    settings.FIGURE_RETENTION_DAYS = 1
    with executed() as statements:
        gone = sweep.purge()
    assert all(gone.values())
    assert not any(stored().values())
    assert BreakerMove.objects.count() == 1
    assert rebuild()[0] == "Contado de novo: nenhuma hora, nenhuma linha.\n", "what retention deleted stays away"
    assert_indexed(sql for sql in statements if sql.startswith(("SELECT", "DELETE")))


def test_a_rebuild_before_the_first_sweep_has_nothing_to_do(db: None) -> None:
    assert rebuild()[0] == "Nada foi contado ainda.\n"


@pytest.mark.parametrize("wrong", ["ontem", "2026-13-01", "2026-11-01T25:00"])
def test_a_moment_that_is_none(db: None, wrong: str) -> None:
    with pytest.raises(CommandError, match="--from deve ser uma data"):
        rebuild("--from", wrong)


def test_a_sweep_costs_few_statements(rows: None, django_assert_max_num_queries: Any) -> None:
    """For each source and slice: one to lock, one to read, one for each table, one to store the progress, and a
    savepoint's two."""
    sweep.advance(settled(START + timedelta(minutes=50)))
    with django_assert_max_num_queries(32):
        sweep.advance(settled(START + timedelta(minutes=59)))


@pytest.mark.parametrize(("ms", "bound"), [(0, 100), (100, 100), (101, 250), (25_000, 25_000), (25_001, LONGER_MS)])
def test_latency_classes(ms: int, bound: int) -> None:
    assert latency_class(ms) == bound
