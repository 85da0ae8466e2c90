"""Creates many rows for measurements: queries, offers, steps, sessions, proposals with moves, and events, over the last
days.

PostgreSQL creates the rows, one day at a time (volume.sql). Encrypted values are real ciphertext, of a few hundred
holders and answers that are used again and again. Only rows of these holders can be found by CPF; all others have the
hash of no CPF. The answers contain other offers than the rows of offers. Accepted sessions have no evidence, because
only an acceptance can write evidence.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
from django.db import connection, transaction
from django.utils import timezone

from consultas.fan_out import Answer
from foundation.encryption import blind_index, encrypt_unbound
from partners.models import Allowance, Partner
from providers import registry
from providers.models import Provider
from providers.reasons import Reason, ReasonCode
from providers.types.answer import QueryStatus
from providers.types.query import BankQuery

#: The prefix of all seeded partners' names, and the request id of all seeded queries and proposals.
NAME, MARK = "Volume", "volume"
_POOL = 200
#: The statements for one day, in order, separated by `---`.
_STATEMENTS = Path(__file__).with_name("volume.sql")
_OFFER = {"installment_value": "300.00", "installments": 48, "interest_rate": "1.99", "total_amount": "14400.00"}
_DATASET: dict[str, Any] = {
    "titular": {
        "nome": "Titular Volume",
        "data_nascimento": "1985-03-14",
        "sexo": "F",
        "nome_mae": "Mãe Volume",
    },
    "contato": {"telefone": "11987654321", "email": "t@example.com"},
    "endereco": {
        "cep": "01310100",
        "logradouro": "Avenida Paulista",
        "numero": "1000",
        "bairro": "Bela Vista",
        "cidade": "São Paulo",
        "uf": "SP",
    },
    "recebimento": {
        "conta_bancaria": {
            "banco": "001",
            "agencia": "1234",
            "conta": "567890",
            "digito_conta": "1",
            "tipo_conta": "corrente",
        }
    },
    "evidencia": {"ip": "203.0.113.7"},
}
_NONE_FOUND = (
    ReasonCode.NO_MARGIN,
    ReasonCode.NO_EMPLOYMENT_LINK,
    ReasonCode.EMPLOYER_NOT_ELIGIBLE,
    ReasonCode.AGE_LIMIT,
    ReasonCode.CREDIT_POLICY,
)


@dataclass(frozen=True)
class Volume:
    """How many rows: in total, over this many days that end now."""

    queries: int
    offers_each: int
    proposals: int
    partners: int
    days: int


def seed(volume: Volume) -> Iterator[tuple[date, float]]:
    """Write the rows, in one transaction per day. Yields the day and the seconds that it took."""
    statements = _STATEMENTS.read_text("utf-8").split("\n---\n")
    _write_partners(volume.partners)
    today = timezone.localdate()
    _write_pool()
    for age in reversed(range(volume.days)):
        begun, day = time.monotonic(), today - timedelta(days=age)
        end = timezone.now()
        start = timezone.make_aware(datetime(day.year, day.month, day.day))  # noqa: DTZ001 - made aware
        words: dict[str, Any] = {
            "start": start,
            "until": min(start + timedelta(days=1), end),
            "now": end,
            "queries": volume.queries // volume.days,
            "each": volume.offers_each,
            "sold": min(1.0, volume.proposals / max(1, volume.queries * volume.offers_each)),
            "mark": MARK,
            "banks": registry.names(),
        }
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, words)
        yield day, time.monotonic() - begun


def delete() -> Iterator[tuple[str, int]]:
    """Delete everything that was seeded, figures included. Yields each table with its number of rows."""
    partners = list(Partner.objects.filter(name__startswith=f"{NAME} ").values_list("pk", flat=True))
    of_partner = "partner_id = ANY(%(partners)s)"
    conditions = {
        "proposals_move": "proposal_id IN (SELECT id FROM proposals_proposal WHERE partner_id = ANY(%(partners)s))",
        "proposals_proposal": of_partner,
        "authorizations_session": of_partner,
        "consultas_step": of_partner,
        "consultas_offer": of_partner,
        "consultas_query": of_partner,
        "webhooks_event": of_partner,
        "figures_queryhour": of_partner,
        "figures_bankhour": of_partner,
        "figures_reasonhour": of_partner,
        "partners_allowance": of_partner,
        "partners_partner": "id = ANY(%(partners)s)",
    }
    for table, condition in conditions.items():
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table} WHERE {condition}", {"partners": partners})  # noqa: S608 - names of ours
            yield table, cursor.rowcount


def _write_partners(number: int) -> None:
    providers = list(Provider.objects.filter(name__in=registry.names()))
    for index in range(1, number + 1):
        partner, created = Partner.objects.get_or_create(name=f"{NAME} {index:03}")
        if created:
            Allowance.objects.bulk_create(Allowance(partner=partner, provider=bank) for bank in providers)


def _write_pool() -> None:
    """Encrypted requests and answers, and a proposal's dataset, for the statements. Each is used for many rows, and is
    therefore bound to none."""
    chance = random.Random(11)  # noqa: S311 - no secret
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS pg_temp.seed_pool, pg_temp.seed_partners")
        cursor.execute(
            "CREATE TEMP TABLE seed_pool (number int PRIMARY KEY,"
            " cpf_index text, request text, answers text, dataset text, terms text, empty text,"
            " cpf text, name text, phone text)"
        )
        rows: list[list[int | str]] = []
        for number in range(_POOL):
            cpf = _cpf(number)
            holder = BankQuery(
                cpf=cpf,
                name=f"Titular {number}",
                client_ip="203.0.113.7",
                birth_date=date(1985, 3, 14),
                phone="11987654321",
                email="t@example.com",
            )
            request = encrypt_unbound(msgspec.json.encode(holder).decode())
            answers = json.dumps(_answers(chance))
            dataset = json.dumps({**_DATASET, "titular": {**_DATASET["titular"], "cpf": cpf}})
            terms = json.dumps({"loanValue": 5000, "installments": 48})
            texts = (answers, dataset, terms, "{}", cpf, holder.name, holder.phone)
            rows.append([number, blind_index("cpf", cpf), request, *map(encrypt_unbound, texts)])
        cursor.executemany("INSERT INTO seed_pool VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)
        cursor.execute("ANALYZE seed_pool")
        cursor.execute(
            "CREATE TEMP TABLE seed_partners AS SELECT id, row_number() OVER (ORDER BY name) - 1 AS number"
            " FROM partners_partner WHERE name LIKE %s",
            [f"{NAME} %"],
        )


def _cpf(number: int) -> str:
    """A CPF with valid check digits that belongs to nobody: the sandbox's also begin with 9."""
    digits = [int(digit) for digit in f"9{number:08}"]
    for _ in range(2):
        total = sum(digit * weight for digit, weight in zip(digits, range(len(digits) + 1, 1, -1), strict=True))
        digits.append(0 if total % 11 < 2 else 11 - total % 11)
    return "".join(map(str, digits))


