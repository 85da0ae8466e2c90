"""Which worker processes live. Each says so every second, by a key in Redis that ends by itself."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Collection

import structlog
from redis import Redis
from redis.exceptions import RedisError

from foundation.redis import redis, reserved_redis

log = structlog.get_logger(__name__)

BEAT_S = 1.0
_BEAT_TTL_S = 3
#: A worker without a heartbeat for so long is lost. A wiped Redis has forgotten a living one's until its next beat,
#: which a busy machine may delay.
LOST_AFTER_S = 4.0
#: The silence of a worker is forgotten after this time, unless somebody asks again.
_SILENCE_TTL_S = 60
#: ARGV: the silence that means death in milliseconds, the time to live of a silence in seconds, who asks, then the
#: workers. Who asks has to be heard too: a Redis that was emptied a moment ago knows nobody, which says nothing.
_DEAD = """
local dead = {}
if redis.call('exists', 'worker:' .. ARGV[3]) == 0 then return dead end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 4, #ARGV do
  local silence = 'silence:' .. ARGV[i]
  if redis.call('exists', 'worker:' .. ARGV[i]) == 1 then
    redis.call('del', silence)
  elseif not redis.call('set', silence, now, 'NX', 'EX', ARGV[2]) then
    if now - tonumber(redis.call('get', silence)) >= tonumber(ARGV[1]) then dead[#dead + 1] = ARGV[i] end
  end
end
return dead
"""

_lock = threading.Lock()
_workers: dict[int, str] = {}


def worker_id() -> str:
    """This worker process's id; from the first call on a heartbeat says that it lives."""
    with _lock:
        if os.getpid() not in _workers:
            name = _workers[os.getpid()] = uuid.uuid4().hex
            client = reserved_redis()
            beat_once(client, name)
            threading.Thread(target=_beat, args=(client, name), name="heartbeat", daemon=True).start()
        return _workers[os.getpid()]


def dead_among(workers: Collection[str]) -> set[str]:
    """Those of `workers` that have been silent for `LOST_AFTER_S` or longer. Silence counts from the first time that
    somebody asks here, so a worker is found dead by the second question at the earliest.

    A worker may live and not be heard, where it can't reach Redis. Raises RedisError.
    """
    if not workers:
        return set()
    asks = worker_id()
    others = [each for each in workers if each != asks]
    arguments: list[str | int] = [int(LOST_AFTER_S * 1000), _SILENCE_TTL_S, asks, *others]
    dead = {name.decode() for name in redis().eval(_DEAD, 0, *arguments)}
    for worker in dead:
        log.warning("worker_dead", worker=worker)
    return dead


def beat_once(client: Redis, name: str) -> None:
    """Say that the worker `name` lives."""
    try:
        client.set(key_of(name), 1, ex=_BEAT_TTL_S)
    except RedisError:
        log.warning("heartbeat_unreachable")


def key_of(name: str) -> str:
    """The key that is there while the worker `name` lives."""
    return f"worker:{name}"


def _beat(client: Redis, name: str) -> None:
    while True:
        time.sleep(BEAT_S)
        beat_once(client, name)
