"""What a stream's reader already has, judged by the id of its last event."""

import pytest

from consultas.models import Query
from consultas.query.stream import _COMPLETE, Position, _opening, _position_id, position

QUERY = Query(banks=["aroeira", "cedro", "ipe"])


def event_id(event: bytes) -> str:
    return event.split(b"\n")[0].removeprefix(b"id: ").decode()


def opening_ids(beginning: int) -> list[str]:
    """The ids of the opening events, which come in one piece."""
    return [event_id(event) for event in _opening(QUERY, beginning).split(b"\n\n") if event]


def test_each_id_tells_what_came_until_then() -> None:
    opening = opening_ids(0)
    assert [position(QUERY, each).opening for each in opening] == [1, 2, 3, 4]
    assert not any(position(QUERY, each).banks for each in opening)
    for had in ({"ipe"}, {"ipe", "aroeira"}, {"ipe", "aroeira", "cedro"}):
        assert position(QUERY, _position_id(QUERY, had)) == Position(opening=4, banks=frozenset(had))
    assert position(QUERY, _COMPLETE) == Position(is_complete=True)


def test_who_comes_back_gets_what_is_missing_and_the_same_ids() -> None:
    assert opening_ids(2) == ["o2", "o3"]
    assert _position_id(QUERY, {"cedro", "ipe"}) == "b6"


@pytest.mark.parametrize("unknown", ["", "o", "o-1", "bxyz", "b", "C", "c ", "0", "b" + "f" * 40])
def test_an_unknown_id_begins_anew(unknown: str) -> None:
    assert position(QUERY, unknown) == Position()
