"""How a bank does, told from what happens to the calls, to operators, partners and machines alike."""

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.redis import redis
from partners.models import Partner
from providers.breaker import ALL, Breaker
from providers.health import Health
from providers.judging import health_of
from providers.models import Provider
from providers.outcomes import Outcome, write
from providers.types import given
from tests.clock import Clock
from tests.factories import PartnerFactory, ProviderFactory, http_of
from tests.operators import see
from tests.processes import Outage
from tests.providers.conftest import at, fail
from tests.receiver import Receiver, Reply

OK, FAILED, CLOSED, LOGIN = Outcome.ANSWERED, Outcome.FAILED, Outcome.CLOSED, Outcome.LOGIN_REFUSED


@pytest.fixture
def bank(db: None) -> Provider:
    """A bank whose settings were last changed long ago."""
    provider: Provider = ProviderFactory(name="ipe")
    Provider.objects.update(updated_at=timezone.now() - timedelta(days=9))
    return provider


@pytest.fixture
def partner(bank: Provider) -> Partner:
    return PartnerFactory(name="Financeira Um", providers=["ipe"])


def happened(minutes_ago: float, partner: object = "p", **outcomes: int) -> None:
    """So many calls of a partner ended so, that many minutes ago."""
    partner = str(partner.pk) if isinstance(partner, Partner) else partner
    for name, number in outcomes.items():
        write("ipe", {(Outcome[name.upper()], str(partner)): number}, time.time() - minutes_ago * 60, {})


def ipe() -> Health:
    return health_of(["ipe"])["ipe"]


def told() -> str:
    return ipe().words()


def counted() -> tuple[int, int]:
    """How many calls the bank is judged by, and how many of them failed."""
    [series] = ipe().told.values()
    return series.calls, series.failed


def status(partner: Partner) -> str:
    return http_of(partner).get("/partners/v1/providers/ipe").json()["status"]


def test_a_bank_that_fails_for_the_one_partner_that_calls_it_is_told_everywhere(
    admin_client: Client, partner: Partner
) -> None:
    """Before the fix, the breaker was this partner's own: every page said `no ar`, and the partner read `available`."""
    now = timezone.localtime(timezone.now())
    happened(3, partner, failed=2)
    happened(3, partner, answered=3)
    happened(3, partner, failed=20)
    since = now - timedelta(minutes=3)
    sentence = ", de Financeira Um; nenhum outro o chamou desde então; todas: erro do banco (5xx)"
    first = see(admin_client, "/admin/", "falhando (88 %)", sentence)
    # A new minute may begin between any two of these lines.
    starts = [f"{at:%d/%m %H:%M}" for at in (since, since + timedelta(minutes=1))]
    assert any(f"Desde {start}, há {waited}\xa0minutos" in first for start in starts for waited in (3, 4))
    detail = see(admin_client, reverse("figures:bank", args=["ipe"]), "falhando (88 %)", sentence)
    assert any(f"desde {start}, falharam 22 de 25 chamadas, " in detail for start in starts)
    assert 'bank_state{bank="ipe",state="failing"} 1.0' in Client().get("/metrics").content.decode()
    assert status(partner) == "degraded"
    assert status(PartnerFactory(providers=["ipe"])) == "degraded", "whoever has not called it yet is warned too"


def test_a_breaker_that_is_open_for_one_partner_names_it(admin_client: Client, partner: Partner) -> None:
    """Before the fix, the page read the breaker for all partners only."""
    other = PartnerFactory(providers=["ipe"])
    happened(1.2, partner, failed=5)
    happened(1.1, other, answered=90)
    happened(1, partner, failed=5)
    redis().set(f"breaker:ipe:opened_at:{partner.pk}", time.time())
    assert told() == "fora só para 1 parceiro (10 de 10 chamadas)"
    for page in ("/admin/", reverse("figures:banks")):
        see(admin_client, page, "fora só para Financeira Um")
    assert (status(partner), status(other)) == ("unavailable", "available")
    redis().set(f"breaker:ipe:opened_at:{partner.pk}", time.time() - 20)
    assert status(partner) == "degraded", "one call at a time goes out to try"
    Provider.objects.update(circuit="closed")
    words = "falhando só para 1 parceiro (10 de 10 chamadas)"
    assert told() == words, "a breaker that is ignored is open for nobody"


