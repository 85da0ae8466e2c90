"""The institutions that a disbursement account may be held at: `compe.json`, renewed by `refresh_bank_list`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("compe.json")
_CODE = re.compile(r"\d{3}", re.ASCII)


@lru_cache(maxsize=1)
def banks() -> Mapping[str, str]:
    """Names of the institutions by COMPE code, in the order of the codes."""
    listed = json.loads(FILE.read_text("utf-8"))["banks"]
    return {bank["code"]: bank["name"] for bank in listed}


def curated(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """`[{code, name}]` of the rows of the package's `bancos.json`, sorted by code.

    Rows without a COMPE code are no banks that an account could be named at, and are left out. Raises
    ValueError where a code stands twice or nothing is left: then the file is not what it was.
    """
    found = {
        row["COMPE"]: {"code": row["COMPE"], "name": " ".join(row["LongName"].split())} for row in rows if _listed(row)
    }
    if not found or len(found) != sum(_listed(row) for row in rows):
        raise ValueError("no bank list, or a code stands in it twice")
    return [found[code] for code in sorted(found)]


def _listed(row: dict[str, Any]) -> bool:
    return bool(_CODE.fullmatch(row["COMPE"] or "")) and row["COMPE"] != "000"
