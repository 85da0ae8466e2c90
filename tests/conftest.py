"""Fixtures for every test: PostgreSQL and Redis of this test run, the simulator, the service's processes.

Servers are started once per run, before the first test outside of `tests/unit`, on their own ports and in a new folder
under `var/tests/`, which is removed at the end. A running `make run` is not affected. If DATABASE_URL or REDIS_URL is
set, those servers are used (a database named test_…, by a superuser, and Redis database 15).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import django
import psycopg
import pytest
import redis
from django.apps import apps
from django.conf import settings
from django.db import OperationalError, connection, transaction

from bench.programs import running
from config.local import servers
from config.local.run import service_processes
from config.local.servers import APPLICATION_ROLE, DATABASE, Postgres, Redis, free_port
from config.local.supervisor import Process
from foundation.memory import collect_seldom
from tests import migrated, sharing
from tests.processes import START_TIMEOUT_S, LiveService, Outage, Programs, Simulator, answers, wait_until

if TYPE_CHECKING:
    from django.test import Client
    from playwright.sync_api import Browser
    from pytest_django.live_server_helper import LiveServer

    from partners.models import Partner
    from tests.browser import Desk
    from tests.receiver import Receiver

TESTPATHS = pytest.Config.ArgsSource.TESTPATHS
ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "var" / "tests"
CONTROL_TOKEN = "test-control"
PROGRAM_LOGS = "programs"
#: The number of log lines of each program shown for a failed test.
LOG_LINES = 60
#: Modules that the service's processes load instead of installed ones, which take a fifth of each process's start.
STAND_INS = {
    # Tools of developers, which other libraries load wherever they are installed. In production they are not.
    **dict.fromkeys(("docutils", "jinja2", "pygments", "rich"), "raise ImportError"),
    "click_repl": "def register_repl(group): ...",  # Celery's console
    # gevent asks 25 times what is installed, and each time the files of all packages would be read.
    "sitecustomize": """
