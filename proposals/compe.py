"""The institutions where a disbursement account may be held: `compe.json`, updated by `refresh_bank_list`."""

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
    """The institutions' names by COMPE code, sorted by code."""
    listed = json.loads(FILE.read_text("utf-8"))["banks"]
    return {bank["code"]: bank["name"] for bank in listed}


def curated(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """`[{code, name}]` from the rows of the package's `bancos.json`, sorted by code.

    Rows without a COMPE code are dropped, because no account can be held there. Raises ValueError for a repeated code
    or an empty result, because the file then no longer has the expected form.
    """
    listed = [row for row in rows if _CODE.fullmatch(row["COMPE"] or "") and row["COMPE"] != "000"]
    names = {row["COMPE"]: " ".join(row["LongName"].split()) for row in listed}
    if not listed or len(names) != len(listed):
        raise ValueError("no bank list, or a code stands in it twice")
    return [{"code": code, "name": name} for code, name in sorted(names.items())]
