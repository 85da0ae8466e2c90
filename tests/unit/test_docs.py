"""The documents' form: lines that a diff can show, and decisions that exist where code and pages refer to them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = ROOT / "docs" / "decisions"
#: `decisions/0030-…`, `decision 30`, and `[30](0030-…)` as decisions refer to each other.
REFERENCE = re.compile(r"decisions/0*(\d+)|[Dd]ecisions? \[?0*(\d+)|\]\(0*(\d+)-")
ELSEWHERE = (".venv", "node_modules", "var")


def test_every_decision_that_is_referred_to_exists_and_is_listed() -> None:
    numbers = {str(int(page.name[:4])): page.name for page in DECISIONS.glob("0*.md")}
    listed = (DECISIONS / "README.md").read_text("utf-8")
    assert [name for number, name in numbers.items() if f"[{number}]({name})" not in listed] == []
    folders = [each for each in ROOT.iterdir() if each.name not in ELSEWHERE and not each.name.startswith(".")]
    files = {each for folder in folders if folder.is_dir() for each in folder.rglob("*.*") if each != Path(__file__)}
    unknown = {
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in files | {ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "redocly.yaml"}
        if file.suffix in (".py", ".md", ".html", ".yaml") and not set(ELSEWHERE) & set(file.relative_to(ROOT).parts)
        for found in REFERENCE.finditer(file.read_text("utf-8"))
        if next(number for number in found.groups() if number) not in numbers
    }
    assert unknown == set()


def test_every_file_that_a_page_names_exists() -> None:
    """Before the fix, the page on security named a test that was gone."""
    tests = {file.name for file in (ROOT / "tests").rglob("*.py")}
    beside = ("", "docs", "consultas", "tests")  # a page about one folder leaves its name out
    gone = set()
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        paths = re.findall(r"`((?:[a-z_]+/)+[\w.]+\.(?:py|json|md|yml|html))`", text)
        gone |= {(page.name, path) for path in paths if not any((ROOT / each / path).exists() for each in beside)}
        gone |= {(page.name, name) for name in re.findall(r"`(test_\w+\.py)`", text) if name not in tests}
    assert gone == set()


def test_no_line_of_prose_is_longer_than_120_characters() -> None:
    """Tables, headings, links to pictures and code are no prose."""
    long = []
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        code = False
        for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
            code ^= line.lstrip().startswith("```")
            if not code and len(line) > 120 and not line.lstrip().startswith(("|", "#", "![")):
                long.append(f"{page.relative_to(ROOT)}:{number}")
    assert long == []
