"""An encrypted value can be decrypted only in its own row and column."""

import hashlib
import itertools
import json
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import models

from config.environment import public_key_of
from consultas.models import Query
from foundation.boxes import Boxes, BoxesField, merged
from foundation.encryption import EncryptedTextField, Sealed, WrongKey, decrypt, encrypt, seal, unseal
from foundation.management.commands.reencrypt import encrypted_fields
from partners.models import Partner
from providers.models import Provider

_numbers = itertools.count(1)


def a_row(model: type[models.Model]) -> models.Model:
    """A row of `model` in memory, with a unique identity."""
    return with_identity(model, f"row-{next(_numbers)}")


def with_identity(model: type[models.Model], identity: str = "the same") -> models.Model:
    row = model()
    for name in getattr(model, "sealed_by", ("pk",)):
        setattr(row, name, identity)
    return row


def a_value(field: EncryptedTextField) -> Any:
    return {"client_secret": "s3cr3t"} if isinstance(field, BoxesField) else "90000000175"


def opened(field: EncryptedTextField, token: str, row: models.Model) -> Any:
    value = field.opened(token, row)
    return dict(value) if isinstance(value, Boxes) else value


@pytest.mark.control("V11", "LGPD 46")
def test_a_ciphertext_opens_in_its_own_row_only() -> None:
    """Before the fix, a bank's credentials, copied into a session's name, were shown as a holder's name."""
    for field in encrypted_fields():
        own, other = a_row(field.model), a_row(field.model)
        token = field.sealed(a_value(field), own).token
        assert opened(field, token, own) == a_value(field)
        with pytest.raises(WrongKey):
            opened(field, token, other)


def test_a_ciphertext_opens_in_no_other_column() -> None:
    """In no table, even if the row there has the same identity. A bank's credentials and those before them change
    places in one row."""
    for field in encrypted_fields():
        token = field.sealed(a_value(field), with_identity(field.model)).token
        shared = {f"providers.Provider.{name}" for name in ("credentials", "former_credentials")}
        for elsewhere in encrypted_fields():
            if elsewhere != field and not {str(elsewhere), str(field)} <= shared:
                with pytest.raises(WrongKey):
                    opened(elsewhere, token, with_identity(elsewhere.model))


def test_a_row_is_known_before_it_is_stored() -> None:
    """A row's identity consists of values that the application sets. A key that the database chooses at the insert
    comes too late."""
    for field in encrypted_fields():
        names = getattr(field.model, "sealed_by", ("pk",))
        assert not (names == ("pk",) and isinstance(field.model._meta.pk, models.AutoField))
        assert set(names) <= {"pk", *(each.attname for each in field.model._meta.concrete_fields)}


def test_a_row_without_identity_takes_no_value_and_a_value_without_its_row_is_not_stored() -> None:
    with pytest.raises(ValueError, match="identity"):
        Query._meta.get_field("request").sealed({}, Query(id=None))  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="sealed for its row"):
        Partner._meta.get_field("webhook_secret").get_prep_value("whsec_1")  # type: ignore[union-attr]


def test_a_sealed_value_shows_nothing_and_is_opened_when_it_is_asked_for() -> None:
    partner = Partner(name="Financeira")
    field: Any = Partner._meta.get_field("webhook_secret")
    sealed = field.sealed("whsec_1", partner)
    assert (str(sealed), repr([sealed])) == ("<sealed>", "[<sealed>]")
    loaded = Partner.from_db("default", ["id", "webhook_secret"], [partner.pk, sealed])
    assert isinstance(vars(loaded)["webhook_secret"], Sealed)
    assert loaded.webhook_secret == vars(loaded)["webhook_secret"] == "whsec_1"


def test_one_altered_character_is_refused() -> None:
    partner = Partner()
    field: Any = Partner._meta.get_field("webhook_secret")
    token = field.sealed("whsec_1", partner).token
    for place in (3, len(token) // 2, len(token) - 3):
        altered = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        with pytest.raises(WrongKey):
            field.opened(altered, partner)
    for nonsense in ("", "s1.", "s1.é", "s1.AAAA", "s1." + "A" * 40, "gAAAAA", "{}"):
        with pytest.raises(WrongKey):
            field.opened(nonsense, partner)


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 30_000])
def test_a_long_text_takes_less_room_and_opens_the_same(length: int) -> None:
    text = ("não " * length)[:length]
    token = encrypt(text, b"here")
    assert decrypt(token, b"here") == text
    assert len(token) < 1500


