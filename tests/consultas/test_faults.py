"""Banks that break, and processes that die, while a query is under way."""

from concurrent.futures import ThreadPoolExecutor

from providers.models import Provider
from tests.client import Client, error_body, query_body
from tests.factories import move_bank
from tests.processes import LiveService, Simulator, wait_until
from tests.providers.samples import HOLDERS
from tests.receiver import Receiver, Reply

LATE = "O banco não respondeu a tempo."


def test_a_bank_that_never_ends_costs_its_own_time_out_only(client: Client) -> None:
    """No time-out of a socket ends headers that drip: the operation's own timer does."""
    Provider.objects.filter(name="jatoba").update(timeout_s=2)
    with Receiver(Reply(200, b"{}", drip=0.3)) as dripping:
        move_bank("jatoba", dripping.root)
        body = client.query(providers=["ipe", "jatoba"])
    broken = body["providerResults"]["jatoba"]
    assert (broken["status"], broken["error"]) == ("error", LATE)
    assert 2000 <= broken["elapsedMs"] < 4000
    assert len(body["proposals"]) == 2


def test_all_banks_down_is_a_502_that_may_be_retried(client: Client, simulator: Simulator) -> None:
    simulator.bank("ipe", fault="http_500", operation="query")
    simulator.bank("jatoba", fault="garbage", operation="query")
    response = client.post("/consultas", query_body(providers=["ipe", "jatoba"]))
    assert response.status_code == 502
    assert response.json() == error_body(
        "provider_unavailable", "Nenhum banco respondeu. Tente novamente em instantes.", retryable=True
    )
    simulator.bank("jatoba")
    assert len(client.query(providers=["ipe", "jatoba"])["proposals"]) == 2


def test_a_partner_whose_inputs_hang_takes_the_banks_from_nobody_else(
    client: Client, stranger: Client, simulator: Simulator
) -> None:
    """Before the fix, while twelve queries of one key hung, every other partner got 502."""
    banks = ["ipe", "jatoba"]
    Provider.objects.filter(name__in=banks).update(timeout_s=1)
    assert client.query(providers=banks)["proposals"]

    def hangs(number: int) -> int:
        return stranger.post("/consultas", query_body(HOLDERS["all_slow"], prazo=12 + number)).status_code

    with ThreadPoolExecutor(12) as pool:
        hanging = list(pool.map(hangs, range(12)))
    assert hanging == [502] * 12
    reached = {bank: len(simulator.calls(bank, "query")) for bank in banks}
    assert stranger.post("/consultas", query_body()).status_code == 502
    assert {bank: len(simulator.calls(bank, "query")) for bank in banks} == reached
    results = client.query(providers=banks, prazo=12)["providerResults"]
    assert {bank: result["status"] for bank, result in results.items()} == dict.fromkeys(banks, "ok")


def test_a_killed_worker_is_noticed_and_the_banks_are_asked_again(
    client: Client, simulator: Simulator, live_service: LiveService
) -> None:
    """The test uses only banks that send the holder nothing: a second query at peroba could send a second message."""
    for bank in ("ipe", "jatoba", "peroba"):
        simulator.bank(bank, latency_ms=4000)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.query, providers=["ipe", "jatoba", "peroba"])
        wait_until(
            lambda: all(simulator.calls(bank, "query") for bank in ("jatoba", "peroba")), 10, "both banks were asked"
        )
        live_service.programs.restart("banks")
        body = waiting.result(60)
    assert {offer["provider"] for offer in body["proposals"]} == {"ipe", "jatoba"}
    assert body["providerResults"]["peroba"]["error"] == LATE
    assert len(simulator.calls("peroba", "query")) == 1
