"""The programs of docs/guia/samples in each language, with the bodies that the guide serves, against the service and
with deliveries as the service sends them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from bs4 import BeautifulSoup

from config.local import guide
from config.local.servers import free_port
from partners.models import SANDBOX_KEY, Partner
from proposals.models import Proposal
from tests.clients.shop import forged
from tests.processes import ROOT, LiveService, answers, run, wait_until
from webhooks import signing

GUIDE = ROOT / "docs" / "guia"
BODIES = ("consulta.json", "proposta.json")
OLD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW = "whsec_plJ3nmyCDGBKInavdOK15jsl+xu1XqaV"
FOREIGN = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
BODY = '{"event":"lead","nome":"João"}'.encode()
TIME_LIMIT_S = 120


class Language(NamedTuple):
    """How the names of the language's programs end, the tool that runs them, and its arguments."""

    ending: str
    tool: str
    command: tuple[str, ...]


CURL = Language("sh", "sh", ())
LANGUAGES = [
    Language("py", sys.executable, ()),
    Language("mjs", "node", ()),
    Language("php", "php", ()),
    Language("java", "java", ()),
    Language("go", "go", ("run",)),
]


def programs(language: Language, folder: Path) -> dict[str, list[str]]:
    """The commands of the language's programs, by their names. The programs are copied to `folder`."""
    tool = shutil.which(language.tool)
    if tool is None:
        pytest.skip(f"the .{language.ending} samples need {language.tool}, which is not installed: they were not run")
    found = {}
    for program in (GUIDE / "samples").glob(f"*.{language.ending}"):
        shutil.copy(program, folder)
        found[program.stem.lower()] = [tool, *language.command, program.name]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partner's folder with the two bodies as the guide serves them."""
    for name in BODIES:
        shutil.copy(GUIDE / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("language", [CURL, *LANGUAGES], ids=lambda each: each.ending)
def test_the_first_program_queries_and_submits(live_service: LiveService, folder: Path, language: Language) -> None:
    printed = run(*programs(language, folder)["enviar"], live_service.url, SANDBOX_KEY, folder=folder)
    assert printed.strip() == str(Proposal.objects.get().pk)


def test_the_samples_are_one_story(live_service: LiveService, folder: Path) -> None:
    """Before the fix, no file had the bodies, the proposal's holder was another than the query's, and the webhook was
    about a third bank."""
    partner = Partner.objects.get()
    secret = partner.rotate_webhook_secret()
    [python, *_] = LANGUAGES
    commands = programs(python, folder)
    with receiving(commands["receber"], folder, [secret]) as url:
        partner.webhook_url, partner.webhook_events = url, ["proposal"]
        partner.save()
        proposal_id = run(*commands["enviar"], live_service.url, SANDBOX_KEY, folder=folder).strip()
        wait_until(lambda: kept(folder), 20, "the receiver has an event")
    told = {
        tuple(event[name] for name in ("external_reference", "provider", "partner_reference")) for event in kept(folder)
    }
    assert told == {(proposal_id, "ipe", "pedido-1001")}


def copied_from_the_first_page(service: str, caption: str) -> str:
    """What a reader copies: the programs under one tab of the guide's first page, in the page's order."""
    page = BeautifulSoup(requests.get(f"{service}/docs/guia/", timeout=30).text, "html.parser")
    shown = page.select(".literal-block-wrapper")
    parts = [each.select_one("pre") for each in shown if each.select_one(".caption-text").get_text() == caption]  # type: ignore[union-attr]
    assert len(parts) == 5
    return "".join(part.get_text() for part in parts if part)


@pytest.mark.parametrize(
    ("caption", "command", "name"),
    [
        ("curl", ["sh", "-eu"], "primeira.sh"),
        ("Python", [sys.executable], "primeira.py"),
        ("TypeScript", ["node"], "primeira.mjs"),  # its lines are JavaScript, too, which this Node runs
    ],
)
def test_the_first_page_is_copied_line_by_line_to_a_paid_proposal(
    live_service: LiveService, folder: Path, caption: str, command: list[str], name: str
) -> None:
    """Before the fix, the page named no address, ended before the money, and all readers shared one holder."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{caption} needs {command[0]}, which is not installed")
    port = free_port()
    for body in BODIES:
        (folder / body).unlink()
    guide.build()
    (folder / name).write_text(re.sub(r"\b9000\b", str(port), copied_from_the_first_page(live_service.url, caption)))
    assert run(*command, name, folder=folder).strip().endswith("pago")
    proposal = Proposal.objects.get()
    assert proposal.status == "disbursed"
    assert "proposal.disbursed" in {event["event"] for event in kept(folder)}


@contextmanager
def receiving(command: list[str], folder: Path, secrets: list[str]) -> Iterator[str]:
    """Runs the sample's receiver with `secrets`. Yields its address once it answers."""
    port = free_port()
    [tool, *rest] = command
    served = ["-S", f"127.0.0.1:{port}", *rest] if Path(tool).stem == "php" else [*rest, str(port)]
    environment = {**os.environ, "SEGREDOS": " ".join(secrets)}
    process = subprocess.Popen([tool, *served], cwd=folder, env=environment, start_new_session=True)
    url = f"http://127.0.0.1:{port}/webhooks"
    try:
        wait_until(lambda: answers(url), TIME_LIMIT_S, "the receiver answers")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # `go run` starts the program as a child
        process.wait()


def kept(folder: Path) -> list[dict[str, Any]]:
    """The events that the receiver has kept."""
    return [json.loads(file.read_bytes()) for file in (folder / "eventos").glob("*.json")]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda each: each.ending)
def test_the_second_program_keeps_each_genuine_event_once(folder: Path, language: Language) -> None:
    """Before the fix, the sample checked only the header without time and id, knew one secret, and was no receiver."""
    now = int(time.time())
    signers = (("evt_1", [OLD]), ("evt_1", [OLD]), ("evt_2", [FOREIGN, NEW]), ("evt_2", [OLD]))
    taken = [signing.headers(event_id, BODY, secrets, now) for event_id, secrets in signers]
    refused = forged(BODY, OLD, now)
    with receiving(programs(language, folder)["receber"], folder, [NEW, OLD]) as url:
        statuses = [requests.post(url, body, headers=headers, timeout=10).status_code for body, headers in refused]
        assert statuses == [401] * len(refused)
        assert kept(folder) == []
        with ThreadPoolExecutor(4) as pool:
            replies = pool.map(lambda headers: requests.post(url, BODY, headers=headers, timeout=10), taken * 2)
        assert {reply.status_code for reply in replies} == {204}
    files = {file.name: file.read_bytes() for file in (folder / "eventos").iterdir()}
    assert files == {"evt_1.json": BODY, "evt_2.json": BODY}