from functools import cache
from importlib import metadata
found = cache(metadata.entry_points)
metadata.entry_points = lambda **chosen: found().select(**chosen)
""",
}
_LOG_SIZES = pytest.StashKey[dict[Path, int]]()
#: Tests in this folder need only the virtual environment.
UNIT = "tests/unit/"
_cleanup = contextlib.ExitStack()
#: This run's servers, started when first needed.
_servers: list[Postgres | Redis] = []


def pytest_configure(config: pytest.Config) -> None:
    """Set the servers' URLs in the environment, then load the settings. Each worker of pytest-xdist has its own servers
    and processes. The process that only distributes the tests needs none."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        # The imports above set this variable. A worker that inherited it would load the settings before its servers
        # run.
        os.environ.pop("DJANGO_SETTINGS_MODULE", None)
        if config.args_source is TESTPATHS and not os.environ.get("DATABASE_URL"):
            Thread(target=migrated.make).start()  # while the workers import the tests
        return
    collect_seldom()
    gc.disable()  # until all tests are collected: little of what is loaded until then is garbage
    # Compiled Python files must be stored, whatever the caller's environment says: programs then start four times
    # faster, and the workers need not rewrite every test's assertions themselves.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if settings.configured:
        raise pytest.UsageError("the settings were loaded before the servers were named: unset DJANGO_SETTINGS_MODULE")
    folder = _cleanup.enter_context(_run_folder())
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if (
        "PYTEST_XDIST_WORKER" in os.environ
    ):  # ports that no other process of the tests may choose before their servers start
        servers._FIRST_PORT, servers._FIRST_PORT_OF_CLIENTS = (14_000 + 2_000 * (worker + each) for each in (0, 1))
    else:
        servers._FIRST_PORT_OF_CLIENTS = 14_000
    os.environ["DATA_DIR"] = str(folder)
    (folder / "static").mkdir()  # WhiteNoise warns if the folder is missing
    for variable, server in (
        ("DATABASE_URL", Postgres(folder / "postgres", durable=False)),
        ("REDIS_URL", Redis(folder / "redis", durable=False)),
    ):
        if not os.environ.get(variable):
            migrated.reserve(server) if isinstance(server, Postgres) else server.reserve()
            os.environ[variable] = server.url
            _servers.append(server)
    os.environ["REDIS_URL"] = urlsplit(os.environ["REDIS_URL"])._replace(path=f"/{15 - worker}").geturl()
    os.environ["ENVIRONMENT"] = "development"  # whatever a file .env says
    os.environ["PORT"], os.environ["SIMULATOR_PORT"] = str(free_port()), str(free_port())
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    # When a test replaces a setting, Django has none for a moment. A thread of the service then reads these instead.
    type(settings)._wrapped = settings._wrapped
    # A slow hash protects passwords; here it would take a third of the time of each test with a user.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing.Sharing:
    return sharing.Sharing(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each worker first imports its own share of all tests. pytest rewrites a module at its first import, which is the
    longest part of a collection, and stores the result for the other workers."""
    if (worker := getattr(session.config, "workerinput", None)) and session.config.args_source is TESTPATHS:
        first, step = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        for file in sorted(Path(__file__).parent.rglob("test_*.py"))[first::step]:
            # The collection imports the module again and reports the error.
            with contextlib.suppress(Exception):
                import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: sharing.rank(item.nodeid))


def pytest_collection_finish() -> None:
    """Exclude all loaded objects from garbage collection. pytest collects ten times at its end, and each collection
    would visit all modules and tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the servers before the first test that may need them."""
    if _servers and not item.nodeid.startswith(UNIT):
        for server in _servers:
            if isinstance(server, Postgres):
                migrated.fill(server)
        _cleanup.enter_context(running(*_servers))
        _servers.clear()


def pytest_unconfigure(config: pytest.Config) -> None:
    logging.disable()  # otherwise background threads log the servers' end below pytest's last line
    _cleanup.close()


@contextlib.contextmanager
def _run_folder() -> Iterator[Path]:
    """A folder for this run. Folders that killed runs left are removed after a day."""
    RUNS.mkdir(parents=True, exist_ok=True)
    for old in RUNS.iterdir():
        if old.stat().st_mtime < time.time() - 24 * 3600:
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=RUNS))
    yield folder
    shutil.rmtree(folder)


def _own_postgres() -> Path | None:
    """The folder of this run's own PostgreSQL. None if DATABASE_URL named another."""
    home = Path(os.environ["DATA_DIR"]) / "postgres"
    return home if home.exists() else None


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """An own server's copied database is used as it is, and goes with the server."""
    return _own_postgres() is not None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Give it its own name, without a worker's."""
    if _own_postgres():
        settings.DATABASES["default"]["TEST"]["NAME"] = DATABASE


@pytest.fixture(scope="session", autouse=True)
def _tables_are_emptied_quickly() -> Iterator[None]:
    """After tests with real transactions every table is emptied, in one statement: Django's own `flush` asks for all
    tables, and needs a round trip for each. Rows are deleted instead of truncated, because TRUNCATE creates new files
    for all tables and indexes, which takes longer than most tests. Rows written by `migrate` itself stay."""
    from django.test import TransactionTestCase  # needs the settings

    statement = _emptying()

    def empty(_: TransactionTestCase) -> None:
        """Execute the statement, again if that fails: a sweep's lock order may conflict with this one, and PostgreSQL
        then aborts one of the two transactions."""
        for tries_left in (3, 2, 1, 0):
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute(statement)
                return
            except OperationalError:
                if not tries_left:
                    raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        # Django would connect again for each test, which takes longer than emptying the tables. While Playwright's loop
        # runs, `connection` is another one, which nobody could close once the loop has ended.
        patch.setattr(
            TransactionTestCase,
            "_should_reload_connections",
            lambda _: asyncio._get_running_loop() is not None or not connection.is_usable(),
        )
        yield


def _emptying() -> str:
    """The statement that deletes what tests have made. As a replica the server runs no triggers: those on evidence,
    terms and the audit trail would refuse the deletion. It checks no foreign keys either: a process that still works
    for the last test may have inserted a row that refers to a deleted one, so every table is emptied twice. The first
    terms of the migrations are inserted again. Content types, permissions and the back office's roles stay."""
    from backoffice.roles import ROLES  # needs the settings

    kept = {"django_content_type", "auth_permission", "auth_group", "auth_group_permissions"}
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True) if model._meta.managed}
    roles = ", ".join(f"'{name}'" for name in ROLES)
    made_by_tests = f"SELECT id FROM auth_group WHERE name NOT IN ({roles})"
    return "; ".join(
        (
            "SET LOCAL session_replication_role = replica",
            *[f'DELETE FROM "{table}"' for table in sorted(tables - kept)] * 2,
            f"DELETE FROM auth_group_permissions WHERE group_id IN ({made_by_tests})",
            f"DELETE FROM auth_group WHERE id IN ({made_by_tests})",
            "INSERT INTO authorizations_terms (version, text, created_at, published_at)"
            " VALUES ('1', '1. Termos de teste', now(), now())",
        )
    )


