"""Compares the API reference with one dumped before a change: `python -m bench.reference dump|compare FILE`.

It compares operation by operation and component by component, and tells each difference. The order of keys is not
compared, nor that of the names in `required`, `enum` aside.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django


def differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """The paths at which two documents differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from differences(before.get(key, "(missing)"), after.get(key, "(missing)"), f"{at} {key}")
    elif at.endswith(" required") and isinstance(before, list) and sorted(before) == sorted(after):
        return
    elif before != after:
        yield f"{at}\n  - {json.dumps(before, ensure_ascii=False)}\n  + {json.dumps(after, ensure_ascii=False)}"


def main(action: str, file: str) -> int:
    """Dump the reference to `file`, or compare it with that dump. Returns 1 if they differ."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from config.documents import document  # needs the settings

    text = json.dumps(document(), default=str, ensure_ascii=False, indent=1)
    if action == "dump":
        Path(file).write_text(text)
        return 0
    found = [*differences(json.loads(Path(file).read_text()), json.loads(text))]
    print("\n".join(found) or "The reference is the same.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
