"""How evidence is sealed: canonical JSON, SHA-256, a hash chain, Ed25519 signatures. Uses no database.

The chain reveals an altered, removed or inserted record. The signature reveals a recomputed chain, because its key is
not in the database. docs/decisions/0050-evidence-chain.md specifies the format for verifiers.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

GENESIS = "0" * 64

# Each kind of signed text has a label, so that a signature is valid for one kind only.
LINK = b"origination/evidence-link/1\n"
MANIFEST = b"origination/evidence-manifest/1\n"
USE = b"origination/evidence-use/1\n"


def canonical(value: Any) -> bytes:
    """The bytes of `value` that are hashed: UTF-8 JSON with sorted keys and without blanks.

    Only objects with ASCII keys, lists, text, integers, booleans and null are allowed; for these the result equals the
    JSON Canonicalization Scheme (RFC 8785). Fractions must be text, so that each has a single spelling. Raises
    TypeError for anything else.
    """
    _refuse_fractions(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _refuse_fractions(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError("a fraction has no canonical form: write it as text")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_fractions(inner)


def failed(*checks: tuple[bool, str]) -> list[str]:
    """The faults of the checks that failed. A check is its result, and the fault that a false one means."""
    return [fault for is_so, fault in checks if not is_so]


def sha256(content: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(content).hexdigest()


def link_hash(number: int, previous_hash: str, record_sha256: str) -> str:
    """The hash of one link of the chain: hex SHA-256 over the canonical JSON of a record's position, the hash of the
    previous link (`GENESIS` for the first) and the record's digest. `number` counts from 1 without a gap."""
    link = {"number": number, "previous_hash": previous_hash, "record_sha256": record_sha256}
    return sha256(canonical(link))


@lru_cache(maxsize=2)
def _private_key(seed: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))


def public_key() -> str:
    """The public half of EVIDENCE_SIGNING_KEY, in hex."""
    return _private_key(settings.EVIDENCE_SIGNING_KEY).public_key().public_bytes_raw().hex()


def trusted_keys() -> frozenset[str]:
    """The public keys of this deployment's current and earlier signing keys."""
    return frozenset({public_key(), *settings.EVIDENCE_RETIRED_PUBLIC_KEYS})


def sign(label: bytes, content: bytes) -> str:
    """The Ed25519 signature, in hex, with EVIDENCE_SIGNING_KEY of `label` (LINK, MANIFEST or USE) followed by
    `content`."""
    return _private_key(settings.EVIDENCE_SIGNING_KEY).sign(label + content).hex()


def is_signed(label: bytes, content: bytes, signature: str, key: str) -> bool:
    """True if `signature` of `label` and `content` was made with the private key of `key` (hex)."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), label + content)
    except (InvalidSignature, ValueError):  # ValueError: not hex, or not a key
        return False
    return True


def link_checks(link: Mapping[str, Any], keys: Collection[str], faults: Sequence[str]) -> list[tuple[bool, str]]:
    """The checks of one link (`Chained.link`), for `failed`: its hash, key and signature. `faults` are the words."""
    sound = link_hash(link["number"], link["previous_hash"], link["record_sha256"]) == link["hash"]
    signed = is_signed(LINK, link["hash"].encode(), link["signature"], link["public_key"])
    return list(zip((sound, link["public_key"] in keys, signed), faults, strict=True))


def sign_use(link_hash: str, use: dict[str, Any]) -> str:
    """The signature, in hex, of a use (`EvidenceUse.sealed`) of the evidence whose link has this hash."""
    return sign(USE, _use_text(link_hash, use))


def use_faults(link_hash: str, uses: list[dict[str, Any]], count: int, keys: Collection[str]) -> list[str]:
    """The faults of the uses of one evidence, given in order. `count` is how many there should be."""
    faults, expected = [], 1
    for use in uses:
        number = use["number"]
        faults += _gap(expected, number - 1)
        expected = number + 1
        if number > count:
            faults.append(f"o uso {number} não consta na contagem")
        if not any(is_signed(USE, _use_text(link_hash, use), use["seal"], key) for key in keys):
            faults.append(f"o uso {number} foi alterado ou forjado")
    return faults + _gap(expected, count)


def _gap(first: int, last: int) -> list[str]:
    if first > last:
        return []
    return [f"falta o uso {first}" if first == last else f"faltam os usos {first} a {last}"]


def _use_text(link_hash: str, use: dict[str, Any]) -> bytes:
    return canonical({**{key: value for key, value in use.items() if key != "seal"}, "evidence": link_hash})
