"""`/metrics`: who may read it, what it says, and that it sums the counts of all processes. The Grafana dashboard and
the alert rules of docs/monitoring use only metrics that it has."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import urllib3
import yaml
from cryptography.fernet import Fernet
from django.conf import settings
from django.test import Client as Web
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import authorizations.chain  # noqa: F401 - which counts in workers
from backoffice.figures import metrics as figures
from backoffice.figures.models import Progress
from foundation.redis import redis
from partners.models import SANDBOX_KEY
from providers.breaker import ALL, Breaker
from providers.health import Kind
from tests.certificates import Authority
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


def test_open_steps_and_overdue_checks_which_reveal_a_dead_sweep_process(db: None, client: Web) -> None:
    partner = PartnerFactory()
    now = timezone.now()
    for bank, overdue_s in (("imbuia", 20), ("imbuia", 90), ("peroba", -5)):
        offer = an_offer(partner, bank, cpf=f"holder-{overdue_s}")
        a_step(offer, due_at=now - timedelta(seconds=overdue_s))
        a_proposal(offer, submission="accepted", due_at=now - timedelta(seconds=overdue_s + 1000))
    a_step(an_offer(partner, "canela"), state="approved", due_at=None)
    found = scrape(client)
    assert [found.value("external_steps_open", bank=bank) for bank in ("imbuia", "peroba", "canela")] == [2, 1, None]
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


def test_what_a_worker_counts_is_seen_at_the_web_and_not_lost_with_the_worker(live_service: LiveService) -> None:
    """Prometheus takes a sum that shrinks for a restart, and would count everything again."""
    route = {"route": "partners/v1/providers/<str:name>/consultas", "method": "POST", "status": 200}
    counts = ("bank_call_seconds_count", QUERY), ("http_request_seconds_count", route)

    def counted() -> list[float]:
        reply = urllib3.request("GET", f"{live_service.url}/metrics", headers={"Connection": "close"}, timeout=10)
        assert reply.status == 200
        found = Scrape(reply.data.decode())
        return [found.value(name, **labels) or 0 for name, labels in counts]

    before = counted()
    Client(live_service.url, SANDBOX_KEY).query_one("ipe")
    assert counted() == [each + 1 for each in before]
    live_service.programs.restart("banks")
    live_service.wait_ready()
    Client(live_service.url, SANDBOX_KEY).query_one("ipe", cpf="90000000507")
    assert counted() == [each + 2 for each in before]


# --- The dashboard and the alert rules

# Every expression is parsed, and each of its metrics and labels is looked up in a real answer. A metric without
# samples, which only a worker counts, is in the answer by its name alone; its labels are then those that the code
# declares.


FOLDER = Path(settings.BASE_DIR) / "docs" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{f"{panel['title']} {each['refId']}": each["expr"] for panel in PANELS for each in panel["targets"]},
    **{rule["alert"]: rule["expr"] for rule in RULES},
}
#: Values for Grafana's own variables.
VARIABLES = {"$__rate_interval": "5m", "$bank": "ipe|cedro"}


def parsed(expression: str) -> Any:
    """The expression as Prometheus reads it. Raises ValueError."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return promql.parse(expression)


def inner(expression: Any) -> Iterator[Any]:
    """The expression and all expressions inside it."""
    yield expression
    children = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "param", "vector_selector")]
    for child in (*children, *getattr(expression, "args", ())):
        if child is not None:
            yield from inner(child)


def selectors(expression: Any) -> list[Any]:
    return [each for each in inner(expression) if isinstance(each, promql.VectorSelector)]


@pytest.fixture
def answered(db: None, client: Web) -> dict[str, set[str]]:
    """The series of a real answer, by name, with the labels that each may have."""
    ProviderFactory(name="ipe", certificate=Authority().issue("partner").partition("-----BEGIN PRIVATE")[0])
    offer = an_offer(PartnerFactory(), "ipe")
    now = timezone.now()
    a_step(offer)
    a_proposal(offer, submission="unknown", due_at=now)
    a_proposal(an_offer(offer.partner, "ipe"), submission="accepted", due_at=now - timedelta(minutes=1))
    Progress.objects.create(until=now)
    client.get("/docs/")
    text = client.get("/metrics").content.decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}.get(family.type, ("",))
        for suffix in suffixes:
            found[family.name + suffix] = {"le"} if suffix == "_bucket" else set()
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    for collector, names in REGISTRY._collector_to_names.items():
        for name in names:
            if name in found:
                found[name].update(getattr(collector, "_labelnames", ()))
    return found


def test_every_expression_uses_existing_metrics(answered: dict[str, set[str]]) -> None:
    wrong = []
    for where, text in EXPRESSIONS.items():
        found = selectors(parsed(text))
        assert found, where
        for selector in found:
            if selector.name not in answered:
                wrong.append(f"{where}: no series {selector.name}")
                continue
            asked = {matcher.name for matcher in selector.matchers.matchers}
            wrong += [f"{where}: {selector.name} has no {label}" for label in asked - answered[selector.name]]
        for each in inner(parsed(text)):
            if isinstance(each, promql.AggregateExpr) and each.modifier:
                labels = set.intersection(*(answered.get(one.name, set()) for one in selectors(each)))
                wrong += [f"{where}: nothing has {label}" for label in set(each.modifier.labels) - labels]
    assert wrong == []


def test_values_of_labels_are_those_in_the_code() -> None:
    """Stages, statuses and outcomes are defined in this code: an alert on one that does not exist would never fire."""
    known = {
        ("proposals_total", "stage"): set(figures.STAGES),
        ("proposals_reais_total", "stage"): set(figures.STAGES),
        ("query_answers_total", "status"): set(figures.ANSWER_STATUSES),
        ("webhook_events", "state"): {"due", "claimed", "unreachable", "failed"},
        ("bank_state", "state"): {kind.value for kind in Kind},
    }
    unknown = [
        f"{where}: {selector.name} {matcher}"
        for where, text in EXPRESSIONS.items()
        for selector in selectors(parsed(text))
        for matcher in selector.matchers.matchers
        if (words := known.get((selector.name, matcher.name)))
        and not all(any(re.fullmatch(part, word) for word in words) for part in matcher.value.split("|"))
    ]
    assert unknown == []


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} over {taken[x, y]}"
                taken[x, y] = panel["title"]
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used - {"__rate_interval"} == variables


def test_every_rule_says_what_it_wants_and_of_whom() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 15
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        by = {label for each in inner(parsed(rule["expr"])) if isinstance(each, promql.AggregateExpr) and each.modifier
              for label in each.modifier.labels}  # fmt: skip
        assert named <= by, rule["alert"]
