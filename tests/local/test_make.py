"""What `make` does to the environment of its commands."""

import os
import shutil
import subprocess

import pytest

from tests.processes import ROOT


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make on the PATH")
@pytest.mark.parametrize("outer", [{}, {"MAKELEVEL": "1", "MAKEFLAGS": "w"}], ids=["plain", "nested"])
def test_python_keeps_what_it_compiles_whatever_the_callers_environment_says(outer: dict[str, str]) -> None:
    """Before the fix, if the caller's environment forbade it, each process of the tests compiled its modules again.

    `make test` is such a caller: a nested make also prints the folder that it enters, unless it is told not to.
    """
    show = "show: ; @printenv PYTHONDONTWRITEBYTECODE || echo unset"
    environment = {**os.environ, **outer, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["make", "--no-print-directory", "--eval", show, "show"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "unset\n"
