"""Carries out the faults of a schedule. Only the main thread may: a process dies with the thread that started it."""

from __future__ import annotations

import heapq
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count

import redis

from bench.proof.rig import Rig, tree
from bench.proof.schedule import Fault
from providers import registry
from tests.processes import Simulator

#: Seconds after which submissions are under way at slow banks.
TRAPPED_AFTER_S = 2.0


class Striker:
    """What a fault changes for a time is undone by `go_on`, which has to be called often, or by `end`."""

    def __init__(self, rig: Rig, simulator: Simulator) -> None:
        self._rig, self._simulator = rig, simulator
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def strike(self, fault: Fault) -> None:
        """Cause a fault."""
        match fault.kind:
            case "kill" | "wipe":
                self._rig.kill(fault.target, wipe=fault.kind == "wipe")
                self._in(fault.lasts_s, lambda: self._rig.start(fault.target))
            case "freeze":
                self._rig.signal(fault.target, signal.SIGSTOP)
                self._in(fault.lasts_s, lambda: self._rig.signal(fault.target, signal.SIGCONT))
            case "trap":
                for bank in registry.names():
                    self._simulator.bank(bank, fault="slow_body", operation="submit", times=2)
                self._in(TRAPPED_AFTER_S, lambda: self._rig.signal(fault.target, signal.SIGSTOP))
                self._in(TRAPPED_AFTER_S + fault.lasts_s, lambda: self._rig.signal(fault.target, signal.SIGCONT))
            case "worker":
                for worker in tree(self._rig.programs.pid("web"))[1:][:1]:
                    os.kill(worker, signal.SIGKILL)
            case "flush":
                with closing(redis.Redis.from_url(self._rig.servers["redis"].url)) as client:
                    client.flushall()
            case "disk":
                if self._rig.has_disk:
                    self._rig.fill_disk()
                    self._in(fault.lasts_s, self._rig.free_disk)
            case "clock":
                self._simulator.advance(fault.lasts_s)
            case _:
                word = None if fault.kind == "slow" else fault.kind
                settings = {"latency_ms": fault.latency_ms, "operation": fault.operation, "times": fault.times}
                self._simulator.bank(fault.target, fault=word, **settings)

    def go_on(self) -> None:
        """Undo what lasted long enough, and start again what ended by itself."""
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()
        self._rig.revive()

    def end(self) -> None:
        """Undo everything. Returns when it is done."""
        while self._later:
            self.go_on()
            time.sleep(0.1)

    def _in(self, seconds: float, undo: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), undo))
