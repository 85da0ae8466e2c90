"""An HTTP server of plain sockets that misbehaves as a test wants."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def breaking_off(*parts: bytes) -> Callable[[socket.socket], None]:
    """For `Server.answers`: sends `parts` one after another, and ends the connection."""

    def send(sock: socket.socket) -> None:
        for part in parts:
            sock.sendall(part)
            time.sleep(0.05 * (part is not parts[-1]))
        sock.shutdown(socket.SHUT_RDWR)

    return send


class Server:
    """Answers the nth request with the nth of `answers` (all further requests with the last one). An answer is bytes,
    or a function that takes the connection. `requests` are their bytes, `opened` counts connections."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[bytes | Callable[[socket.socket], None]] = [OK]
        self.requests: list[bytes] = []
        self.opened = 0
        self.reused_sessions = 0
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}/bank"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.hang_up()

    def hang_up(self) -> None:
        """Close all open connections."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.opened += 1
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._tls is not None:
                secured = self._tls.wrap_socket(sock, server_side=True)
                self.reused_sessions += secured.session_reused
                sock = secured
            self._open.append(sock)
            while head := _read_until_blank(sock):
                self.requests.append(head)
                answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
                sock.sendall(answer) if isinstance(answer, bytes) else answer(sock)


def _read_until_blank(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := sock.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), 0)
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body
