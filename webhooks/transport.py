"""Sends a POST to a URL that a partner chose, by `foundation.http`: limited in time, and never into our own network."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from ssl import SSLError

from django.conf import settings
from django.db import models
from django.utils import timezone

from foundation.http.client import Exchange, Request, request
from foundation.http.errors import Broken, Malformed, NeverSent, TooLarge
from foundation.http.response import retry_after_s
from foundation.http.way import Rules, Way

MAX_ANSWER_BYTES = 64 * 1024
EXCERPT_CHARACTERS = 1000


class Fault(models.TextChoices):
    """Why an attempt failed: the stored word, and the text for operators."""

    STATUS = "status", "resposta fora de 2xx"
    REDIRECT = "redirect", "redirecionamento (não seguido)"
    GONE = "gone", "410: o destino pediu para não receber mais"
    TIMEOUT = "timeout", "tempo esgotado"
    REFUSED = "refused", "conexão recusada"
    CONNECTION = "connection", "falha de conexão"
    TLS = "tls", "falha de TLS ou certificado inválido"
    PROTOCOL = "protocol", "resposta ilegível"
    DNS = "dns", "nome não resolvido"
    BLOCKED = "blocked", "endereço não permitido"
    URL = "url", "URL inválida"
    INTERNAL = "internal", "falha interna do serviço"


@dataclass(frozen=True)
class AttemptResult:
    """`fault` is None exactly if the receiver answered with a 2xx status. `status` is None if no status line arrived.
    `excerpt` is the beginning of the receiver's answer. `retry_after` is its `Retry-After` in seconds."""

    status: int | None = None
    fault: Fault | None = None
    excerpt: str = ""
    retry_after: float | None = None
    duration_ms: int = 0
    started_at: datetime = field(default_factory=timezone.now)


def post(url: str, body: bytes, headers: Mapping[str, str]) -> AttemptResult:
    """Send `body` to `url` within `WEBHOOK_TIMEOUT_S` seconds in all. Raises nothing: a failure is the result's
    `fault`."""
    started_at, started = timezone.now(), time.monotonic()
    status, retry_after, excerpt, fault = None, None, b"", None
    try:
        call = Request("POST", "", body, {"Accept-Encoding": "identity", **headers})
        exchange = _sent(call, url, started + settings.WEBHOOK_TIMEOUT_S)
        status, retry_after = exchange.status, retry_after_s(exchange.headers)
        # The status decides. If the body then stalls or breaks off, a 2xx is still a success.
        fault = _fault_of_status(status)
        with suppress(TooLarge, OSError, Malformed):
            exchange.read(MAX_ANSWER_BYTES - 1)
        excerpt = exchange.received
    except NeverSent as failure:
        fault = Fault(failure.why)
    except TimeoutError:
        fault = Fault.TIMEOUT
    except Broken as failure:
        fault = _fault_of_break(failure)
    text = excerpt[: EXCERPT_CHARACTERS * 4].decode(errors="replace").replace("\0", "")[:EXCERPT_CHARACTERS]
    return AttemptResult(status, fault, text, retry_after, round((time.monotonic() - started) * 1000), started_at)


def _sent(call: Request, url: str, end: float) -> Exchange:
    """The receiver's answer to `call`. If a kept connection broke, the receiver had closed it meanwhile: `call` is sent
    once more, by a new connection. Raises NeverSent, TimeoutError at `end` (monotonic seconds), and Broken."""
    way = Way(may_be_called(), settings.WEBHOOK_PARTNER_LIMIT)
    while True:
        try:
            return request(call, url, way, end=end, connect_s=settings.WEBHOOK_TIMEOUT_S)
        except Broken as failure:
            if not failure.was_kept:
                raise


def may_be_called() -> Rules:
    """Where deliveries may go: to public addresses by https, or anywhere if the deployment allows private receivers."""
    if settings.WEBHOOKS_ALLOW_PRIVATE:
        return Rules(private_hosts=None)
    return Rules(ports=tuple(settings.WEBHOOK_PORTS))


def _fault_of_status(status: int) -> Fault | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return Fault.REDIRECT
    return Fault.GONE if status == HTTPStatus.GONE else Fault.STATUS


def _fault_of_break(failure: Broken) -> Fault:
    if isinstance(failure.fault, SSLError):
        return Fault.TLS
    return Fault.CONNECTION if isinstance(failure.fault, OSError) else Fault.PROTOCOL
