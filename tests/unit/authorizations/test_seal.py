"""How evidence is sealed, without the database: canonical JSON, the chain of hashes, signatures, the order of uses."""

import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from authorizations import seal

OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw().hex()
LINK_HASH = "c" * 64


def test_the_canonical_form() -> None:
    value = {"b": [1, True, None, "ção\n"], "a": {"z": "1.5", "y": {}}}
    assert seal.canonical(value) == '{"a":{"y":{},"z":"1.5"},"b":[1,true,null,"ção\\n"]}'.encode()


@pytest.mark.parametrize("value", [1.5, {"a": [0.1]}, {"a": {"b": float("nan")}}])
def test_fractions_have_no_canonical_form(value: Any) -> None:
    with pytest.raises(TypeError):
        seal.canonical(value)


def test_the_hash_of_a_link_as_written_down() -> None:
    """Computed without this code: the hash that other verifiers must get."""
    text = '{"number":2,"previous_hash":"' + "b" * 64 + '","record_sha256":"' + "a" * 64 + '"}'
    assert seal.link_hash(2, "b" * 64, "a" * 64) == hashlib.sha256(text.encode()).hexdigest()


def test_a_signature_is_plain_ed25519_behind_its_label_and_counts_for_that_its_text_and_its_key_only() -> None:
    """A verifier in another language needs only the public key, the label and the bytes."""
    signature = seal.sign(seal.LINK, b"text")
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.public_key()))
    key.verify(bytes.fromhex(signature), b"origination/evidence-link/1\n" + b"text")
    assert seal.is_signed(seal.LINK, b"text", signature, seal.public_key())
    assert not seal.is_signed(seal.MANIFEST, b"text", signature, seal.public_key())
    assert not seal.is_signed(seal.LINK, b"texts", signature, seal.public_key())
    assert not seal.is_signed(seal.LINK, b"text", signature, OTHER_KEY)


@pytest.mark.parametrize(("signature", "key"), [("zz", None), ("", None), (None, "zz"), (None, "ab"), (None, "")])
def test_what_is_no_signature_and_no_key_is_simply_not_signed(signature: str | None, key: str | None) -> None:
    given = seal.sign(seal.LINK, b"text") if signature is None else signature
    assert not seal.is_signed(seal.LINK, b"text", given, seal.public_key() if key is None else key)


def a_use(place: int, **changes: Any) -> dict[str, Any]:
    """A sealed use, with `changes` made after sealing."""
    use = {"number": place, "provider": "banco", "call": "query", "reference": f"q-{place}", "used_at": "2026"}
    return {**use, "seal": seal.sign_use(LINK_HASH, use), **changes}


@pytest.mark.parametrize(
    ("uses", "count", "faults"),
    [
        ([], 0, []),
        ([a_use(1), a_use(2)], 2, []),
        ([a_use(1), a_use(2, provider="outro")], 2, ["o uso 2 foi alterado ou forjado"]),
        ([a_use(1), a_use(2, number=3)], 3, ["falta o uso 2", "o uso 3 foi alterado ou forjado"]),
        ([a_use(2)], 2, ["falta o uso 1"]),
        ([a_use(4)], 4, ["faltam os usos 1 a 3"]),
        ([a_use(1)], 2_000_000_000, ["faltam os usos 2 a 2000000000"]),
        ([], 1, ["falta o uso 1"]),
        ([a_use(1), a_use(2)], 1, ["o uso 2 não consta na contagem"]),
    ],
)
def test_uses_are_complete_and_in_order(uses: list[dict[str, Any]], count: int, faults: list[str]) -> None:
    assert seal.use_faults(LINK_HASH, uses, count, [seal.public_key()]) == faults
