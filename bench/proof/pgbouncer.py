"""PgBouncer in transaction mode before the embedded PostgreSQL, for the runs that are to show it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from config.local.servers import Identity, free_port

#: What the service needs of it (docs/operations.md). By default it waits 15 s after a restart of PostgreSQL, and for a
#: server that took its connection and died.
_SETTINGS = """[databases]
{database} = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = 40
max_client_conn = 500
ignore_startup_parameters = options
server_login_retry = 1
server_connect_timeout = 3
"""
#: What a process of the service sets to use it. PgBouncer before 1.21 knows no prepared statements.
VARIABLES = {"DATABASE_PREPARE": "false"}


class PgBouncer:
    """A PgBouncer in `home`, of which `server` gives the URL behind it. Runs under `identity`, because it refuses
    root."""

    stop_signal = signal.SIGINT

    def __init__(self, home: Path, server: Callable[[], str], identity: Callable[[], Identity]) -> None:
        self.data = home
        self._server, self._identity, self._port = server, identity, free_port()

    @property
    def url(self) -> str:
        """The URL to connect to instead of the server's."""
        behind = urlsplit(self._server())
        return f"postgres://{behind.username}:{behind.password}@127.0.0.1:{self._port}{behind.path}"

    def prepare(self) -> list[str]:
        """Write the settings. Returns the command that runs it in the foreground."""
        program, behind, identity = shutil.which("pgbouncer"), urlsplit(self._server()), self._identity()
        if program is None:
            raise FileNotFoundError("pgbouncer: Debian's package of that name has it")
        self.data.mkdir(parents=True, exist_ok=True)
        users, settings = self.data / "users", self.data / "pgbouncer.ini"
        users.write_text(f'"{behind.username}" "{behind.password}"\n')
        names = {"database": behind.path[1:], "server": behind.port, "port": self._port, "users": users}
        settings.write_text(_SETTINGS.format(**names))
        identity.own(self.data)
        return [*identity.prefix, program, "--quiet", str(settings)]

    def answers(self) -> bool:
        """True once it passes connections on."""
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
