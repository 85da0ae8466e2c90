"""What tests may rely on in the fixtures that run the real processes."""

from __future__ import annotations

from pathlib import Path

import urllib3

from partners.models import SANDBOX_KEY, Partner
from providers import registry
from providers.models import Provider
from tests.processes import answers, wait_until

KEY = {"X-Partner-Api-Key": SANDBOX_KEY, "Connection": "close"}


def ask(service, path, key=KEY):
    return urllib3.request("GET", f"{service.url}{path}", headers=key, timeout=10, retries=False)


def test_the_live_service_sees_the_rows_of_the_test(live_service):
    assert ask(live_service, "/partners/v1/authorizations/unknown").status == 404
    Partner.objects.update(status=Partner.Status.SUSPENDED)
    assert ask(live_service, "/partners/v1/authorizations/unknown").status == 401


def test_it_begins_anew_for_every_test(live_service, simulator):
    assert Partner.objects.get().status == Partner.Status.ACTIVE
    assert Provider.objects.count() == len(registry.names())
    assert simulator.calls("ipe") == []


def test_a_process_that_a_test_kills(live_service):
    live_service.programs.kill("banks")
    assert not live_service.programs.is_running("banks")
    wait_until(lambda: ask(live_service, "/health/ready").status == 503, 20, "readiness notices the missing worker")


def test_is_back_for_the_next_one(live_service):
    assert live_service.programs.is_running("banks")
    # Readiness may be two seconds old, and a busy worker may miss one check.
    wait_until(lambda: ask(live_service, "/health/ready").json()["parts"]["bank_worker"] == "ok", 10, "it is back")


def test_a_program_can_be_started_again_with_other_variables(programs, simulator):
    first = programs.pid("simulator")
    programs.restart("simulator", LOG_LEVEL="DEBUG")
    assert programs.pid("simulator") != first
    wait_until(lambda: answers(simulator.url), 20, "it answers again")


def test_a_new_sandbox_waits_for_a_simulator_that_it_starts_again(programs, simulator, request):
    """Before the fix, the test after one with other variables found no simulator."""
    programs.restart("simulator", LOG_LEVEL="DEBUG")
    request.getfixturevalue("sandbox")
    assert simulator.calls("ipe") == []


def test_the_simulator_is_driven_by_its_controls(sandbox, simulator):
    simulator.bank("ipe", fault="http_503", times=1)
    answer = urllib3.request("POST", f"{simulator.url}/ipe/any", retries=False, headers={"Connection": "close"})
    assert answer.status in (404, 503)
    simulator.bank("ipe")
    simulator.advance(60)
    simulator.reset()
    assert simulator.contracts("ipe") == []


def test_the_web_answers_only_on_this_machine(live_service):
    addresses = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"]
    port = urllib3.util.parse_url(live_service.url).port
    hosts = {address.split(":")[0] for address in addresses if int(address.split(":")[1], 16) == port}
    assert hosts == {"0100007F"}
