"""What all actors of a run share: partners' HTTP calls, holders, and the diary of what was asked and answered."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from operator import mul
from pathlib import Path
from random import Random
from typing import Any

import requests

from clients import build as clients

#: These strings identify the holders' data in logs.
NAME, MOTHER = "Zuleica Prova Silveira", "Quiteria Prova Silveira"
PHONE, EMAIL, IP = "11971234568", "zuleica.prova@example.com", "203.0.113.77"
ACCOUNT = "743190258"
LONGEST_CALL_S = 60


@dataclass(frozen=True)
class Reply:
    """`status` is None if the connection was refused or broke. `body` is then empty."""

    status: int | None
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.status is not None and self.status < 300

    @property
    def is_final(self) -> bool:
        """A refusal that the same call would meet again."""
        return self.status is not None and self.status >= 400 and not self.body.get("retryable", True)


@dataclass(frozen=True)
class Call:
    """One call of a partner. Times are seconds since the epoch."""

    what: str
    at: float
    done_at: float
    status: int | None
    code: str


@dataclass
class Sale:
    """One offer being submitted. It is open until it has a `proposal_id` or a `refusal` (an error code)."""

    partner_id: str
    bank: str
    offer_id: str
    cpf: str
    tries: int = 0
    proposal_id: str | None = None
    refusal: str | None = None


@dataclass
class Diary:
    """What the actors did and saw. Appending is atomic, so that threads need no lock.

    `queries` are those whose id the partner knows, with their banks; `groups` the stored simulations. `cpfs` are all
    holders. `broken` tells each answer that the contract forbids.
    """

    calls: list[Call] = field(default_factory=list)
    queries: dict[str, tuple[Backend, list[str]]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    sales: list[Sale] = field(default_factory=list)
    cpfs: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    _numbers: Iterator[int] = field(default_factory=count)

    def holder(self) -> str:
        """The CPF of a holder who is nobody else in this run, with valid check digits."""
        digits = [int(digit) for digit in f"917{next(self._numbers):06}"]
        for weights in (range(10, 1, -1), range(11, 1, -1)):
            digits.append(sum(map(mul, digits, weights)) * 10 % 11 % 10)
        self.cpfs.append("".join(map(str, digits)))
        return self.cpfs[-1]


class Backend:
    """A partner's backend. Its calls are noted in `diary`, but for those of `client`, the Python client."""

    def __init__(self, api: str, registered: dict[str, Any], diary: Diary, banks: list[str]) -> None:
        self.id: str = registered["partner_id"]
        self.key: str = registered["api_key"]
        self.secret: str = registered["webhook_secret"]
        self.url = f"{api}/partners/v1"
        self.diary = diary
        self.banks = banks
        self.client = _client_class()(api, self.key)

    def call(self, method: str, path: str, body: Any = None, what: str = "", timeout: float = LONGEST_CALL_S) -> Reply:
        """One call. `what` names it in the diary (default: the path's first part)."""
        at = time.time()
        try:
            answer = requests.request(
                method, self.url + path, json=body, headers={"X-Partner-Api-Key": self.key}, timeout=timeout
            )
            reply = Reply(answer.status_code, answer.json())
        except (requests.RequestException, ValueError):
            reply = Reply(None)
        code = reply.body.get("code", "") if isinstance(reply.body, dict) else ""
        self.diary.calls.append(Call(what or path.split("/")[1], at, time.time(), reply.status, code))
        return reply

    def insist(self, method: str, path: str, body: Any, over: threading.Event, random: Random) -> Reply:
        """Repeat a call until it succeeds or is refused, or until `over`."""
        while True:
            reply = self.call(method, path, body)
            if reply.is_good or reply.is_final or over.wait(random.uniform(0.5, 2)):
                return reply


def build_client(folder: Path) -> None:
    """Build the Python client for partners in `folder`, and make it the one to import."""
    clients.build(folder)
    sys.path.insert(0, str(next(folder.glob("*.whl"))))


def _client_class() -> Any:
    return importlib.import_module("origination").Client


def query_body(cpf: str, **changes: Any) -> dict[str, Any]:
    """A query's body."""
    return {
        "cpf": cpf,
        "nome": NAME,
        "data_nascimento": "1985-03-14",
        "telefone": PHONE,
        "email": EMAIL,
        "client_ip": IP,
        "geolocation": {"lat": -23.55, "lng": -46.63},
        **changes,
    }


def dataset(cpf: str, offer: dict[str, Any], account: str = ACCOUNT) -> dict[str, Any]:
    """The submission of an offer, complete enough for every bank."""
    return {
        "offer_ref": {"provider": offer["provider"], "offer_id": offer["offerId"]},
        "titular": {
            "nome": NAME,
            "cpf": cpf,
            "data_nascimento": "1985-03-14",
            "sexo": "F",
            "nome_mae": MOTHER,
            "nacionalidade": "brasileira",
            "estado_civil": "casado",
            "naturalidade_cidade": "São Paulo",
            "naturalidade_uf": "SP",
            "exposicao_politica": False,
        },
        "documento": {"numero": "573920184", "orgao_emissor": "SSP", "uf_emissor": "SP", "data_emissao": "2005-06-01"},
        "contato": {"telefone": PHONE, "email": EMAIL},
        "endereco": {
            "cep": "01310100",
            "logradouro": "Avenida Paulista",
            "numero": "1000",
            "bairro": "Bela Vista",
            "cidade": "São Paulo",
            "uf": "SP",
        },
        "vinculo": {"nome_empregador": "Metalúrgica Aurora Ltda", "cargo": "Operadora", "matricula": "100200"},
        "recebimento": {
            "conta_bancaria": {
                "banco": "001",
                "agencia": "1234",
                "conta": account,
                "digito_conta": "1",
                "tipo_conta": "corrente",
            }
        },
        "evidencia": {"ip": IP},
        "referencias": [
            {"nome": "Olga Prova", "telefone": "11971112222", "grau": 1},
            {"nome": "Rita Prova", "telefone": "11973334444", "grau": 2},
        ],
    }


def until(condition: Callable[[], Any], timeout_s: float, every_s: float = 0.5) -> Any:
    """The first true value of `condition`, or its last one after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(every_s)
    return found
