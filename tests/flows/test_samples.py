"""The programs of docs/samples.md in each language, against the service and with signatures as the service sends
them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from consultas.models import Query
from partners.models import SANDBOX_KEY
from proposals.models import Proposal
from tests.client import query_body
from tests.processes import ROOT, LiveService
from tests.proposals.datasets import dataset
from webhooks import signing

PAGE = ROOT / "docs" / "samples.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_plJ3nmyCDGBKInavdOK15jsl+xu1XqaV"
BODY = '{"event":"lead","nome":"João"}'.encode()
TIME_LIMIT_S = 120


class Language(NamedTuple):
    """The name of the language's blocks in the page, the tool that runs them, and its arguments."""

    block: str
    tool: str
    command: tuple[str, ...]


LANGUAGES = [
    Language("python", sys.executable, ()),
    Language("javascript", "node", ()),
    Language("php", "php", ()),
    Language("java", "java", ()),
    Language("go", "go", ("run",)),
]


def programs(language: Language, folder: Path) -> dict[str, list[str]]:
    """The commands of the language's programs, which are written to `folder` under the names in their first lines."""
    tool = shutil.which(language.tool)
    if tool is None:
        pytest.skip(f"the samples in {language.block} need {language.tool}, which is not installed: they were not run")
    found = {}
    for code in re.findall(rf"```{language.block}\n(.*?)```", PAGE.read_text(), re.DOTALL):
        [name] = re.findall(r"^(?:#|//) (\S+\.\w+) ", code, re.MULTILINE)
        (folder / name).write_text(code)
        found[name.partition(".")[0].lower()] = [tool, *language.command, name]
    return found


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda each: each.block)
def test_the_first_program_queries_and_submits(live_service: LiveService, tmp_path: Path, language: Language) -> None:
    (tmp_path / "consulta.json").write_text(json.dumps(query_body(providers=["ipe"])))
    (tmp_path / "proposta.json").write_text(json.dumps(dataset({"provider": "ipe", "offerId": "<offerId>"})))
    command = [*programs(language, tmp_path)["enviar"], live_service.url, SANDBOX_KEY]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(Proposal.objects.get().pk)


@contextmanager
def cut_once(address: str, after: bytes) -> Iterator[str]:
    """A proxy to the service at `address`. Its first connection breaks once `after` has reached the client. Yields the
    proxy's address."""
    host, _, port = address.removeprefix("http://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = []

    def relay(source: socket.socket, target: socket.socket, until: bytes = b"") -> None:
        passed = b""
        with suppress(OSError):
            while part := source.recv(65536):
                passed += part
                target.sendall(part)
                if until and until in passed:
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        until = after
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                service = socket.create_connection((host, int(port)))
                opened.extend((client, service))
                for pair in ((client, service, b""), (service, client, until)):
                    threading.Thread(target=relay, args=pair, daemon=True).start()
                until = b""

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for each in (listener, *opened):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.mark.parametrize("language", LANGUAGES[:2], ids=lambda each: each.block)
def test_the_third_program_goes_on_where_its_connection_broke(
    live_service: LiveService, tmp_path: Path, language: Language
) -> None:
    (tmp_path / "consulta.json").write_text(json.dumps(query_body(providers=["ipe", "jatoba"])))
    program = programs(language, tmp_path)["acompanhar"]
    with cut_once(live_service.url, after=b'"provider_start"') as url:
        command = [*program, url, SANDBOX_KEY]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    opening = ["start -", "provider_start ipe", "provider_start jatoba"]
    assert (told[:3], sorted(told[3:-1]), told[-1]) == (
        opening,
        ["provider_result ipe", "provider_result jatoba"],
        "complete -",
    )
    query = Query.objects.get()
    assert query.kind == Query.Kind.STREAM, "it was asked once"


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda each: each.block)
def test_the_second_program_verifies(tmp_path: Path, language: Language) -> None:
    command = programs(language, tmp_path)["conferir"]
    given = signing.headers("evt_1", BODY, [SECRET], int(time.time()))["X-Service-Signature"]

    def accepts(body: bytes, signature: str, secret: str) -> bool:
        done = subprocess.run([*command, signature, secret], cwd=tmp_path, input=body, timeout=TIME_LIMIT_S)
        return done.returncode == 0

    assert accepts(BODY, given, SECRET)
    refused = [(BODY + b" ", given, SECRET), (BODY, given, OTHER_SECRET), (BODY, "é", SECRET)]
    assert [accepts(*each) for each in refused] == [False] * 3
