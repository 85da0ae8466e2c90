"""Password hashing that does not block the event loop."""

import os
from functools import lru_cache

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.monkey import is_module_patched
from gevent.threadpool import ThreadPool

#: How many hashes one process computes at once. Each uses one core for some tenths of a second.
AT_ONCE = 1
NICENESS = 10


class OutsideTheLoop(PBKDF2PasswordHasher):
    """Django's PBKDF2, computed in a thread where greenlets run. OpenSSL releases the interpreter lock, so the
    process's other requests continue. The stored hashes equal Django's."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """The stored form of `password`. Verification and the dummy hash for unknown accounts call this method, too."""
        if not is_module_patched("threading"):
            return super().encode(password, salt, iterations)
        return _threads().apply(self._encode_behind_requests, (password, salt, iterations))

    def _encode_behind_requests(self, password: str, salt: str, iterations: int | None) -> str:
        # Linux applies the priority to the calling thread alone: requests go before hashes where processors are short.
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        return super().encode(password, salt, iterations)


@lru_cache(maxsize=1)
def _threads() -> ThreadPool:
    return ThreadPool(AT_ONCE)
