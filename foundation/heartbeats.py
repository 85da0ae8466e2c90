"""Heartbeats of worker processes. Each worker writes a Redis key every second; the key expires by itself."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection

import structlog
from redis import Redis
from redis.exceptions import RedisError

from foundation.redis import per_process, redis, reserved_redis

log = structlog.get_logger(__name__)

BEAT_S = 1.0
_BEAT_TTL_S = 3
#: A worker without a heartbeat for this long is lost, in seconds. After Redis is emptied, a living worker has no key
#: until its next beat, which a busy machine may delay.
LOST_AFTER_S = 3.0
#: How long the start of a worker's silence is remembered, in seconds, unless it is asked for again.
_SILENCE_TTL_S = 60
#: ARGV: the silence that counts as death in milliseconds, the time to live of a recorded silence in seconds, the asking
#: worker, then the workers asked about. The asking worker must have a heartbeat, too: if it has none, Redis was emptied
#: a moment ago, and a missing heartbeat says nothing.
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


def _begin() -> str:
    name = uuid.uuid4().hex
    client = reserved_redis()
    beat_once(client, name)
    threading.Thread(target=_beat, args=(client, name), name="heartbeat", daemon=True).start()
    return name


#: The id of this worker process. The first call starts its heartbeat.
worker_id = per_process(_begin)


def dead_among(workers: Collection[str]) -> set[str]:
    """Those of `workers` that have been silent for `LOST_AFTER_S` or longer. Silence counts from the first call of this
    function, so the second call is the first that can find a worker dead.

    A worker that cannot reach Redis is silent and may still be alive. Raises RedisError.
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
    """Write a heartbeat of the worker `name`."""
    try:
        client.set(key_of(name), 1, ex=_BEAT_TTL_S)
    except RedisError:
        log.warning("heartbeat_unreachable")


def key_of(name: str) -> str:
    """The Redis key that exists while the worker `name` sends heartbeats."""
    return f"worker:{name}"


def _beat(client: Redis, name: str) -> None:
    while True:
        time.sleep(BEAT_S)
        beat_once(client, name)
