"""Creates many rows for measurements: queries, offers, steps, sessions, proposals with moves, and events, over the last
days.

PostgreSQL creates the rows, one day at a time (volume.sql), with a number of the pool in each encrypted column. The
pool has a few hundred holders and answers, which are then sealed for each row. Only rows of these holders can be found
by CPF; all others have the hash of no CPF. The answers contain other offers than the rows of offers. No session
is accepted, because only an acceptance can write evidence.
"""

from __future__ import annotations

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
from django.db.models import F, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from authorizations.models import Session
from consultas.models import Answer, Query
from foundation.encryption import blind_index, sealed
from partners.models import Allowance, Partner
from proposals.models import Proposal
from providers import registry
from providers.models import Provider
from providers.reasons import Reason, ReasonCode
from providers.types.query import BankQuery, QueryStatus

#: The prefix of all seeded partners' names, and the request id of all seeded queries and proposals.
NAME, MARK = "Volume", "volume"
_POOL = 200
#: The encrypted columns of each model that the statements fill with numbers of the pool.
_SEALED: dict[type[Any], tuple[str, ...]] = {
    Query: ("request", "answers"),
    Session: ("cpf", "name", "phone"),
    Proposal: ("dataset", "terms", "data"),
}
#: A session begins before its query, and a proposal after it, by less than this.
_AROUND = timedelta(minutes=15)
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
    pool = _pool()
    _write_pool(pool)
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
            _seal(pool, words["start"], words["until"])
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
            cursor.execute(f"DELETE FROM {table} WHERE {condition}", {"partners": partners})
            yield table, cursor.rowcount


def _write_partners(number: int) -> None:
    providers = list(Provider.objects.filter(name__in=registry.names()))
    for index in range(1, number + 1):
        partner, created = Partner.objects.get_or_create(name=f"{NAME} {index:03}")
        if created:
            Allowance.objects.bulk_create(Allowance(partner=partner, provider=bank) for bank in providers)


def _pool() -> list[dict[str, Any]]:
    """For each number, a holder's CPF and the values of the encrypted columns."""
    chance = random.Random(11)
    return [_holder(_cpf(number), f"Titular {number}", chance) for number in range(_POOL)]


def _holder(cpf: str, name: str, chance: random.Random) -> dict[str, Any]:
    phone = "11987654321"
    asked = BankQuery(
        cpf=cpf, name=name, client_ip="203.0.113.7", birth_date=date(1985, 3, 14), phone=phone, email="t@example.com"
    )
    return {
        "cpf": cpf,
        "name": name,
        "phone": phone,
        "request": asked,
        "answers": _answers(chance),
        "dataset": {**_DATASET, "titular": {**_DATASET["titular"], "cpf": cpf}},
        "terms": {"loanValue": 5000, "installments": 48},
        "data": {},
    }


def _write_pool(pool: list[dict[str, Any]]) -> None:
    """The numbers of the pool with their CPF's index, and the partners, for the statements."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS pg_temp.seed_pool, pg_temp.seed_partners")
        cursor.execute("CREATE TEMP TABLE seed_pool (number int PRIMARY KEY, cpf_index text)")
        rows = [(number, blind_index("cpf", holder["cpf"])) for number, holder in enumerate(pool)]
        cursor.executemany("INSERT INTO seed_pool VALUES (%s, %s)", rows)
        cursor.execute("ANALYZE seed_pool")
        cursor.execute(
            "CREATE TEMP TABLE seed_partners AS SELECT id, row_number() OVER (ORDER BY name) - 1 AS number"
            " FROM partners_partner WHERE name LIKE %s",
            [f"{NAME} %"],
        )


def _seal(pool: list[dict[str, Any]], start: datetime, until: datetime) -> None:
    """Put the pool's values, sealed for their row, where the statements of the day put the pool's numbers."""
    for model, columns in _SEALED.items():
        table, identity = model._meta.db_table, getattr(model, "sealed_by", ("pk",))
        rows = model._base_manager.filter(
            created_at__gte=start - _AROUND, created_at__lt=until + _AROUND, partner__name__startswith=f"{NAME} "
        ).annotate(number=Cast(F(columns[0]), TextField()))
        values = [
            [*(sealed(row, column, pool[int(row.number)][column]).token for column in columns), row.pk]
            for row in rows.only("pk", *identity).iterator()
            if row.number.isdecimal()
        ]
        assignments = ", ".join(f"{column} = %s" for column in columns)
        with connection.cursor() as cursor:
            cursor.executemany(f"UPDATE {table} SET {assignments} WHERE id = %s", values)


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