def _answers(chance: random.Random) -> list[dict[str, Any]]:
    """Each bank's answer, without default values. `answered_at` is in the future, so that no query reuses it."""
    answers: list[dict[str, Any]] = []
    for bank in registry.names():
        ms = int(min(25_000, 400 + chance.expovariate(1 / 1800)))
        answer: dict[str, Any] = {"provider": bank, "elapsed_ms": ms, "answered_at": 9e9}
        kind = chance.random()
        if kind < 0.35:
            amount = Decimal(chance.randint(1_000, 20_000))
            offers = [
                {
                    "native_offer_id": f"n{each}",
                    "loan_value": str(amount),
                    **_OFFER,
                    "table_code": "T1",
                    "registration": "1",
                }
                | {"with_insurance": False, "first_due_date": None}
                for each in range(chance.randint(1, 3))
            ]
            answer |= {"status": QueryStatus.OK, "offers": offers}
        elif kind < 0.85:
            answer |= {
                "status": QueryStatus.NO_OFFERS,
                "coded": [msgspec.to_builtins(Reason.of(chance.choice(_NONE_FOUND)))],
            }
        elif kind < 0.93:
            answer |= {"status": QueryStatus.PENDING}
        else:
            reason = msgspec.to_builtins(Reason.of(ReasonCode.TIMEOUT))
            answer |= {"status": QueryStatus.ERROR, "reached": False, "error": reason["message"], "coded": [reason]}
        answers.append(answer)
    msgspec.convert(answers, list[Answer])  # as a page will read them
    return answers
