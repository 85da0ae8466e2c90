"""`verify_evidence` and `verify_dossier` detect every change."""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone

from authorizations import chain, dossier, seal
from authorizations.evidence import record_use
from authorizations.models import Evidence, PurgedEvidence, Session, Terms
from foundation.encryption import sealed
from partners.models import Partner
from tests.authorizations.clients import HolderClient, open_session
from tests.factories import PartnerFactory
from tests.plans import execute

OTHER_SEED = "07" * 32
TABLES = {
    "evidence": "authorizations_evidence",
    "uses": "authorizations_evidenceuse",
    "sessions": "authorizations_session",
}
SEALED_FILES = ("evidencia.json", "termos.txt", "usos.json", "dossie.html", "manifesto.json")


@pytest.fixture
def three(partner: Partner, holder: HolderClient) -> list[Evidence]:
    """A chain of three records; the second has a location and a use."""
    for n, body in enumerate([None, {"geolocation": {"lat": -1.5, "lng": 2}}, {"device": {"platform": "Linux"}}]):
        holder.accept(open_session(partner, cpf=f"{n:011}"), body)
    evidence = list(Evidence.objects.order_by("number"))
    record_use(evidence[1].number, ["ipe", "aroeira"], call="query", reference="q-1")
    return evidence


@contextmanager
def guards_off(*others: str) -> Iterator[None]:
    """The triggers are off, as only the tables' owner can have them. The chain must reveal the block's changes."""
    tables = (*TABLES.values(), *others)
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    for table in tables:
        execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    yield
    for table in tables:
        execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def printed(command: str, *arguments: str | Path) -> tuple[bool, dict[str, Any]]:
    """Whether the command succeeded, and its output."""
    out = io.StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=out)
    except CommandError:
        return False, json.loads(out.getvalue())
    return True, json.loads(out.getvalue())


verify_evidence, verify_dossier = partial(printed, "verify_evidence"), partial(printed, "verify_dossier")


def test_a_sound_chain(three: list[Evidence]) -> None:
    assert verify_evidence() == (
        True,
        {
            "valid": True,
            "checked": 3,
            "uses": 2,
            "head": three[2].hash,
            "problems": [],
            "public_key": seal.public_key(),
        },
    )
    assert [evidence.previous_hash for evidence in three] == [seal.GENESIS, three[0].hash, three[1].hash]


def test_sessions_without_acceptance_are_no_concern_of_the_chain(session: Session) -> None:
    ok, result = verify_evidence()
    assert (ok, result["checked"], result["head"]) == (True, 0, seal.GENESIS)


ANOTHER_HOLDER = "evidência 2: os dados do titular na sessão foram alterados"
#: Changes by SQL, and what is found then.
CHANGES = {
    "UPDATE {evidence} SET record = overlay(record placing 'A' from 60 for 1) || 'A' WHERE number = 3": [
        "evidência 3: o registro não abre com nenhuma chave de FIELD_ENCRYPTION_KEYS"
    ],
    "UPDATE {evidence} SET record = '{altered}' WHERE number = 2": ["evidência 2: o registro foi alterado"],
    "UPDATE {evidence} SET record = '{altered}', record_sha256 = '{digest}', hash = '{hash}' WHERE number = 2": [
        "evidência 2: a assinatura não confere",
        "evidência 3: não se liga à anterior",
        "evidência 2: o uso 1 foi alterado ou forjado",
        "evidência 2: o uso 2 foi alterado ou forjado",
    ],
    "UPDATE {evidence} SET record = '{formless}' WHERE number = 2": [
        "evidência 2: o registro foi alterado",
        "evidência 2: os termos guardados não são os mostrados",
        "evidência 2: é de outra sessão",
        "evidência 2: o registro não tem a forma de uma evidência",
    ],
    "UPDATE {evidence} SET session_id = {other} WHERE number = 2": [
        "evidência 2: é de outra sessão",
        "evidência 2: a sessão não consta como autorizada",
        "evidência 2: o índice do CPF da sessão foi alterado",
        ANOTHER_HOLDER,
        "sessão {s2}: autorizada, mas sem evidência",
        "evidência 2: o uso 1 não consta na contagem",
        "evidência 2: o uso 2 não consta na contagem",
    ],
    "DELETE FROM {evidence} WHERE number = 1": [
        "evidência 2: falta a evidência 1",
        "evidência 2: não se liga à anterior",
        "sessão {s1}: autorizada, mas sem evidência",
    ],
    "DELETE FROM {evidence} WHERE number = 3": ["sessão {s3}: autorizada, mas sem evidência"],
    "UPDATE {evidence} SET from_api_address = true WHERE number = 2": [
        "evidência 2: a marca de endereço da API foi alterada"
    ],
    "UPDATE {sessions} SET name = 'x' WHERE id = {s2}": [
        "evidência 2: os dados da sessão não abrem com nenhuma chave de FIELD_ENCRYPTION_KEYS"
    ],
    "UPDATE {sessions} SET cpf_index = repeat('0', 64) WHERE id = {s2}": [
        "evidência 2: o índice do CPF da sessão foi alterado"
    ],
    "UPDATE {sessions} SET partner_id = '{stranger}' WHERE id = {s2}": [
        "evidência 2: a sessão foi passada a outro parceiro"
    ],
    "UPDATE {sessions} SET cpf = '{cpf}' WHERE id = {s2}": [ANOTHER_HOLDER],
    "UPDATE {sessions} SET name = '{name}' WHERE id = {s2}": [ANOTHER_HOLDER],
    "UPDATE {sessions} SET phone = '{phone}' WHERE id = {s2}": [ANOTHER_HOLDER],
    "UPDATE {uses} SET provider = 'cedro' WHERE number = 1": ["evidência 2: o uso 1 foi alterado ou forjado"],
    "UPDATE {uses} SET used_at = used_at + '1us' WHERE number = 2": ["evidência 2: o uso 2 foi alterado ou forjado"],
    "DELETE FROM {uses}": ["evidência 2: faltam os usos 1 a 2"],
    "UPDATE {uses} SET evidence_id = 1 WHERE number = 1": [
        "evidência 1: o uso 1 não consta na contagem",
        "evidência 1: o uso 1 foi alterado ou forjado",
        "evidência 2: falta o uso 1",
    ],
}


