"""The scaffold of a new bank: it lays out what docs/adding-a-bank.md lists, and a test says what is not filled in."""

import runpy
import shutil
from pathlib import Path
from string import Template

import msgspec
import pytest
from django.core.management import CommandError, call_command

from providers import registry
from providers.management.commands.new_bank import FILES
from providers.words import Data
from tests.processes import ROOT

REGISTRY = "providers/registry.py"
#: What a new bank has not filled in yet.
GAP = "FILL IN"


def gaps(name: str, root: Path) -> list[str]:
    """What is not filled in, with file and line."""
    return [
        f"{path}:{number}: {line.strip()}"
        for path in (Template(each).substitute(name=name) for each in FILES)
        for number, line in enumerate((root / path).read_text("utf-8").splitlines(), 1)
        if GAP in line
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the file to which a new bank adds a line, and the new bank "fulano"."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / REGISTRY, tmp_path / REGISTRY)
    call_command("new_bank", "fulano", root=tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", registry.names())
def test_no_bank_has_a_gap(name: str) -> None:
    assert gaps(name, ROOT) == []


def test_a_new_bank_has_every_file_and_each_says_what_is_missing(project: Path) -> None:
    files = {Template(each).substitute(name="fulano") for each in FILES}
    assert {line.partition(":")[0] for line in gaps("fulano", project)} == files
    for path in project.rglob("*.py"):
        compile(path.read_text("utf-8"), str(path), "exec")
    adapter = runpy.run_path(str(project / "providers" / "banks" / "fulano.py"))["Fulano"]
    assert (adapter.name, adapter.label) == ("fulano", "Fulano")
    data = msgspec.json.decode((project / "providers" / "banks" / "fulano.json").read_bytes(), type=Data)
    simulated = runpy.run_path(str(project / "simulator" / "banks" / "fulano.py"))
    assert simulated["CREDENTIALS"] == data.sandbox["credentials"]
    assert set(data.refusals) == set(simulated["Fulano"].refusals)


def test_a_new_bank_stands_among_the_others_in_their_order(project: Path) -> None:
    before, after = ((folder / REGISTRY).read_text("utf-8") for folder in (ROOT, project))
    assert len(set(after.splitlines()) - set(before.splitlines())) == 2
    labels = ", ".join(each.capitalize() for each in sorted([*registry.names(), "fulano"]))
    assert f"= ({labels})" in after


def test_what_is_there_is_not_overwritten(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError):
        call_command("new_bank", "fulano", root=project)
    for name in ("ipe", "Fulano Preto"):
        with pytest.raises(CommandError):
            call_command("new_bank", name, root=project)
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
