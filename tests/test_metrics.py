"""`/metrics`: who may read it, what it says, and that it sums the counts of all processes."""

from datetime import timedelta
from typing import Any

import urllib3
from cryptography.fernet import Fernet
from django.test import Client as Web
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from foundation.redis import redis
from partners.models import SANDBOX_KEY
from providers.breaker import ALL, Breaker
from providers.health import Kind
from tests.client import FULL_FLOW, Client
from tests.factories import PartnerFactory, ProviderFactory
from tests.processes import LiveService
from tests.proposals.rows import a_proposal, a_step, an_offer


class Scrape:
    """The values of one answer of `/metrics`."""

    def __init__(self, text: str) -> None:
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: object) -> float | None:
        return self._values.get((name, frozenset((label, str(value)) for label, value in labels.items())))

    def state(self, bank: str) -> str:
        """The one state in which the bank is."""
        [state] = [kind.value for kind in Kind if self.value("bank_state", bank=bank, state=kind)]
        return state


def scrape(web: Web) -> Scrape:
    reply = web.get("/metrics")
    assert reply.status_code == 200
    assert reply["Content-Type"].startswith("text/plain; version=")
    return Scrape(reply.content.decode())


# --- who may read it


READERS: list[tuple[Any, ...]] = [
    ("127.0.0.1", {}, [], 200),
    ("127.8.8.8", {}, [], 200),
    ("::1", {}, [], 200),
    ("::ffff:127.0.0.1", {}, [], 200),
    ("203.0.113.9", {}, [], 404),
    ("10.0.0.1", {}, [], 404),
    # A client can't claim to be local.
    ("203.0.113.9", {"X-Forwarded-For": "127.0.0.1"}, [], 404),
    ("10.0.0.1", {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}, ["10.0.0.0/8"], 404),
    # A proxy on this machine forwards requests of others, whether it is configured or forgotten.
    ("127.0.0.1", {"X-Forwarded-For": "203.0.113.9"}, ["127.0.0.1"], 404),
    ("127.0.0.1", {"X-Forwarded-For": "203.0.113.9"}, [], 404),
    ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, [], 404),
    ("::ffff:127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, [], 404),
    ("127.0.0.1", {"X-Forwarded-For": "nonsense"}, ["127.0.0.1"], 404),
    ("127.0.0.1", {"Forwarded": "for=203.0.113.9"}, [], 404),
    ("127.0.0.1", {"Via": "1.1 proxy"}, [], 404),
    # From this machine, through a trusted proxy elsewhere.
    ("10.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, ["10.0.0.0/8"], 200),
    ("", {}, [], 404),  # a Unix socket
]


def test_who_may_read(db: None, client: Web, settings: Any) -> None:
    for peer, headers, proxies, status in READERS:
        settings.TRUSTED_PROXIES = proxies
        assert client.get("/metrics", REMOTE_ADDR=peer, headers=headers).status_code == status


def test_the_networks_are_a_setting(db: None, client: Web, settings: Any) -> None:
    settings.METRICS_NETWORKS = ["10.1.0.0/16", "2001:db8::/32"]
    peers = ("10.1.2.3", "2001:db8::5", "10.2.0.1", "127.0.0.1", "::1")
    assert [client.get("/metrics", REMOTE_ADDR=peer).status_code for peer in peers] == [200, 200, 404, 404, 404]


def test_a_refusal_looks_like_any_unknown_page(client: Web) -> None:
    refused = client.get("/metrics", REMOTE_ADDR="203.0.113.9")
    unknown = client.get("/no-such-page", REMOTE_ADDR="203.0.113.9")
    assert (refused.status_code, refused.content) == (unknown.status_code, unknown.content)
    assert client.post("/metrics").status_code == 404


# --- what it says


def test_requests_by_route_method_and_status(db: None, client: Web) -> None:
    labels = {"route": "partners/v1/authorizations/<str:authorization_id>", "method": "GET", "status": 401}
    before = scrape(client).value("http_request_seconds_count", **labels) or 0
    assert client.get("/partners/v1/authorizations/what-nobody-may-know").status_code == 401
    assert scrape(client).value("http_request_seconds_count", **labels) == before + 1


def test_no_caller_can_put_anything_into_a_label(db: None, client: Web) -> None:
    client.generic("BREW", f"/no/{FULL_FLOW}?cpf={FULL_FLOW}")
    text = client.get("/metrics").content.decode()
    assert FULL_FLOW not in text
    assert "BREW" not in text
    assert Scrape(text).value("http_request_seconds_count", route="(none)", method="(other)", status=404)


def test_an_empty_service(db: None, client: Web) -> None:
    found = scrape(client)
    assert found.value("database_up") == 1
    assert found.value("redis_up") == 1
    assert found.value("webhook_events", state="due") == 0
    assert found.value("webhook_oldest_due_seconds") == 0
    assert found.value("external_steps_open", bank="ipe") is None
    assert found.value("proposals_unknown", bank="ipe") is None


def test_banks_and_their_states(db: None, client: Web) -> None:
    for name, changes in {
        "ipe": {},
        "jatoba": {"enabled": False},
        "cedro": {"circuit": "open"},
        "peroba": {"circuit": "closed"},
        "imbuia": {},
    }.items():
        ProviderFactory(name=name, **changes)
    Breaker("imbuia")._open(ALL)

    found = scrape(client)
    banks = ("ipe", "jatoba", "cedro", "peroba", "imbuia")
    assert [found.state(bank) for bank in banks] == ["fine", "off", "off", "unguarded", "out"]

    redis().set("breaker:imbuia:opened_at", timezone.now().timestamp() - 60)
    assert scrape(client).state("imbuia") == "probing"
    redis().delete("breaker:imbuia:opened_at")
    assert scrape(client).state("imbuia") == "fine"


def test_the_banks_are_counted_without_a_key_to_their_credentials(db: None, client: Web, settings: Any) -> None:
    ProviderFactory(name="ipe", credentials={"client_secret": "muito-secreto"})
    settings.FIELD_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    assert scrape(client).state("ipe") == "fine"


def test_open_steps(db: None, client: Web) -> None:
    partner = PartnerFactory()
    for number, state in enumerate(("open", "open", "approved")):
        a_step(an_offer(partner, "imbuia", cpf=f"holder-{number}"), state=state, due_at=None)
    assert scrape(client).value("external_steps_open", bank="imbuia") == 2


def test_overdue_checks_reveal_a_dead_sweep_process(db: None, client: Web) -> None:
    partner = PartnerFactory()
    now = timezone.now()
    for bank, overdue_s in (("imbuia", 20), ("imbuia", 90), ("peroba", -5)):
        offer = an_offer(partner, bank, cpf=f"holder-{overdue_s}")
        a_step(offer, due_at=now - timedelta(seconds=overdue_s))
        a_proposal(offer, submission="accepted", due_at=now - timedelta(seconds=overdue_s + 1000))
    a_step(an_offer(partner, "canela"), state="approved", due_at=None)
    found = scrape(client)
    name = "external_step_oldest_due_seconds"
    assert [found.value(name, bank=bank) for bank in ("peroba", "canela")] == [0, None]
    assert 90 <= (found.value(name, bank="imbuia") or 0) < 120
    assert 1090 <= (found.value("proposal_refresh_oldest_due_seconds", bank="imbuia") or 0) < 1120


def test_proposals_of_unknown_outcome(db: None, client: Web) -> None:
    partner = PartnerFactory()
    now = timezone.now()
    for minutes, submission in ((1, "unknown"), (10, "unknown"), (60, "accepted"), (60, "refused")):
        a_proposal(
            an_offer(partner, "ipe"),
            submission=submission,
            due_at=now if submission == "unknown" else None,
            created_at=now - timedelta(minutes=minutes),
        )
    found = scrape(client)
    assert found.value("proposals_unknown", bank="ipe") == 2
    oldest = found.value("proposals_unknown_oldest_seconds", bank="ipe")
    assert 600 <= oldest < 660


def test_it_costs_few_queries(db: None, client: Web, django_assert_max_num_queries: Any) -> None:
    """Three for the outbox and partners; one each for banks, their certificates, steps, unknown submissions, overdue
    checks and figures."""
    with django_assert_max_num_queries(9):
        scrape(client)


# --- all processes together

QUERY = {"bank": "ipe", "operation": "query", "outcome": "ok"}


def scrape_live(service: LiveService) -> Scrape:
    reply = urllib3.request("GET", f"{service.url}/metrics", headers={"Connection": "close"}, timeout=10)
    assert reply.status == 200
    return Scrape(reply.data.decode())


def test_what_a_worker_counts_is_seen_at_the_web_and_not_lost_with_the_worker(live_service: LiveService) -> None:
    """Prometheus takes a sum that shrinks for a restart, and would count everything again."""
    route = {"route": "partners/v1/providers/<str:name>/consultas", "method": "POST", "status": 200}
    counts = ("bank_call_seconds_count", QUERY), ("http_request_seconds_count", route)

    def counted() -> list[float]:
        found = scrape_live(live_service)
        return [found.value(name, **labels) or 0 for name, labels in counts]

    before = counted()
    Client(live_service.url, SANDBOX_KEY).query_one("ipe")
    assert counted() == [each + 1 for each in before]
    live_service.programs.restart("banks")
    live_service.wait_ready()
    Client(live_service.url, SANDBOX_KEY).query_one("ipe", cpf="90000000507")
    assert counted() == [each + 2 for each in before]
