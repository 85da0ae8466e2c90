"""A session's evidence as a self-contained file: readable, complete, and verifiable without this service."""

import io
import json
import zipfile
import zlib
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone

from authorizations import seal
from authorizations.models import Evidence, EvidenceUse, Session
from foundation import audit
from foundation.audit import Action
from foundation.formats import iso_utc

FORMAT = "evidence-dossier/1"
RECORD, TERMS, USES, READABLE = "evidencia.json", "termos.txt", "usos.json", "dossie.html"
MANIFEST, SIGNATURE = "manifesto.json", "assinatura.json"
CONTENTS = {RECORD, TERMS, USES, READABLE}

_LINK_FAULTS = (
    "o elo da cadeia não confere",
    "o elo da cadeia foi assinado com uma chave desconhecida",
    "a assinatura do elo da cadeia não confere",
)

# The exceptions of zipfile, zlib, json and look-ups for a broken or foreign file.
_NO_DOSSIER = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)

# Words for the dossier's readers, by `geolocation_reason` (`evidence._why_not_collected`).
_WHY_NO_LOCATION = {
    "invalid": "não coletada: o navegador informou um valor inválido",
    "denied": "não coletada: o titular recusou",
    "unavailable": "não coletada: o aparelho não a informou",
    "not_shared": "não coletada: o titular não tocou em “Compartilhar localização”",
    "no_script": "não coletada: navegador sem JavaScript, que não permite perguntar",
    "not_told": "não coletada: quem enviou o aceite não a informou",
}
_COLLECTED = {
    "browser": "tudo o que o navegador informou",
    "geolocation": "localização",
    "geolocation.lat": "latitude",
    "geolocation.lng": "longitude",
    "geolocation.accuracy": "precisão da localização",
    "geolocation_status": "situação da localização",
    "device": "dados do aparelho",
    "userAgent": "identificação do navegador",
    "platform": "sistema",
    "language": "idioma",
    "timezone": "fuso horário",
    "screen": "tela (largura x altura @ densidade)",
    "deviceModel": "modelo do aparelho",
    "terms_unfolded": "partes abertas dos termos",
}


def export(evidence: Evidence, exported_by: str) -> bytes:
    """The dossier, a zip file: the sealed record, the terms' bytes, the bank calls that relied on the evidence, a
    printable page, and a signed manifest with the SHA-256 of each and `exported_by`, an operator or partner."""
    now, revoked_at = timezone.now(), evidence.session.revoked_at
    count, uses = _uses(evidence)
    contents = {
        RECORD: evidence.record.encode(),
        TERMS: evidence.session.terms.text.encode(),
        USES: _readable_json([use.sealed for use in uses]),
        READABLE: _rendered(evidence, now, exported_by, count, uses).encode(),
    }
    manifest = seal.canonical(
        {
            "format": FORMAT,
            "authorization_id": evidence.session.authorization_id,
            "exported_at": iso_utc(now),
            "exported_by": exported_by,
            "files": {name: seal.sha256(content) for name, content in contents.items()},
            "uses": count,
            "revoked_at": revoked_at and iso_utc(revoked_at),
            "link": evidence.link,
        }
    )
    signature = {"public_key": seal.public_key(), "signature": seal.sign(seal.MANIFEST, manifest)}
    return _zip({**contents, MANIFEST: manifest, SIGNATURE: _readable_json(signature)})


def attachment(request: HttpRequest, evidence: Evidence) -> HttpResponse:
    """The dossier as a file to be saved. Notes the export in the trail."""
    source = audit.source_of(request)
    audit.record(Action.EXPORTED, request=source, obj=evidence.session, detail="Dossiê da evidência exportado.")
    return HttpResponse(
        export(evidence, source.who),
        content_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="dossie-evidencia-{evidence.number}.zip"'},
    )


def page(evidence: Evidence, at: datetime, read_by: str) -> str:
    """The readable part: one printable HTML page that loads nothing."""
    return _rendered(evidence, at, read_by, *_uses(evidence))


