"""`reencrypt`: after a rotation all rows that may change are under the newest key, with the same content."""

import hashlib
import io
import json
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, models, transaction
from django.test import override_settings
from django.utils import timezone

from authorizations import evidence, sessions
from authorizations.evidence import BrowserReport, Observed
from authorizations.models import Evidence, Session
from config.environment import public_key_of
from consultas.models import Query, Step
from foundation import boxes, encryption
from foundation.boxes import Boxes
from foundation.encryption import WrongKey
from foundation.management.commands import reencrypt as command
from foundation.models import RegisteredPhone, new_key
from partners.models import Partner
from proposals.models import Move, Proposal
from providers.certificates import proxy_secret
from providers.models import Provider
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory, ProviderFactory, update_encrypted
from tests.operators import printed
from tests.plans import execute
from tests.proposals.rows import a_proposal, a_step, an_offer
from tests.transactions import elsewhere
from webhooks import outbox
from webhooks.models import Attempt, Event

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
#: Every model with encrypted columns. A new one belongs here and into `a_row_of_everything`.
MODELS = (
    Provider, Partner, Event, Attempt, Session, Evidence, Query, Step, Proposal, Move, RegisteredPhone,
)  # fmt: skip
CHANGING = tuple(model for model in MODELS if model is not Evidence)


def keys(*configured: str) -> override_settings:
    """For the block, these are the encryption keys and the credentials' keys; the first of each encrypts."""
    private = [hashlib.sha256(key.encode()).hexdigest() for key in configured]
    return override_settings(
        FIELD_ENCRYPTION_KEYS=list(configured),
        BANK_CREDENTIALS_KEYS=private,
        BANK_CREDENTIALS_PUBLIC_KEY=public_key_of("BANK_CREDENTIALS_KEYS", private[0]),
    )


def a_row_of_everything() -> None:
    """A row of every model, with a value in every encrypted column."""
    ProviderFactory(
        name="ipe",
        credentials={"client_id": "c", "secret": "s"},
        callback_secret="callback",
        way_secrets=proxy_secret("p"),
        former_credentials={"client_id": "b"},
    )
    partner = PartnerFactory(webhook_events=["lead"])
    partner.rotate_webhook_secret()
    partner.rotate_webhook_secret()
    offer = an_offer(partner, "ipe")
    update_encrypted(Query.objects.all(), answers=[{"provider": "ipe", "term": 0.1, "text": "é"}])
    a_step(offer, url="https://bank.example/step")
    proposal = a_proposal(
        offer,
        data={"n": 1},
        signature_url="https://bank.example/sign",
        error={"code": "x"},
        next_dataset={"n": 2},
        reason={"code": "other"},
        stage_reason={"code": "other"},
    )
    Move.objects.create(proposal=proposal, to_status="rejected", cause="submit", reason={"code": "other"})
    told = {"cpf": FULL_FLOW, "name": "Maria", "phone": "11987654321", "return_link": "https://chat.example/back"}
    session, _ = sessions.open_session(Session(partner=partner, **told))
    seen = Observed("203.0.113.9", "203.0.113.9", None, None, "request-1", "json")
    evidence.accept(session.authorization_id, seen, BrowserReport())
    Session.objects.get().revoke("maria", "pedido por telefone")
    event = outbox.send(partner, "lead", FULL_FLOW, {"cpf": FULL_FLOW})
    told = {"number": 1, "at": timezone.now(), "url": "https://p", "duration_ms": 1, "excerpt": f"no {FULL_FLOW}"}
    Attempt.objects.create(event=event, partner=partner, **told)
    RegisteredPhone.objects.create(user=User.objects.create_user("operadora"), key=new_key())


def contents(*chosen: type[models.Model]) -> dict[str, list[dict[str, Any]]]:
    """All rows as the application reads them."""

    def read(row: models.Model) -> dict[str, Any]:
        values = {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}
        return {name: dict(value) if isinstance(value, Boxes) else value for name, value in values.items()}

    return {model._meta.label: [read(row) for row in model._base_manager.order_by("pk")] for model in chosen}


def reencrypt(errors: io.StringIO | None = None) -> dict[str, Any]:
    """The command's output."""
    return printed("reencrypt", stderr=errors or io.StringIO())  # type: ignore[no-any-return]


def counted(**values: int) -> dict[str, int]:
    """The counts of a column as the command prints them."""
    return {"current": 0, "rewritten": 0, "older": 0, "unreadable": 0} | values


@pytest.fixture
def everything(db: None) -> None:
    with keys(OLD):
        a_row_of_everything()


def test_every_field_that_encrypts_is_looked_for() -> None:
    found = {**vars(encryption), **vars(boxes)}.values()
    fields = [each for each in found if isinstance(each, type) and issubclass(each, models.Field)]
    assert len(fields) == 3
    assert all(issubclass(field, encryption.EncryptedTextField) for field in fields)


def test_the_fixture_fills_every_encrypted_column(everything: None) -> None:
    fields = command.encrypted_fields()
    assert {field.model for field in fields} == set(MODELS)
    assert [str(field) for field in fields if not command.rows_of(field).exists()] == []


