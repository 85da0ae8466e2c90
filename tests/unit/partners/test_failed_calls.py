"""Recording failed calls costs a process no more during a flood."""

import uuid

import pytest

from partners.failed_calls import KEPT_PER_MINUTE, LONGEST, FailedCall, Notes, field_name


def a_call(partner: uuid.UUID | None, **values: object) -> FailedCall:
    told = {"method": "POST", "route": "partners/v1/consultas", "status": 429, "code": "rate_limited", **values}
    return FailedCall(partner_id=partner, request_id="r", **told)


def test_a_flood_is_one_row_beside_the_first_calls() -> None:
    now = [0.0]
    notes, one, other = Notes(lambda: now[0]), uuid.uuid4(), uuid.uuid4()
    for _ in range(KEPT_PER_MINUTE + 1_000):
        notes.note(a_call(one))
    notes.note(a_call(one, code="invalid_input", status=422))
    notes.note(a_call(other))
    assert len(notes.take()) == KEPT_PER_MINUTE + 1
    assert notes.take() == []
    assert notes.some.is_set(), "what is counted together has still to be written"
    now[0] = 60.0
    assert sorted((call.code, call.times) for call in notes.take()) == [("invalid_input", 1), ("rate_limited", 1_000)]
    assert not notes.some.is_set()
    notes.note(a_call(one))
    assert [call.times for call in notes.take()] == [1], "a new minute begins anew"


def test_strangers_with_ever_new_keys_fill_no_memory() -> None:
    notes = Notes(lambda: 0.0)
    for number in range(3 * KEPT_PER_MINUTE):
        notes.note(a_call(None, key_prefix=f"cpk_live_{number:06}", status=401))
    for number in range(2 * LONGEST):
        notes.note(a_call(None, route=f"r{number}"))
    assert len(notes._single) + len(notes._together) <= 2 * LONGEST
    assert {call.key_prefix for call in notes._together.values()} == {""}


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("titular.nome", "titular.nome"),
        ("referencias.1.telefone", "referencias.1.telefone"),
        (None, ""),
        ("90000000175", ""),
        ("x90000000175", ""),
        ("maria@exemplo.com", ""),
        ("Maria da Silva", ""),
        ("x" * 101, ""),
    ],
)
def test_a_field_that_the_caller_made_up_is_not_kept(told: str | None, kept: str) -> None:
    assert field_name(told) == kept