def _rendered(evidence: Evidence, at: datetime, read_by: str, count: int, uses: list[EvidenceUse]) -> str:
    record = evidence.content
    told, shown = record["told_by_browser"], record["shown_by_session"]
    return render_to_string(
        "authorizations/dossier.html",
        {
            "evidence": evidence,
            "session": evidence.session,
            "terms": evidence.session.terms,
            **record,
            "device": [(_COLLECTED.get(name, name), value) for name, value in told["device"].items()],
            "left_out": [_COLLECTED.get(name.removeprefix("device."), name) for name in told["invalid"]],
            "unfolded": _unfolded(shown["terms_layout"], told["terms_unfolded"], evidence),
            "why_no_location": _WHY_NO_LOCATION.get(told["geolocation_reason"]),
            # Without our page's token it is unknown whether a holder's browser sent the data.
            "browser_source": "dito pelo navegador do titular"
            if shown["page_rendered_at"]
            else "dito por quem enviou o aceite",
            "uses": uses,
            "use_faults": seal.use_faults(evidence.hash, [use.sealed for use in uses], count, seal.trusted_keys()),
            "at": at,
            "read_by": read_by,
        },
    )


def _unfolded(layout: str | None, told: list[int] | None, evidence: Evidence) -> str:
    """Which parts of the terms the holder opened, in words."""
    if layout == "open":
        return "todas já vieram abertas"
    if told is None:
        return "não se sabe: o navegador não o informou"
    headings = dict(enumerate(evidence.session.terms.headings, 1))
    return "; ".join(headings.get(number, f"{number} (não existe)") for number in told) or "nenhuma"


def verify(archive: bytes, trusted_keys: Collection[str]) -> tuple[list[str], dict[str, Any]]:
    """The faults of a dossier (none: it is genuine and complete), and its manifest. Needs no database. `trusted_keys`
    are the public keys, in hex, that may have signed it; the verifier must get them from elsewhere, because the
    dossier's own statement about its key proves nothing."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as package:
            files = {name: package.read(name) for name in package.namelist()}
        manifest, signature = json.loads(files[MANIFEST]), json.loads(files[SIGNATURE])
        link, record = manifest["link"], json.loads(files[RECORD])
        problems = seal.failed(
            (set(files) == CONTENTS | {MANIFEST, SIGNATURE}, "o pacote não tem exatamente os arquivos de um dossiê"),
            (signature["public_key"] in trusted_keys, "o manifesto foi assinado com uma chave desconhecida"),
            (
                seal.is_signed(seal.MANIFEST, files[MANIFEST], signature["signature"], signature["public_key"]),
                "a assinatura do manifesto não confere",
            ),
            *(
                (seal.sha256(files.get(name, b"")) == digest, f"{name} foi alterado")
                for name, digest in manifest["files"].items()
            ),
            (seal.sha256(files[RECORD]) == link["record_sha256"], "a evidência não é a que foi selada"),
            *seal.link_checks(link, trusted_keys, _LINK_FAULTS),
            (
                record["shown_by_session"]["terms_sha256"] == seal.sha256(files[TERMS]),
                "os termos não são os que a evidência registra",
            ),
            (
                record["authorization_id"] == manifest["authorization_id"],
                "a evidência é de outra sessão que não a do manifesto",
            ),
        )
        uses = json.loads(files.get(USES, b"[]"))
        problems += seal.use_faults(link["hash"], uses, manifest["uses"], trusted_keys)
        if not problems and _zip(files) != archive:
            problems = ["o pacote não é, byte a byte, o que foi exportado"]
    except _NO_DOSSIER:
        return ["o arquivo não é um dossiê legível"], {}
    return problems, manifest


def _uses(evidence: Evidence) -> tuple[int, list[EvidenceUse]]:
    """The number of recorded uses so far, and these uses. Later uses are not included."""
    count = Session.objects.values_list("use_count", flat=True).get(pk=evidence.session_id)
    return count, list(evidence.uses.filter(number__lte=count))


def _readable_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode()


def _zip(files: dict[str, bytes]) -> bytes:
    """Uncompressed and without times, so that the same files always give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as package:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3
            package.writestr(entry, files[name])
    return buffer.getvalue()