def test_a_bank_that_fails_for_one_partner_only_is_not_to_be_closed_for_all(
    admin_client: Client, partner: Partner
) -> None:
    """Before the fix, the first page told operators to close a good bank for everybody while the breaker was closed,
    the bank's page and list named nobody, and the other partner's page showed the bank in red."""
    other = PartnerFactory(name="Financeira Dois", providers=["ipe"])
    happened(1.2, partner, failed=3)
    happened(1.1, other, answered=30)
    happened(1, partner, failed=3)
    words = "falhando só para Financeira Um (6 de 6 chamadas)"
    first = admin_client.get("/admin/")
    [problem] = [each for each in first.context["problems"] if each.title.startswith("Ipê")]
    assert problem.title == f"Ipê: {words}"
    assert "não ponha o banco fora do ar para todos" in problem.advice
    [(figures, _, _), (queries, link, _)] = problem.more
    form = reverse("admin:providers_provider_change", args=["ipe"])
    for page in (figures, form):  # before the fix, the form did not lead to the figures
        see(admin_client, page, f'href="{figures}"', words, hidden=["Veja os tempos", "Se durar, ponha-o fora do ar"])
    assert link == "Consultas de Financeira Um neste banco"
    assert f'href="{queries.replace("&", "&amp;")}">{link}' in first.content.decode()
    list_of_queries = admin_client.get(queries)
    assert list_of_queries.status_code == 200
    assert list_of_queries.context["cl"].has_filters
    see(admin_client, reverse("figures:bank", args=["ipe"]), link, words, hidden=["Se durar, ponha-o fora do ar"])
    for name in ("admin:providers_provider_changelist", "figures:banks"):
        see(admin_client, reverse(name), words)

    def on_page_of(whose: Partner) -> str:
        return str(admin_client.get(reverse("partner", args=[whose.pk])).context["banks"].rows[0][1])

    assert (status(partner), status(other)) == ("degraded", "available")
    assert status(PartnerFactory(providers=["ipe"])) == "available", "who has not called it yet is not warned"
    assert on_page_of(partner) == f'<span class="is-bad">{words}</span>', "before the fix, without `só para`"
    see(admin_client, partner, words)
    assert on_page_of(other) == "no ar"
    redis().set(f"breaker:ipe:opened_at:{partner.pk}", time.time())
    assert "fora só para Financeira Um" in on_page_of(partner)
    assert on_page_of(other) == "no ar"
    see(admin_client, reverse("admin:providers_provider_changelist"), "fora só para Financeira Um")


def test_a_bank_that_answers_again_is_no_problem_on_any_page(admin_client: Client, partner: Partner) -> None:
    """Before the fix, it stayed red on every page, and `degraded`, for up to an hour."""
    happened(6, partner, failed=8)
    happened(3, partner, answered=5)
    words = re.compile("voltou há [34] min; falharam 8 de 8 chamadas, às [0-9:]{8}")
    first = admin_client.get("/admin/")
    assert [each.title for each in first.context["problems"] if each.title.startswith("Ipê")] == []
    [line] = first.context["planned"]
    assert words.fullmatch(line.title.removeprefix("Ipê: "))
    assert "Nenhum banco falha." in first.context["well"]
    for name, key in (
        ("admin:providers_provider_changelist", []),
        ("figures:banks", []),
        ("admin:providers_provider_change", ["ipe"]),
        ("figures:bank", ["ipe"]),
        ("partner", [partner.pk]),
    ):
        page = admin_client.get(reverse(name, args=key)).content.decode()
        assert words.search(page), name
        assert 'is-bad">voltou' not in page, name
    assert 'bank_state{bank="ipe",state="recovered"} 1.0' in Client().get("/metrics").content.decode()
    assert status(partner) == "available"


def test_a_change_of_the_settings_hides_nothing(bank: Provider, django_capture_on_commit_callbacks: Any) -> None:
    """Before the fixes, `no ar` after whoever saved any setting of a failing bank, and `desde`, or `na última hora`,
    was since then."""
    began = timezone.now() - timedelta(minutes=9)
    happened(9, failed=20)
    happened(1, login_refused=5)
    assert told() == "credenciais recusadas"
    with django_capture_on_commit_callbacks(execute=True):
        Provider.objects.get().save()
    assert (told(), counted()) == ("credenciais recusadas", (25, 25))
    assert re.search(r"; configuração mudada há \d+ s, nenhuma chamada desde então$", ipe().detail())
    happened(0, failed=1)
    assert (told(), counted()) == ("falhando (100 %)", (26, 26))
    assert abs(given(ipe().since) - began) < timedelta(seconds=5)
    assert "configuração" not in ipe().detail()
    Provider.objects.get().save()
    assert "configuração" in ipe().detail()
    happened(0, "other", answered=1)
    assert "configuração" not in ipe().detail(), "before the fix, only the calls of who had failed counted"


