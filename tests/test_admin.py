"""What every page of the back office has to do."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from authorizations.models import Terms
from backoffice.figures.counting import hour_of
from backoffice.figures.models import Progress, ReasonHour
from backoffice.problems.checks import CHECKS
from backoffice.problems.problem import Problem
from consultas.models import Query
from foundation.models import AuditEntry
from partners.models import ApiKey, Partner
from proposals.models import Proposal
from providers.breaker import ALL, Breaker
from providers.certificates import Certificates
from providers.maintenance import Maintenance
from providers.models import Provider
from tests.certificates import Authority
from tests.factories import PartnerFactory, ProviderFactory, issue_key
from tests.operators import page_of, printed, rows_at, says, see
from tests.plans import assert_indexed, assert_read_by, copy_rows, executed
from tests.processes import Outage
from tests.proposals.rows import a_proposal, a_step, an_offer
from tests.webhooks.deliveries import an_event, leave_attempts, new_partner, send
from webhooks import outbox
from webhooks.models import Event

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
IDS = ("abc", "%00", "evt_%00", "99999999999999999999999", "7c9e6679-7425-40de-944b-e07fc1f90ae7", "%ff", "🙂" * 300)


def _list_of(model: type) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_an_unknown_id_is_not_found(admin_client: Client, model: type) -> None:
    """Each wrong id is tried on one page, and the most telling ids on all others, which look the row up in the same
    way, as both methods do."""
    model_admin = admin.site._registry[model]
    steps = ["change", "history", "delete", *getattr(model_admin, "actions_detail", ())]
    told = {}
    for step in steps:
        for wrong in IDS if step == "change" else IDS[:2]:
            told["GET", wrong, step] = admin_client.get(f"{_list_of(model)}{wrong}/{step}/").status_code
        told["POST", step] = admin_client.post(f"{_list_of(model)}{IDS[1]}/{step}/").status_code
    assert {key: status for key, status in told.items() if status not in (302, 403, 404)} == {}


def test_a_list_outlives_any_search_and_filter(admin_client: Client, admin_user: User) -> None:
    """Each parameter and each field get every value, and a page is opened with all that the list takes. The gate
    replaces NUL in all addresses."""
    for model in MODELS:
        taken = {"q": "%00"}
        fields = [field.name for field in model._meta.concrete_fields]
        for name in ("q", "p", "o", "id__in", "partner__id__exact", "pk", *fields):
            for value in ("abc", "%ff", "99999999999999999999999"):
                with suppress(IncorrectLookupParameters):
                    rows_at(admin_user, f"{_list_of(model)}?{name}={value}")
                    taken.setdefault(name, value)
        address = f"{_list_of(model)}?{'&'.join(f'{name}={value}' for name, value in taken.items())}"
        assert admin_client.get(address).status_code == 200, address


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_an_action_on_what_cannot_be_a_row_does_nothing(admin_client: Client, model: type) -> None:
    model_admin = admin.site._registry[model]
    offered = [each for each in ("delete_selected", *model_admin.actions) if isinstance(each, str)]
    for action in offered:
        for wrong in ("abc", "\0", "99999999999999999999999", "\ufffd"):
            chosen = {"action": action, "index": "0", "_selected_action": [wrong]}
            assert admin_client.post(_list_of(model), chosen).status_code in (200, 302, 403), (action, wrong)


def test_no_row_has_a_page_elsewhere(admin_client: Client) -> None:
    kinds = [ContentType.objects.get_for_model(model).pk for model in MODELS]
    rows = [(kind, "1") for kind in kinds] + [(kinds[0], wrong) for wrong in IDS]
    assert {admin_client.get(f"/admin/r/{kind}/{row}/").status_code for kind, row in rows} == {404}


LISTS = (
    "consultas_query",
    "consultas_offer",
    "consultas_step",
    "proposals_proposal",
    "webhooks_event",
    "authorizations_session",
)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_reads_neither_all_its_rows_nor_all_partners(admin_client: Client, name: str) -> None:
    """An index serves the list's rows, and a holder's rows in it."""
    chosen, _ = PartnerFactory(name="Financeira Um"), PartnerFactory(name="Financeira Dois")
    address = reverse(f"admin:{name}_changelist")
    table = apps.get_model(name.replace("_", ".", 1))._meta.db_table
    holder = "reference_index" if name == "webhooks_event" else "cpf_index"
    for query in ("", f"?{holder}=0123", f"?partner__id__exact={chosen.pk}"):
        with executed() as statements:
            page = admin_client.get(address + query).text
        assert "Financeira Dois" not in page
        assert ("Financeira Um" in page) == ("partner" in query), "the filter names the chosen one"
        rows = [sql for sql in statements if f'FROM "{table}"' in sql]
        assert not any("DISTINCT" in sql for sql in rows)
        [listed] = [sql for sql in rows if "ORDER BY" in sql]
        assert_indexed([listed])


def test_a_partner_is_looked_for_by_any_words(admin_client: Client) -> None:
    """The filter's field above a list, which loads suggestions while the operator types."""
    PartnerFactory(name="Financeira Um")
    where = {"app_label": "consultas", "model_name": "query", "field_name": "partner"}
    found = {
        words: admin_client.get(reverse("admin:autocomplete"), {**where, "term": words}).json()["results"]
        for words in ("Financeira", "\0", "99999999999999999999999", "\ufffd")
    }
    assert {words: len(results) for words, results in found.items() if results} == {"Financeira": 1}