@pytest.fixture(scope="session", autouse=True)
def _answers_and_events_match_the_reference() -> Iterator[None]:
    """Check each response of a partner route to Django's test client, and each event that a test has stored, against
    the API reference. A test's own payload is a dict, and not checked."""
    from django.test import Client

    from foundation.shapes import Shape
    from tests import contract
    from webhooks import outbox

    def request(self: Any, **environ: Any) -> Any:
        response = take(self, **environ)
        if not response.streaming:
            media_type = response.headers.get("Content-Type", "")
            method, path = environ.get("REQUEST_METHOD", "GET"), environ.get("PATH_INFO", "/")
            contract.check_answer(method, path, response.status_code, media_type, response.content)
        return response

    def event(*message: Any) -> Any:
        made = make(*message)
        if isinstance(message[-1], Shape):
            contract.check_event(made.body)
        return made

    take, make = Client.request, outbox._event
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "request", request)
        patch.setattr(outbox, "_event", event)
        yield


@pytest.fixture(scope="session", autouse=True)
def _pages_keep_their_own_context_only() -> Iterator[None]:
    """Django's test client copies the context of each part of a page, of which the back office has hundreds: a
    twentieth of the time of its tests. The first is the page's own, which has all that the view gave it."""
    from django.test import client

    def store(kept: dict[str, Any], **rendered: Any) -> None:
        if not kept:
            store_each(kept, **rendered)

    store_each = client.store_rendered_templates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "store_rendered_templates", store)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember the position in the programs' logs when the test begins."""
    item.stash[_LOG_SIZES] = {file: file.stat().st_size for file in _program_logs()}
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show what the programs logged during a failed test, because a rare failure is seen only once."""
    report = yield
    if report.failed:
        for file in _program_logs():
            with file.open(errors="replace") as log:
                log.seek(item.stash[_LOG_SIZES].get(file, 0))
                lines = log.read().splitlines()
            if lines:
                report.sections.append((f"log of {file.name}", "\n".join(lines[-LOG_LINES:])))
    return report


def _program_logs() -> list[Path]:
    return sorted((Path(os.environ["DATA_DIR"]) / PROGRAM_LOGS).glob("*")) if "DATA_DIR" in os.environ else []


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The URL of this run's Redis."""
    return os.environ["REDIS_URL"]


@pytest.fixture(scope="session")
def _kept_redis(redis_url: str) -> Iterator[redis.Redis]:
    """A connection for what is asked before each test, because a new one takes ten times as long as that. It is made
    when it is first used."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture(autouse=True)
def _banks_have_no_past(request: pytest.FixtureRequest, _kept_redis: redis.Redis) -> None:
    """Redis keeps for hours what it was told of a bank's calls and of its breakers."""
    if request.node.nodeid.startswith(UNIT):
        return
    if keys := [*_kept_redis.keys("bank-calls:*"), *_kept_redis.keys("breaker:*")]:
        _kept_redis.delete(*keys)


@pytest.fixture
def freeze_redis() -> Outage:
    """Pauses this run's Redis for the duration of a `with`: it accepts connections and answers nothing."""
    pid_file = Path(os.environ["DATA_DIR"]) / "redis" / "redis.pid"
    if not pid_file.exists():
        pytest.skip("the Redis of REDIS_URL is not ours to halt")

    @contextlib.contextmanager
    def frozen() -> Iterator[None]:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return frozen


