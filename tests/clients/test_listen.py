"""`python -m origination listen`: a receiver without a public URL gets every event, signed, whatever breaks."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from partners.models import SANDBOX_KEY, Partner
from tests.clients.network import Network
from tests.clients.test_python import send
from tests.processes import LiveService, Started, wait_until
from tests.receiver import Received, Receiver, Reply


class Listener:
    """The command, run in the folder `home` of a partner's engineer."""

    def __init__(self, wheel: Path, url: str, home: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(wheel), "HOME": str(home), "ORIGINATION_URL": url}
        self._log = home / "printed"

    def running(self, forward_to: str, *options: str, key: str = SANDBOX_KEY) -> Started:
        """The program, which prints after what earlier ones have printed."""
        command = [sys.executable, "-m", "origination", "listen", "--forward-to", forward_to, *options]
        return Started(command, self._log, env={**self._environment, "ORIGINATION_KEY": key})

    def printed(self) -> str:
        return self._log.read_text()

    def begun(self, times: int = 1) -> None:
        wait_until(lambda: self.printed().count("cursor: ") >= times, 30, "the listener begins", self.printed)

    def secrets(self) -> list[str]:
        return re.findall("secret: (whsec_.*)", self.printed())


@pytest.fixture
def listener(wheel: Path, live_service: LiveService, tmp_path: Path) -> Iterator[Any]:
    with Network(live_service.url) as network:
        made = Listener(wheel, network.root, tmp_path)
        yield network, made


def test_every_event_arrives_signed_and_in_order_whatever_breaks(
    listener: tuple[Network, Listener], live_service: LiveService, origination: ModuleType
) -> None:
    """The receiver is away and fails, the network is away, the listener is killed in the middle of a page, and the web
    process is started again."""
    network, command = listener
    partner = Partner.objects.get()
    send(partner)  # before the first start
    refused: list[str] = []

    def reply(request: Received) -> Reply:
        """500 for each third event, the first time."""
        if int(request.id[-1], 16) % 3 == 0 and request.id not in refused:
            refused.append(request.id)
            return Reply(500)
        return Reply()

    with Receiver(reply) as receiver:
        with command.running(receiver.url) as listening:
            command.begun()
            sent = [send(partner).pk for _ in range(6)]
            wait_until(lambda: sent[2] in receiver.ids, 60, "events come", command.printed)
            listening.handle.kill()
        network.fault = lambda method, path: "refuse"
        sent += [send(partner).pk for _ in range(3)]
        with command.running(receiver.url):
            wait_until(lambda: len([call for call in network.calls if call.fault]) > 1, 30, "it tries", command.printed)
            live_service.programs.restart("web")
            network.fault = lambda method, path: ""
            sent.append(send(partner).pk)
            wait_until(lambda: f"{sent[-1]} -> 204" in command.printed(), 90, "the last event comes", command.printed)
        first = list(dict.fromkeys(receiver.ids))
        assert first == sent, "none is missed, in their order; what came before the first start does not come"
        [secret] = set(command.secrets())
        for request in receiver.received:
            assert origination.verify(request.body, request.headers, [secret]).id == request.id
            assert request.json()["event"] == "webhook.test"
    lines = re.findall(r"^[\d:]{8} webhook\.test (\S+) -> 204$", command.printed(), re.MULTILINE)
    assert set(lines) <= set(sent)
    assert len(lines) == len(set(lines)) >= len(sent) - 1, "a line for each; the killed listener may have lost one"


def test_from_says_where_to_begin(listener: tuple[Network, Listener], origination: ModuleType) -> None:
    network, command = listener
    partner = Partner.objects.get()
    sent = [send(partner).pk for _ in range(4)]
    cursors = [event.cursor for event in origination.Client(network.root, SANDBOX_KEY).events(wait_s=0)]
    for begin, rest in (("start", sent), (cursors[1], sent[2:])):
        with Receiver() as receiver, command.running(receiver.url, "--from", begin):
            receiver.wait_for(len(rest), 30)
            assert receiver.ids == rest


def test_a_refused_key_ends_it(listener: tuple[Network, Listener]) -> None:
    _, command = listener
    with command.running("http://127.0.0.1:1/", key="cpk_test_wrong") as refused:
        assert refused.handle.wait(30) == 1
    assert "401 unauthorized" in command.printed()


def test_it_speaks_one_language(wheel: Path) -> None:
    """Before the fix, its help and its first lines were in Portuguese, its errors in English."""
    command = [sys.executable, "-m", "origination", "listen"]
    environment = {"PYTHONPATH": str(wheel)}
    told = [
        subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
        for options in (["--help"], ["--forward-to", "http://127.0.0.1:1/"])
    ]
    assert [each.returncode for each in told] == [0, 2]
    assert "your webhook receiver" in told[0].stdout
    assert told[1].stderr.endswith("error: needs --url or ORIGINATION_URL, and your key in ORIGINATION_KEY\n")
    assert (told[0].stdout + told[1].stderr).isascii()


def test_the_state_is_its_owners(listener: tuple[Network, Listener], tmp_path: Path) -> None:
    _, command = listener
    with command.running("http://127.0.0.1:1/"):
        command.begun()
    [state] = (tmp_path / ".origination").iterdir()
    assert state.stat().st_mode & 0o777 == 0o600
    assert SANDBOX_KEY not in state.read_text() + command.printed()
