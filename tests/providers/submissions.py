"""A submission to each bank as its manual shows it, for the tests of its adapter and those of its simulated bank."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any

_BODIES = Path(__file__).parent / "bodies"


def submission_body(bank: str, changes: Mapping[str, Any | EllipsisType] | None = None) -> dict[str, Any]:
    """The body of a submission to `bank`, with other values under the dotted paths of `changes`; `...` leaves one
    out."""
    body: dict[str, Any] = json.loads((_BODIES / f"{bank}.json").read_text("utf-8"))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place: Any = body
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        if value is ...:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return body
