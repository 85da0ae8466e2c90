"""Counts and durations of calls to banks. `/metrics` shows them (config/metrics.py)."""

import os
import socket

from prometheus_client import Histogram, values

from foundation.errors import ApiError
from providers.errors import BankFailure, ProviderUnavailable

if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
    # Each process keeps its counts in a file of its own. Containers may share the directory, and process ids repeat
    # between containers, so the file is also named after the host.
    _HOST = socket.gethostname()
    values.ValueClass = values.MultiProcessValue(lambda: f"{_HOST}-{os.getpid()}")

BANK_CALLS = Histogram(
    "bank_call_seconds",
    "Calls to banks, logins and the wait for a free place included.",
    ["bank", "operation", "outcome"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 25, 30),
)


#: The outcome of a call that was answered.
OK = "ok"


def word_for(error: BaseException) -> str:
    """The outcome of a call that raised `error`: refused (by the bank); unavailable; unreadable; held_back (by the
    service itself); or broken (an exception of our own)."""
    match error:
        case BankFailure(held_back=True):
            return "held_back"
        case ProviderUnavailable():
            return "unavailable"
        case BankFailure():
            return "unreadable"
    return "refused" if isinstance(error, ApiError) else "broken"