def test_a_page_asks_for_each_thing_once(admin_client: Client) -> None:
    """It reads session, user and row once, and what the row's page also shows. The template uses them many times."""
    offer = an_offer(PartnerFactory(providers=["ipe"]), "ipe")
    event = outbox.send(offer.partner, "lead", "group-1", {})
    for row, more in (
        (Terms.objects.get(), ["authorizations_terms"]),  # the version before it
        (
            a_proposal(offer),
            ["proposals_move", "proposals_bankcall", "consultas_query", "consultas_step", "webhooks_event"],
        ),
        (a_step(offer), []),
        (offer, []),
        (offer.query, []),
        (event, ["webhooks_attempt"]),
    ):
        with executed() as statements:
            assert admin_client.get(page_of(row)).status_code == 200
        tables = [re.findall(r' FROM "(\w+)"', sql)[-1] for sql in statements]
        expected = Counter(["django_session", "auth_user", row._meta.db_table, *more])
        found = Counter(table for table in tables if table != "django_content_type")  # each process reads this once
        assert found == expected, row._meta.label


#: Of each list with states, the columns that come first.
STATES = {
    "proposals_proposal": ("coloured_status", "coloured_submission"),
    "webhooks_event": ("coloured_state", "trouble", "last_status"),
    "partners_failedcall": ("outcome",),
    "partners_partner": ("situation", "lacks"),
    "partners_apikey": ("state",),
    "providers_provider": ("standing",),
    "consultas_query": ("outcome",),
    "consultas_step": ("coloured_state",),
    "authorizations_session": ("live_status",),
    "authorizations_terms": ("state",),
    "foundation_auditentry": ("coloured_action",),
}


def test_a_list_says_first_how_its_rows_are() -> None:
    """Before the fix, a failed event said so in its fifth column. The row's name is the link to its page."""
    for name in sorted(STATES):
        [page] = [
            page for model, page in admin.site._registry.items() if model._meta.label_lower == name.replace("_", ".")
        ]
        columns, states = tuple(page.list_display), STATES[name]
        assert columns[: len(states)] == states
        assert page.get_list_display_links(None, columns) == [columns[len(states)]]


def problems(client: Client) -> dict[str, Problem]:
    return {each.title: each for each in client.get("/admin/").context["problems"]}


