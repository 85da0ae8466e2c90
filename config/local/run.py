"""`make run`: the whole service on one machine, under one supervisor, until Ctrl-C."""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import environ
import urllib3
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from config.local.servers import (
    APPLICATION_ROLE,
    DATABASE,
    PlatformError,
    Postgres,
    Redis,
    port_is_free,
    write_private,
)
from config.local.supervisor import Process, Stopped, Supervisor

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 90
PR_SET_PDEATHSIG = 1  # prctl(2)
SANDBOX_KEY = "cpk_test_sandbox_public_key_not_a_secret_00000000000"
WELCOME = """
Ready after {seconds:.0f} s.

  API            {api}/partners/v1   with the header X-Partner-Api-Key: {key}
  API reference  {api}/docs/
  Guide          {api}/docs/guia/
  Admin          {api}/admin/        user admin, password admin
  Holder's phone {simulator}/phone/90000000175
  A tour         make demo                          (in another terminal)
  Commands       .venv/bin/python manage.py help    (in another terminal)

Ctrl-C ends everything; the data stays in {data_dir}.
"""


def service_processes(environment: Mapping[str, str], data_dir: Path) -> list[Process]:
    """The service's processes and the simulator, for one machine with `environment`.

    Empties the metrics directory, because all processes start anew. The tests run the same processes. A production
    deployment runs the same commands except the simulator (docs/operations.md). There, each process runs Django's
    checks of the code and its settings when it starts; here `prepare` runs them once.
    """
    python = [sys.executable, "-m"]
    celery = [*python, "celery", "--quiet", "-A", "config"]
    worker = [*celery, "worker", "--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]

    def worker_of(queue: str, pool: str, at_once: int, settings: Mapping[str, str]) -> Process:
        return Process(queue, [*worker, "-n", f"{queue}@%h", "-Q", queue, "-P", pool, "-c", str(at_once)], settings)

    counts = data_dir / "metrics"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir(parents=True)
    environment = {**environment, "PROMETHEUS_MULTIPROC_DIR": str(counts), "CELERY_SKIP_CHECKS": "1"}
    unlimited = {**environment, "DATABASE_POOL_SIZE": "8"}
    pooled = {**unlimited, "DATABASE_STATEMENT_TIMEOUT_S": "30"}
    no_banks = _without_credentials()
    return [
        Process("simulator", [*python, "simulator"], environment),
        Process(
            "web",
            [*python, "gunicorn", "-c", "config/gunicorn.py", "--graceful-timeout=5", "config.wsgi"],
            {**pooled, **no_banks, "DATABASE_STATEMENT_TIMEOUT_S": "5"},
        ),
        worker_of("banks", "gevent", 1000, pooled),
        worker_of("sweeps", "gevent", 256, pooled),
        worker_of("webhooks", "threads", 4, {**pooled, **no_banks}),
        worker_of("default", "gevent", 20, {**unlimited, **no_banks}),
        Process(
            "beat",
            [*celery, "beat", "--loglevel=INFO", "--pidfile=", "-s", str(data_dir / "celerybeat-schedule")],
            {**environment, **no_banks},
        ),
    ]


def _without_credentials() -> dict[str, str]:
    """The environment of a process that calls no bank: it can encrypt the banks' credentials, not decrypt them."""
    first = (os.environ.get("BANK_CREDENTIALS_KEYS") or "none").partition(",")[0].strip()
    if first == "none":
        return {"BANK_CREDENTIALS_KEYS": "none"}
    public = X25519PrivateKey.from_private_bytes(bytes.fromhex(first)).public_key().public_bytes_raw().hex()
    return {"BANK_CREDENTIALS_KEYS": "none", "BANK_CREDENTIALS_PUBLIC_KEY": public}


def run() -> int:
    """Run everything until Ctrl-C. Returns the exit code: 0, or 1 after printing the cause."""
    environ.Env.read_env(ROOT / ".env")
    _end_with_make()
    try:
        environment = os.environ.get("ENVIRONMENT") or "development"
        if environment == "production":
            raise PlatformError("ENVIRONMENT is production, this runs a sandbox: see docs/operations.md")
        if environment not in ("development", "sandbox"):
            raise PlatformError(f"ENVIRONMENT is {environment!r}, neither development nor sandbox")
        data_dir = Path(os.environ.get("DATA_DIR") or ROOT / "var").resolve()
        port, simulator_port = _wanted_port("PORT", 8000), _wanted_port("SIMULATOR_PORT", 8100)
        with _only_run_on(data_dir):
            _require_free({"PORT": port, "SIMULATOR_PORT": simulator_port})
            return _supervise(data_dir, port, simulator_port)
    except PlatformError as error:
        print(f"make run: {error}", file=sys.stderr)
        return 1


def _supervise(data_dir: Path, port: int, simulator_port: int) -> int:
    supervisor = Supervisor(ROOT)
    try:
        _bring_up(supervisor, data_dir, port, simulator_port)
    except Stopped:
        supervisor.say("ending all processes")
    finally:
        supervisor.stop()
    supervisor.say("all processes have ended")
    return 0


def _bring_up(supervisor: Supervisor, data_dir: Path, port: int, simulator_port: int) -> NoReturn:
    """Start everything in order and keep it running. Raises Stopped at a signal, and PlatformError."""
    began = time.monotonic()
    api, simulator = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{simulator_port}"
    urls, owner = _start_servers(supervisor, data_dir)
    environment = {
        **urls,
        "DATA_DIR": str(data_dir),
        "PORT": str(port),
        "SIMULATOR_PORT": str(simulator_port),
        "CALLBACK_BASE_URL": api,
        "SIMULATOR_FRONT_DIR": str(data_dir / "front"),
        "PYTHONUNBUFFERED": "1",
        # Celery prints a long warning if run by root. Here everything listens on this machine only.
        "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
    }
    services = {"database_url": environment["DATABASE_URL"], "redis_url": environment["REDIS_URL"]}
    write_private(data_dir / "services.json", json.dumps(services))  # read by config/environment.py

    supervisor.say("preparing the database, the sandbox and the static files")
    if supervisor.run("front", [sys.executable, "-m", "simulator.front", str(data_dir / "front")], environment):
        raise PlatformError("the simulator's certificates could not be made: the reason stands above")
    if supervisor.run("prepare", [sys.executable, "-m", "config.local.run", "prepare"], {**environment, **owner}):
        raise PlatformError("the database could not be prepared: the reason stands above")

    processes = service_processes(environment, data_dir)
    supervisor.say(f"starting {', '.join(process.name for process in processes)}")
    # The processes that answer requests start first. Starting all at once would double the time until they answer.
    needed = [process for process in processes if process.name in ("simulator", "web", "banks")]
    for process in needed:
        supervisor.start(process)
    ready = supervisor.wait_until(lambda: _health(api) == 200, READY_TIMEOUT_S)
    for process in processes:
        if process not in needed:
            supervisor.start(process)
    if ready:
        facts = {"api": api, "simulator": simulator, "key": SANDBOX_KEY, "data_dir": data_dir}
        supervisor.say(WELCOME.format(seconds=time.monotonic() - began, **facts))
    else:
        supervisor.say(f"not ready after {READY_TIMEOUT_S} s: {api}/health/ready says which part is missing")
    supervisor.serve()


def _start_servers(supervisor: Supervisor, data_dir: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The URLs of database and broker, from the environment or of servers started here; and the environment for
    `prepare`, which acts as the owner of the tables. The serving processes use another role, as in production."""
    servers: dict[str, Postgres | Redis] = {
        "DATABASE_URL": Postgres(data_dir / "postgres"),
        "REDIS_URL": Redis(data_dir / "redis"),
    }
    urls, owner = {variable: url for variable in servers if (url := os.environ.get(variable))}, {}
    started = {variable: server for variable, server in servers.items() if variable not in urls}
    for variable, server in started.items():
        supervisor.say(f"starting {server.name} in {server.home}")
        supervisor.start(server.process(), stage=0)
        urls[variable] = server.url
    for server in started.values():
        if not supervisor.wait_until(server.answers, READY_TIMEOUT_S):
            raise PlatformError(f"{server.name} did not start: the reason stands above")
        if isinstance(server, Postgres):
            server.create_database()
            urls["DATABASE_URL"] = server.url_of(DATABASE, APPLICATION_ROLE)
            owner = {"DATABASE_URL": server.url, "APPLICATION_DATABASE_PASSWORD": server.password_of(APPLICATION_ROLE)}
    return urls, owner


def prepare() -> int:
    """Migrate the database, seed the sandbox and collect static files. One process does all three, which saves time."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django
    from django.core.management import CommandError, call_command

    django.setup()
    try:
        call_command("migrate", interactive=False, verbosity=1, skip_checks=False)
    except CommandError as refused:
        print(refused, file=sys.stderr)
        return 1
    if "APPLICATION_DATABASE_PASSWORD" in os.environ:
        call_command("grant_application_role", APPLICATION_ROLE)
    call_command("seed_sandbox")
    call_command("collectstatic", interactive=False, verbosity=0)
    return 0


def _end_with_make() -> None:
    """Ask the kernel to send SIGTERM if the parent `make` ends, for example because it was killed."""
    if sys.platform == "linux" and "MAKELEVEL" in os.environ:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _health(api: str) -> int | None:
    """The HTTP status of the readiness route; None while nothing answers."""
    close = {"Connection": "close"}  # an idle connection would delay the web process's end
    try:
        return urllib3.request("GET", f"{api}/health/ready", timeout=5, retries=False, headers=close).status
    except urllib3.exceptions.HTTPError:
        return None


@contextlib.contextmanager
def _only_run_on(data_dir: Path) -> Iterator[None]:
    """Hold the lock of the data directory. Raises PlatformError if another run holds it."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "run.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise PlatformError(
                f"it is running already on {data_dir} (process {lock.read().strip()}). "
                "End it first, or set DATA_DIR, PORT and SIMULATOR_PORT for a second one."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _wanted_port(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise PlatformError(f"{variable} is {text!r}, not a port number")
    return int(text)


def _require_free(ports: Mapping[str, int]) -> None:
    if len(set(ports.values())) < len(ports):
        raise PlatformError(f"{' and '.join(ports)} are the same: {next(iter(ports.values()))}")
    conflicts = [
        f"port {port} is in use: set {name} to a free one" for name, port in ports.items() if not port_is_free(port)
    ]
    if conflicts:
        raise PlatformError(", and ".join(conflicts) + ", for example PORT=8001 make run")


if __name__ == "__main__":
    sys.exit(prepare() if sys.argv[1:] == ["prepare"] else run())
