"""Memory settings of all processes."""

from __future__ import annotations

import atexit
import gc

#: How many new objects start a collection of the youngest generation, and how many collections of one generation start
#: one of the next.
_THRESHOLDS = (20_000, 20, 20)


def collect_seldom() -> None:
    """Collect less often, and not at the end. Call before anything else is loaded.

    Loading the code creates several hundred thousand objects and hardly any garbage. With Python's own thresholds, the
    collections during a start and the last one took 40 % of a short command's processor time.
    """
    gc.set_threshold(*_THRESHOLDS)
    atexit.register(gc.freeze)


def freeze_what_is_loaded() -> None:
    """Exclude everything loaded so far from later collections. Call once, when the process is ready to serve.

    Code, models and routes are several hundred thousand objects that live until the end. Each full collection that
    visits them would stop all requests of the process for up to a quarter of a second.

    Greenlets no longer note who spawned them: ten objects each, and a busy worker has thousands of greenlets.
    """
    import gevent  # not needed by processes that serve nothing, which also load this module

    gevent.config.track_greenlet_tree = False
    gc.collect()
    gc.freeze()