def test_a_token_of_our_key_that_is_bound_to_no_row_is_refused(settings: Any) -> None:
    """Before the fix, a Fernet token from an old backup could be pasted into any row, evidence included."""
    for field in encrypted_fields():
        token = Fernet(settings.FIELD_ENCRYPTION_KEYS[0]).encrypt(json.dumps(a_value(field)).encode()).decode()
        row = a_row(field.model)
        for read in (field.opened, field.renewed):
            with pytest.raises(WrongKey):
                read(token, row)


def test_equal_messages_differ_and_none_stands_in_its_ciphertext() -> None:
    sealed = {seal(b"90000000175", b"request") for _ in range(1000)}
    assert len(sealed) == 1000
    assert not any(b"90000000175" in each for each in sealed)
    assert {unseal(each, b"request") for each in sealed} == {b"90000000175"}


@pytest.mark.control("V11")
def test_messages_outlast_the_rotation_of_the_keys(settings: Any) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    settings.FIELD_ENCRYPTION_KEYS = [old]
    sealed = seal(b"content", b"request")
    settings.FIELD_ENCRYPTION_KEYS = [new, old]
    assert unseal(sealed, b"request") == b"content"
    settings.FIELD_ENCRYPTION_KEYS = [new]
    with pytest.raises(WrongKey):
        unseal(sealed, b"request")


# --- Boxes ----------------------------------------------------------------------------------------------------


def a_bank(**credentials: str) -> Provider:
    """A bank as it comes from the database."""
    field: Any = Provider._meta.get_field("credentials")
    bank = Provider(name="banco")
    return read_bank(field.sealed(credentials, bank))


def read_bank(credentials: Sealed) -> Provider:
    columns = {
        "name": "banco",
        "base_url": "",
        "credentials": credentials,
        "authorities": "",
        "way_secrets": Sealed("{}"),
    }
    return Provider.from_db("default", [*columns], [*columns.values()])


def test_who_has_the_public_key_alone_writes_credentials_and_reads_none(settings: Any) -> None:
    """Before the fix, every process could read them."""
    bank = a_bank(client_id="c", client_secret="old", gone="x")
    private, settings.BANK_CREDENTIALS_KEYS = settings.BANK_CREDENTIALS_KEYS, []
    bank.credentials = merged(bank.credentials, {"client_secret": "new", "gone": None, "more": "m"})
    stored = Provider._meta.get_field("credentials").pre_save(bank, False).token
    assert "new" not in stored
    read = read_bank(Sealed(stored))
    assert sorted(read.credentials) == ["client_id", "client_secret", "more"]
    for name in read.credentials:
        with pytest.raises(WrongKey):
            read.credentials[name]
    settings.BANK_CREDENTIALS_KEYS = private
    assert dict(read.credentials) == {"client_id": "c", "client_secret": "new", "more": "m"}


def test_who_reads_none_compares_credentials_and_asks_for_their_names(settings: Any) -> None:
    """Before the fix, the web process failed where it compared them with nothing, or asked if one is stored."""
    settings.BANK_CREDENTIALS_KEYS = []
    boxed, none = a_bank(client_id="c").credentials, a_bank().credentials
    assert (boxed in (None, "", [], {}), boxed == {}, boxed == none, boxed == boxed) == (False, False, False, True)
    assert (none in (None, "", [], {}), none == boxed) == (True, False)
    assert ("client_id" in boxed, "proxy" in boxed, boxed.keys() & {"client_id", "x"}) == (True, False, {"client_id"})


def test_a_credential_opens_under_its_own_name_only() -> None:
    bank = a_bank(client_id="c", client_secret="s3cr3t")
    boxed: Any = bank.credentials
    boxed.tokens["client_id"] = boxed.tokens["client_secret"]
    with pytest.raises(WrongKey):
        boxed["client_id"]


def test_credentials_outlast_the_rotation_of_their_key(settings: Any) -> None:
    field: Any = Provider._meta.get_field("credentials")
    bank, new = Provider(name="banco"), hashlib.sha256(b"new").hexdigest()
    token = field.sealed({"client_id": "c"}, bank).token
    settings.BANK_CREDENTIALS_KEYS = [new, *settings.BANK_CREDENTIALS_KEYS]
    settings.BANK_CREDENTIALS_PUBLIC_KEY = public_key_of("BANK_CREDENTIALS_KEYS", new)
    assert dict(field.opened(token, bank)) == {"client_id": "c"}
    renewed = field.renewed(token, bank)
    settings.BANK_CREDENTIALS_KEYS = [new]
    assert dict(field.opened(renewed, bank)) == {"client_id": "c"}
    with pytest.raises(WrongKey):
        dict(field.opened(token, bank))
