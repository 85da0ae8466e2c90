"""The embedded PostgreSQL and Redis that `make run` and the tests start, and the supervisor of `make run`, driven as a
real program with real children."""

import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
import redis

from bench.programs import running
from config.local import servers as local
from config.local.servers import PlatformError, Postgres, Redis
from tests.processes import ROOT, Started, run, wait_until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another identity for PostgreSQL")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server that was prepared and never ran."""
    home = tmp_path_factory.mktemp("made") / "postgres"
    half = home / "data.new" / "base"
    half.mkdir(parents=True)
    Postgres(home, durable=False).prepare()
    assert not half.exists(), "half a data directory of a killed first start is made anew"
    return home


@pytest.fixture
def home(tmp_path: Path, made: Path) -> Path:
    """A copy of that folder."""
    subprocess.run(["cp", "-a", made, tmp_path], check=True)
    return tmp_path / "postgres"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def ask(server: Postgres, sql: str) -> object:
    with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


def test_postgres_serves_on_loopback_for_its_password_and_keeps_its_data_over_a_restart(home):
    server = Postgres(home, durable=False)
    with running(server):
        url = server.url
        for _ in range(2):  # the second call changes nothing
            server.create_database()
        assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'origination'") == 1
        assert str(ask(server, "SHOW server_version")).startswith("18.")
        assert ask(server, "SHOW server_encoding") == "UTF8"
        assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
        assert ask(server, "SHOW unix_socket_directories") == ""
        assert ask(server, "SHOW max_connections") == "100"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(url.replace(":", ":x", 2).replace("postgres:x", "postgres:", 1))
        ask(server, "CREATE TABLE kept AS SELECT 7 AS n")
    # A stale pid file has the number of another program.
    (home / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{home / 'data'}\n")
    with running(Postgres(home, durable=False)):
        assert Postgres(home).url == url
        assert ask(Postgres(home), "SELECT n FROM kept") == 7
    old = int((home / "port").read_text())
    with socket.create_server(("127.0.0.1", old)), running(server):
        assert ask(server, "SHOW port") != str(old), "another program has taken it"


def test_postgres_waits_for_the_disk_unless_it_serves_tests(home):
    assert not [part for part in Postgres(home).prepare() if "fsync" in part]
    assert "fsync=off" in Postgres(home, durable=False).prepare()


def test_a_free_port_is_none_that_a_connection_may_take_before_its_server_starts():
    """Before the fix, it was one of the ports that Linux gives to clients."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        given = min(server.getsockname()[1], client.getsockname()[1])
    assert all(local.free_port() < given for _ in range(50))


def test_data_of_another_version_is_refused_and_left_alone(home):
    (home / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(PlatformError, match=r"made by PostgreSQL 17, this is 18"):
        Postgres(home).prepare()
    assert (home / "data" / "base").is_dir()


@pytest.mark.parametrize("kind", [Postgres, Redis])
def test_a_server_that_a_killed_run_left_running_is_ended_before_the_next_starts(home, kind):
    server = kind(home if kind is Postgres else home / "redis", durable=False)
    # As a killed run leaves it on a system where children do not end with their parent.
    left = subprocess.Popen(
        server.prepare(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_until(server.answers, 20, "the first server answers")
    with running(server):
        assert left.wait(timeout=5) == 0
        assert server.answers()


def test_redis_keeps_its_data_also_when_it_is_killed_never_evicts_and_times_blocking_reads_finely(tmp_path):
    server = Redis(tmp_path / "redis")
    with running(server), redis.Redis.from_url(server.url) as client:
        client.rpush("queue", "task")
        client.config_set("appendfsync", "always")
        client.rpush("queue", "another")
        os.kill(int((tmp_path / "redis" / "redis.pid").read_text()), signal.SIGKILL)
    with running(server), redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.lrange("queue", 0, -1) == ["task", "another"]
        wanted = {"maxmemory-policy": "noeviction", "hz": "25", "appendonly": "yes", "bind": "127.0.0.1"}
        assert {key: client.config_get(key)[key] for key in wanted} == wanted
    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(server.url) as client:
        client.ping()


def test_passwords_are_readable_by_the_owner_alone_and_in_no_command(home, tmp_path):
    for server in (Postgres(home, durable=False), Redis(tmp_path / "redis")):
        command = server.prepare()
        password = (server.home / "password").read_text()
        assert len(password) >= 32
        assert not any(password in part for part in command)
        holders = [path for path in server.home.iterdir() if path.is_file() and password in path.read_text()]
        assert holders
        for path in holders:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(server.home.stat().st_mode) == 0o700


def test_a_server_that_cannot_start_says_why(tmp_path):
    server = Redis(tmp_path / "redis")
    (tmp_path / "redis" / "data").mkdir(parents=True)
    (tmp_path / "redis" / "data" / "appendonly.aof").write_text("not an append-only file")
    with pytest.raises(PlatformError, match=r"(?s)redis did not start:.*Bad file format"), running(server):
        pass


def test_a_missing_binary_names_the_variable_that_replaces_it(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "POSTGRES_BIN", tmp_path)
    with pytest.raises(PlatformError, match=r"run `make deps`, or set DATABASE_URL"):
        Postgres(tmp_path / "postgres").prepare()


@as_root
@pytest.mark.parametrize(("owner", "has_namespaces"), [("root", True), ("nobody", True), ("root", False)])
def test_root_runs_postgres_below_a_folder_that_only_its_owner_may_enter(
    open_folder, monkeypatch, owner, has_namespaces
):
    """In a user namespace, or as an unprivileged user where these are refused; below another user's folder, as that
    user."""
    closed, account = open_folder / "closed", pwd.getpwnam(owner)
    closed.mkdir(mode=0o700)
    os.chown(closed, account.pw_uid, account.pw_gid)
    if not has_namespaces:
        found = [each for each in local._root_substitutes(closed / "postgres") if each.prefix[0] == "setpriv"]
        monkeypatch.setattr(local, "_root_substitutes", lambda home: found)
    server = Postgres(closed / "postgres", durable=False)
    if owner == "root" and has_namespaces and server.prepare()[0] != "unshare":
        pytest.skip("this machine refuses user namespaces")
    with running(server):
        assert ask(server, "SELECT 1") == 1
        pid = (server.data / "postmaster.pid").read_text().split()[0]
        owners = {Path(f"/proc/{pid}").stat().st_uid, server.data.stat().st_uid}
    assert owners == {account.pw_uid} if has_namespaces else 0 not in owners
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@as_root
def test_root_that_no_other_user_stands_in_for_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_root_substitutes", lambda home: [])
    with pytest.raises(PlatformError, match=r"no unprivileged identity could be found"):
        Postgres(tmp_path / "postgres").prepare()


@as_root
def test_root_may_come_back_to_data_that_an_unprivileged_user_held(home):
    server = Postgres(home, durable=False)
    nobody = pwd.getpwnam("nobody")
    for path in (server.data, *server.data.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    with running(server):
        assert ask(server, "SELECT 1") == 1


@as_root
def test_an_ordinary_user_runs_both_servers_without_any_other_identity(open_folder):
    nobody = pwd.getpwnam("nobody")
    as_nobody = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    readable = [*as_nobody, "sh", "-c", 'test -r "$0" && test -r "$1"', os.__file__, local.__file__]
    if subprocess.run(readable, check=False).returncode:
        pytest.skip("the interpreter or the project lies where only root may enter")
    os.chown(open_folder, nobody.pw_uid, nobody.pw_gid)
    program = f"""
from pathlib import Path
from bench.programs import running
from config.local.servers import *
servers = Postgres(Path({str(open_folder)!r}) / "postgres", durable=False), Redis(Path({str(open_folder)!r}) / "redis")
with running(*servers):
    print(servers[0].prepare()[0].endswith("/postgres"), servers[0].data.stat().st_uid)
"""
    printed = run(*as_nobody, sys.executable, "-c", program, folder=ROOT)
    assert printed.split() == ["True", str(nobody.pw_uid)]


# --- The supervisor


PROGRAM = """
import signal
import sys
from pathlib import Path
from config.local.supervisor import Process
from config.local.supervisor import *
signal.signal(signal.SIGHUP, {hangup})
supervisor = Supervisor(Path("."))
try:
    {start}
    supervisor.serve()
except Stopped:
    supervisor.say("ending")
finally:
    supervisor.stop()
supervisor.say("ended")
"""


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator:
    with ExitStack() as running:

        def start(text: str, *, hangup: str = "signal.SIG_DFL") -> Started:
            """`hangup` is the handling of SIGHUP that the program inherits from its parent."""
            program = PROGRAM.format(start=text, hangup=hangup)
            return running.enter_context(Started([sys.executable, "-c", program], tmp_path / "output"))

        yield start


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_each_line_stands_under_its_process_also_the_last_without_an_end(supervise):
    program = supervise('supervisor.run("once", ["printf", "um\\ndois\\nsem fim"], {})')
    program.wait_for("sem fim")
    assert program.output == "once      | um\nonce      | dois\nonce      | sem fim\n"


def test_a_process_that_dies_at_once_every_time_is_tried_again_a_second_later(supervise):
    program = supervise('supervisor.start(Process("web", ["sh", "-c", "exit 3"]))')
    program.wait_for(r"(?s)(ended with code 3: starting it again in 1 s.*web was started again.*){2}")


def test_what_a_killed_parent_leaves_of_its_workers_is_killed_before_it_starts_again(supervise):
    program = supervise('supervisor.start(Process("web", ["sh", "-c", "sleep 60 & echo worker $!; wait"]))')
    worker = int(program.wait_for(r"worker (\d+)")[1])
    parent = int(Path(f"/proc/{worker}/stat").read_text().split()[3])
    os.kill(parent, signal.SIGKILL)
    program.wait_for(r"web was started again")
    wait_until(lambda: not is_running(worker), 5, "the worker of the killed parent is gone")


def test_under_nohup_a_hangup_ends_nothing(supervise):
    program = supervise(
        'supervisor.start(Process("web", ["sh", "-c", "while :; do echo lives; sleep 0.1; done"]))',
        hangup="signal.SIG_IGN",
    )
    program.wait_for("lives")
    program.handle.send_signal(signal.SIGHUP)
    lines = program.output.count("lives")
    program.wait_for(f"(?s)(lives.*){{{lines + 3}}}")
    assert program.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_later_stages_before_the_first_and_leaves_no_process(supervise, number):
    script = "trap 'echo {name} ends; exit 0' TERM INT; echo pid $$; while :; do sleep 0.05; done"
    program = supervise(
        f'supervisor.start(Process("db", ["sh", "-c", "{script.format(name="db")}"], '
        "stop_signal=signal.SIGINT), stage=0); "
        f'supervisor.start(Process("web", ["sh", "-c", "{script.format(name="web")}"]))'
    )
    program.wait_for(r"(?s)pid.*pid")
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", program.output)]
    assert program.end(number) == 0
    assert re.search(r"(?s)ending\n.*web ends\n.*db ends\n.*run +\| ended\n$", program.output)
    assert not any(is_running(pid) for pid in pids)


def test_a_process_that_ignores_the_request_to_end_is_killed_and_named(supervise):
    program = supervise(
        "import config.local.supervisor; config.local.supervisor.GRACE_S = 0.5; "
        'supervisor.start(Process("deaf", ["sh", "-c", "trap \'\' TERM; echo pid $$; while :; do sleep 1; done"]))'
    )
    pid = int(program.wait_for(r"pid (\d+)")[1])
    assert program.end() == 0
    assert "deaf did not end in time: killed" in program.output
    assert not is_running(pid)


def test_if_it_is_killed_no_process_outlives_it(supervise):
    """Before the fix, each got SIGTERM several times. A worker hung in its handler, and stayed for ever."""
    deaf = "trap '' TERM; echo pid $$; while :; do sleep 0.1; done"
    program = supervise(f'supervisor.start(Process("deaf", ["sh", "-c", "{deaf}"]))')
    pid = int(program.wait_for(r"pid (\d+)")[1])
    program.handle.kill()
    wait_until(lambda: not is_running(pid), 5, "the process is gone")


def test_it_ends_when_nobody_reads_its_output_any_more():
    start = 'supervisor.start(Process("web", ["sh", "-c", "while echo line; do sleep 0.05; done"]))'
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(start=start, hangup="signal.SIG_DFL")], cwd=ROOT, stdout=subprocess.PIPE
    ) as handle:
        handle.stdout.readline()
        handle.stdout.close()
        assert handle.wait(timeout=15) == 0
