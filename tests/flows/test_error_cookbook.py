"""The partner's table of errors: every code stands in it, and the calls that it names give that error."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from foundation.errors import api_errors
from tests.client import Client, query_body
from tests.processes import Simulator
from tests.proposals.datasets import dataset

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guia" / "erros.md"
CPF = "52998224725"
CALL = re.compile(r"`(GET|PUT|POST) (/[^ `]+)(?: (\{.*?\}))?`")


@dataclass(frozen=True)
class Row:
    """A row of the table: the error, and how the sandbox makes it."""

    status: int
    code: str
    retryable: bool
    how: str


def rows() -> list[Row]:
    lines = PAGE.read_text("utf-8").partition("## Motivos")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines if re.match(r"\| \d{3} ", line)]
    return [Row(int(status), code.strip("`"), again == "sim", how) for status, code, again, _, _, how in cells]


def test_every_error_has_its_row() -> None:
    """Before the fix, the table named no reaction and no way to see the error."""
    told = {(row.status, row.code, row.retryable) for row in rows()}
    assert told == {(error.http_status, error.code, error.retryable) for error in api_errors()}


class Caller:
    """Makes the calls of a row, one after the other, as a partner's test would."""

    def __init__(self, client: Client, simulator: Simulator) -> None:
        self.client, self.lab = client, simulator.url
        self.id = ""
        self.offers: list[Any] = []

    def call(self, method: str, path: str, body: str, how: str) -> requests.Response:
        """The answer to one call. `how` may say in words what is odd about it."""
        content = json.loads(body) if body else None
        path = path.format(cpf=CPF, id=self.id, proposal_id=self.id)
        if path.startswith("/lab/"):
            return requests.request(method, self.lab + path, json=content, timeout=10)
        if path == "/consultas":
            content = query_body(CPF, **(content or {}))
        if path == "/proposals":
            content = dataset(self.offers[0], cpf=CPF)
        data = json.dumps(content) if content is not None else None
        headers = {**self.client.headers, "Content-Type": "application/json"}
        if "sem a chave" in how:
            del headers["X-Partner-Api-Key"]
        if "text/plain" in how:
            headers["Content-Type"] = "text/plain"
        if "300 KB" in how:
            data = " " * 300_000
        answer = requests.request(method, self.client.base + path, data=data, headers=headers, timeout=60)
        told = answer.json()
        self.id = told.get("proposal_id") or told.get("authorization_id") or self.id
        self.offers = told.get("proposals") or self.offers
        return answer


@pytest.mark.parametrize("row", [row for row in rows() if CALL.search(row.how)], ids=lambda row: row.code)
def test_the_calls_of_a_row_give_its_error(row: Row, client: Client, simulator: Simulator) -> None:
    caller = Caller(client, simulator)
    *before, last = [caller.call(*found, row.how) for found in CALL.findall(row.how)]
    assert [answer.status_code for answer in before if not answer.ok] == [], [answer.text for answer in before]
    assert (last.status_code, last.json()["code"]) == (row.status, row.code), last.text


def test_what_the_sandbox_cannot_show_is_little() -> None:
    shown = {row.code for row in rows() if CALL.search(row.how)}
    hidden = {"provider_not_allowed", "rate_limited", "internal_error", "provider_error"}
    assert {row.code for row in rows()} - shown == hidden