@pytest.fixture
def open_breaker() -> Iterator[Callable[[], None]]:
    """Opens the breaker of `ipe` for all partners, until the test ends."""
    yield lambda: Breaker("ipe")._open(ALL)
    Breaker("ipe")._close(ALL)
    Breaker.forget()


def test_the_first_page_says_what_needs_a_person(admin_client: Client, open_breaker: Callable[[], None]) -> None:
    ProviderFactory(name="ipe")
    quiet = admin_client.get("/admin/")
    assert (problems(admin_client), quiet.context["verdict"]) == ({}, "Tudo bem")
    assert len(quiet.context["well"]) == len(CHECKS)
    says(quiet, hidden=["Ações recentes", "A espera mais longa", "Ver o site"])  # these lead nowhere

    now = timezone.now()
    partner = PartnerFactory(name="Um", providers=["ipe"], webhook_url="https://partner.example/w")
    partner.rotate_webhook_secret()
    mute = PartnerFactory(name="Dois", webhook_url="https://partner.example/w")
    offer = an_offer(partner, "ipe")
    failed, overdue, _ = send(partner, 3)
    send(mute)
    Event.objects.filter(pk=failed.pk).update(state="failed", due_at=None)
    Event.objects.filter(pk=overdue.pk).update(due_at=now - timedelta(minutes=3), failures=1)
    leave_attempts(overdue, 1, "refused")
    a_step(offer, due_at=now - timedelta(minutes=3))
    # Before the fix, a step that a worker checks was told as long as that took.
    taken = {"lease_until": now + timedelta(minutes=1), "worker": "w"}
    a_step(an_offer(partner, "ipe", cpf="90000000256"), due_at=now - timedelta(minutes=3), **taken)
    a_proposal(offer, submission=Proposal.Submission.UNKNOWN, due_at=now)
    open_breaker()
    certificate = Authority().issue("partner").partition("-----BEGIN PRIVATE")[0]
    Provider.objects.filter(name="ipe").update(certificate=certificate)
    last_day = f"{timezone.localtime(Certificates(certificate).ends_at):%d/%m/%Y}"
    ends = f"o certificado de cliente vence em {last_day} (falta 1 dia)"
    for days, expires_in in ((366, None), (366, timedelta(days=400)), (364, None)):
        key, _ = issue_key(partner, expires_in=expires_in)
        ApiKey.objects.filter(pk=key.pk).update(created_at=now - timedelta(days=days))
    found = problems(admin_client)
    assert {title: each.cause for title, each in found.items()} == {
        "Ipê: fora: falhas seguidas": "",
        f"Ipê: {ends}": "Depois disso o banco pode recusar as nossas conexões.",
        "Um: não recebe eventos": "não recebe: a única tentativa falhou (conexão recusada)",
        "1 evento de webhook não foi entregue": "De Um",
        "1 evento de webhook atrasado": "De Um",
        "1 evento não pode sair": "Falta o segredo de webhook do parceiro. De Dois",
        "1 passo do titular sem verificação": "De Um",
        "1 proposta de resultado desconhecido": "De Um",
        "1 chave sem validade tem mais de um ano": "De Um",
    }
    shown = admin_client.get("/admin/")
    well = [
        "Em 24 horas nenhum banco mudou de endereço, caminho ou credenciais, nem tem janela; nenhum parceiro em pausa.",
        "As consultas chegam aos bancos.",
        "Nenhuma exclusão de dados espera por outra pessoa.",
        "Na última hora nenhuma chave conhecida foi recusada, e nenhum limite de parceiro recusou chamadas.",
    ]
    assert (shown.context["verdict"], shown.context["well"]) == ("9 problemas", well)
    old = found["1 chave sem validade tem mais de um ano"]
    assert old.waited == "1\xa0dia", "before the fix, `desde` was when the key was made"
    assert f"há {old.waited}" in shown.text
    for each in found.values():
        page = admin_client.get(each.address)
        assert page.status_code == 200
        assert "cl" not in page.context or page.context["cl"].result_count >= 1


