"""`verify_evidence` and `verify_dossier` find whatever was changed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command
from django.db import connection

from authorizations import dossier, seal
from authorizations.evidence import record_use
from authorizations.models import Evidence, Session
from partners.models import Partner
from providers.encryption import encrypt
from tests.authorizations.clients import HolderClient, open_session

OTHER_SEED = "07" * 32


@pytest.fixture
def three(partner: Partner, holder: HolderClient) -> list[Evidence]:
    """A chain of three, the second with a location and a use."""
    for n, body in enumerate([None, {"geolocation": {"lat": -1.5, "lng": 2}}, {"device": {"platform": "Linux"}}]):
        holder.accept(open_session(partner, cpf=f"{n:011}"), body)
    evidence = list(Evidence.objects.order_by("number"))
    record_use(evidence[1].number, ["ipe", "aroeira"], call="query", reference="q-1")
    return evidence


@contextmanager
def guards_off() -> Iterator[Any]:
    """A cursor that may do what only the tables' owner can: what the chain is there to show."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE authorizations_evidence DISABLE TRIGGER USER")
        yield cursor
        cursor.execute("ALTER TABLE authorizations_evidence ENABLE TRIGGER USER")


def verify_evidence() -> tuple[bool, dict[str, Any]]:
    """Whether the command ended well, and what it printed."""
    out = io.StringIO()
    try:
        call_command("verify_evidence", stdout=out)
    except CommandError:
        return False, json.loads(out.getvalue())
    return True, json.loads(out.getvalue())


def test_a_sound_chain(three: list[Evidence]) -> None:
    assert verify_evidence() == (
        True,
        {
            "valid": True,
            "checked": 3,
            "head": three[2].hash,
            "problems": [],
            "public_key": seal.public_key(),
        },
    )
    assert [evidence.previous_hash for evidence in three] == [seal.GENESIS, three[0].hash, three[1].hash]


def test_an_empty_chain(db: None) -> None:
    ok, result = verify_evidence()
    assert (ok, result["checked"], result["head"]) == (True, 0, seal.GENESIS)


def test_a_changed_record_is_found(three: list[Evidence]) -> None:
    forged = three[1].record.replace('"lat":"-1.5"', '"lat":"-1.6"')
    assert forged != three[1].record
    with guards_off() as cursor:
        cursor.execute("UPDATE authorizations_evidence SET record = %s WHERE number = 2", [encrypt(forged)])
    assert verify_evidence()[1]["problems"] == ["evidência 2: o registro foi alterado"]


def test_a_record_and_its_digest_changed_together_are_found(three: list[Evidence]) -> None:
    forged = three[1].record.replace('"lat":"-1.5"', '"lat":"-1.6"')
    link = seal.Link(2, three[0].hash, seal.sha256(forged.encode()))
    with guards_off() as cursor:
        cursor.execute(
            "UPDATE authorizations_evidence SET record = %s, record_sha256 = %s, hash = %s WHERE number = 2",
            [encrypt(forged), link.record_sha256, link.hash],
        )
    ok, result = verify_evidence()
    assert not ok
    assert result["problems"] == ["evidência 2: a assinatura não confere", "evidência 3: não se liga à anterior"]


def test_a_changed_byte_of_the_ciphertext_is_found(three: list[Evidence]) -> None:
    with guards_off() as cursor:
        cursor.execute(
            "UPDATE authorizations_evidence SET record = overlay(record placing 'A' from 60 for 1) || 'A'"
            " WHERE number = 3"
        )
    ok, result = verify_evidence()
    assert not ok
    assert result["problems"] == ["evidência 3: o registro não abre com nenhuma chave de FIELD_ENCRYPTION_KEYS"]


def test_a_removed_record_is_found(three: list[Evidence]) -> None:
    with guards_off() as cursor:
        cursor.execute("DELETE FROM authorizations_evidence WHERE number = 1")
    problems = verify_evidence()[1]["problems"]
    assert problems == [
        "evidência 2: falta a evidência 1",
        "evidência 2: não se liga à anterior",
        f"sessão {three[0].session_id}: autorizada, mas sem evidência",
    ]


