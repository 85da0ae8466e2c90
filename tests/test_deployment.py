"""Compose, the Kubernetes manifests and the operations page start the same processes."""

import re
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from config.celery import serve_counts
from config.local.run import service_processes
from config.local.servers import free_port
from providers.models import Provider

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = {
    path.stem: list(yaml.safe_load_all(path.read_text())) for path in (ROOT / "docs/kubernetes").glob("*.yaml")
}
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
PARTS = ("web", "banks", "sweeps", "default", "webhooks", "beat", "migrate")


class AnyTag(yaml.SafeLoader):
    """Reads a value with one of Compose's own tags, such as `!override`, as the value without the tag."""


AnyTag.add_multi_constructor("!", lambda loader, _tag, node: loader.construct_sequence(node))


def container(part: str) -> dict[str, Any]:
    """The only container of `part`."""
    [found] = MANIFESTS[part][0]["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_the_same_command_everywhere(part: str) -> None:
    command = container(part).get("command")
    if command is None:
        assert "command" not in COMPOSE[part], "both take the image's own command"
        return
    inner = command[2] if command[0] == "sh" else " ".join(command)
    assert COMPOSE[part]["command"] in (inner, f'sh -c "{inner}"')
    if part != "migrate":
        documented = inner.replace("/tmp/celerybeat-schedule", "FILE")
        assert f"`{documented}`" in (ROOT / "docs/operations.md").read_text()


def test_every_variable_that_a_manifest_sets_is_one_of_the_service() -> None:
    known = set(re.findall(r"^#([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    config_map = next(each for each in MANIFESTS["configuration"] if each["kind"] == "ConfigMap")
    named = {each["name"] for part in PARTS for each in container(part).get("env", ())}
    assert len(config_map["data"]) > 5
    assert {*config_map["data"], *named} - known == set()


@pytest.mark.control("V13")
def test_only_who_calls_banks_has_the_key_to_their_credentials(tmp_path: Path) -> None:
    """Before the fix, every process had it."""
    in_pods = {part for part in PARTS if "origination-banks" in str(container(part)["envFrom"])}
    keys = {part: COMPOSE[part]["environment"]["BANK_CREDENTIALS_KEYS"] for part in PARTS}
    in_compose = {part for part, key in keys.items() if key != "none"}
    local = service_processes({}, tmp_path)
    in_make_run = {each.name for each in local if each.environment.get("BANK_CREDENTIALS_KEYS") != "none"}
    assert in_pods == in_compose == in_make_run - {"simulator"} == {"banks", "sweeps"}


def test_a_pod_has_longer_to_end_than_a_query(settings: Any) -> None:
    for part in ("web", "banks"):
        spec = MANIFESTS[part][0]["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > settings.QUERY_DEADLINE_S + 10


def test_what_compose_doubles_exists() -> None:
    doubled = yaml.load((ROOT / "compose.scale.yaml").read_text(), Loader=AnyTag)["services"]
    assert doubled.keys() == {"web", "banks", "sweeps", "webhooks"}
    assert doubled.keys() < COMPOSE.keys()


def test_a_worker_shows_its_counts_at_a_port_of_its_own(settings: Any) -> None:
    settings.METRICS_PORT = free_port()
    serve_counts()
    shown = requests.get(f"http://127.0.0.1:{settings.METRICS_PORT}/metrics", timeout=5).text
    assert "bank_call_seconds" in {family.name for family in text_string_to_metric_families(shown)}


def test_statements_have_a_time_by_role(tmp_path: Path) -> None:
    """Before the fix, a statement could run for ever, and hold its connection."""
    name, wanted = "DATABASE_STATEMENT_TIMEOUT_S", {"web": "5", "default": "0", "migrate": "0"}
    config_map = next(each for each in MANIFESTS["configuration"] if each["kind"] == "ConfigMap")
    local = {each.name: each.environment.get(name, "0") for each in service_processes({}, tmp_path)}
    for part in PARTS:
        own = {each["name"]: each.get("value") for each in container(part).get("env", ())}
        limits = own.get(name, config_map["data"][name]), COMPOSE[part]["environment"][name]
        assert limits == (wanted.get(part, "30"),) * 2, part
        assert part in ("migrate", "beat") or local[part] == limits[0], part


def test_a_bank_worker_has_more_tasks_than_a_bank_has_places(tmp_path: Path) -> None:
    """A hanging bank must not cost the other banks anything. Before the fix, these were 500 and 512: twenty queries a
    second filled all tasks before the breaker opened."""
    [local] = [" ".join(each.command) for each in service_processes({}, tmp_path) if each.name == "banks"]
    places = Provider._meta.get_field("max_in_flight").default
    for command in (local, COMPOSE["banks"]["command"]):
        [tasks] = re.findall(r" -c (\d+)", command)
        assert int(tasks) > places
