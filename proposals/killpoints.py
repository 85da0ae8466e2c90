"""Points at which tests make a worker die. See `die_at`."""

import os
import signal
import threading

from django.conf import settings

_held: list[str] = []


def die_at(point: str) -> None:
    """Kill this process, like a power cut, if CRASH_AT names this point of a submission: `after_commit` (nothing sent
    yet), `after_send` (sent, but nothing stored) or `before_settle` (written, but not committed). `after_send*8` waits
    until eight submissions have reached the point, and then kills. Production does not read the variable."""
    name, _, crowd = settings.CRASH_AT.partition("*")
    if point != name:
        return
    _held.append(point)
    if len(_held) < int(crowd or 1):
        threading.Event().wait()
    os.kill(os.getpid(), signal.SIGKILL)
