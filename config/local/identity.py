"""The user under which the embedded PostgreSQL runs."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


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


def find(home: Path, data: Path, initdb: Path) -> Identity | None:
    """The identity under which `initdb` and the server can work in `home`, found by trying; None if there is none.
    `data` then belongs to it. Only root needs another identity, because PostgreSQL refuses to run as root.

    First, root is mapped to an ordinary user in a new user namespace: files still belong to root, and folders that only
    root may enter stay accessible. If namespaces are refused, or if `home` lies in another user's private folder, an
    unprivileged user is tried, with the single capability to enter folders. No permission outside `home` is changed.
    """
    if os.geteuid() != 0:
        return Identity()
    for identity in _root_substitutes(home):
        if _can_run_in(home, identity, initdb):
            identity.own(data)
            return identity
    return None


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


def _can_run_in(home: Path, identity: Identity, initdb: Path) -> bool:
    """True if `identity` can write to `home` and run initdb, whose `--show` looks for all its files."""
    script = ': > "$1/probe" && rm "$1/probe" && "$2" --show -D "$1/data"'
    command = [*identity.prefix, "sh", "-c", script, "sh", str(home), str(initdb)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
