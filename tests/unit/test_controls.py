"""The page on controls names the tests that bear them, and no other."""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "controls.md"
MARK = "pytest.mark.control"


def marked() -> dict[str, set[str]]:
    """The tests that bear each control."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text("utf-8")
        if f"@{MARK}(" not in text:
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef):
                continue
            for mark in function.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK:
                    for control in mark.args:
                        found[ast.literal_eval(control)].add(f"{file.relative_to(TESTS)}::{function.name}")
    return found


def test_each_control_names_the_tests_that_bear_it_or_what_is_not_done() -> None:
    told, silent = {}, []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| ") and not line.startswith(("| control", "| ---")):
            control, _, tests, missing = (cell.strip() for cell in line.strip("|").split(" |"))
            told[control] = set(re.findall(r"`([\w/]+\.py::\w+)`", tests))
            silent += [control] if not told[control] and missing == "—" else []
    assert silent == []
    assert {control: tests for control, tests in told.items() if tests} == marked()
