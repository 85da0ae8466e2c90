"""The documents: lines that a diff can show; and decisions, options, filters, fields, controls, banks and the sandbox,
which are as the pages say."""

import ast
import json
import re
from argparse import Action
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import BaseCommand, get_commands, load_command_class

from config import documents
from consultas.admission import OverCapacity
from partners.limits import PER_MINUTE
from partners.management.commands.seed_sandbox import IN_FLIGHT_LIMIT, PARTNER_ID
from proposals.shapes import Proposal
from providers import registry
from providers.bank import Bank
from simulator import catalogue
from simulator.ledger import DISBURSED_AFTER_S

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
    paths = documents.document()["paths"]
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


# --- Controls, and the tests that bear them -------------------------------------------------------------------------

MARK = "pytest.mark.control"


def marked() -> dict[str, set[str]]:
    """The tests that bear each control."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text("utf-8")
        if f"@{MARK}(" not in text:
            continue
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef):
                continue
            for mark in function.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK:
                    for control in mark.args:
                        found[ast.literal_eval(control)].add(f"{file.relative_to(ROOT / 'tests')}::{function.name}")
    return found


def test_each_control_names_the_tests_that_bear_it_or_what_is_not_done() -> None:
    told, silent = {}, []
    for line in (ROOT / "docs" / "controls.md").read_text("utf-8").splitlines():
        if line.startswith("| ") and not line.startswith(("| control", "| ---")):
            control, _, tests, missing = (cell.strip() for cell in line.strip("|").split(" |"))
            told[control] = set(re.findall(r"`([\w/]+\.py::\w+)`", tests))
            silent += [control] if not told[control] and missing == "—" else []
    assert silent == []
    assert {control: tests for control, tests in told.items() if tests} == marked()


# --- Banks and the sandbox -----------------------------------------------------------------------------------------

PAGES = ROOT / "docs" / "guia"
GUIDE = "\n".join(page.read_text("utf-8") for page in sorted(PAGES.glob("*.md")))


def table(header: str) -> dict[str, str]:
    """The rows below the line `header`, by the bank in their first column."""
    rows = GUIDE.partition(f"\n{header}\n")[2].partition("\n\n")[0].splitlines()[1:]
    return {re.findall(r"`(\w+)`", row)[0]: row for row in rows}


def named_with(words: str) -> set[str]:
    """The banks in the line that has these words."""
    [line] = [line for line in GUIDE.splitlines() if words in line]
    return set(re.findall(r"`(\w+)`", line)) & set(registry.names())


def test_each_bank_is_named_where_partners_look_up_how_banks_differ() -> None:
    for told, banks in (
        (table("| banco | passo | você recebe |"), [bank for bank in registry.BANKS if bank.check is not Bank.check]),
        (table("| banco | pedido | pago |"), [bank for bank in registry.BANKS if "disbursement" in vars(bank)]),
        (
            named_with("não faz oferta sem `geolocation`"),
            [bank for bank in registry.BANKS if "geolocation" in bank.needed_evidence],
        ),
        (named_with("cancela uma proposta"), [bank for bank in registry.BANKS if bank.cancels()]),
        (named_with("fariam um segundo contrato"), [bank for bank in registry.BANKS if not bank.deduplicates]),
    ):
        assert set(told) == {bank.name for bank in banks}


@pytest.mark.parametrize("bank", [bank for bank in registry.BANKS if bank.required], ids=lambda bank: bank.name)
def test_each_field_that_a_bank_needs_is_told(bank: type[Bank]) -> None:
    row = table("| banco | também |")[bank.name]
    fields = [field for field in bank.required if not ("`documento` inteiro" in row and field.startswith("documento."))]
    untold = [field for field in fields if not re.search(rf"[`.]{field.rpartition('.')[2]}`", row)]
    assert untold == []


README = (ROOT / "README.md").read_text("utf-8")
SANDBOX = (PAGES / "sandbox.md").read_text("utf-8")
PROSE = " ".join(SANDBOX.split())


def test_the_partner_and_its_limit() -> None:
    assert f"{IN_FLIGHT_LIMIT:,} queries in flight" in README
    assert f"{IN_FLIGHT_LIMIT:,} consultas em andamento".replace(",", ".") in PROSE
    assert "curl -s -X PUT http://127.0.0.1:8000/partners/v1/webhook" in README
    assert "curl -s -X PUT https://sandbox.example/partners/v1/webhook" in SANDBOX
    assert f"manage.py set_limits {PARTNER_ID} --per-minute" in SANDBOX
    assert PER_MINUTE.message in PROSE
    assert OverCapacity.default_message.partition(".")[0] in PROSE


def test_each_holder_with_the_name_of_its_scenario() -> None:
    told = dict(re.findall(r"^\| `(\d{11})` \| `(\w+)` \|", SANDBOX, re.MULTILINE))
    assert told == {holder["cpf"]: holder["scenario"] for holder in catalogue.HOLDERS}


def test_how_soon_the_money_is_paid() -> None:
    assert f"Depois de uma assinatura o banco paga em {DISBURSED_AFTER_S:g} s." in PROSE
