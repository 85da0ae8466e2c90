"""Memory settings of all processes."""

import atexit
import fcntl
import gc
import os
import resource

#: How many new objects start a collection of the youngest generation.
_NEW_OBJECTS = 20_000
#: How many collections of one generation start one of the next.
_OLDER = (20, 20)
#: Open files that a process has room for from its start: a thousand queries at eight banks.
OPEN_FILES = 8192


def collect_seldom() -> None:
    """Collect less often, and not at the end. Call before anything else is loaded.

    Loading the code creates several hundred thousand objects and hardly any garbage. With Python's own thresholds, the
    collections during a start and the last one took 40 % of a short command's processor time.
    """
    gc.set_threshold(_NEW_OBJECTS, *_OLDER)
    atexit.register(gc.freeze)


def freeze_what_is_loaded(new_objects: int = _NEW_OBJECTS) -> None:
    """Exclude everything loaded so far from later collections. Call once, when the process is ready to serve.

    Code, models and routes are several hundred thousand objects that live until the end. Each full collection that
    visits them would stop all requests of the process for up to a quarter of a second.

    A collection starts when there are `new_objects` more objects than before. It visits every object made since the
    last one, in use or not, which stops the process for about 1 ms per 1,500 objects.

    Greenlets no longer note who spawned them: ten objects each, and a busy worker has thousands of greenlets.
    """
    import gevent  # not needed by processes that serve nothing, which also load this module

    gevent.config.track_greenlet_tree = False
    gc.collect()
    gc.freeze()
    gc.set_threshold(new_objects, *_OLDER)


def make_room_for_connections() -> None:
    """Have the kernel make the process's table of open files large enough. Call when the process is ready to serve.

    The kernel doubles a full table, and keeps the thread that opened a file waiting meanwhile: for 10 to 20 ms, and
    many times that on a busy machine. In a process of greenlets all requests wait with it.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    standard_error = 2
    os.close(fcntl.fcntl(standard_error, fcntl.F_DUPFD_CLOEXEC, min(OPEN_FILES, most) - 1))