def test_a_cut_off_end_is_found(three: list[Evidence]) -> None:
    with guards_off() as cursor:
        cursor.execute("DELETE FROM authorizations_evidence WHERE number = 3")
    assert verify_evidence()[1]["problems"] == [f"sessão {three[2].session_id}: autorizada, mas sem evidência"]


def test_evidence_moved_to_another_session_is_found(three: list[Evidence], partner: Partner) -> None:
    other = open_session(partner, cpf="99999999999")
    with guards_off() as cursor:
        cursor.execute("UPDATE authorizations_evidence SET session_id = %s WHERE number = 2", [other.pk])
    problems = verify_evidence()[1]["problems"]
    assert "evidência 2: é de outra sessão" in problems
    assert "evidência 2: a sessão não consta como autorizada" in problems


def test_a_new_signing_key_needs_the_old_public_one(three: list[Evidence], settings: Any) -> None:
    old = seal.public_key()
    settings.EVIDENCE_SIGNING_KEY = OTHER_SEED
    ok, result = verify_evidence()
    assert not ok
    assert result["problems"][0] == "evidência 1: assinada com uma chave desconhecida"
    settings.EVIDENCE_RETIRED_PUBLIC_KEYS = [old]
    assert verify_evidence()[0]


# --- Dossier --------------------------------------------------------------------------------------------------


@pytest.fixture
def archive(three: list[Evidence]) -> bytes:
    return dossier.export(three[1], "operadora")


