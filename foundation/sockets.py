"""Checks of sockets in gevent processes, where every `select` runs the event loop."""

import select
from collections.abc import Callable

from gevent.monkey import get_original

#: A poll that does not wait needs no event loop.
_poll = get_original("select", "poll")


def has_something_to_read(fileno: int) -> bool:
    """True if the socket `fileno` has data to read or the other side closed it. Does not wait."""
    return watched(fileno)()


def watched(fileno: int) -> Callable[[], bool]:
    """`has_something_to_read`, prepared for a socket that is looked at often."""
    look = _poll()
    look.register(fileno, select.POLLIN)
    return lambda: bool(look.poll(0))