def test_renewed_credentials_that_the_bank_accepts_end_it(bank: Provider) -> None:
    """Before the fix, log-ins that were refused in the same minute stood against it, and the bank was red for minutes
    of good calls."""
    happened(0.2, "other", login_refused=3)
    happened(0.1, login_refused=5)
    assert told() == "credenciais recusadas"
    happened(0, answered=1)
    assert told().startswith("voltou agora; falharam 8 de 8 chamadas")
    happened(0, login_refused=3)
    assert told() == "credenciais recusadas", "a refusal after it is told at once"


def test_good_calls_that_are_written_late_are_no_recovery(bank: Provider) -> None:
    now = time.time()
    write("ipe", {(FAILED, "p"): 4, (OK, "q"): 2}, now - 90, {"q": now - 91})
    write("ipe", {(OK, "q"): 9}, now - 88.5, {"q": now - 90.5})
    assert told() == "falhando para 1 parceiro (4 de 4 chamadas)"


def states(*scopes: str) -> list[str]:
    """The states of the breakers of these scopes that are not closed."""
    return [opening.state(time.time()) for opening in Breaker.openings(("ipe", scope) for scope in scopes).values()]


def test_a_change_of_the_settings_closes_the_breaker(partner: Partner, django_capture_on_commit_callbacks: Any) -> None:
    """Before the fix, a bank whose former credentials an operator restored was `fora: falhas seguidas`, because of the
    wrong ones, and nobody had tried the restored ones."""
    mine = str(partner.pk)
    Breaker("ipe", "q").record(OK)
    for _ in range(10):
        Breaker("ipe", mine).record(FAILED)
    Breaker("ipe", "q")._open(ALL)
    assert states(ALL, mine) == ["open", "open"]
    with django_capture_on_commit_callbacks(execute=True):
        Provider.objects.get().save()
    assert states(ALL, mine) == []
    assert status(partner) == "degraded", "calls go out again, and what is known stays"
    Breaker("ipe", mine).record(FAILED)
    assert states(ALL) == [], "earlier calls count no more"


def test_since_when_a_breaker_is_not_closed_is_kept_over_failed_probes(bank: Provider) -> None:
    """Before the fix, each failed probe moved it."""
    now, clock = time.time(), Clock()
    clock.now = now - 100
    for _ in range(10):
        Breaker("ipe", "p", clock).record(FAILED)
    clock.now = now - 10
    probe = Breaker("ipe", "p", clock)
    assert probe.allows()
    probe.record(FAILED)
    assert told() == "fora: falhas seguidas"
    assert abs(given(ipe().since).timestamp() - (now - 100)) < 1


def test_a_trial_of_the_stored_credentials_is_told_everywhere(
    admin_client: Client, bank: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fixes, *Testar conexão* told that the bank accepts, or refuses, the credentials, and every page the
    opposite."""
    happened(4, answered=1, failed=1)
    happened(2, login_refused=5)
    refused, accepted = ("O banco recusou estas credenciais.", "credenciais recusadas"), ("", "voltou agora")
    for problem, words in (refused, accepted, ("Banco indisponível no momento.", "voltou agora"), refused, accepted):
        monkeypatch.setattr("providers.account.problem_with", lambda provider, problem=problem: problem)
        admin_client.post(reverse("admin:providers_provider_try_account", args=["ipe"]))
        assert told().startswith(words)
        first = admin_client.get("/admin/").content.decode()
        assert ("um teste da conexão" in first) == (words == "credenciais recusadas")


def test_without_redis_nobody_knows_and_no_bank_is_called(partner: Partner, freeze_redis: Outage) -> None:
    """Before the fix, `GET /providers` said `available` while every query got 502: workers take their tasks from
    Redis."""
    web = http_of(partner)
    with freeze_redis():
        assert told() == "desconhecido (Redis não responde)"
        [listed] = web.get("/partners/v1/providers").json()["providers"]
        assert [listed["status"], web.get("/partners/v1/providers/ipe").json()["status"]] == ["unavailable"] * 2


@pytest.mark.parametrize(
    ("login", "words"), [(401, "credenciais recusadas"), (403, "credenciais recusadas"), (429, "no ar"), (503, "no ar")]
)
def test_a_refused_log_in_has_a_name_of_its_own(bank: Provider, login: int, words: str) -> None:
    """Before the fix, a wrong password was one failure among others, and so was a log-in that had to wait."""
    with Receiver(lambda request: Reply(login)) as wrong:
        fail(at("ipe", wrong.root), times=2)
    assert told() == words
    assert counted()[1] == (0 if login == 429 else 2)  # a bank without time is no failure


def test_calls_are_counted_by_what_they_were_while_the_breaker_is_open(bank: Provider) -> None:
    """The breaker counts no call that ends while it is open; the page tells of it."""
    breaker = Breaker("ipe", "p")
    for _ in range(12):
        breaker.record(FAILED)
    assert states(ALL) == ["open"]
    assert counted() == (12, 12)
