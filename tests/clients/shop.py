"""Partners' programs on each client (`programs/`), and the folders in which they leave what they did."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.clients.network import FAULTS, Network
from webhooks import signing

PROGRAMS = Path(__file__).parent / "programs"
LANGUAGES = ("python", "typescript")


@dataclass
class Shop:
    """A partner that uses the client of `language` from the folder `packages`."""

    language: str
    packages: Path
    url: str
    key: str
    folder: Path
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.language == "typescript":
            install(self.packages, self.folder)
            shutil.copy(PROGRAMS / "partner.mjs", self.folder)

    def program(self, file: Path) -> tuple[list[str], dict[str, str]]:
        """The command and the environment that run a program of this language with the client."""
        if self.language == "typescript":
            return ["node", str(file)], dict(os.environ)
        [wheel] = self.packages.glob("*.whl")
        return [sys.executable, str(file)], {**os.environ, "PYTHONPATH": str(wheel)}

    def start(self, command: str, **streams: Any) -> subprocess.Popen[str]:
        """Run a command of the partner's program."""
        name = "partner.py" if self.language == "python" else "partner.mjs"
        program, environment = self.program((PROGRAMS if self.language == "python" else self.folder) / name)
        arguments = [*program, command, self.url, self.key, str(self.folder)]
        log = (self.folder / f"{command}.log").open("a")
        options = {"stdout": log, "stderr": log, **streams}
        with log:
            self.running[command] = subprocess.Popen(arguments, env=environment, text=True, **options)
        return self.running[command]

    def run(self, command: str, typed: str = "") -> str:
        """What a command that ends has printed."""
        process = self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        printed, _ = process.communicate(typed, timeout=120)
        assert process.returncode == 0, self.log(command)
        return printed

    def kill(self, command: str) -> None:
        """Kill the command's process. Nothing happens if it has ended."""
        if process := self.running.pop(command, None):
            process.kill()
            process.wait()

    def log(self, command: str) -> str:
        return (self.folder / f"{command}.log").read_text()

    def put(self, number: int, body: dict[str, Any]) -> None:
        """Something to submit."""
        (self.folder / f"{number}.body").write_text(json.dumps(body))

    def ask(self, query: dict[str, Any]) -> None:
        """What `stream` asks."""
        (self.folder / "query.json").write_text(json.dumps(query))

    def done(self) -> list[str]:
        """For each finished submission the proposal's id, or the code of its refusal."""
        return [file.read_text() for file in self.folder.glob("*.done")]

    def events(self) -> list[str]:
        """The ids of the handled events, in their order."""
        return [line[-1] for line in self._lines("events")]

    def streamed(self) -> Counter[tuple[str, ...]]:
        """How often each event of the stream was handled."""
        return Counter(tuple(line[2:]) for line in self._lines("stream"))

    def _lines(self, name: str) -> list[list[str]]:
        file = self.folder / name
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def install(packages: Path, folder: Path) -> None:
    """Unpack the npm package into the folder's `node_modules`."""
    [tarball] = packages.glob("*.tgz")
    target = folder / "node_modules" / "@origination" / "client"
    if not target.exists():
        with tarfile.open(tarball) as archive:
            archive.extractall(folder, filter="data")
        target.parent.mkdir(parents=True)
        (folder / "package").rename(target)


def forged(body: bytes, secret: str, now: int) -> list[tuple[bytes, dict[str, str]]]:
    """Deliveries that no receiver may take that knows only `secret`."""
    genuine = signing.headers("evt_1", body, [secret], now)
    return [
        (body + b" ", genuine),
        (body, {**genuine, "webhook-id": "evt_2"}),
        (body, signing.headers("evt_1", body, ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"], now)),
        (body, signing.headers("evt_1", body, [secret], now - 330)),
        (body, signing.headers("evt_1", body, [secret], now + 400)),
        *((body, {**genuine, "webhook-timestamp": moment}) for moment in ("", "x", "1e9", "9" * 40)),
        *((body, {**genuine, "webhook-signature": text}) for text in ("", "v1", "v1,a", "v2,a v1,a", "é")),
        (body, {"X-Service-Signature": genuine["X-Service-Signature"]}),
    ]


def whole_stream(banks: set[str]) -> Counter[tuple[str, ...]]:
    """The events of a stream in which every bank answered."""
    of_banks = ((kind, bank) for bank in banks for kind in ("provider_start", "provider_result"))
    return Counter([("start", "-"), ("complete", "-"), *of_banks])


def break_at_random(network: Network, seed: int, share: float) -> None:
    """Have `share` of the network's calls meet a fault."""
    random = Random(seed)
    network.fault = lambda method, path: random.choice(FAULTS) if random.random() < share else ""
