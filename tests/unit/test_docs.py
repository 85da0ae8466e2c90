"""The documents: lines that a diff can show, and decisions, options, filters and fields that exist as the pages say."""

import json
import re
from argparse import Action
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import BaseCommand, get_commands, load_command_class

from config import reference
from proposals.shapes import Proposal

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


OPERATORS = ROOT / "docs" / "operator-guide.md"
#: `set_webhook PARTNER_ID [--url URL]`, at the beginning of a table's row.
COMMANDS = [
    command.replace("\\|", "|")
    for row in re.findall(r"^\| (`[a-z_]+[` ].*?) \| ", OPERATORS.read_text("utf-8"), re.MULTILINE)
    for command in re.findall(r"`([^`]+)`", row)
    if command.partition(" ")[0] in get_commands()
]


def own_arguments(command: str) -> list[Action]:
    """What the command takes, beside what Django gives to every command."""
    common = {action.dest for action in BaseCommand().create_parser("manage.py", "any")._actions}
    made = load_command_class(get_commands()[command], command).create_parser("manage.py", command)
    return [action for action in made._actions if action.dest not in common]


@pytest.mark.parametrize("told", COMMANDS, ids=lambda told: told.partition(" ")[0])
def test_the_operators_guide_tells_each_commands_arguments(told: str) -> None:
    name, _, rest = told.partition(" ")
    takes = own_arguments(name)
    options = {option for action in takes for option in action.option_strings}
    assert set(re.findall(r"--[a-z-]+", rest)) == options
    needed = re.sub(r"\[.*?\]", "", rest)
    assert set(re.findall(r"--[a-z-]+", needed)) == {
        option for action in takes for option in action.option_strings if action.required
    }
    positional = [action.metavar or action.dest for action in takes if not action.option_strings]
    assert re.findall("[A-Z_]+", re.sub(r"--\S+ \S+", "", needed)) == [str(each).upper() for each in positional]
    choices = {each for action in takes for each in action.choices or ()}
    assert choices <= set(re.findall("[a-z]+", rest))


def test_the_table_of_commands_was_read() -> None:
    assert len(COMMANDS) > 15


def test_the_guide_tells_each_filter_of_a_list() -> None:
    """The addresses that the pages show have every parameter of the reference, and no other."""
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "guia").glob("*.md"))
    told: dict[str, set[str]] = {}
    for path, query in re.findall(r"`GET (/[a-z-]+)\?([^` ]+)`", pages):
        told.setdefault(path, set()).update(part.partition("=")[0] for part in query.split("&"))
    paths = reference.document()["paths"]
    assert told == {
        path.removeprefix("/partners/v1"): filters
        for path, operations in paths.items()
        if (
            filters := {
                each["name"] for each in operations.get("get", {}).get("parameters", ()) if each["in"] == "query"
            }
        )
        and "{" not in path
    }


def test_the_guide_shows_each_field_of_a_proposal() -> None:
    """The first 201 of the page, whose parts the page shortens to "{…}"."""
    page = (ROOT / "docs" / "guia" / "propostas.md").read_text("utf-8")
    shown = json.loads(re.search(r"^201 (\{.*?\})\n```", page, re.MULTILINE | re.DOTALL)[1].replace("{…}", "{}"))  # type: ignore[index]
    told: dict[str, Any] = msgspec.to_builtins(Proposal.example())
    assert shown.keys() == told.keys()
    assert shown["recebimento"].keys() == told["recebimento"].keys()
    assert shown["recebimento"]["conta_bancaria"].keys() == told["recebimento"]["conta_bancaria"].keys()