@pytest.fixture
def cut_database(transactional_db: None) -> Outage:
    """Makes the database unavailable, except to the test's own connection, for the duration of a `with`: open
    connections break, and new ones are refused."""
    name = connection.settings_dict["NAME"]
    server = urlsplit(os.environ["DATABASE_URL"])._replace(path="/postgres").geturl()

    @contextlib.contextmanager
    def cut() -> Iterator[None]:
        connection.ensure_connection()
        own = connection.connection.info.backend_pid
        with psycopg.connect(server, autocommit=True) as control:
            control.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            try:
                end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s"
                control.execute(end, (name, own))
                yield
            finally:
                control.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')

    return cut


def _as_application(database: str) -> str:
    """The URL of `database` for the service's processes. On this run's own server they use a restricted role, as in
    production. The role is created here, because the command would write an entry to the audit trail."""
    home = _own_postgres()
    if home is None:
        return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}").geturl()
    from foundation.management.commands.grant_application_role import grant  # needs the settings

    server = Postgres(home)
    with psycopg.connect(server.url_of(database), autocommit=True) as control:
        grant(control.cursor(), APPLICATION_ROLE, server.password_of(APPLICATION_ROLE))
    return server.url_of(database, APPLICATION_ROLE)


def _stand_ins(folder: Path) -> Path:
    """A folder whose modules Python finds before the installed ones: STAND_INS."""
    folder.mkdir()
    for name, text in STAND_INS.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="session")
def programs(django_db_setup: None) -> Iterator[Programs]:
    """The service's programs on the test database, not started yet."""
    from simulator.front import prepare

    data_dir = Path(os.environ["DATA_DIR"])
    prepare(data_dir / "front")
    port, database = os.environ["PORT"], connection.settings_dict["NAME"]
    environment = {
        "DATABASE_URL": _as_application(database),
        "CALLBACK_BASE_URL": f"http://127.0.0.1:{port}",
        "SIMULATOR_CONTROL_TOKEN": CONTROL_TOKEN,
        "SIMULATOR_FRONT_DIR": str(data_dir / "front"),
        "STREAM_HEARTBEAT_S": "2",
        "WEB_CONCURRENCY": "1",  # the start of a process is expensive
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(_stand_ins(data_dir / "stand_ins")),
    }
    programs = Programs(service_processes(environment, data_dir), ROOT, data_dir / PROGRAM_LOGS)
    yield programs
    for process in programs.running:  # their remaining work does not matter
        process.kill()


@pytest.fixture
def http(partner: Partner) -> Client:
    """The requests of a module's own `partner`, served in this process."""
    from tests.factories import http_of

    return http_of(partner)


@pytest.fixture(scope="session")
def simulator(programs: Programs) -> Iterator[Simulator]:
    """The simulated banks, over HTTP. The state lasts for the session: call `reset()`, or use `sandbox`."""
    simulator = Simulator(f"http://127.0.0.1:{os.environ['SIMULATOR_PORT']}", CONTROL_TOKEN)
    _ensure_simulator(programs, simulator)
    yield simulator
    simulator.close()


def _ensure_simulator(programs: Programs, simulator: Simulator) -> None:
    """Make the simulator run, with its own variables only, and wait until it answers."""
    if programs.ensure("simulator"):
        logs = partial(programs.logs, "simulator")
        wait_until(lambda: answers(simulator.url), START_TIMEOUT_S, "the simulator answers", logs)


@pytest.fixture(scope="session")
def _calling_simulator() -> Iterator[tuple[Simulator, Receiver]]:
    from tests.receiver import Receiver

    url = f"http://127.0.0.1:{(port := free_port())}"
    with Receiver() as receiver:
        environment = {
            "SIMULATOR_PORT": str(port),
            "SIMULATOR_CONTROL_TOKEN": CONTROL_TOKEN,
            "CALLBACK_BASE_URL": receiver.root,
        }
        process = Process("simulator", [sys.executable, "-m", "simulator"], environment)
        process.start(ROOT, subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(url), START_TIMEOUT_S, "the simulator answers")
            with contextlib.closing(Simulator(url, CONTROL_TOKEN, shows_turned_away=True)) as simulator:
                yield simulator, receiver
        finally:
            process.kill()


