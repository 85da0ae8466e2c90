"""Whether the service calls a bank now, in words for operators."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from redis.exceptions import RedisError

from providers.breaker import Breaker
from providers.maintenance import Maintenance
from providers.models import Circuit, Provider

_BREAKER_WORDS = {
    "closed": "no ar",
    "half_open": "voltando: uma chamada de teste de cada vez",
    "open": "fora do ar: falhas seguidas; nova tentativa a cada 15 s",
    "unread": "desconhecido (Redis não responde)",
}


class Standing(NamedTuple):
    """A bank's state now. `kind` is `out` by an operator's setting or window, `unguarded` if its breaker is ignored, a
    state of the breaker, or `unread` if the breaker cannot be read. `words` are Portuguese."""

    kind: str
    words: str

    @property
    def is_held_back(self) -> bool:
        """True if the bank certainly gets no calls now, or only the breaker's probes."""
        return self.kind in ("out", "open", "half_open")


def standings(banks: Collection[Provider]) -> dict[str, Standing]:
    """The state of each of `banks`, by name. An operator's setting goes before a window, and a window before the
    breaker's state. One statement and one Redis call."""
    windows = Maintenance.now([bank.name for bank in banks])
    try:
        states = Breaker.states(bank.name for bank in banks) if banks else {}
    except RedisError:
        states = {}
    return {bank.name: _standing(bank, windows.get(bank.name), states.get(bank.name, "unread")) for bank in banks}


def _standing(bank: Provider, window: Maintenance | None, breaker: str) -> Standing:
    if not bank.enabled:
        return Standing("out", "desligado")
    if window is not None:
        return Standing("out", str(window))
    if bank.circuit == Circuit.OPEN:
        return Standing("out", "fora do ar por ordem do operador, sem fim marcado")
    if bank.circuit == Circuit.CLOSED:
        return Standing("unguarded", "no ar, chamado mesmo que falhe")
    return Standing(breaker, _BREAKER_WORDS[breaker])
