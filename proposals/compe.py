"""The institutions where a disbursement account may be held: `compe.json`, updated by `refresh_bank_list`."""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).with_name("compe.json")


@lru_cache(maxsize=1)
def banks() -> Mapping[str, str]:
    """The institutions' names by COMPE code, sorted by code."""
    listed = json.loads(FILE.read_text("utf-8"))["banks"]
    return {bank["code"]: bank["name"] for bank in listed}