def test_a_partner_s_problem_leads_to_its_events_if_none_waits(admin_client: Client) -> None:
    """Before the fix, it led to an empty list."""
    partner = new_partner("https://partner.example/w")
    an_event(partner, (0, "refused", 3), state="failed")
    problem = problems(admin_client)[f"{partner.name}: não recebe eventos"]
    assert problem.link == "Eventos do parceiro"
    assert problem.advice.startswith("Avise o parceiro.")
    [page, (resend, _, _)] = problem.more
    assert page[:2] == (reverse("partner", args=[partner.pk]), "Página do parceiro")
    see(admin_client, resend, f'value="{partner.pk}" selected', 'value="failure" selected')
    assert admin_client.get(problem.address).context["cl"].result_count == 1


def test_a_partner_that_recovers_is_told_what_still_waits(admin_client: Client) -> None:
    """Before the fix, the page had the partner told of a failure that was over, and hid the good attempts. Then it said
    `falhando … as últimas 2 deram certo, desde` the time of a failure that was over."""
    partner = new_partner("https://partner.example/w")
    event = an_event(
        partner, (9, "refused", 2), (0, "", 2), fault="refused", due_at=timezone.now() + timedelta(hours=1)
    )
    problem = problems(admin_client)[f"{partner.name}: eventos esperam nova tentativa"]
    assert (problem.since, problem.cause.partition(" nova")[0]) == (None, "recebe, mas 1 evento que falhou espera")
    assert problem.cause.endswith("2 das últimas 4 tentativas falharam (conexão recusada); as últimas 2 deram certo")
    assert problem.advice.startswith("A última entrega deu certo.")
    leave_attempts(event, 30)
    send(partner, 2)
    Event.objects.update(fault="refused", failures=2, due_at=timezone.now() + timedelta(hours=1))
    problem = problems(admin_client)[f"{partner.name}: eventos esperam nova tentativa"]
    assert [title for _, title, _ in problem.more] == ["Página do parceiro", "Reenviar desde a falha"]
    assert admin_client.get(problem.address).context["cl"].result_count == 3


@pytest.mark.parametrize(
    ("attempts", "advice"),
    [
        ([("refused", 13), ("", 1)], "Avise o parceiro"),
        ([("refused", 13), ("", 2)], "Avise o parceiro"),
        ([("refused", 13), ("", 3)], "A última entrega deu certo"),
        ([("refused", 13), ("", 3), ("refused", 1)], "Avise o parceiro"),
        ([("refused", 2), ("", 1)], "Avise o parceiro"),
        ([("refused", 1), ("", 1)], "A última entrega deu certo"),
    ],
)
def test_one_good_delivery_does_not_end_the_call_to_the_partner(
    admin_client: Client, attempts: list[tuple[str, int]], advice: str
) -> None:
    """Before the fix, one lucky success had the operator send again to a partner that failed 13 of 14 times."""
    partner = new_partner("https://partner.example/w")
    made = [(9 - n, *each) for n, each in enumerate(attempts)]
    an_event(partner, *made, fault="refused", due_at=timezone.now() + timedelta(hours=1))
    [problem] = problems(admin_client).values()
    assert problem.advice.startswith(advice)
    page = admin_client.get(reverse("partner", args=[partner.pk])).text
    assert ("Avise o parceiro" in page) == (advice == "Avise o parceiro")


def test_overdue_events_leave_out_the_calm_line(admin_client: Client) -> None:
    """Before the fix, `Os parceiros recebem os seus eventos.` stood below `210 eventos de webhook atrasados`."""
    partner = new_partner("https://partner.example/w")
    an_event(partner, (5, "", 5), due_at=timezone.now() - timedelta(minutes=3))
    page = admin_client.get("/admin/")
    assert [each.title for each in page.context["problems"]] == ["1 evento de webhook atrasado"]
    assert not [line for line in page.context["well"] if "recebem" in line or "atrasado" in line]


