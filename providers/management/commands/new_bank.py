"""`manage.py new_bank NAME`: lays out the files of a new bank, as docs/adding-a-bank.md lists them."""

import re
from argparse import ArgumentParser
from pathlib import Path
from string import Template
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from providers import registry

#: A bank's own files, and the template of each. A line that says FILL IN fails a test until it is replaced.
FILES = {
    "docs/banks/$name.md": "manual.md.txt",
    "providers/banks/$name.json": "data.json.txt",
    "providers/banks/$name.py": "adapter.py.txt",
    "simulator/banks/$name.py": "simulated.py.txt",
    "tests/providers/test_$name.py": "test_adapter.py.txt",
    "tests/simulator/test_$name.py": "test_simulated.py.txt",
    "tests/providers/bodies/$name.json": "bodies.json.txt",
}
_TEMPLATES = settings.BASE_DIR / "providers" / "scaffold"


class Command(BaseCommand):
    help = "Cria os arquivos de um banco novo, com o que falta preencher (docs/adding-a-bank.md)."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="o identificador do banco, em minúsculas")
        parser.add_argument("--root", type=Path, default=settings.BASE_DIR, help="a pasta do projeto")

    def handle(self, name: str, root: Path, **_: Any) -> None:
        if not re.fullmatch(r"[a-z]{3,20}", name) or registry.get(name):
            raise CommandError("Informe um identificador novo, de 3 a 20 letras minúsculas.")
        for written in lay_out(name, root):
            self.stdout.write(str(written.relative_to(root)))
        self.stdout.write("Os testes em tests/unit dizem o que falta preencher: make test ARGS='tests/unit -k gap'")


def lay_out(name: str, root: Path) -> list[Path]:
    """Write the files of the bank `name` below `root`, and its line in the registry. Returns these paths. Raises
    FileExistsError before anything is written."""
    words = {"name": name, "label": name.capitalize()}
    files = {root / Template(path).substitute(words): template for path, template in FILES.items()}
    if there := next((path for path in files if path.exists()), None):
        raise FileExistsError(there)
    for path, template in files.items():
        path.write_text(Template((_TEMPLATES / template).read_text("utf-8")).substitute(words), "utf-8")
    registry_file = root / "providers" / "registry.py"
    registry_file.write_text(_with_bank(registry_file.read_text("utf-8"), name), "utf-8")
    return [*files, registry_file]


def _with_bank(code: str, name: str) -> str:
    """`code`, the list of all banks, with an import and a name more, both in their order."""
    imports = re.findall(r"^from \S+\.banks\.\w+ import \w+$", code, re.MULTILINE)
    ordered = sorted([*imports, f"from providers.banks.{name} import {name.capitalize()}"])
    code = code.replace("\n".join(imports), "\n".join(ordered))
    labels = ", ".join(each.split()[-1] for each in ordered)
    return re.sub(r"(?<=^BANKS: tuple\[type\[Bank\], \.\.\.\] = )\(.*?\)", f"({labels})", code, flags=re.M | re.S)
