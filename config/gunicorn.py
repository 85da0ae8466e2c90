"""How the web processes run, here and in production: `gunicorn -c config/gunicorn.py config.wsgi`."""

import json
import os
import uuid
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gunicorn import util
from gunicorn.http.errors import (
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.ggevent import GeventWorker


class Worker(GeventWorker):
    """gevent's worker, but what fails before or beyond the application (a malformed request, headers that are too
    large) is answered with the contract's error object and a request id too, not with a page of HTML."""

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer on the bare socket `client` and log the kind of `exc`: its text may quote a key or a secret path."""
        # Here, since this file is read before gevent has patched what the project imports.
        from providers.errors import ApiError, InternalError, InvalidInput, NotSupported, PayloadTooLarge

        error: ApiError = InvalidInput("Requisição HTTP malformada.")
        if isinstance(exc, LimitRequestLine | LimitRequestHeaders):
            error = PayloadTooLarge("O endereço ou os cabeçalhos da requisição são grandes demais.")
        elif isinstance(exc, UnsupportedTransferCoding):
            error = NotSupported("Codificação de transferência não suportada.")
        elif isinstance(exc, InvalidResponseHeader | InvalidResponseHeaderName) or not isinstance(exc, ParseException):
            error = InternalError()
        request_id = uuid.uuid4().hex
        ours = exc if isinstance(error, InternalError) else None
        self.log.warning("request not served: %s request_id=%s", type(exc).__name__, request_id, exc_info=ours)
        body = json.dumps(error.as_dict(), ensure_ascii=False).encode()
        head = (
            f"HTTP/1.1 {error.http_status} {HTTPStatus(error.http_status).phrase}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"X-Request-Id: {request_id}",
        )
        try:
            util.write_nonblock(client, "\r\n".join((*head, "", "")).encode() + body)
        except OSError:
            self.log.debug("the client is gone")


bind = f"{os.environ.get('HOST', '127.0.0.1')}:{os.environ.get('PORT', '8000')}"
workers = int(os.environ.get("WEB_CONCURRENCY", min(2, os.cpu_count() or 1)))
# A request waits for banks most of its time: greenlets hold thousands of them.
worker_class = Worker
worker_connections = 2000
# The kernel spreads connections over the workers; a shared listener leaves most of them with one.
reuse_port = True
# Longer than the deadline of an aggregated query, which a deployment must not cut off.
graceful_timeout = 40
timeout = 60
keepalive = 75
# Heartbeat files belong in memory, not on a disk that may stall.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - gunicorn makes its own unlinked file
# Only these may say that a request came in by https.
forwarded_allow_ips = os.environ.get("TRUSTED_PROXIES", "")
control_socket_disable = True
# An oversized header is the application's to refuse, with the contract's error object, not with a page of HTML.
limit_request_field_size = 64 * 1024
