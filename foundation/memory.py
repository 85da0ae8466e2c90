"""How often the garbage collector looks for cycles in a process that serves requests."""

from __future__ import annotations

import gc

#: Objects that are made before the young are looked at, and how many such looks make one at the next generation.
_THRESHOLDS = (20_000, 20, 20)


def freeze_what_is_loaded() -> None:
    """Leave all that is loaded by now out of every later collection: call it once, when the process is ready to serve.

    Code, models and routes are some hundred thousand objects that live until the end. To look through them at each full
    collection would halt all requests of the process, for up to a quarter of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
