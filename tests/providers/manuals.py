"""Bodies as each bank's manual shows them, for the tests of its adapter and those of its simulated bank."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any

_BODIES = Path(__file__).parent / "bodies"


Changes = Mapping[str, Any | EllipsisType]


def submission_body(bank: str, changes: Changes | None = None) -> dict[str, Any]:
    """The body of a submission to `bank`, with other values under the dotted paths of `changes`; `...` leaves one
    out."""
    return changed(_read(bank), changes or {})


def query_body(bank: str, changes: Changes | None = None) -> dict[str, Any]:
    """The body of a query to `bank`, changed in the same way."""
    return changed(_read(f"{bank}.query"), changes or {})


def changed(body: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """A copy of `body`, changed in the same way."""
    body = copy.deepcopy(dict(body))
    for path, value in changes.items():
        *parents, last = path.split(".")
        place: Any = body
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        if value is ...:
            del place[last]
        else:
            place[int(last) if isinstance(place, list) else last] = value
    return body


def _read(name: str) -> dict[str, Any]:
    return json.loads((_BODIES / f"{name}.json").read_text("utf-8"))  # type: ignore[no-any-return]
