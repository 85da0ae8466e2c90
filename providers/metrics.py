"""Counts and durations of calls to banks. `/metrics` shows them (config/metrics.py)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def bank_call(bank: str, operation: str) -> Iterator[None]:
    """Count the call inside by outcome: ok; refused (by the bank); unavailable; unreadable; held_back (by the service
    itself); or broken (an exception of our own)."""
    begun = time.monotonic()
    outcome = "broken"
    try:
        yield
        outcome = "ok"
    except ApiError as error:
        outcome = _outcome(error)
        raise
    finally:
        BANK_CALLS.labels(bank, operation, outcome).observe(time.monotonic() - begun)


def _outcome(error: ApiError) -> str:
    if not isinstance(error, BankFailure):
        return "refused"
    if error.held_back:
        return "held_back"
    return "unavailable" if isinstance(error, ProviderUnavailable) else "unreadable"
