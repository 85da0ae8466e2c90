"""Actors beside the shoppers: readers of streams, holders who finish steps or authorize, and the operator."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import requests

from bench.proof.backend import NAME, PHONE, Backend, Diary, query_body, until
from bench.proof.receivers import Endpoint
from bench.proof.rig import Rig

#: Scenarios in which a bank waits for a step of the holder.
STEPS = ("biometric", "chat_pending", "sms_pending", "extra_confirmation")
PATIENCE_S = 240
#: Erases the holder whose CPF comes by standard input.
_ERASE = """
import json, sys
from proposals import retention
erasure = retention.erase(sys.stdin.read(), "prova")
print(json.dumps({"left": erasure.left, "cpf_index": erasure.cpf_index}))
"""


@dataclass
class Scene:
    """What all visitors share. `scenarios` are the banks of each that have offers. `suspended` is the partner that the
    operator suspends. `steps` counts those that holders ended, by partner and bank; `sessions` are the accepted ones.
    `resent` are events with the time at which the operator sent them again. `erased` are queries that the operator
    erased with their holder, and `indexes` the hashes of these holders.
    """

    rig: Rig
    seed: int
    partners: list[Backend]
    suspended: Backend
    scenarios: dict[str, list[str]]
    endpoint: Endpoint
    over: threading.Event
    steps: Counter[tuple[str, str]] = field(default_factory=Counter)
    sessions: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    indexes: set[str] = field(default_factory=set)
    resent: dict[str, float] = field(default_factory=dict)

    @property
    def diary(self) -> Diary:
        return self.partners[0].diary

    def play(self, random: Random, scenario: str) -> tuple[Backend, str]:
        """A partner, and a new holder whose banks behave like `scenario`."""
        cpf = self.diary.holder()
        requests.put(f"{self.rig.simulator}/lab/holders/{cpf}", json={"scenario": scenario}, timeout=30)
        return random.choice(self.partners), cpf

    def not_come_again(self) -> list[str]:
        """The events that the operator sent again and that did not arrive after that."""
        last = {delivery.id: delivery.at for delivery in self.endpoint.taken}
        return [event for event, at in self.resent.items() if last[event] < at]

    def repeat(self, name: str, every_s: float, act: Callable[[Random], None]) -> None:
        """Do `act` again and again until the run is over, each time with random numbers of its own."""
        number = 0
        while not self.over.wait(every_s):
            act(Random(f"{self.seed}-{name}-{number}"))
            number += 1


# --- Streams ------------------------------------------------------------------------------------------------------


def stream(scene: Scene, random: Random) -> None:
    """Read a streamed query, break off at random and go on where it broke. Each bank has one result in the end."""
    partner, cpf = scene.play(random, "full_flow")
    banks = sorted(random.sample(list(scene.partners[0].banks), 4))
    events: list[tuple[str, dict[str, Any]]] = []
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and not any(body["event"] == "complete" for _, body in events):
        query_id = events[0][1]["queryId"] if events else None
        try:
            _read(partner, query_id, query_body(cpf, providers=banks), events, random.randint(1, 9))
        except requests.RequestException:
            if not events:
                return
            time.sleep(0.5)
    _judge(scene, partner, banks, events)


def _read(
    partner: Backend, query_id: str | None, body: dict[str, Any], events: list[tuple[str, dict[str, Any]]], most: int
) -> None:
    headers = {"X-Partner-Api-Key": partner.key}
    if query_id is None:
        call = requests.post(f"{partner.url}/consultas/stream", json=body, headers=headers, stream=True, timeout=60)
    else:
        headers["Last-Event-ID"] = events[-1][0]
        call = requests.get(f"{partner.url}/consultas/{query_id}/stream", headers=headers, stream=True, timeout=60)
    with call as answer:
        answer.raise_for_status()
        name = ""
        for line in answer.iter_lines(chunk_size=1):
            if line.startswith(b"id: "):
                name = line[4:].decode()
            elif line.startswith(b"data: "):
                events.append((name, json.loads(line[6:])))
                most -= 1
                if not most:
                    return


def _judge(scene: Scene, partner: Backend, banks: list[str], events: list[tuple[str, dict[str, Any]]]) -> None:
    if not events:
        return
    results = Counter(body["provider"] for _, body in events if body["event"] in ("provider_result", "provider_error"))
    query_id = events[0][1]["queryId"]
    scene.diary.queries[query_id] = (partner, banks)
    scene.diary.done["streams"] += 1
    if len({name for name, _ in events}) < len(events) or any(count > 1 for count in results.values()):
        scene.diary.broken.append(f"stream {query_id}: an event came twice")
    if results.keys() != set(banks) or events[-1][1]["event"] != "complete":
        told = [name for name, _ in events]
        scene.diary.broken.append(f"stream {query_id}: {sorted(results)} of {banks}, the events {told}")


# --- Holders ------------------------------------------------------------------------------------------------------


def finish_step(scene: Scene, random: Random) -> None:
    """A holder finishes, refuses or leaves a step that a query showed. The partner must be told."""
    scenario = random.choice(STEPS)
    partner, cpf = scene.play(random, scenario)
    [bank] = scene.scenarios[scenario]

    def opened() -> bool:
        reply = partner.call("POST", "/consultas", query_body(cpf, providers=[bank]))
        return reply.is_good and bool(reply.body["providerResults"][bank]["requiresSignature"])

    if not until(opened, PATIENCE_S, every_s=1) or random.random() < 0.2:
        return
    verb = random.choice(("approve", "approve", "refuse"))
    ended = requests.post(f"{scene.rig.simulator}/lab/holders/{cpf}/steps/{verb}", json={"provider": bank}, timeout=30)
    if ended.ok:
        scene.steps[partner.id, bank] += 1


def authorize(scene: Scene, random: Random) -> None:
    """A holder accepts, declines or leaves a session. An accepted one serves a query."""
    partner, cpf = scene.play(random, "no_offers")
    body = {"cpf": cpf, "nome": NAME, "telefone": PHONE}
    session = partner.insist("POST", "/authorizations", body, scene.over, random).body.get("authorization_id")
    choice = random.random()
    if session is None or choice > 0.9:
        return
    verb = "accept" if choice < 0.8 else "decline"
    public = f"{partner.url}/authorizations/public/{session}/{verb}"
    try:
        answer = requests.post(public, json={"geolocation": None, "geolocation_status": "denied"}, timeout=60)
    except requests.RequestException:
        return
    if answer.ok and verb == "accept":
        scene.sessions.add(session)
        query = query_body(cpf, authorization_id=session)
        del query["client_ip"]
        partner.call("POST", "/consultas", query)


# --- The operator ----------------------------------------------------------------------------------------------------


def suspend(scene: Scene, random: Random) -> None:
    """While a partner is suspended, none of its calls succeeds."""
    partner = scene.suspended
    if scene.rig.manage("suspend_partner", partner.id).returncode:
        return
    for _ in range(5):
        if partner.call("GET", "/banks").is_good:
            scene.diary.broken.append("a suspended partner was answered")
    scene.diary.done["suspensions"] += 1
    until(lambda: not scene.rig.manage("resume_partner", partner.id).returncode, PATIENCE_S)


def resend(scene: Scene, random: Random) -> None:
    """An event that is sent again arrives once more."""
    if scene.endpoint.taken:
        event = random.choice(scene.endpoint.taken).id
        at = time.time()
        if not scene.rig.manage("resend_webhook", event).returncode:
            scene.resent[event] = at


def erase(scene: Scene, random: Random) -> None:
    """A holder who only asked for offers is erased."""
    partner, cpf = scene.play(random, "full_flow")
    reply = partner.call("POST", "/consultas", query_body(cpf, providers=partner.banks[:2]))
    done = scene.rig.manage("shell", "--no-imports", "-c", _ERASE, typed=cpf) if reply.is_good else None
    if done and not done.returncode:
        scene.diary.done["erasures"] += 1
        erasure = json.loads(done.stdout)
        if not any(erasure["left"].values()):
            scene.erased.add(reply.body["queryId"])
            scene.indexes.add(erasure["cpf_index"])
