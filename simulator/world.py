"""What all simulated banks share: the clock, the holders' phones, the external steps, and the callbacks to the
service."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import aiohttp

from simulator.clock import Clock

logger = logging.getLogger(__name__)

HOLDER_STEPS = ("liveness", "chat", "sms", "confirmation", "signature")
STEPS = (*HOLDER_STEPS, "desk")
STEPS_WITHOUT_LINK = ("sms", "desk")
CALLBACK_RETRIES_S = (1, 3, 10, 30)
ROLES_KEPT = 20_000


@dataclass(frozen=True)
class Message:
    """An SMS or a chat message that a bank sent to a holder. `channel` is `sms` or `chat`."""

    bank: str
    cpf: str
    channel: str
    text: str
    at: datetime
    url: str | None = None


@dataclass(eq=False)
class Step:
    """A step outside of the API: by the holder, or (`desk`) by the bank's staff.

    `id` is the bank's id of the step, by which it can be polled. `token` is the secret in the holder's URL, always
    different from `id`. `status` is open, approved, refused or expired. `contract` is the id of the bank's contract,
    for `desk` and `signature`.
    """

    bank: str
    cpf: str
    kind: str
    opened_at: datetime
    expires_at: datetime | None
    url: str | None
    token: str
    contract: str | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    status: str = "open"
    ended_at: datetime | None = None


class World:
    """One world per process, without persistence. `reset()` makes it new."""

    def __init__(self, public_url: str, callback_base_url: str) -> None:
        self.public_url = public_url.rstrip("/")
        self.callback_base_url = callback_base_url.rstrip("/")
        self.clock = Clock()
        self.titles: dict[str, str] = {}  # the banks' names for holders
        self.on_step_end: dict[str, Callable[[Step, datetime], None]] = {}
        self._callbacks: dict[asyncio.Task[None], str] = {}  # with the CPF of each
        self._hanging: defaultdict[str | None, asyncio.Event] = defaultdict(asyncio.Event)
        self._session: aiohttp.ClientSession | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything. Hanging connections end, pending callbacks are dropped."""
        self.clock.reset()
        self.steps: dict[str, Step] = {}
        self._steps_of: defaultdict[str, list[Step]] = defaultdict(list)
        self._messages_of: defaultdict[str, list[Message]] = defaultdict(list)
        self._roles: OrderedDict[str, str] = OrderedDict()
        for task in self._callbacks:
            task.cancel()
        for released in self._hanging.values():
            released.set()
        self._hanging.clear()

    def forget(self, cpf: str) -> None:
        """Forget one holder: steps end without notice to their bank, messages and the role are removed, hanging
        connections end, pending callbacks are dropped."""
        for step in self._steps_of.pop(cpf, ()):
            if step.status == "open":
                step.status, step.ended_at = "expired", self.clock.now()
            del self.steps[step.token]
        self._messages_of.pop(cpf, None)
        self._roles.pop(cpf, None)
        for task in [task for task, owner in self._callbacks.items() if owner == cpf]:
            task.cancel()
        if cpf in self._hanging:
            self._hanging.pop(cpf).set()

    async def until_forgotten(self, cpf: str | None) -> None:
        """Wait until this holder, or everything, is forgotten. Used by hanging connections."""
        await self._hanging[cpf].wait()

    # --- roles

    def play(self, cpf: str, like: str) -> None:
        """Every bank treats `cpf` like the catalogue's holder `like` from now on. If there are very many roles, the
        oldest is removed."""
        self._roles[cpf] = like
        self._roles.move_to_end(cpf)
        while len(self._roles) > ROLES_KEPT:
            self._roles.popitem(last=False)

    def plays(self, cpf: str) -> str:
        """The CPF of the catalogue's holder that `cpf` plays; usually `cpf` itself."""
        return self._roles.get(cpf, cpf)

    async def close(self) -> None:
        """Release everything at the end of the process."""
        self.reset()
        if self._session is not None:
            await self._session.close()

    # --- the holder's phone

    def send(self, bank: str, cpf: str, channel: str, text: str, url: str | None = None) -> None:
        """Add a message to the holder's phone. Every message is kept, because tests count them.

        For a text message from the service, `cpf` is the phone's number.
        """
        self._messages_of[cpf].append(Message(bank, cpf, channel, text, self.clock.now(), url))

    def messages(self, cpf: str) -> list[Message]:
        """Oldest first."""
        return list(self._messages_of.get(cpf, ()))

    # --- external steps

    def open_step(
        self,
        bank: str,
        cpf: str,
        kind: str,
        *,
        ttl_s: float | None,
        ends_after_s: float | None = None,
        outcome: str = "approved",
        contract: str | None = None,
        opened_at: datetime | None = None,
    ) -> Step:
        """Open a step. It expires after `ttl_s`. If `ends_after_s` is given, the step ends by itself with `outcome`
        after that time."""
        start = opened_at or self.clock.now()
        token = secrets.token_urlsafe(24)
        url = None if kind in STEPS_WITHOUT_LINK else f"{self.public_url}/links/{token}"
        expires_at = None if ttl_s is None else start + timedelta(seconds=ttl_s)
        step = Step(bank, cpf, kind, start, expires_at, url, token, contract)
        self.steps[token] = step
        self._steps_of[cpf].append(step)
        if ends_after_s is not None:
            self.clock.at(start + timedelta(seconds=ends_after_s), lambda at: self.end_step(step, outcome, at))
        if expires_at is not None:
            self.clock.at(expires_at, lambda at: self.end_step(step, "expired", at))
        return step

    def end_step(self, step: Step, outcome: str, at: datetime | None = None) -> None:
        """End an open step and notify its bank. Does nothing if the step has ended."""
        if step.status != "open":
            return
        step.status, step.ended_at = outcome, at or self.clock.now()
        self.on_step_end[step.bank](step, step.ended_at)

    def newest_step(self, bank: str, cpf: str, kind: str, *, only_open: bool = False) -> Step | None:
        """The newest step of that kind; with `only_open`, the newest open one. None if there is none."""
        for step in reversed(self._steps_of.get(cpf, ())):
            if (step.bank, step.kind) == (bank, kind) and (step.status == "open" or not only_open):
                return step
        return None

    def steps_of(self, cpf: str) -> list[Step]:
        """All steps about this holder, the desk's too, oldest first."""
        return list(self._steps_of.get(cpf, ()))

    def steps_on_phone(self, cpf: str) -> list[Step]:
        """The steps that the holder of this CPF was asked to do, newest first."""
        steps = [step for step in self.steps_of(cpf) if step.kind in HOLDER_STEPS]
        return sorted(steps, key=lambda step: step.opened_at, reverse=True)

    # --- callbacks to the service

    def call_back(self, bank: str, cpf: str, body: bytes, headers: dict[str, str]) -> None:
        """Send a bank's callback about a holder in the background, with a few retries until the answer is 2xx."""
        task = asyncio.get_running_loop().create_task(self._deliver(bank, body, headers))
        self._callbacks[task] = cpf
        task.add_done_callback(lambda done: self._callbacks.pop(done, None))

    async def _deliver(self, bank: str, body: bytes, headers: dict[str, str]) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=10), trust_env=False, auto_decompress=False
            )
        url = f"{self.callback_base_url}/partners/v1/bank-callbacks/{bank}"
        for wait_s in (*CALLBACK_RETRIES_S, None):
            try:
                async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                    outcome = f"HTTP {answer.status}"
                    if answer.ok:
                        return
            except (aiohttp.ClientError, TimeoutError) as error:
                outcome = type(error).__name__
            if wait_s is None:
                logger.warning("callback of %s given up: %s", bank, outcome)
                return
            logger.info("callback of %s not taken (%s), again in %d s", bank, outcome, wait_s)
            await asyncio.sleep(wait_s)