def test_a_stopped_sweep_of_proposals_is_a_problem(admin_client: Client) -> None:
    """Before the fix, nothing said that a contract paid at its bank was still shown as waiting for its signature."""
    now, accepted = timezone.now(), Proposal.Submission.ACCEPTED
    for due_at, more in (
        (now - timedelta(minutes=5), {}),
        (now - timedelta(minutes=3), {"submission": Proposal.Submission.UNKNOWN}),
        (now - timedelta(minutes=5), {"lease_until": now + timedelta(minutes=1), "worker": "w"}),
        (now - timedelta(minutes=1), {}),
        (None, {"status": "expired"}),
    ):
        a_proposal(an_offer(PartnerFactory(name="Um"), "ipe"), **{"submission": accepted, "due_at": due_at, **more})
    found = problems(admin_client)
    assert list(found) == ["1 proposta de resultado desconhecido", "2 propostas sem acompanhamento"]
    problem = found["2 propostas sem acompanhamento"]
    assert problem.cause == "Ninguém pergunta ao banco: a situação mostrada pode ser antiga. De Um"
    assert (problem.since, "workers de sweeps" in problem.advice) == (now - timedelta(minutes=5), True)
    assert admin_client.get(problem.address).context["cl"].result_count == 4


@pytest.mark.parametrize(
    ("queries", "told"),
    [
        ([(30, 0, None), (20, 0, None), (5, 0, None)], "2 consultas não chegaram aos bancos"),
        ([(300, 0, 31), (20, 0, None)], "2 consultas não chegaram aos bancos"),
        ([(30, 0, None), (20, 1, None)], ""),  # a worker takes them again
        ([(30, 0, 0)], ""),  # repeats another
        ([(30, 0, 7)], "1 consulta não chegou aos bancos"),  # Redis was away
        # Before the fix, nothing was told after ten minutes, and `As consultas chegam aos bancos.` stood there.
        ([(700, 0, 31)], "1 consulta não chegou aos bancos"),
        ([(700, 0, 31), (650, 1, 5)], ""),
        ([(3700, 0, 31)], ""),
    ],
)
def test_a_stopped_bank_worker_is_a_problem(
    admin_client: Client, queries: list[tuple[int, int, int | None]], told: str
) -> None:
    """Before the fix, every query ended without an answer, and the page said `Tudo bem`."""
    partner, now = PartnerFactory(name="Um"), timezone.now()
    for seconds_ago, takes, lasted in queries:
        query = an_offer(partner, "ipe").query
        at = now - timedelta(seconds=seconds_ago)
        ended = None if lasted is None else at + timedelta(seconds=lasted)
        times = {"created_at": at, "finished_at": ended, "deadline_at": at + timedelta(seconds=30)}
        Query.objects.filter(pk=query.pk).update(takes=takes, **times)
    found = problems(admin_client)
    assert list(found) == ([told] if told else [])
    if told:  # before the fix, `Confira os workers` after an outage of Redis, too
        is_by_redis = queries == [(30, 0, 7)]
        assert ("Redis" in found[told].cause, "workers" in found[told].advice) == (is_by_redis, not is_by_redis)
    listed = admin_client.get(reverse("admin:consultas_query_changelist")).text
    assert ("não chegou aos bancos: nenhum processo a tomou" in listed) == any(
        not takes and (seconds_ago > 10 if lasted is None else lasted > 3) for seconds_ago, takes, lasted in queries
    )