@pytest.fixture
def calling(_calling_simulator: tuple[Simulator, Receiver]) -> tuple[Simulator, Receiver]:
    """A simulator whose banks send callbacks to a receiver of the test instead of the service; and that receiver."""
    from tests.receiver import Reply

    simulator, receiver = _calling_simulator
    simulator.reset()
    receiver.forget()
    receiver.reply = Reply()
    return simulator, receiver


@pytest.fixture(scope="session")
def _seeds(django_db_setup: None, django_db_blocker: Any) -> str:
    """The statement that writes the sandbox's rows."""
    with django_db_blocker.unblock():
        return migrated.sandbox_statement()


@pytest.fixture
def sandbox(transactional_db: None, programs: Programs, simulator: Simulator, _seeds: str) -> Iterator[None]:
    """A new sandbox that other processes also see: the seeded banks and partner; simulator and Redis are empty.

    Such a test leaves nothing behind: before the tables are emptied, the sweep process and beat are halted, queued
    tasks are deleted, and running writes of the programs end. Both stay halted until `live_service` needs them, because
    they would otherwise claim the rows of a test that calls a sweep itself.
    """
    _ensure_simulator(programs, simulator)
    simulator.reset()
    with contextlib.closing(redis.Redis.from_url(os.environ["REDIS_URL"])) as client:
        client.flushdb()
        migrated.write(_seeds)
        yield
        programs.kill("beat", signal.SIGSTOP)
        client.flushdb()
    halt_sweeps(programs)


def halt_sweeps(programs: Programs) -> None:
    """Halt beat, and the sweep process while it is in no transaction, so that it keeps no locks."""
    programs.kill("beat", signal.SIGSTOP)

    def is_halted() -> bool:
        programs.kill("sweeps", signal.SIGSTOP)
        if _database_is_idle():
            return True
        programs.kill("sweeps", signal.SIGCONT)
        return False

    wait_until(is_halted, 40, "no other process is inside a transaction")


def _database_is_idle() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"
        )
        return cursor.fetchone() == (0,)


@pytest.fixture
def bank_worker(sandbox: None, programs: Programs) -> Programs:
    """A real bank worker and a new sandbox, for tests that call the views in this process."""
    from config import health

    programs.ensure("banks")
    logs = partial(programs.logs, "banks")
    wait_until(lambda: health.ping(timeout_s=1.0), START_TIMEOUT_S, "a bank worker answers", logs)
    return programs


@pytest.fixture
def live_service(sandbox: None, programs: Programs) -> Iterator[LiveService]:
    """The service, ready, with the processes of `make run`, on the test database and a new sandbox. One process serves
    the web, and none the queue `default`: a test that needs its tasks starts it.

    Processes that a test killed are started again for the next one. Every event of the test is checked against the API
    reference.
    """
    from tests import contract
    from webhooks.models import Event

    service = LiveService(f"http://127.0.0.1:{os.environ['PORT']}", programs)
    programs.ensure("web", "banks", "sweeps", "webhooks", "beat")
    service.wait_ready()
    yield service
    for event in Event.objects.exclude(body=None):
        contract.check_event(event.body)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of Chromium or Chrome. Tests that need it are skipped if there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    pytest.skip("browser tests need chromium or google-chrome on the PATH: none is installed")


@pytest.fixture(scope="module")
def chromium(chromium_path: str, django_db_setup: None) -> Iterator[Browser]:
    """Playwright runs an event loop in this thread, in which Django would refuse database access."""
    from playwright.sync_api import sync_playwright

    from tests.browser import ARGUMENTS

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def desks(chromium: Browser, live_server: LiveServer) -> Iterator[Desk]:
    """The window that is kept for later tests."""
    from tests.browser import Desk

    desk = Desk(chromium, live_server.url)
    yield desk
    desk.close()


@pytest.fixture
def desk(desks: Desk) -> Iterator[Desk]:
    """An operator's browser in the back office. A violation of its policy or a request to another host fails the
    test."""
    yield desks
    assert desks.clear() == []