def test_a_change_by_sql_is_found(three: list[Evidence], partner: Partner) -> None:
    """All that can be wrong with the uses of one evidence: tests/unit/authorizations/test_seal.py. Texts are encrypted
    as somebody with the key could."""
    keys: dict[str, Any] = {f"s{evidence.number}": evidence.session_id for evidence in three}
    keys |= {"other": open_session(partner, cpf="99999999999").pk, "stranger": PartnerFactory().pk}
    forged = three[1].record.replace('"lat":"-1.5"', '"lat":"-1.6"')
    keys |= {name: sealed(three[1], "record", text).token for name, text in (("altered", forged), ("formless", "[]"))}
    keys["digest"] = seal.sha256(forged.encode())
    keys["hash"] = seal.link_hash(2, three[0].hash, keys["digest"])
    keys |= {name: sealed(three[1].session, name, "Outra Pessoa").token for name in ("cpf", "name", "phone")}
    for statement, problems in CHANGES.items():
        with transaction.atomic():
            with guards_off():
                execute(statement.format(**TABLES, **keys))
            ok, result = verify_evidence()
            assert (ok, result["problems"]) == (False, [problem.format(**keys) for problem in problems]), statement
            transaction.set_rollback(True)
    assert verify_evidence()[0]


def test_an_end_that_was_cut_with_its_session_is_found_by_what_was_kept_elsewhere(three: list[Evidence]) -> None:
    """Before the fix, the command called the chain valid after evidence, its uses and its session had been deleted."""
    noted = printed("export_chain_head")[1]
    assert (noted["evidences"], noted["head"], noted["uses"]) == (3, three[2].hash, 2)
    kept = ("--head", three[1].hash, "--head", noted["head"], "--uses", "2")
    assert verify_evidence(*kept)[0]
    with guards_off():
        execute("DELETE FROM authorizations_evidence WHERE number = 3")
        execute("DELETE FROM authorizations_session WHERE id = %s", [three[2].session_id])
    assert verify_evidence()[0], "the rest of the chain is sound"
    ok, result = verify_evidence(*kept)
    assert (ok, result["problems"]) == (False, [f"o fim guardado {three[2].hash} não está na cadeia"])
    assert verify_evidence("--uses", "3")[1]["problems"] == ["havia 3 usos"]


def test_beat_checks_daily_and_alarms(three: list[Evidence], caplog: pytest.LogCaptureFixture) -> None:
    chain.check()
    chain.log_head()
    lines = {record.msg["event"]: record.msg for record in caplog.records}  # type: ignore[index]
    assert lines["evidence_head"]["head"] == lines["evidence_checked"]["head"] == three[2].hash, "nothing hides it"
    assert lines["evidence_checked"]["valid"]
    assert "evidence_broken" not in lines

    with guards_off():
        execute("DELETE FROM authorizations_evidence WHERE number = 1")
    broken = chain.CHECKS.labels("broken")._value
    before = broken.get()
    chain.check()
    assert broken.get() == before + 1
    alarms = [record for record in caplog.records if "evidence_broken" in str(record.msg)]
    assert len(alarms) == 3
    assert {record.levelname for record in alarms} == {"ERROR"}


