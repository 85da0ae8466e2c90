"""Where tests let a worker die. See `die_at`."""

from __future__ import annotations

import os
import signal

from django.conf import settings


def die_at(point: str) -> None:
    """Kill this process, as a power cut would, where the environment's CRASH_AT names this point of a
    submission: `after_commit` (nothing sent yet), `after_send` (the bank has it, nothing written) or
    `before_settle` (written, not committed). In production the variable is not even read."""
    if point == settings.CRASH_AT:
        os.kill(os.getpid(), signal.SIGKILL)
