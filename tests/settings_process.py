"""Reads the settings in processes whose environment contains only a test's variables.

One process loads the libraries, and each reading is a fork of it, because starting Python takes far longer. This file
run as a program is that process: it reads one line of JSON per reading, and answers with one.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Modules that the settings import and that read no variable.
LOADED = (
    "celery.schedules",
    "django.templatetags.static",
    "django.urls",
    "environ",
    "config.logs",
)


@dataclass(frozen=True)
class Reading:
    """The end of a process that loaded the settings. `values` are the requested settings, None after a failure.
    `stderr` is its whole error output."""

    returncode: int
    values: list[Any] | None
    stderr: str

    @property
    def refusal(self) -> str:
        """The last line of its error output. Empty if the settings loaded."""
        return self.stderr.strip().rpartition("\n")[2]


def read(names: Sequence[str], variables: Mapping[str, str]) -> Reading:
    """Load the settings with `variables` and PATH as the whole environment, and return the settings `names`."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    environment = {"PATH": os.environ["PATH"], **variables}
    process.stdin.write(json.dumps([list(names), environment]) + "\n")
    process.stdin.flush()
    return Reading(**json.loads(process.stdout.readline()))


@cache
def _process() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.settings_process"]
    environment = {"PATH": os.environ["PATH"]}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # closes its input, which ends it
    return process


def _serve() -> None:
    for module in LOADED:
        import_module(module)
    for line in sys.stdin:
        names, variables = json.loads(line)
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
            child = os.fork()
            if child == 0:
                os.dup2(errors.fileno(), 2)
                os.environ.clear()
                os.environ.update(variables)
                from config import settings

                answer.write(json.dumps([getattr(settings, name) for name in names]).encode())
                answer.flush()
                os._exit(0)
            _, status = os.waitpid(child, 0)
            answer.seek(0)
            errors.seek(0)
            values = answer.read()
            reading = {
                "returncode": os.waitstatus_to_exitcode(status),
                "values": json.loads(values) if values else None,
                "stderr": errors.read().decode(),
            }
        print(json.dumps(reading), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    _serve()
