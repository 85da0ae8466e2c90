"""The embedded PostgreSQL and Redis that `make run` and the tests start."""

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from bench.programs import running
from config.local import servers as local
from config.local.servers import PlatformError, Postgres, Redis
from tests.processes import ROOT, wait_until

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


def test_redis_keeps_its_data_also_when_it_is_killed(tmp_path):
    server = Redis(tmp_path / "redis")
    with running(server), redis.Redis.from_url(server.url) as client:
        client.rpush("queue", "task")
        client.config_set("appendfsync", "always")
        client.rpush("queue", "another")
        os.kill(int((tmp_path / "redis" / "redis.pid").read_text()), signal.SIGKILL)
    with running(server), redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.lrange("queue", 0, -1) == ["task", "another"]


def test_redis_never_evicts_and_times_blocking_reads_finely(tmp_path):
    server = Redis(tmp_path / "redis")
    with running(server), redis.Redis.from_url(server.url, decode_responses=True) as client:
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
    done = subprocess.run(
        [*as_nobody, sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", str(nobody.pw_uid)], done.stderr