def files_of(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as package:
        return {name: package.read(name) for name in package.namelist()}


def verify_dossier(path: Path, *arguments: str) -> tuple[bool, dict[str, Any]]:
    out = io.StringIO()
    try:
        call_command("verify_dossier", str(path), *arguments, stdout=out)
    except CommandError:
        return False, json.loads(out.getvalue())
    return True, json.loads(out.getvalue())


def test_a_dossier_is_complete(three: list[Evidence], archive: bytes) -> None:
    evidence = three[1]
    files = files_of(archive)
    assert set(files) == {
        "assinatura.json",
        "dossie.html",
        "evidencia.json",
        "manifesto.json",
        "termos.txt",
        "usos.json",
    }
    assert files["evidencia.json"] == evidence.record.encode()
    assert files["termos.txt"] == evidence.session.terms.text.encode()
    assert [(use["provider"], use["call"], use["reference"]) for use in json.loads(files["usos.json"])] == [
        ("ipe", "query", "q-1"),
        ("aroeira", "query", "q-1"),
    ]
    html = files["dossie.html"].decode()
    for part in (
        evidence.session.cpf,
        evidence.session.name,
        "Crédito Fácil &amp; Cia",
        evidence.hash,
        evidence.signature,
        "latitude -1.5, longitude 2",
        "visto pelo servidor",
        "dito pelo navegador do titular",
        "Declarado pelo parceiro",
        "aroeira",
        "operadora",
        evidence.session.terms.sha256,
    ):
        assert part in html
    for foreign in ("<script", "http://", "https://", "<link", "<img"):
        assert foreign not in html


def test_a_genuine_dossier_verifies_without_a_database(
    archive: bytes, three: list[Evidence], tmp_path: Path, django_db_blocker: Any
) -> None:
    path = tmp_path / "dossie.zip"
    path.write_bytes(archive)
    with django_db_blocker.block():
        ok, result = verify_dossier(path)
    assert ok
    assert result == {
        "valid": True,
        "authorization_id": three[1].session.authorization_id,
        "number": 2,
        "exported_at": result["exported_at"],
        "exported_by": "operadora",
        "problems": [],
    }


def test_every_single_changed_byte_is_found(archive: bytes) -> None:
    keys = seal.trusted_keys()
    assert dossier.verify(archive, keys)[0] == []
    for position in range(0, len(archive), 7):
        changed = bytearray(archive)
        changed[position] ^= 1
        assert dossier.verify(bytes(changed), keys)[0], f"byte {position}"


@pytest.mark.parametrize("name", ["evidencia.json", "termos.txt", "usos.json", "dossie.html", "manifesto.json"])
def test_a_repacked_change_is_found_by_name(archive: bytes, name: str) -> None:
    files = files_of(archive)
    files[name] = files[name].replace(b"o", b"0", 1)
    problems = dossier.verify(dossier._zip(files), seal.trusted_keys())[0]
    expected = "a assinatura do manifesto não confere" if name == "manifesto.json" else f"{name} foi alterado"
    assert problems == ["o arquivo não é um dossiê legível"] or expected in problems


def test_a_dossier_signed_by_someone_else_is_found(archive: bytes) -> None:
    """The forger changes the record and computes everything anew, with a key of his own."""
    files = files_of(archive)
    forger = Ed25519PrivateKey.generate()
    key = forger.public_key().public_bytes_raw().hex()
    manifest = json.loads(files["manifesto.json"])
    files["evidencia.json"] = files["evidencia.json"].replace(b'"lat":"-1.5"', b'"lat":"-1.6"')
    digest = seal.sha256(files["evidencia.json"])
    link = seal.Link(2, manifest["link"]["previous_hash"], digest)
    manifest["files"]["evidencia.json"] = digest
    manifest["link"] |= {
        "record_sha256": digest,
        "hash": link.hash,
        "public_key": key,
        "signature": forger.sign(seal.LINK + link.hash.encode()).hex(),
    }
    files["manifesto.json"] = seal.canonical(manifest)
    signature = forger.sign(seal.MANIFEST + files["manifesto.json"]).hex()
    files["assinatura.json"] = dossier._readable_json({"public_key": key, "signature": signature})
    forged = dossier._zip(files)
    assert dossier.verify(forged, {key})[0] == []
    assert dossier.verify(forged, seal.trusted_keys())[0] == [
        "o manifesto foi assinado com uma chave desconhecida",
        "o elo da cadeia foi assinado com uma chave desconhecida",
    ]


def test_an_added_or_missing_file_is_found(archive: bytes) -> None:
    files = files_of(archive)
    expected = "o pacote não tem exatamente os arquivos de um dossiê"
    assert expected in dossier.verify(dossier._zip({**files, "x.txt": b""}), seal.trusted_keys())[0]
    del files["usos.json"]
    assert expected in dossier.verify(dossier._zip(files), seal.trusted_keys())[0]


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04"])
def test_what_is_no_dossier(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    ok, result = verify_dossier(path)
    assert not ok
    assert result["problems"] == ["o arquivo não é um dossiê legível"]
    assert result["authorization_id"] is None


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Não foi possível ler"):
        call_command("verify_dossier", str(tmp_path / "none.zip"))


def test_the_public_key_can_be_named(archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "dossie.zip"
    path.write_bytes(archive)
    stranger = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OTHER_SEED)).public_key().public_bytes_raw().hex()
    assert verify_dossier(path, "--public-key", seal.public_key())[0]
    assert not verify_dossier(path, "--public-key", stranger)[0]


# --- Canonical form -------------------------------------------------------------------------------------------


def test_the_canonical_form() -> None:
    value = {"b": [1, True, None, "ção\n"], "a": {"z": "1.5", "y": {}}}
    assert seal.canonical(value) == '{"a":{"y":{},"z":"1.5"},"b":[1,true,null,"ção\\n"]}'.encode()


@pytest.mark.parametrize("value", [1.5, {"a": [0.1]}, {"a": {"b": float("nan")}}])
def test_fractions_have_no_canonical_form(value: Any) -> None:
    with pytest.raises(TypeError):
        seal.canonical(value)


def test_the_hash_of_a_link_as_written_down() -> None:
    """Computed apart from this code: what other verifiers must get."""
    import hashlib

    text = '{"number":1,"previous_hash":"' + "0" * 64 + '","record_sha256":"' + "a" * 64 + '"}'
    assert seal.Link(1, seal.GENESIS, "a" * 64).hash == hashlib.sha256(text.encode()).hexdigest()


def test_sessions_without_acceptance_are_no_concern_of_the_chain(session: Session) -> None:
    assert verify_evidence()[0]
