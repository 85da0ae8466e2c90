"""Under whom the embedded PostgreSQL runs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Runs PostgreSQL where `make` is run by root and no other identity will do.
SYSTEM_USER = "origination-db"


@dataclass(frozen=True)
class Identity:
    """How to start PostgreSQL: what to put before its command, and who must own its data (None: as it is)."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def own(self, folder: Path) -> None:
        """Make `folder` and all in it this identity's, where it is not already."""
        if self.uid is None or self.gid is None or not folder.exists() or folder.stat().st_uid == self.uid:
            return
        for path in (*folder.rglob("*"), folder):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def find(home: Path, data: Path, initdb: Path, say: Callable[[str], None]) -> Identity | None:
    """The identity under which `initdb` and the server can work in `home`, found by trying; None where there is none.
    `data` then belongs to it. Only root needs another identity than its own, because PostgreSQL refuses to run as root.

    Root is first mapped to an ordinary user in a user namespace of its own: files stay root's, and folders
    that only root may enter stay open. Where namespaces are refused, or the way to `home` leads through
    another user's closed folder, an existing unprivileged user serves, with the one right to enter folders.
    No permission outside `home` is changed. Where none of these will do, a system user is made, which is said first.
    """
    if os.geteuid() != 0:
        return Identity()
    for identity in _root_substitutes(home):
        if _can_run_in(home, identity, initdb):
            identity.own(data)
            return identity
    for identity in _own_user(say):
        if _can_run_in(home, identity, initdb):
            identity.own(data)
            return identity
    return None


def _root_substitutes(home: Path) -> Iterator[Identity]:
    ordinary = [user for user in pwd.getpwall() if user.pw_uid != 0]
    # The owner of the folder, then nobody, then anyone: initdb insists that the user has a name.
    owner = home.parent.stat().st_uid
    ordinary.sort(key=lambda user: (user.pw_uid != owner, user.pw_name != "nobody"))
    for user in ordinary[:1]:
        mapping = (f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}")
        yield Identity(("unshare", "--user", *mapping, "--"), uid=0, gid=0)
    for user in ordinary[:3]:
        yield _as_user(user)


def _own_user(say: Callable[[str], None]) -> Iterator[Identity]:
    """SYSTEM_USER, made here where it does not exist, after saying so. Nothing where it can't be made."""
    with contextlib.suppress(KeyError):
        yield _as_user(pwd.getpwnam(SYSTEM_USER))
        return
    if not shutil.which("useradd"):
        return
    say(
        "PostgreSQL does not run as root, and no existing user can run it in this folder. "
        f"Making the system user {SYSTEM_USER} for it; `userdel {SYSTEM_USER}` removes it again."
    )
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
    if subprocess.run(command, check=False).returncode == 0:
        yield _as_user(pwd.getpwnam(SYSTEM_USER))


def _as_user(user: pwd.struct_passwd) -> Identity:
    user_options = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    # Without this bit access(2), by which PostgreSQL finds its files, would not see the privilege below.
    sight = ("--securebits=+no_setuid_fixup",)
    # The change of user clears the death signal that was set before it: it is set again here.
    rights = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--pdeathsig", "INT", "--")
    return Identity((*user_options, *sight, *rights), uid=user.pw_uid, gid=user.pw_gid)


def _can_run_in(home: Path, identity: Identity, initdb: Path) -> bool:
    """True when `identity` can write into `home` and run initdb, which `--show` makes look for all its parts."""
    script = ': > "$1/probe" && rm "$1/probe" && "$2" --show -D "$1/data"'
    command = [*identity.prefix, "sh", "-c", script, "sh", str(home), str(initdb)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