def test_a_link_that_is_purged_meanwhile_is_checked_once(three: list[Evidence]) -> None:
    """Before the fix, a check that ran beside the purge alarmed: of two reads of the tables, neither had the link."""
    PurgedEvidence.objects.create(**three[0].link, uses=0, session_index="x")
    ok, result = verify_evidence()
    assert (ok, result["checked"]) == (True, 3)


def test_a_moved_acceptance_is_found_and_shown_to_nobody(three: list[Evidence]) -> None:
    def shown() -> tuple[Any, ...]:
        evidence = Evidence.objects.get(number=2)
        return evidence.shown, evidence.sealed_at, dossier.page(evidence, three[1].accepted_at, "operadora")

    before = shown()
    with guards_off():
        execute("UPDATE authorizations_evidence SET accepted_at = accepted_at - interval '40 days' WHERE number = 2")
    assert shown() == before
    assert verify_evidence()[1]["problems"] == ["evidência 2: a data do aceite foi alterada"]


def test_a_dossier_of_changed_uses_says_so_and_does_not_verify(three: list[Evidence]) -> None:
    with guards_off():
        execute("DELETE FROM authorizations_evidenceuse WHERE number = 1")
    assert "A conferência dos selos falhou: falta o uso 1." in dossier.page(three[1], three[1].accepted_at, "operadora")
    assert dossier.verify(dossier.export(three[1], "operadora"), seal.trusted_keys())[0] == ["falta o uso 1"]


def test_a_new_signing_key_needs_the_old_public_one(three: list[Evidence], settings: Any) -> None:
    old = seal.public_key()
    settings.EVIDENCE_SIGNING_KEY = OTHER_SEED
    ok, result = verify_evidence()
    assert not ok
    assert result["problems"][0] == "evidência 1: assinada com uma chave desconhecida"
    settings.EVIDENCE_RETIRED_PUBLIC_KEYS = [old]
    assert verify_evidence()[0]
    record_use(2, ["cedro"], call="query", reference="q-2")
    assert verify_evidence()[1]["uses"] == 3


# --- Dossier --------------------------------------------------------------------------------------------------


@pytest.fixture
def archive(three: list[Evidence]) -> bytes:
    return dossier.export(three[1], "operadora")


