"""The Grafana dashboard and the alert rules of docs/monitoring use only metrics that `/metrics` has.

Every expression is parsed, and each of its metrics and labels is looked up in a real answer. A metric without samples,
which only a worker counts, is in the answer by its name alone; its labels are then those that the code declares.
"""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from django.conf import settings
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

import authorizations.chain  # noqa: F401 - which counts in workers
from backoffice.figures import metrics as figures
from backoffice.figures.models import Progress
from providers.health import Kind
from tests.certificates import Authority
from tests.factories import PartnerFactory, ProviderFactory
from tests.proposals.rows import a_proposal, a_step, an_offer

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
def answered(db: None, client: Client) -> dict[str, set[str]]:
    """The series of a real answer, by name, with the labels that each may have."""
    ProviderFactory(name="ipe", certificate=Authority().issue("partner").partition("-----BEGIN PRIVATE")[0])
    offer = an_offer(PartnerFactory(), "ipe")
    now = timezone.now()
    a_step(offer)
    a_proposal(offer, submission="unknown", due_at=now)
    a_proposal(an_offer(offer.partner, "ipe"), submission="accepted", due_at=now - timedelta(minutes=1))
    Progress.objects.create(until=now)
    client.get("/health/live")
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


@pytest.mark.parametrize("expression", ["sum by (bank) (rate(x[5m]", "rate(x)", "x{bank=ipe}"])
def test_a_malformed_expression_is_found(expression: str) -> None:
    with pytest.raises(ValueError):
        parsed(expression)


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