@pytest.mark.control("CMN II")
def test_nothing_personal_is_readable_in_the_database(everything: None) -> None:
    for model in MODELS:
        stored = str(execute(f"SELECT each::text FROM {model._meta.db_table} each"))
        told = (FULL_FLOW, "Maria", "11987654321", "203.0.113.9")
        assert [personal for personal in told if personal in stored] == [], model


def test_what_may_change_is_readable_with_the_new_key_alone(everything: None) -> None:
    with keys(NEW, OLD):
        before = contents(*CHANGING)
        told = reencrypt()
    with keys(NEW):
        assert contents(*CHANGING) == before, "times of the last change stay as they were, too"
        with pytest.raises(WrongKey):
            contents(Evidence)
    changing = {name: count for name, count in told["columns"].items() if name not in told["kept"]}
    assert set(changing) == {str(field) for field in command.encrypted_fields() if field.model is not Evidence}
    for name, count in changing.items():
        assert count == counted(rewritten=1), name


def test_evidence_is_kept_and_counted_and_still_verifies(everything: None, capsys: pytest.CaptureFixture[str]) -> None:
    errors = io.StringIO()
    with keys(NEW, OLD):
        before = contents(Evidence)
        told = reencrypt(errors)
        assert told["kept"] == ["authorizations.Evidence.record"]
        assert told["columns"]["authorizations.Evidence.record"] == counted(older=1)
        assert told["old_keys_needed"] is True
        assert "authorizations.Evidence.record: 1 registros não podem ser regravados" in errors.getvalue()
        assert contents(Evidence) == before
        assert printed("verify_evidence")["valid"] is True


def test_without_old_evidence_the_old_key_may_go(db: None) -> None:
    with keys(OLD):
        PartnerFactory().rotate_webhook_secret()
    with keys(NEW, OLD):
        assert reencrypt()["old_keys_needed"] is False


def tokens() -> list[list[str]]:
    """What the encrypted columns hold."""
    return [list(command.rows_of(field).values_list("token", flat=True)) for field in command.encrypted_fields()]


def test_running_it_twice_changes_nothing(everything: None) -> None:
    with keys(NEW, OLD):
        reencrypt()
        before = tokens()
        again = reencrypt()
        assert tokens() == before
    assert all(count["rewritten"] == 0 for count in again["columns"].values())


def test_one_that_was_interrupted_goes_on(everything: None) -> None:
    class Interrupted(Exception):
        pass

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("consultas.Query."):
                raise Interrupted
            return super().write(text)

    with keys(NEW, OLD):
        with pytest.raises(Interrupted):
            reencrypt(Terminal())
        told = reencrypt()
    done = {name for name, count in told["columns"].items() if count["current"] == 1}
    names = [str(field) for field in command.encrypted_fields() if command.may_change(field)]
    assert done == set(names[: names.index("consultas.Query.answers") + 1]), "the rest was rewritten just now"
    with keys(NEW):
        contents(*CHANGING)


def test_many_go_in_batches(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "BATCH", 10)
    with keys(OLD):
        Provider.objects.bulk_create(Provider(name=f"bank-{n}", callback_secret=f"secret-{n}") for n in range(27))
    with keys(NEW, OLD):
        count = reencrypt()["columns"]["providers.Provider.callback_secret"]
    assert count == counted(rewritten=27)
    with keys(NEW):
        assert len({row.callback_secret for row in Provider.objects.all()}) == 27


def test_what_no_key_opens_is_counted_and_stops_nothing(db: None) -> None:
    with keys(Fernet.generate_key().decode()):
        ProviderFactory(name="lost", callback_secret="lost")
    with keys(OLD):
        ProviderFactory(name="found", callback_secret="found")
    out = io.StringIO()
    with keys(NEW, OLD), pytest.raises(CommandError, match="nenhuma chave"):
        call_command("reencrypt", stdout=out, stderr=io.StringIO())
    told = json.loads(out.getvalue())
    assert told["columns"]["providers.Provider.callback_secret"] == counted(rewritten=1, unreadable=1)
    assert told["old_keys_needed"] is True


@pytest.mark.django_db(transaction=True)
def test_what_somebody_writes_meanwhile_is_not_lost() -> None:
    with keys(OLD):
        held, free = (ProviderFactory(name=name, callback_secret=name) for name in ("held", "free"))

    def change() -> None:
        update_encrypted(Provider.objects.filter(pk=held.pk), callback_secret="new")

    with keys(NEW, OLD), elsewhere(change, until=lambda: is_current(free)):  # it is committed late
        told = reencrypt()
    assert told["columns"]["providers.Provider.callback_secret"] == counted(current=1, rewritten=1)
    with keys(NEW):
        assert {row.callback_secret for row in Provider.objects.all()} == {"new", "free"}


def is_current(provider: Provider) -> bool:
    field: Any = Provider._meta.get_field("callback_secret")
    row = command.rows_of(field).get(pk=provider.pk)
    return field.renewed(row.token, row) is None


def test_what_is_said_to_be_written_once_is_what_the_database_lets_nobody_change(everything: None) -> None:
    for model in MODELS:
        field = next(field for field in command.encrypted_fields() if field.model is model)
        statement = f'UPDATE {model._meta.db_table} SET "{field.column}" = "{field.column}" RETURNING 1'
        if command.may_change(field):
            assert execute(statement) == [(1,)]
        else:
            with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
                execute(statement)