def files_of(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as package:
        return {name: package.read(name) for name in package.namelist()}


def test_a_dossier_is_complete(three: list[Evidence], archive: bytes) -> None:
    evidence = three[1]
    files = files_of(archive)
    assert set(files) == {*SEALED_FILES, "assinatura.json"}
    assert files["evidencia.json"] == evidence.record.encode()
    assert files["termos.txt"] == evidence.session.terms.text.encode()
    uses = [(use["number"], use["provider"], use["call"], use["reference"]) for use in json.loads(files["usos.json"])]
    assert uses == [(1, "ipe", "query", "q-1"), (2, "aroeira", "query", "q-1")]
    assert json.loads(files["manifesto.json"])["uses"] == 2
    html, session = files["dossie.html"].decode(), evidence.session
    told = [session.cpf, session.name, session.terms.sha256, evidence.hash, evidence.signature]
    told += ["Crédito Fácil &amp; Cia", "Declarado pelo parceiro", "visto pelo servidor", "latitude -1.5, longitude 2"]
    told += ["dito por quem enviou o aceite", "aroeira", "consulta de ofertas", "operadora"]
    # It was a JSON call: nobody knows what sent it.
    foreign = ["navegador do titular", "<script", "http://", "https://", "<link", "<img"]
    assert ([each for each in told if each not in html], [each for each in foreign if each in html]) == ([], [])


def test_each_file_of_a_dossier_has_the_same_uses(three: list[Evidence], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the fix, a use that was recorded during an export stood on the page, and not in usos.json."""
    read = dossier._uses

    def read_before_another_use(evidence: Evidence) -> Any:
        found = read(evidence)
        record_use(evidence.number, ["cedro"], call="query", reference="q-2")
        return found

    monkeypatch.setattr(dossier, "_uses", read_before_another_use)
    files = files_of(dossier.export(three[1], "operadora"))
    assert [name for name in ("usos.json", "dossie.html") if b"cedro" in files[name]] == []


def test_a_dossiers_page_is_in_portuguese_and_in_brasilia_time(session: Session, holder: HolderClient) -> None:
    told = {"platform": "A1", "language": "A2", "timezone": "A3", "screen": "A4", "deviceModel": "A5"}
    device = {"userAgent": "x" * 600, **told}
    holder.answer(session, browser=json.dumps({"device": device}))
    evidence = Evidence.objects.get()
    record_use(evidence.number, ["ipe"], call="submit", reference="p-1")
    html = dossier.page(evidence, evidence.sealed_at, "operadora")
    for label in ("sistema", "idioma", "fuso horário", "tela (largura x altura @ densidade)", "modelo do aparelho"):
        assert f"Aparelho: {label}</th>" in html
    assert "<td>identificação do navegador</td>" in html, "what was left out"
    assert "<td>envio da proposta</td>" in html
    for foreign in ("userAgent", "deviceModel", "screen", ">submit<", ">platform<"):
        assert foreign not in html
    assert re.findall(r"\d{4}-\d\d-\d\dT", html) == []
    local = timezone.localtime(evidence.sealed_at)
    assert f"Aceite em</th><td>{local:%d/%m/%Y %H:%M:%S}</td>" in html
    assert "Página entregue em" in html
    assert html.count('<td class="from">dito pelo navegador do titular</td>') == 2 + len(device)
    assert "dito por quem enviou" not in html


@pytest.mark.parametrize(
    ("query", "browser", "shown", "unfolded"),
    [
        ("", '{"terms_unfolded":[2,1]}', "dobrados sob seus títulos", "2. O quê; 1. Quem"),
        ("", '{"terms_unfolded":[]}', "dobrados sob seus títulos", "nenhuma"),
        ("", "", "dobrados sob seus títulos", "não se sabe"),
        ("?termos=abertos", "", "com o texto inteiro aberto", "todas já vieram abertas"),
    ],
)
def test_a_dossier_says_what_the_holder_saw_of_the_terms(
    partner: Partner, holder: HolderClient, query: str, browser: str, shown: str, unfolded: str
) -> None:
    """Without a script nobody knows what was unfolded; whether the page came with the text open is always known."""
    Terms(version="2", text="1. Quem\nA empresa.\n\n2. O quê\nTudo.").publish()
    session = open_session(partner)
    assert holder.answer(session, query=query, browser=browser).status_code == 303
    page = dossier.page(Evidence.objects.get(), timezone.now(), "operadora")
    assert f"Termos mostrados</th><td>{shown}" in page
    assert f"que o titular abriu</th><td>{unfolded}" in page
    assert verify_evidence()[0]


def test_a_genuine_dossier_verifies_without_a_database_by_our_key_only(
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
    stranger = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OTHER_SEED)).public_key().public_bytes_raw().hex()
    assert verify_dossier(path, "--public-key", seal.public_key())[0]
    assert not verify_dossier(path, "--public-key", stranger)[0]


def test_every_single_changed_byte_is_found(archive: bytes) -> None:
    keys = seal.trusted_keys()
    assert dossier.verify(archive, keys)[0] == []
    for position in range(0, len(archive), 7):
        changed = bytearray(archive)
        changed[position] ^= 1
        assert dossier.verify(bytes(changed), keys)[0], f"byte {position}"


@pytest.mark.parametrize("name", SEALED_FILES)
def test_a_repacked_change_is_found_by_name(archive: bytes, name: str) -> None:
    files = files_of(archive)
    files[name] = files[name].replace(b"o", b"0", 1)
    problems = dossier.verify(dossier._zip(files), seal.trusted_keys())[0]
    expected = "a assinatura do manifesto não confere" if name == "manifesto.json" else f"{name} foi alterado"
    assert problems == ["o arquivo não é um dossiê legível"] or expected in problems


def test_a_dossier_signed_by_someone_else_is_found(partner: Partner, holder: HolderClient, settings: Any) -> None:
    """The forger has our code, and a key of another."""
    ours, settings.EVIDENCE_SIGNING_KEY = seal.trusted_keys(), OTHER_SEED
    holder.accept(open_session(partner))
    record_use(1, ["ipe", "aroeira"], call="query", reference="q-1")
    forged = dossier.export(Evidence.objects.get(), "operadora")
    assert dossier.verify(forged, seal.trusted_keys())[0] == []
    assert dossier.verify(forged, ours)[0] == [
        "o manifesto foi assinado com uma chave desconhecida",
        "o elo da cadeia foi assinado com uma chave desconhecida",
        "o uso 1 foi alterado ou forjado",
        "o uso 2 foi alterado ou forjado",
    ]


def test_an_added_or_missing_file_is_found(archive: bytes) -> None:
    files = files_of(archive)
    expected = "o pacote não tem exatamente os arquivos de um dossiê"
    assert expected in dossier.verify(dossier._zip({**files, "x.txt": b""}), seal.trusted_keys())[0]
    del files["usos.json"]
    assert expected in dossier.verify(dossier._zip(files), seal.trusted_keys())[0]


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04"])
def test_a_file_that_is_no_dossier_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    ok, result = verify_dossier(path)
    assert not ok
    assert result["problems"] == ["o arquivo não é um dossiê legível"]
    assert result["authorization_id"] is None
    with pytest.raises(CommandError, match="Não foi possível ler"):
        call_command("verify_dossier", str(tmp_path / "none.zip"))
