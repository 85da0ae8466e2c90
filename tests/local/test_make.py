"""What `make` does to the environment of its commands."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.processes import ROOT


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make on the PATH")
def test_python_keeps_what_it_compiles_whatever_the_callers_environment_says() -> None:
    """Before the fix, if the caller's environment forbade it, each process of the tests compiled its modules again."""
    show = "show: ; @printenv PYTHONDONTWRITEBYTECODE || echo unset"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["make", "--eval", show, "show"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "unset\n"
