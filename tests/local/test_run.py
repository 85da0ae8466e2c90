"""`make run` as a developer uses it: the real program, in a folder of its own beside the tests' servers."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import requests

from config.local import run
from config.local.servers import free_port
from partners.models import SANDBOX_KEY
from providers import registry
from providers.words import data_of
from tests.client import query_body
from tests.processes import ROOT, Started, answers, wait_until
from tests.processes import run as printed_by

Start = Callable[..., "Run"]


class Run(Started):
    """One `make run`."""

    def __init__(self, data_dir: Path, log: Path, **variables: str) -> None:
        self.data_dir = data_dir
        environment = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
        environment |= {"DATA_DIR": str(data_dir), **variables}
        super().__init__([sys.executable, "-m", "config.local.run"], log, env=environment, start_new_session=True)

    def children(self) -> dict[str, int]:
        """The processes that it supervises: their command lines and ids."""
        found, own = {}, self.handle.pid
        for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found[Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()] = int(pid)
        return found

    def processes(self) -> dict[int, str]:
        """All processes of this run, including its supervisor: their ids and command lines."""
        mark = f"DATA_DIR={self.data_dir}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def _start(**variables: str) -> Run:
        runs.append(Run(tmp_path / "var", tmp_path / f"log-{len(runs)}", **variables))
        return runs[-1]

    yield _start
    for each in runs:
        if each.handle.poll() is None:
            each.end(signal.SIGTERM)


def test_it_runs_restarts_what_dies_keeps_its_data_and_ends_clean(start, tmp_path):
    port = free_port()
    # Most tests use two web processes, whose start is expensive.
    ports = {"PORT": str(port), "SIMULATOR_PORT": str(free_port()), "WEB_CONCURRENCY": "1"}
    first = start(**ports)
    first.wait_for(r"Ready after \d+ s")
    wait_until(lambda: any("beat" in command for command in first.children()), 10, "beat runs")
    assert f"http://127.0.0.1:{port}/partners/v1" in first.output
    assert SANDBOX_KEY in first.output

    # One bank demands our client certificate, and is reached through a proxy.
    fronted = [name for name in registry.names() if data_of(name).sandbox.get("has_front")]
    answer = requests.post(
        f"http://127.0.0.1:{port}/partners/v1/consultas",
        json=query_body(providers=fronted),
        headers={"X-Partner-Api-Key": SANDBOX_KEY},
        timeout=60,
    ).json()
    assert [offer["provider"] for offer in answer["proposals"]][:1] == fronted, answer

    # manage.py in another terminal acts on the same database, with nothing but DATA_DIR set.
    services = tmp_path / "var" / "services.json"
    assert stat.S_IMODE(services.stat().st_mode) == 0o600
    assert set(json.loads(services.read_text())) == {"database_url", "redis_url"}
    assert "://application:" in json.loads(services.read_text())["database_url"], "rows and no more, as in production"
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    environment["DATA_DIR"] = str(tmp_path / "var")
    create = ("manage.py", "create_partner", "Parceiro de teste", "--providers", "ipe")
    partner = json.loads(printed_by(sys.executable, *create, folder=ROOT, env=environment))["partner_id"]

    # A dead process is restarted: the web process, and the database.
    for name, mark in (("web", "gunicorn"), ("postgres", "bin/postgres")):
        (victim,) = (pid for command, pid in first.children().items() if mark in command)
        os.kill(victim, signal.SIGKILL)
        first.wait_for(rf"run +\| {name} was killed by SIGKILL: starting it again")
        first.wait_for(rf"run +\| {name} was started again", 10)
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/health/ready") == 200, 60, "ready again", lambda: first.output)

    # Even if it is killed, the next run can start, and stored data are kept.
    first.end(signal.SIGKILL)
    wait_until(lambda: not first.processes(), 30, "its processes end with it", lambda: str(first.processes()))
    second = start(**ports)
    second.wait_for("starting simulator, web, banks")
    with psycopg.connect(json.loads(services.read_text())["database_url"]) as connection:
        assert connection.execute("SELECT count(*) FROM partners_partner WHERE id = %s", [partner]).fetchone() == (1,)

    assert second.end() == 0
    assert second.output.rstrip().endswith("all processes have ended")
    assert second.processes() == {}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"PORT": "http"}, "PORT is 'http', not a port number"),
        ({"PORT": "70000"}, "PORT is '70000', not a port number"),
        ({"PORT": "8123", "SIMULATOR_PORT": "8123"}, "PORT and SIMULATOR_PORT are the same: 8123"),
        ({"ENVIRONMENT": "production"}, "ENVIRONMENT is production, this runs a sandbox"),
        ({"ENVIRONMENT": "foo"}, "ENVIRONMENT is 'foo', neither development nor sandbox"),
        ({"PORT": "{taken}"}, "port {taken} is in use: set PORT to a free one"),
        ({"SIMULATOR_PORT": "{taken}"}, "port {taken} is in use: set SIMULATOR_PORT to a free one"),
        ({}, "it is running already on {folder} (process {process})"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(monkeypatch, capsys, tmp_path, variables, words):
    monkeypatch.setattr(run, "ROOT", tmp_path)  # where no file .env is
    monkeypatch.delenv("MAKELEVEL", raising=False)  # this process would have to end with its `make`
    another = contextlib.nullcontext() if variables else run._only_run_on(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server, another:
        taken = server.getsockname()[1]
        ports = {"PORT": str(free_port()), "SIMULATOR_PORT": str(free_port())}
        for name, value in ({"DATA_DIR": str(tmp_path), **ports} | variables).items():
            monkeypatch.setenv(name, value.format(taken=taken))
        assert run.run() == 1
    told = capsys.readouterr().err
    assert told.startswith(f"make run: {words.format(taken=taken, folder=tmp_path, process=os.getpid())}")
    assert told.count("\n") == 1
    assert not (tmp_path / "postgres").exists()


def test_given_servers_are_used_instead_of_embedded_ones(start, tmp_path):
    given = {"DATABASE_URL": "postgres://given@127.0.0.1:1/given", "REDIS_URL": "redis://127.0.0.1:1/14"}
    program = start(PORT=str(free_port()), SIMULATOR_PORT=str(free_port()), **given)
    program.wait_for("preparing the database")
    assert program.end(signal.SIGTERM) == 0
    assert not (tmp_path / "var" / "postgres").exists()
    assert not (tmp_path / "var" / "redis").exists()
    services = json.loads((tmp_path / "var" / "services.json").read_text())
    assert services == {name.lower(): url for name, url in given.items()}


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make on the PATH")
@pytest.mark.parametrize("outer", [{}, {"MAKELEVEL": "1", "MAKEFLAGS": "w"}], ids=["plain", "nested"])
def test_python_keeps_what_it_compiles_whatever_the_callers_environment_says(outer: dict[str, str]) -> None:
    """Before the fix, if the caller's environment forbade it, each process of the tests compiled its modules again.

    `make test` is such a caller: a nested make also prints the folder that it enters, unless it is told not to.
    """
    show = "show: ; @printenv PYTHONDONTWRITEBYTECODE || echo unset"
    environment = {**os.environ, **outer, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ("make", "--no-print-directory", "--eval", show, "show")
    assert printed_by(*command, folder=ROOT, env=environment) == "unset\n"
