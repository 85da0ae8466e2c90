"""Where tests let a worker die. See `die_at`."""

from __future__ import annotations

import os
import signal
import threading

from django.conf import settings

_held: list[str] = []


def die_at(point: str) -> None:
    """Kill this process, as a power cut would, where the environment's CRASH_AT names this point of a
    submission: `after_commit` (nothing sent yet), `after_send` (the bank has it, nothing written) or
    `before_settle` (written, not committed). `after_send*8` holds the submissions that come there until eight
    have, and then kills. In production the variable is not even read."""
    name, _, crowd = settings.CRASH_AT.partition("*")
    if point != name:
        return
    _held.append(point)
    if len(_held) < int(crowd or 1):
        threading.Event().wait()
    os.kill(os.getpid(), signal.SIGKILL)