def test_an_outage_of_redis_is_one_problem_and_its_queries_are_told_for_an_hour(
    admin_client: Client, freeze_redis: Outage
) -> None:
    """Before the fix, the page said `As consultas chegam aos bancos.` and showed a card for each bank, and afterwards
    nothing."""
    for bank in ("ipe", "cedro"):
        ProviderFactory(name=bank)
    partner, now = PartnerFactory(name="Um"), timezone.now()
    with freeze_redis():
        page = admin_client.get("/admin/")
        lost = an_offer(partner, "ipe").query
        first = now - timedelta(seconds=50)
        Query.objects.filter(pk=lost.pk).update(created_at=first, finished_at=first + timedelta(seconds=7))
        [later] = problems(admin_client).values()
    [outage] = page.context["problems"]
    assert outage.title == "Redis não responde: as consultas não chegam aos bancos"
    assert (outage.since, later.since, later.title) == (None, first, outage.title)
    # Before the fix, the folded list said that steps, proposals and deliveries are well, which workers do.
    by_workers = [check.well for check in CHECKS if check.by_workers]
    assert len(by_workers) == 5
    assert set(page.context["well"]) == {check.well for check in CHECKS}.difference(by_workers)
    Query.objects.update(created_at=now - timedelta(hours=9), takes=1)
    minutes = (70, 33, 31, 30, 5)
    for minutes_ago in minutes:
        query, at = an_offer(partner, "ipe").query, now - timedelta(minutes=minutes_ago)
        changes = {"takes": minutes_ago == 5, "finished_at": at + timedelta(seconds=7)}
        Query.objects.filter(pk=query.pk).update(created_at=at, **changes)
    ReasonHour.objects.create(
        hour=hour_of(now - timedelta(minutes=33)), partner=partner, bank="", stage="offer", code="untaken", count=3
    )
    page = admin_client.get("/admin/")
    first, last = (f"{timezone.localtime(now - timedelta(minutes=each)):%H:%M}" for each in (33, 30))
    told = [each.title for each in page.context["planned"]]
    assert told == [f"3 consultas não chegaram aos bancos entre {first} e {last}: Um"]
    assert (page.context["problems"], page.context["verdict"]) == ([], "Tudo bem")
    Query.objects.filter(takes=0).update(created_at=now - timedelta(minutes=33))
    told = [each.title for each in admin_client.get("/admin/").context["planned"]]
    assert told == [f"3 consultas não chegaram aos bancos, de {first}: Um"], "before the fix, `entre 01:54 e 01:54`"


def test_a_stopped_beat_is_a_problem(admin_client: Client) -> None:
    """Before the fix, the page said `Tudo bem` above numbers of the day before."""
    progress = Progress.objects.create(until=timezone.now() - timedelta(minutes=4))
    assert problems(admin_client) == {}
    progress.until -= timedelta(minutes=2)
    progress.save()
    assert problems(admin_client)["Os números pararam"].since == progress.until


def test_the_first_page_reads_no_event_that_has_ended(admin_client: Client) -> None:
    """Before the fix, it read all events to find those that cannot be sent."""
    outbox.store(PartnerFactory(), "lead", "group-1", {})
    Event.objects.update(state="delivered", due_at=None)
    copy_rows(Event.objects.get(), 3000, id="'evt_' || lpad(n::text, 32, '0')")
    with executed() as statements:
        admin_client.get("/admin/")
    due = [sql for sql in statements if 'FROM "webhooks_event"' in sql and "deliveries_held" in sql]
    assert len(due) == 4
    for sql in due:
        assert_read_by("event_due", sql)


