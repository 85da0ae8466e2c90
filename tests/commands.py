"""Commands that print JSON."""

import io
import json
from typing import Any

from django.core.management import call_command


def printed(command: str, *arguments: object) -> Any:
    """The one JSON object that a command prints, in one line."""
    out = io.StringIO()
    call_command(command, *map(str, arguments), stdout=out)
    assert out.getvalue().count("\n") == 1
    return json.loads(out.getvalue())
