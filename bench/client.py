"""`python -m bench.client`: the CPU time of one call to a bank over a kept connection, in a process of a worker's kind.

The calls go to a small server in a process of its own. Plain calls, calls under TLS and calls with a client certificate
take turns in short rounds, so that a busy machine slows all of them; the figures are medians of the rounds' ratios.
With `--against TREE`, another tree of this project makes the same calls in the same rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("plain", "tls", "mtls")
CALLS = 100  # of one kind in one round
DELAY_S = 0.001  # no bank answers sooner, so each call waits for its answer
BODY = json.dumps({"cliente": {"cpf": "90000000175", "nome": "Maria da Silva"}, "evidencia": "x" * 500}).encode()
ANSWER = json.dumps({"simulacoes": [{"id": f"{number:032}", "valor": "9100.00"} for number in range(40)]}).encode()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)


# --- the server


def serve(folder: Path) -> None:
    """Answer every request of the same length as the first, at one port for each kind. Prints the ports."""
    ports = {}
    for kind in KINDS:
        listener = socket.create_server(("127.0.0.1", 0))
        ports[kind] = listener.getsockname()[1]
        threading.Thread(target=_accept, args=(listener, None if kind == "plain" else _context(folder, kind))).start()
    print(json.dumps(ports), flush=True)


def _context(folder: Path, kind: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "gateway.pem")
    if kind == "mtls":
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "authority.pem")
    return context


def _accept(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=(sock, context), daemon=True).start()


def _answer(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    with contextlib.suppress(OSError):
        sock = context.wrap_socket(sock, server_side=True) if context else sock
        while data := sock.recv(65536):
            while not data.endswith(BODY):
                data += sock.recv(65536)
            time.sleep(DELAY_S)
            sock.sendall(REPLY)


# --- the caller


def call(tree: Path, folder: Path, ports: dict[str, int]) -> None:
    """Make the calls that standard input asks for, with the client of `tree`. Prints the CPU seconds of each round."""
    from gevent import monkey

    monkey.patch_all()
    sys.path.insert(0, str(tree))
    callers = {kind: _caller(kind, folder, port) for kind, port in ports.items()}
    for line in sys.stdin:
        made = callers[line.strip()]
        before = time.process_time()
        for _ in range(CALLS):
            made()
        print(time.process_time() - before, flush=True)


def _caller(kind: str, folder: Path, port: int) -> Callable[[], Any]:
    from providers import http

    address = f"{'http' if kind == 'plain' else 'https'}://127.0.0.1:{port}/banco"
    request = http.Request("POST", "/consultas", BODY, {"Content-Type": "application/json"}, safe=True)
    ways = _ways(kind, folder)

    def made() -> None:
        reply = http.send(request, address, deadline=time.monotonic() + 20, timeout_s=20, **ways)
        assert reply.body == ANSWER

    return made


def _ways(kind: str, folder: Path) -> dict[str, Any]:
    """How `send` is told the way. A tree without ways keeps so many idle connections, and trusts SSL_CERT_FILE."""
    try:
        from foundation.http.way import Rules, Way
    except ImportError:
        return {"connections": 8}
    certificate, key, authority = ((folder / f"{name}.pem").read_text() for name in ("certificate", "key", "authority"))
    identity = certificate + key if kind == "mtls" else ""
    return {"ways": (Way(Rules(private_hosts=None), 8, identity, authority),)}


# --- the rounds


class Caller:
    """A process that calls with the client of a tree."""

    def __init__(self, tree: Path, folder: Path, ports: dict[str, int]) -> None:
        arguments = ["--call", str(tree), "--folder", str(folder), "--ports", json.dumps(ports)]
        self._process = started(tree, folder, *arguments)

    def cpu_s(self, kind: str) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def started(tree: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {"SSL_CERT_FILE": str(folder / "authority.pem"), "PYTHONPATH": ""}
    command = [sys.executable, __file__, *arguments]
    return subprocess.Popen(
        command, cwd=tree, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


@contextlib.contextmanager
def callers(trees: dict[str, Path]) -> Iterator[dict[str, Caller]]:
    """A caller for each tree, of one server. Another tree calls without a certificate of its own."""
    sys.path.insert(0, str(ROOT))
    from simulator.front import prepare

    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "front"
        prepare(folder)
        server = started(ROOT, folder, "--serve", "--folder", str(folder))
        assert server.stdout
        ports = json.loads(server.stdout.readline())
        found = {name: Caller(tree, folder, ports) for name, tree in trees.items()}
        try:
            yield found
        finally:
            for each in found.values():
                each.close()
            server.kill()
            server.communicate()


def compared(against: Path | None, rounds: int) -> dict[str, Any]:
    """Microseconds of CPU of a call, and ratios to a plain call of this tree, or to that of the other tree."""
    trees = {"this": ROOT, **({"other": against} if against else {})}
    with callers(trees) as found:
        asked = [("this", kind) for kind in KINDS] + ([("other", "plain"), ("other", "tls")] if against else [])
        for name, kind in asked:
            found[name].cpu_s(kind)
        taken = [{key: found[key[0]].cpu_s(key[1]) for key in _turned(asked, number)} for number in range(rounds)]
    ratios = [(("this", "tls"), ("this", "plain")), (("this", "mtls"), ("this", "plain"))]
    if against:
        ratios += [(("this", kind), ("other", kind)) for kind in ("plain", "tls")]
    return {
        "us": {" ".join(key): round(median(each[key] for each in taken) / CALLS * 1e6, 1) for key in asked},
        "ratios": {
            f"{' '.join(one)} / {' '.join(two)}": round(median(each[one] / each[two] for each in taken), 3)
            for one, two in ratios
        },
    }


def _turned(asked: list[tuple[str, str]], number: int) -> list[tuple[str, str]]:
    """`asked`, begun at another place in each round."""
    first = number % len(asked)
    return asked[first:] + asked[:first]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.client", description=__doc__)
    parser.add_argument("--against", type=Path, help="another tree of this project")
    parser.add_argument("--rounds", type=int, default=100)
    for hidden in ("--call", "--folder"):
        parser.add_argument(hidden, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.serve:
        serve(told.folder)
    elif told.call:
        call(told.call, told.folder, told.ports)
    else:
        print(json.dumps(compared(told.against and told.against.resolve(), told.rounds), indent=2))


if __name__ == "__main__":
    main()