def test_what_somebody_planned_is_no_problem(admin_client: Client) -> None:
    """Before the fix, a window and a bank that is switched off were counted in red, and so was a partner that takes
    its events from the API; a window to come and a suspended partner stood nowhere."""
    ProviderFactory(name="ipe", enabled=False)
    ProviderFactory(name="cedro")
    Maintenance.objects.create(
        provider_id="cedro", ends_at=timezone.now() + timedelta(hours=1), reason="virada de folha"
    )
    ends = timezone.now() + timedelta(hours=1)
    for hours in (23, 25):
        begin = timezone.now() + timedelta(hours=hours)
        Maintenance.objects.create(
            provider_id="cedro", starts_at=begin, ends_at=begin + timedelta(minutes=30), reason=f"em {hours} h"
        )
    PartnerFactory(name="Dois", status="suspended")
    partner = PartnerFactory(name="Um", providers=["ipe"], webhook_url="")
    send(partner)
    partner.allowances.update(paused_until=ends, pause_reason="auditoria")
    page = admin_client.get("/admin/")
    assert page.context["verdict"] == "Tudo bem"
    *banks, to_come, pause, unsent, suspended = page.context["planned"]
    assert [each.title.partition(":")[0] for each in banks] == ["Cedro", "Ipê"]
    begin = timezone.localtime(Maintenance.objects.get(reason="em 23 h").starts_at)
    assert to_come.title.startswith(f"Cedro: de {begin:%d/%m/%Y %H:%M} em diante, fora do ar até ")
    assert to_come.title.endswith(": em 23 h")
    assert (suspended.title, unsent.title) == ("1 parceiro suspenso: Dois", "1 evento sem URL para onde sair: Um")
    for each in (suspended, unsent):
        assert admin_client.get(each.address).context["cl"].result_count == 1
    assert unsent.since == Event.objects.get().created_at
    assert unsent.advice == "Se o parceiro não os lê pela API, escreva a URL no Cadastro dele."
    assert unsent.advice in page.text
    assert pause.title == f"Ipê: em pausa para Um até {timezone.localtime(ends):%d/%m/%Y %H:%M}: auditoria"
    assert "virada de folha" in page.text


@pytest.mark.parametrize("by", ["admin", "command", None])
def test_events_that_an_operator_holds_are_no_problem(admin_client: Client, by: str | None) -> None:
    """Before the fix, they were red, perhaps for want of a secret, and the next shift was told to release them."""
    partner = new_partner("https://partner.example/w")
    send(new_partner("https://other.example/w"))
    send(new_partner(""))
    [event, _] = send(partner, 2)
    if by == "admin":
        admin_client.post(reverse("admin:partners_partner_suspend_and_hold", args=[partner.pk]))
    elif by == "command":
        printed("suspend_partner", partner.pk, "--hold-deliveries")
    else:
        partner.suspend(hold_deliveries=True)
    page = admin_client.get("/admin/")
    assert page.context["verdict"] == "Tudo bem"
    [line] = [each for each in page.context["planned"] if "retido" in each.title]
    if by:
        order = AuditEntry.objects.filter(object_id=partner.pk).latest("at")
        told = f"por {order.who} em {timezone.localtime(order.at):%d/%m %H:%M}"
    else:
        told = "por um operador"
    assert line.title == f"{partner.name}: 2 eventos retidos {told}"
    oldest = f"{timezone.localtime(event.created_at):%d/%m %H:%M}"  # before the fix, `desde` was before the order
    advice = f"O mais antigo é de {oldest}. Saem quando alguém reativa o parceiro."
    assert (line.since, line.advice) == (None, advice)
    assert admin_client.get(line.address).context["cl"].result_count == 2
    Partner.objects.filter(pk=partner.pk).update(deliveries_held=False, webhook_secret=None)
    [(title, problem)] = problems(admin_client).items()
    assert (title, problem.cause) == (
        "2 eventos não podem sair",
        f"Falta o segredo de webhook do parceiro. De {partner.name}",
    )


def test_nobody_sees_data_without_the_permission(client: Client, db: None) -> None:
    client.force_login(User.objects.create_user("curious", is_staff=True))
    page = client.get("/admin/")
    assert (page.context["problems"], page.context["well"], page.context["verdict"]) == ([], [], "")


def test_the_name_of_a_row_stands_as_it_is_written(admin_client: Client) -> None:
    bank = ProviderFactory(name="ipe")
    page = admin_client.get(reverse("admin:providers_provider_change", args=[bank.pk])).text
    trail = re.findall(r'class="align-middle inline-block leading-5[^>]*>\s*(.*?)\s*<', page)
    assert trail[-2:] == ["Bancos", "ipe"]
