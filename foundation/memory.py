"""Memory settings of a process that serves requests."""

from __future__ import annotations

import gc

import gevent

#: How many new objects start a collection of the youngest generation, and how many collections of one generation start
#: one of the next.
_THRESHOLDS = (20_000, 20, 20)


def freeze_what_is_loaded() -> None:
    """Exclude everything loaded so far from later collections. Call once, when the process is ready to serve.

    Code, models and routes are several hundred thousand objects that live until the end. Each full collection that
    visits them would stop all requests of the process for up to a quarter of a second.

    Greenlets no longer note who spawned them: ten objects each, and a busy worker has thousands of greenlets.
    """
    gevent.config.track_greenlet_tree = False
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
