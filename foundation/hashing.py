"""Passwords are hashed beside the event loop, few at a time."""

from __future__ import annotations

import os
from functools import lru_cache

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from gevent.monkey import is_module_patched
from gevent.threadpool import ThreadPool

#: Hashes that one process works on at once. Each takes a core for some tenths of a second.
AT_ONCE = 1
NICENESS = 10


class OutsideTheLoop(PBKDF2PasswordHasher):
    """Django's PBKDF2, in a thread of its own where greenlets run: OpenSSL lets go of the interpreter meanwhile, so the
    process's other requests go on. Stored hashes are the same as Django's."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        """The stored form of `password`; verifying and hashing for unknown accounts come here too."""
        if not is_module_patched("threading"):
            return super().encode(password, salt, iterations)
        return _threads().apply(self._encode_behind_requests, (password, salt, iterations))

    def _encode_behind_requests(self, password: str, salt: str, iterations: int | None) -> str:
        # Linux takes this for the calling thread alone: where processors are short, requests come first.
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
        return super().encode(password, salt, iterations)


@lru_cache(maxsize=1)
def _threads() -> ThreadPool:
    return ThreadPool(AT_ONCE)
