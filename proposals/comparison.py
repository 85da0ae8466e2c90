"""Decides whether two submissions of one offer are the same: which repeats are allowed, and which would change the
contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from rest_framework.serializers import Field, ListSerializer

from foundation.errors import InvalidState
from foundation.fields import Block, DecimalField
from foundation.formats import is_one_word
from proposals.dataset import DEFAULT_DEGREE
from proposals.serializers import SubmissionRequest

#: Fields that do not distinguish submissions: the offer, which the row names by its id, whichever id the body used; the
#: evidence of one call; and the partner's own name of the proposal.
_LEFT_OUT = ("offer_ref", "evidencia", "partner_reference")


class OtherData(InvalidState):
    """The offer has the proposal `proposal_id`, whose data differ from the request's. `field` is the first field that
    differs."""

    def __init__(self, proposal_id: str, field: str) -> None:
        super().__init__(
            f"A proposta {proposal_id} desta oferta já foi enviada, ou está em envio, com outro valor neste campo. "
            "Nada foi alterado.",
            field=field,
        )
        self.with_facts(proposal_id=proposal_id)


def first_difference(stored: Mapping[str, Any], submitted: Mapping[str, Any]) -> str | None:
    """The first field, in the dataset's order, in which the datasets `stored` and `submitted` differ.

    Both are in a row's form: validated, with dates and money as text. The name is dotted; for a block that only one of
    the two has, it is the block's. None if both are the same submission. These count as equal: null, empty and missing
    fields; amounts that differ only in trailing zeros; and texts that no bank receives (see `_as_sent`).
    """
    return next(_differences(_compared(), stored, submitted, ""), None)


@lru_cache(maxsize=1)
def _compared() -> dict[str, Field]:
    return {name: field for name, field in SubmissionRequest().fields.items() if name not in _LEFT_OUT}


def _differences(
    fields: Mapping[str, Field], stored: Mapping[str, Any], submitted: Mapping[str, Any], path: str
) -> Iterator[str]:
    for name, field in fields.items():
        here = f"{path}{name}"
        one: Any = stored.get(name)
        other: Any = submitted.get(name)
        if _is_empty(one) and _is_empty(other):
            continue
        if _is_empty(one) or _is_empty(other):
            if _as_sent(name, field, one) != _as_sent(name, field, other):
                yield here
        elif isinstance(field, Block):
            yield from _differences(field.fields, one, other, f"{here}.")
        elif isinstance(field, ListSerializer) and isinstance(field.child, Block):
            if len(one) != len(other):
                yield here
            for index, (mine, theirs) in enumerate(zip(one, other, strict=False)):
                yield from _differences(field.child.fields, mine, theirs, f"{here}.{index}.")
        elif _as_sent(name, field, one) != _as_sent(name, field, other):
            yield here


def _is_empty(value: Any) -> bool:
    """True for values that the contract treats as missing: null, an empty text, and a block or list of such values
    only."""
    if isinstance(value, Mapping):
        return all(_is_empty(each) for each in value.values())
    return value is None or value in ("", [])


def _as_sent(name: str, field: Field, value: Any) -> Any:
    """`value` as a bank receives it: money as a number, no father's name of a single word, and the default degree for a
    reference without one."""
    if name == "nome_pai":
        return None if not value or is_one_word(value) else value
    if name == "grau":
        return DEFAULT_DEGREE if value is None else value
    if isinstance(field, DecimalField):
        return None if value is None else Decimal(str(value))
    return None if _is_empty(value) else value
