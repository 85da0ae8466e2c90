"""The whole chain of evidence, checked against itself, its signatures and the sessions."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypedDict

from django.db.models import F, TextField
from django.db.models.functions import Cast

from authorizations import seal
from authorizations.models import Evidence, Session
from providers.encryption import WrongKey, decrypt

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

_CHUNK = 500


class _Sealed(TypedDict):
    ciphertext: str


def verify(trusted_keys: Collection[str]) -> dict[str, Any]:
    """`{valid, checked, head, problems}`: every evidence in its order, `head` the last link's hash.

    What a chain can't show, that its newest links were cut off, shows against the sessions, and against a
    `head` that was noted down elsewhere.
    """
    problems: list[str] = []
    number, head = 0, seal.GENESIS
    # Decrypted here and not by the field: one unreadable record is a finding, not the end of the search.
    rows = Evidence.objects.defer("record").annotate(ciphertext=Cast(F("record"), TextField()))
    for row in rows.select_related("session__terms").order_by("number").iterator(_CHUNK):
        problems += [f"evidência {row.number}: {fault}" for fault in _faults(row, number + 1, head, trusted_keys)]
        number, head = row.number, row.hash
    orphans = Session.objects.filter(status=Session.Status.AUTHORIZED, evidence=None).order_by("pk")
    problems += [f"sessão {pk}: autorizada, mas sem evidência" for pk in orphans.values_list("pk", flat=True)]
    return {"valid": not problems, "checked": number, "head": head, "problems": problems}


def _faults(
    row: WithAnnotations[Evidence, _Sealed], number: int, previous_hash: str, trusted_keys: Collection[str]
) -> list[str]:
    try:
        record = decrypt(row.ciphertext)
    except WrongKey:
        return ["o registro não abre com nenhuma chave de FIELD_ENCRYPTION_KEYS"]
    link = seal.Link(row.number, row.previous_hash, row.record_sha256)
    checks = (
        (row.number == number, f"falta a evidência {number}"),
        (row.previous_hash == previous_hash, "não se liga à anterior"),
        (seal.sha256(record.encode()) == row.record_sha256, "o registro foi alterado"),
        (link.hash == row.hash, "o elo não confere"),
        (row.public_key in trusted_keys, "assinada com uma chave desconhecida"),
        (seal.is_signed(seal.LINK, row.hash.encode(), row.signature, row.public_key), "a assinatura não confere"),
        # Canonical JSON spells a field in one way only.
        (f'"terms_sha256":"{row.session.terms.sha256}"' in record, "os termos guardados não são os mostrados"),
        (f'"authorization_id":"{row.session.authorization_id}"' in record, "é de outra sessão"),
        (row.session.status == Session.Status.AUTHORIZED, "a sessão não consta como autorizada"),
    )
    return [fault for is_so, fault in checks if not is_so]
