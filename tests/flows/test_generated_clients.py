"""Clients that third-party generators make from the service's `/schema/` run the flow from the query to the list."""

import json
import re
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import requests

from partners.models import SANDBOX_KEY
from proposals.models import Proposal
from tests.client import query_body
from tests.processes import ROOT, LiveService, run
from tests.proposals.datasets import dataset

STORIES = Path(__file__).parent / "generated"
NODE_MODULES = ROOT / "var" / "node" / "node_modules"
#: Java compiles little and in one thread: a generator runs for two seconds only.
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: The flags of openapi-generator that the guide names.
FLAGS = {"disallowAdditionalPropertiesIfNotPresent": False, "enumUnknownDefaultCase": True}


@pytest.fixture
def folder(live_service: LiveService, tmp_path: Path) -> Path:
    """A partner's new project, with only the bodies that the programs send."""
    submission = dataset({"provider": "ipe", "offerId": ""})
    (tmp_path / "told.json").write_text(json.dumps({"query": query_body(providers=["ipe"]), "dataset": submission}))
    return tmp_path


def assert_told_of_the_proposal(printed: str) -> None:
    told: dict[str, Any] = json.loads(printed)
    assert told == {"proposal_id": str(Proposal.objects.get().pk), "status": "awaiting_signature"}


def test_a_python_client_runs_the_whole_flow(live_service: LiveService, folder: Path) -> None:
    overrides = {"application/zip": "application/octet-stream"}  # as the guide says
    (folder / "config.json").write_text(json.dumps({"post_hooks": [], "content_type_overrides": overrides}))
    generate = ["-m", "openapi_python_client", "generate", "--url", f"{live_service.url}/schema/", "--meta", "none"]
    package = ["--config", "config.json", "--output-path", "origination_partner_api_client", "--fail-on-warning"]
    run(sys.executable, *generate, *package, folder=folder)
    shutil.copy(STORIES / "story.py", folder)
    assert_told_of_the_proposal(run(sys.executable, "story.py", live_service.url, SANDBOX_KEY, folder=folder))


def test_go_and_java_clients_have_every_operation_and_event(live_service: LiveService, folder: Path) -> None:
    """Before the fix, the routes of webhooks and the events shared a tag, and with it one file: five were lost. The
    flags are the guide's. Neither is compiled: their libraries come from elsewhere."""
    if not shutil.which("java"):
        pytest.skip("openapi-generator needs Java, which is not installed")
    generator = Path(str(files("openapi_generator_cli") / "openapi-generator.jar"))
    schema = requests.get(f"{live_service.url}/schema/?format=json", timeout=10).json()
    for language, flags in (("go", {**FLAGS, "enumClassPrefix": True}), ("java", FLAGS)):
        order = {"inputSpec": f"{live_service.url}/schema/", "generatorName": language, "outputDir": language}
        (folder / f"{language}.json").write_text(json.dumps({**order, "additionalProperties": flags}))
    told = run(*JAVA, "-jar", str(generator), "batch", "--fail-fast", "go.json", "java.json", folder=folder)
    assert "ERROR" not in told
    operations = {each["operationId"] for path in schema["paths"].values() for each in path.values()}
    functions = re.compile(r"^func \(a \*\w+\) (\w+?)(?:Execute)?\(", re.MULTILINE)
    in_go = {name for file in folder.glob("go/api_*.go") for name in functions.findall(file.read_text())}
    assert {each.replace("_", "").lower() for each in operations} <= {name.lower() for name in in_go}
    declared = re.compile(r"^(?:\t(?=[A-Z0-9_]+ )|type )(\w+) ", re.MULTILINE)
    names = [name for file in folder.glob("go/*.go") for name in declared.findall(file.read_text())]
    assert len(names) == len(set(names)), "before the fix, `SMS redeclared`"
    in_java = "".join(file.read_text() for file in folder.glob("java/src/main/**/api/*Api.java"))
    assert {each for each in operations if f'"{each}"' not in in_java and _camel(each) not in in_java} == set()


def _camel(operation: str) -> str:
    first, *others = operation.split("_")
    return first + "".join(word.capitalize() for word in others)


def test_a_typescript_client_runs_the_whole_flow(live_service: LiveService, folder: Path) -> None:
    if not (NODE_MODULES / ".bin" / "tsc").exists():
        pytest.skip("the TypeScript client needs Node 20 and npm: `make deps-node` found none")
    (folder / "node_modules").symlink_to(NODE_MODULES)
    shutil.copy(STORIES / "story.ts", folder)
    schema = f"{live_service.url}/schema/?format=json"
    # Without the flag, fields with a default would have to be sent.
    generate = ["node_modules/openapi-typescript/bin/cli.js", "--default-non-nullable=false"]
    run("node", *generate, schema, "-o", "origination.d.ts", folder=folder)
    options = ["--strict", "--target", "es2022", "--module", "commonjs", "--esModuleInterop", "--resolveJsonModule"]
    libraries = ["--lib", "es2022,dom", "--skipDefaultLibCheck"]  # TypeScript's own are not ours to check
    run("node", "node_modules/typescript/bin/tsc", *options, *libraries, "story.ts", folder=folder)
    assert_told_of_the_proposal(run("node", "story.js", live_service.url, SANDBOX_KEY, folder=folder))
